//! A session as a pure fold over its log. Any prefix of any log folds without a panic, so a restarted server knows
//! exactly what the one before it knew when it last appended.

use protocol::event::{CheckOutcome, Delivery, SandboxState};
use protocol::item::ToolCall;
use protocol::{
    Environment, Event, EventBody, Item, ItemKind, ItemStatus, Outcome, PromptId, QueuedPrompt, Receipt,
    SandboxId, Session, SessionId, SnapshotId, Spend, Status, Timestamp, TurnId,
};

/// What `session.created` said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Created {
    pub(crate) environment: String,
    pub(crate) recipe: Environment,
    pub(crate) title: String,
    pub(crate) model: String,
    pub(crate) at: Timestamp,
    pub(crate) forked_from: Option<protocol::ForkedFrom>,
}

/// The turn under way, with everything its receipt needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnState {
    pub(crate) id: TurnId,
    pub(crate) prompt: PromptId,
    pub(crate) text: String,
    pub(crate) started_at: Timestamp,
    /// Items that were started and not completed, oldest first.
    pub(crate) open: Vec<Item>,
    /// The last delivery of this turn: a restarted server must not push twice, and must not forget to.
    pub(crate) delivery: Option<Delivery>,
    /// How often the sandbox died in this turn.
    pub(crate) losses: u32,
    steps: u32,
    tools_completed: u32,
    tools_skipped: u32,
    checks: Vec<CheckOutcome>,
    spend: Spend,
    model_ms: u64,
    tools_ms: u64,
    waiting: bool,
}

impl TurnState {
    /// Model calls whose answer was recorded.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// The receipt as far as the log tells it; the counts of the diff are the workspace's to add.
    pub(crate) fn receipt(&self, now: Timestamp) -> Receipt {
        Receipt {
            steps: self.steps,
            tools_completed: self.tools_completed,
            tools_skipped: self.tools_skipped,
            checks: self.checks.clone(),
            spend: self.spend,
            duration_ms: millis_between(self.started_at, now),
            model_ms: self.model_ms,
            tools_ms: self.tools_ms,
            ..Receipt::default()
        }
    }

    fn complete(&mut self, item: &Item) {
        self.open.retain(|open| open.id != item.id);
        match &item.kind {
            ItemKind::ToolCall(call) => self.count_call(item.status, call),
            ItemKind::Report(report) => {
                if let Some(passed) = report.passed {
                    match self.checks.iter_mut().find(|check| check.name == report.check) {
                        Some(check) => check.passed = passed,
                        None => self.checks.push(CheckOutcome { name: report.check.clone(), passed }),
                    }
                }
                // The time of a check that the model asked for is in its tool call.
                let inside_call = self.open.iter().any(|open| matches!(open.kind, ItemKind::ToolCall(_)));
                if !inside_call {
                    self.tools_ms = self.tools_ms.saturating_add(report.duration_ms.unwrap_or(0));
                }
            }
            ItemKind::Prompt { .. }
            | ItemKind::Message { .. }
            | ItemKind::Reasoning { .. }
            | ItemKind::Notice { .. } => {}
        }
    }

    fn count_call(&mut self, status: ItemStatus, call: &ToolCall) {
        self.tools_ms = self.tools_ms.saturating_add(call.duration_ms.unwrap_or(0));
        // A call that was refused for its arguments has no duration: it never ran.
        let ran = matches!(status, ItemStatus::Completed | ItemStatus::Failed) && call.duration_ms.is_some();
        if ran {
            self.tools_completed += 1;
        } else {
            self.tools_skipped += 1;
        }
    }
}

/// Everything the log says about a session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    id: SessionId,
    created: Option<Created>,
    seq: u64,
    updated_at: Timestamp,
    queue: Vec<QueuedPrompt>,
    turn: Option<TurnState>,
    /// How the last turn ended, and why.
    last: Option<(Outcome, Option<String>)>,
    last_turn: Option<TurnId>,
    /// The snapshot that the events which were copied from another session end with, until it comes.
    inherits_until: Option<SnapshotId>,
    spend: Spend,
    delivery: Option<Delivery>,
    sandbox: Option<(SandboxId, SandboxState)>,
}

impl State {
    /// A session whose log is empty.
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            created: None,
            seq: 0,
            updated_at: Timestamp::UNIX_EPOCH,
            queue: Vec::new(),
            turn: None,
            last: None,
            last_turn: None,
            inherits_until: None,
            spend: Spend::default(),
            delivery: None,
            sandbox: None,
        }
    }

    /// Takes in the next event of the log.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        self.updated_at = event.at;
        match &event.body {
            EventBody::SessionCreated { environment, recipe, title, model, forked_from } => {
                self.inherits_until = forked_from.map(|from| from.snapshot);
                self.created = Some(Created {
                    environment: environment.clone(),
                    recipe: recipe.as_ref().clone(),
                    title: title.clone(),
                    model: model.clone(),
                    forked_from: *forked_from,
                    at: event.at,
                });
            }
            EventBody::SessionRenamed { title } => {
                if let Some(created) = &mut self.created {
                    created.title.clone_from(title);
                }
            }
            EventBody::PromptQueued { prompt, text } => {
                let author = event.actor.id.clone();
                self.queue.push(QueuedPrompt { id: *prompt, text: text.clone(), author });
            }
            EventBody::PromptEdited { prompt, text } => {
                if let Some(queued) = self.queue.iter_mut().find(|queued| queued.id == *prompt) {
                    queued.text.clone_from(text);
                }
            }
            EventBody::PromptRemoved { prompt } => self.queue.retain(|queued| queued.id != *prompt),
            EventBody::TurnStarted { turn, prompt } => self.start(*turn, *prompt, event.at),
            EventBody::TurnFinished { turn, outcome, reason, .. } => {
                if self.turn.as_ref().is_some_and(|open| open.id == *turn) {
                    self.turn = None;
                    self.last_turn = Some(*turn);
                    self.last = Some((*outcome, reason.clone()));
                }
            }
            EventBody::ItemStarted { turn, item } => {
                if let Some(open) = self.turn_mut(*turn) {
                    open.open.retain(|other| other.id != item.id);
                    open.open.push(item.clone());
                }
            }
            EventBody::ItemCompleted { turn, item } => {
                if let Some(open) = self.turn_mut(*turn) {
                    open.complete(item);
                }
            }
            EventBody::ApprovalRequested { turn, .. } => {
                if let Some(open) = self.turn_mut(*turn) {
                    open.waiting = true;
                }
            }
            EventBody::ApprovalResolved { .. } => {
                if let Some(open) = &mut self.turn {
                    open.waiting = false;
                }
            }
            EventBody::UsageRecorded { turn, usage, cost_usd, duration_ms, .. } => {
                // What the session before it spent is on that one's account.
                if self.inherits_until.is_none() {
                    self.spend.record(*usage, *cost_usd);
                }
                if let Some(open) = self.turn_mut(*turn) {
                    open.spend.record(*usage, *cost_usd);
                    open.steps += 1;
                    open.model_ms = open.model_ms.saturating_add(*duration_ms);
                }
            }
            EventBody::SandboxChanged { sandbox, state, .. } => self.sandbox_changed(*sandbox, *state),
            EventBody::DeliveryUpdated(delivery) => {
                self.delivery = Some(delivery.clone());
                if let Some(open) = &mut self.turn {
                    open.delivery = Some(delivery.clone());
                }
            }
            EventBody::SnapshotTaken { snapshot, .. } => {
                self.inherits_until.take_if(|last| last == snapshot);
            }
            EventBody::PlanUpdated { .. }
            | EventBody::RetryScheduled { .. }
            | EventBody::EgressDecided(_)
            | EventBody::LimitExceeded { .. }
            | EventBody::MemoryChanged { .. }
            | EventBody::ErrorRaised { .. } => {}
        }
    }

    fn start(&mut self, turn: TurnId, prompt: PromptId, at: Timestamp) {
        let place = self.queue.iter().position(|queued| queued.id == prompt);
        let text = place.map(|place| self.queue.remove(place).text).unwrap_or_default();
        self.turn = Some(TurnState {
            id: turn,
            prompt,
            text,
            started_at: at,
            open: Vec::new(),
            delivery: None,
            losses: 0,
            steps: 0,
            tools_completed: 0,
            tools_skipped: 0,
            checks: Vec::new(),
            spend: Spend::default(),
            model_ms: 0,
            tools_ms: 0,
            waiting: false,
        });
    }

    fn sandbox_changed(&mut self, sandbox: SandboxId, state: SandboxState) {
        match state {
            SandboxState::Creating
            | SandboxState::Preparing
            | SandboxState::Syncing
            | SandboxState::Ready => {
                self.sandbox = Some((sandbox, state));
            }
            SandboxState::Stopped | SandboxState::Lost => {
                if self.sandbox.is_some_and(|(current, _)| current == sandbox) {
                    self.sandbox = None;
                }
            }
        }
        if state == SandboxState::Lost
            && let Some(open) = &mut self.turn
        {
            open.losses += 1;
        }
    }

    fn turn_mut(&mut self, id: TurnId) -> Option<&mut TurnState> {
        self.turn.as_mut().filter(|turn| turn.id == id)
    }

    /// Sequence number of the last event.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// What the session was made with.
    pub(crate) fn created(&self) -> Option<&Created> {
        self.created.as_ref()
    }

    /// The turn under way.
    pub(crate) fn turn(&self) -> Option<&TurnState> {
        self.turn.as_ref()
    }

    /// The prompt whose turn is next.
    pub(crate) fn next_prompt(&self) -> Option<&QueuedPrompt> {
        self.queue.first()
    }

    /// The last turn that finished.
    pub(crate) fn last_turn(&self) -> Option<TurnId> {
        self.last_turn
    }

    /// The sandbox that the log says exists, and how far it is.
    pub(crate) fn sandbox(&self) -> Option<(SandboxId, SandboxState)> {
        self.sandbox
    }

    /// The last delivery.
    pub(crate) fn delivery(&self) -> Option<&Delivery> {
        self.delivery.as_ref()
    }

    fn status(&self) -> Status {
        match (&self.turn, &self.last) {
            (Some(turn), _) if turn.waiting => Status::Waiting,
            (Some(_), _) => Status::Working,
            (None, _) if !self.queue.is_empty() => Status::Queued,
            (None, None) => Status::Queued,
            (None, Some((outcome, _))) => match outcome {
                Outcome::Done => Status::Done,
                Outcome::Escalated => Status::Escalated,
                Outcome::Cancelled => Status::Cancelled,
                Outcome::Failed => Status::Failed,
                Outcome::OutOfBudget => Status::OutOfBudget,
            },
        }
    }

    /// The session as lists and pages show it; None before `session.created`.
    pub(crate) fn to_session(&self) -> Option<Session> {
        let created = self.created.as_ref()?;
        let status = self.status();
        let idle = self.turn.is_none() && self.queue.is_empty();
        let reason = self.last.as_ref().filter(|_| idle).and_then(|(_, reason)| reason.clone());
        Some(Session {
            id: self.id,
            title: created.title.clone(),
            environment: created.environment.clone(),
            model: created.model.clone(),
            status,
            reason,
            created_at: created.at,
            updated_at: self.updated_at,
            seq: self.seq,
            spend: self.spend,
            queued: self.queue.clone(),
            turn: self.turn.as_ref().map(|turn| turn.id),
            delivery: self.delivery.clone(),
            sandbox: self.sandbox.map(|(id, _)| id),
            forked_from: created.forked_from,
        })
    }
}

/// Whole milliseconds from one time to the other; 0 when the clock was set back.
fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
}

/// An item that is still open, closed with a status that says it did not come to its end.
pub(crate) fn broken_off(item: &Item, status: ItemStatus, text: &str) -> Item {
    let mut closed = item.clone();
    closed.status = status;
    if let ItemKind::ToolCall(call) = &mut closed.kind {
        call.output =
            Some(protocol::item::Output { text: text.to_owned(), bytes: text.len() as u64, blob: None });
    }
    closed
}

#[cfg(test)]
mod tests;
