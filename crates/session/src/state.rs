//! A session as a pure fold over its log. Any prefix of any log folds without a panic, so a restarted server knows
//! exactly what the one before it knew when it last appended.

mod counted;
mod facts;
mod ledger;
mod left;
mod offered;
mod outside;
mod permits;
mod processes;
mod shown;
mod used;

use protocol::event::{CheckOutcome, Delivery, Judgement, PlanItem, Reply, SandboxState, Work};
use protocol::item::ToolCall;
use protocol::{
    Actor, ActorKind, ApprovalId, Budgets, Decision, Environment, Event, EventBody, Item, ItemId, ItemKind,
    ItemStatus, LineageId, Mistakes, Notification, Outcome, PendingApproval, PromptId, Queue, QueuedPrompt,
    Receipt, Report, SandboxId, SessionId, SnapshotId, Spend, Timestamp, TurnId,
};
use serde::{Deserialize, Serialize};

use self::counted::Counted;
pub(crate) use self::counted::One;
use self::facts::{Facts, Whose};
use self::ledger::Ledger;
use self::left::Left;
pub(crate) use self::left::Passed;
use self::offered::Offered;
pub(crate) use self::outside::overall;
use self::permits::Permits;
pub(crate) use self::processes::Background;
use self::processes::Processes;
use crate::budget::Used;

/// What `session.created` said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Created {
    pub(crate) environment: String,
    pub(crate) recipe: Environment,
    pub(crate) title: String,
    pub(crate) model: String,
    pub(crate) at: Timestamp,
    pub(crate) forked_from: Option<protocol::ForkedFrom>,
    /// What it may use, as it was last changed.
    pub(crate) budgets: Budgets,
}

/// The turn under way, with everything its receipt needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnState {
    pub(crate) id: TurnId,
    pub(crate) prompt: PromptId,
    pub(crate) text: String,
    /// Who wrote the prompt: whoever asked, then those who changed it.
    #[serde(default)]
    pub(crate) authors: Vec<String>,
    pub(crate) started_at: Timestamp,
    /// Items that were started and not completed, oldest first.
    pub(crate) open: Vec<Item>,
    /// The last delivery of this turn: a restarted server must not push twice, and must not forget to.
    pub(crate) delivery: Option<Delivery>,
    /// Whether there was a sandbox in it, so that something can have been done there.
    #[serde(default)]
    pub(crate) had_sandbox: bool,
    /// How often the sandbox died in this turn.
    pub(crate) losses: u32,
    /// The plan.
    #[serde(default)]
    pub(crate) plan: Vec<PlanItem>,
    /// The checks that failed when they last ran, with what they found.
    #[serde(default)]
    pub(crate) failing: Vec<(String, Report)>,
    /// What checks said before the turn changed anything, those that passed with an empty report.
    #[serde(default)]
    pub(crate) before: Vec<(String, Report)>,
    /// The tree that passed the checks last.
    #[serde(default)]
    pub(crate) passed: Option<Passed>,
    /// What a model that had no part in the work said of it last.
    #[serde(default)]
    pub(crate) judgement: Option<Judgement>,
    /// After how many steps that one doubted first.
    #[serde(default)]
    doubted_after: Option<u32>,
    /// Whether a tool was called that can change files.
    #[serde(default)]
    pub(crate) may_have_changed: bool,
    /// The model that took over for the rest of the turn.
    pub(crate) model: Option<String>,
    /// The models that failed in this turn, and why.
    pub(crate) failed_models: Vec<(String, String)>,
    /// The call that the model has not answered yet, once it has failed.
    #[serde(default)]
    pub(crate) retry: Option<Retry>,
    /// How often the model did something that could not be used.
    mistakes: Mistakes,
    steps: u32,
    tools_completed: u32,
    tools_skipped: u32,
    checks: Vec<CheckOutcome>,
    spend: Spend,
    /// What the work had used before that this turn goes on with, because more was allowed for it.
    #[serde(default)]
    carried: Used,
    /// Calls that were made one after the other, without those beside them.
    calls_in_line: u32,
    model_ms: u64,
    tools_ms: u64,
    /// How long it has been under way, as far as the log tells it.
    pub(crate) elapsed_ms: u64,
    completed: Vec<Work>,
    skipped: Vec<Work>,
    /// What a person must decide before the turn goes on.
    pub(crate) approval: Option<PendingApproval>,
    /// What a person decided last, until the model answers again.
    pub(crate) decision: Option<Decision>,
    /// The call that was decided on with it.
    #[serde(default)]
    pub(crate) decided: Option<ItemId>,
    /// Calls that have not begun, because a person is asked for one of them or for one before them.
    #[serde(default)]
    pub(crate) held: Vec<ItemId>,
    /// Items that were begun in a sandbox which is gone: nobody can ask it what became of them.
    #[serde(default)]
    pub(crate) displaced: Vec<ItemId>,
    /// Calls that did more than look, since a person last decided.
    #[serde(default)]
    pub(crate) actions: u32,
    /// Who stopped it: it does no more work, and is finished as soon as may be.
    pub(crate) stopping: Option<Actor>,
    /// What the model said last, up to a few kilobytes.
    #[serde(default)]
    pub(crate) said: String,
}

/// A model call that is to be made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Retry {
    /// The model.
    pub(crate) model: String,
    /// How often it has failed.
    #[serde(default)]
    pub(crate) failures: llm::Failures,
    /// When it comes.
    pub(crate) wake_at: Option<Timestamp>,
}

/// Whether a sandbox in this state can be worked in.
fn takes_reads(state: SandboxState) -> bool {
    matches!(state, SandboxState::Syncing | SandboxState::Ready)
}

/// Most pieces of work that each list of a receipt holds.
const LISTED: usize = 100;
/// Most bytes of what a model said that are kept for an answer.
const SAID: usize = 8 * 1024;
/// Most characters of what a piece of work is.
const WORDS: usize = 120;

impl TurnState {
    /// Model calls whose answer was recorded.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// The receipt as far as the log tells it; the counts of the diff are the workspace's to add.
    pub(crate) fn receipt(&self, outcome: Outcome, duration_ms: u64) -> Receipt {
        // Of a turn that is done nobody asks what it left undone.
        let listed = |work: &Vec<Work>| if outcome == Outcome::Done { Vec::new() } else { work.clone() };
        Receipt {
            completed: listed(&self.completed),
            skipped: listed(&self.skipped),
            steps: self.steps,
            tools_completed: self.tools_completed,
            tools_skipped: self.tools_skipped,
            checks: self.checks.clone(),
            judgement: self.judgement.clone(),
            mistakes: self.mistakes,
            spend: self.spend,
            duration_ms,
            model_ms: self.model_ms,
            tools_ms: self.tools_ms,
            ..Receipt::default()
        }
    }

    /// Takes in an item that is final.
    pub(crate) fn complete(&mut self, item: &Item) {
        self.open.retain(|open| open.id != item.id);
        self.held.retain(|held| *held != item.id);
        self.displaced.retain(|displaced| *displaced != item.id);
        self.list(item);
        match &item.kind {
            ItemKind::ToolCall(call) => self.count_call(item.status, call),
            ItemKind::Report(report) => {
                // That a part passed says nothing of the whole.
                if let Some(passed) = report.passed.filter(|passed| !(report.partial && *passed)) {
                    self.remember_before(&report.check, passed, report);
                    self.failing.retain(|(name, _)| *name != report.check);
                    if let Some(found) = report.report.clone().filter(|_| !passed) {
                        self.failing.push((report.check.clone(), found));
                    }
                    match self.checks.iter_mut().find(|check| check.name == report.check) {
                        Some(check) => check.passed = passed,
                        None => self.checks.push(CheckOutcome { name: report.check.clone(), passed }),
                    }
                }
                // The time of a check that the model asked for is in its tool call.
                let inside_call = self.open.iter().any(|open| matches!(open.kind, ItemKind::ToolCall(_)));
                if !inside_call {
                    self.count_time(report.duration_ms);
                }
            }
            ItemKind::Message { text } => {
                if !text.trim().is_empty() {
                    crate::workspace::prefix(text, SAID).clone_into(&mut self.said);
                }
            }
            ItemKind::Prompt { .. } | ItemKind::Reasoning { .. } | ItemKind::Notice { .. } => {}
        }
    }

    /// Puts an item on the receipt's lists.
    fn list(&mut self, item: &Item) {
        let what = match &item.kind {
            ItemKind::ToolCall(call) => describe(call),
            ItemKind::Report(report) => format!("check {}", report.check),
            ItemKind::Message { .. } if item.status == ItemStatus::Cancelled => "an answer".to_owned(),
            ItemKind::Message { .. }
            | ItemKind::Prompt { .. }
            | ItemKind::Reasoning { .. }
            | ItemKind::Notice { .. } => return,
        };
        let ended = matches!(item.status, ItemStatus::Completed | ItemStatus::Failed);
        let ran = match &item.kind {
            ItemKind::ToolCall(call) => ended && call.duration_ms.is_some(),
            _ => ended,
        };
        let list = if ran { &mut self.completed } else { &mut self.skipped };
        if list.len() < LISTED {
            list.push(Work { item: item.id, what, status: item.status });
        }
    }
}

/// Everything the log says about a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    id: SessionId,
    created: Option<Created>,
    /// The log's lineages and the first event of each, oldest first: all but the first begin with a restore.
    lineages: Vec<(LineageId, u64)>,
    seq: u64,
    updated_at: Timestamp,
    queue: Vec<QueuedPrompt>,
    paused: bool,
    decisions: Vec<Decision>,
    /// Boxed, because most sessions have none most of the time.
    turn: Option<Box<TurnState>>,
    /// What the last turn left open.
    left: Left,
    /// How the last turn ended, and why.
    last: Option<(Outcome, Option<String>)>,
    last_turn: Option<TurnId>,
    /// The snapshot that the events which were copied from another session end with, until it comes.
    inherits_until: Option<SnapshotId>,
    ledger: Ledger,
    delivery: Option<Delivery>,
    /// The last delivery of each repository where there are several.
    #[serde(default)]
    deliveries: Vec<Delivery>,
    permits: Permits,
    processes: Processes,
    offered: Offered,
    /// Notifications that are still to be sent, oldest first.
    notifications: Vec<Notification>,
    /// What is still to be said below pull requests, oldest first.
    #[serde(default)]
    replies: Vec<Reply>,
    sandbox: Option<(SandboxId, SandboxState)>,
    /// The last tree that passed its checks and was handed over.
    #[serde(default)]
    passed: Option<Passed>,
    /// The skills, once it is settled which there are.
    #[serde(default)]
    skills: Option<Vec<protocol::PinnedSkill>>,
    /// What lists say of it.
    #[serde(default)]
    facts: Facts,
    #[serde(default)]
    counted: Counted,
}

impl State {
    /// A session whose log is empty.
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            created: None,
            lineages: Vec::new(),
            seq: 0,
            updated_at: Timestamp::UNIX_EPOCH,
            queue: Vec::new(),
            paused: false,
            decisions: Vec::new(),
            turn: None,
            left: Left::default(),
            last: None,
            last_turn: None,
            inherits_until: None,
            ledger: Ledger::default(),
            delivery: None,
            deliveries: Vec::new(),
            permits: Permits::default(),
            processes: Processes::default(),
            offered: Offered::default(),
            notifications: Vec::new(),
            replies: Vec::new(),
            sandbox: None,
            passed: None,
            skills: None,
            facts: Facts::default(),
            counted: Counted::default(),
        }
    }

    /// Takes in the next event of the log.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        self.updated_at = event.at;
        let inherited = self.inherits_until.is_some();
        self.facts.apply(event, if inherited { Whose::Inherited } else { Whose::Own });
        self.counted.apply(&event.body, self.turn.as_deref(), self.last_turn.is_none());
        match &event.body {
            EventBody::SessionCreated { environment, recipe, title, model, forked_from, budgets, .. } => {
                self.inherits_until = forked_from.map(|from| from.snapshot);
                if self.lineages.is_empty() {
                    self.lineages.push((first_lineage(self.id, event.at), event.seq));
                }
                self.created = Some(Created {
                    environment: environment.clone(),
                    recipe: recipe.as_ref().clone(),
                    title: title.clone(),
                    model: model.clone(),
                    forked_from: *forked_from,
                    budgets: *budgets,
                    at: event.at,
                });
            }
            EventBody::SessionRenamed { title, .. } => {
                if let Some(created) = &mut self.created {
                    created.title.clone_from(title);
                }
            }
            EventBody::ModelChanged { model, turn, from, reason, .. } => match turn {
                Some(turn) => {
                    if let Some(open) = self.turn_mut(*turn) {
                        open.retry = None;
                        open.model = Some(model.clone());
                        open.failed_models.push((from.clone(), reason.clone().unwrap_or_default()));
                    }
                }
                None => {
                    if let Some(created) = &mut self.created {
                        created.model.clone_from(model);
                    }
                    // Whoever chooses a model means it also for the turn that is on another one.
                    if let Some(open) = &mut self.turn {
                        open.model = None;
                        open.retry = None;
                        open.failed_models.clear();
                    }
                }
            },
            EventBody::BudgetChanged { budgets, .. } => {
                if let Some(created) = &mut self.created {
                    created.budgets = *budgets;
                }
                self.ledger.changed_by = self.turn.as_ref().map(|_| event.actor.clone());
            }
            EventBody::BudgetWarned(warning) => self.ledger.warn(warning),
            EventBody::SessionRestored { lineage } => self.lineages.push((*lineage, event.seq)),
            EventBody::PromptQueued { prompt, text, now, images } => {
                let author = event.actor.id.clone();
                self.note_going_on(*prompt, text, *now);
                let place = if *now { 0 } else { self.queue.len() };
                let (text, images) = (text.clone(), images.clone());
                let queued = QueuedPrompt { id: *prompt, text, author, editors: Vec::new(), images };
                self.queue.insert(place, queued);
                self.lift_hold();
            }
            EventBody::PromptEdited { prompt, text, .. } => {
                if let Some(queued) = self.queue.iter_mut().find(|queued| queued.id == *prompt) {
                    queued.text.clone_from(text);
                    let editor = &event.actor.id;
                    if *editor != queued.author && !queued.editors.contains(editor) {
                        queued.editors.push(editor.clone());
                    }
                }
            }
            EventBody::PromptRemoved { prompt, .. } => self.queue.retain(|queued| queued.id != *prompt),
            EventBody::PromptMoved { prompt, before, .. } => self.move_prompt(*prompt, *before),
            EventBody::QueuePaused { .. } => self.paused = true,
            EventBody::QueueResumed { .. } => {
                self.paused = false;
                self.lift_hold();
            }
            EventBody::TurnStarted { turn, prompt } => self.start(*turn, *prompt, event.at),
            EventBody::TurnStopping { turn, .. } => {
                if let Some(open) = self.turn_mut(*turn) {
                    open.stopping.get_or_insert_with(|| event.actor.clone());
                }
            }
            EventBody::TurnFinished { turn, outcome, reason, receipt } => {
                if let Some(open) = self.turn.take_if(|open| open.id == *turn) {
                    // What the session before it did is on that one's account.
                    if self.inherits_until.is_none() {
                        self.ledger.finish(*outcome, &open, receipt.duration_ms);
                    }
                    if let Some(tree) = open.handed_over(*outcome) {
                        self.passed = Some(tree.clone());
                    }
                    self.left = Left::of(*open, *outcome);
                    self.last_turn = Some(*turn);
                    self.last = Some((*outcome, reason.clone()));
                }
            }
            EventBody::ItemStarted { turn, item } => {
                if let Some(open) = self.turn_mut(*turn) {
                    open.begin(item);
                    open.note_call(item);
                }
            }
            EventBody::ItemCompleted { turn, item } => {
                if let ItemKind::ToolCall(call) = &item.kind {
                    self.note_background(call);
                }
                if let Some(open) = self.turn_mut(*turn) {
                    open.complete(item);
                }
            }
            EventBody::ApprovalRequested { approval, turn, question, gate, call, diff } => {
                let (id, question, gate, since) = (*approval, question.clone(), *gate, event.at);
                let (call, diff) = (call.clone(), diff.clone());
                if let Some(open) = self.turn_mut(*turn) {
                    open.wait(PendingApproval { id, question, gate, since, call, diff });
                }
            }
            EventBody::ApprovalResolved { approval, approved, comment, input, all } => {
                // The first to decide has decided.
                if self.decision(*approval).is_none() {
                    self.decide(Decision {
                        approval: *approval,
                        approved: *approved,
                        by: event.actor.id.clone(),
                        comment: comment.clone(),
                        gate: protocol::Gate::Delivery,
                        input: input.clone(),
                        all: *all,
                    });
                }
            }
            EventBody::PolicyChanged { policy, .. } => self.permits.change(policy),
            EventBody::UsageRecorded {
                turn, step, model, usage, cost_usd, duration_ms, elapsed_ms, ..
            } => {
                // What the session before it spent is on that one's account.
                if self.inherits_until.is_none() {
                    self.ledger.record(event.at, model, *usage, *cost_usd);
                }
                if let Some(open) = self.turn_mut(*turn) {
                    open.spend.record(*usage, *cost_usd);
                    // A call beside the turn tells no time of it.
                    open.calls_in_line += u32::from(*step > 0 || *elapsed_ms > 0);
                    // A summary of the conversation is paid for and is no step.
                    if *step > open.steps {
                        open.steps = *step;
                        open.decision = None;
                        open.decided = None;
                        open.retry = None;
                    }
                    open.model_ms = open.model_ms.saturating_add(*duration_ms);
                    open.elapsed_ms = open.elapsed_ms.max(*elapsed_ms);
                }
            }
            EventBody::SandboxChanged { sandbox, state, .. } => self.sandbox_changed(*sandbox, *state),
            EventBody::DeliveryUpdated(delivery) => self.delivered(delivery),
            EventBody::NotificationUpdated(notification) => self.notified(notification),
            EventBody::ReplyUpdated(reply) => self.replied(reply),
            EventBody::SkillsPinned { skills } => self.skills = Some(skills.clone()),
            EventBody::SnapshotTaken { snapshot, .. } => {
                self.inherits_until.take_if(|last| last == snapshot);
            }
            EventBody::PlanUpdated { turn, items } => self.in_turn(*turn, |open| open.plan.clone_from(items)),
            EventBody::ToolsListed { .. } => self.offered.take_in(&event.body),
            EventBody::ChecksPassed { turn, tree, left, .. } => self.in_turn(*turn, |open| {
                open.passed = Some(Passed { tree: tree.clone(), left: left.clone() });
            }),
            EventBody::WorkJudged { turn, judgement } => {
                self.in_turn(*turn, |open| open.judge(judgement));
            }
            EventBody::ChecksKnown { turn, checks, .. } => self.in_turn(*turn, |open| open.know(checks)),
            EventBody::MistakeMade { turn, mistake } => {
                self.in_turn(*turn, |open| open.mistakes.count(*mistake))
            }
            // What is done again by the system is no call of a model.
            EventBody::RetryScheduled { turn, attempt, attempts, wake_at, .. }
                if event.actor.kind == ActorKind::Agent =>
            {
                let model = event.actor.id.clone();
                if let Some(open) = self.turn_mut(*turn) {
                    let before = open.retry.take().filter(|retry| retry.model == model);
                    let mut failures = before.map(|retry| retry.failures).unwrap_or_default();
                    failures.count(*attempt, *attempts);
                    open.retry = Some(Retry { model, failures, wake_at: *wake_at });
                }
            }
            EventBody::ContextCompacted(_)
            | EventBody::RetryScheduled { .. }
            | EventBody::EgressDecided(_)
            | EventBody::SessionArchived { .. }
            | EventBody::SessionUnarchived { .. }
            | EventBody::LimitExceeded { .. }
            | EventBody::ServiceChanged { .. }
            | EventBody::MemoryChanged { .. }
            | EventBody::ErrorRaised { .. } => {}
        }
    }

    /// Gives a waiting prompt another place. One that no longer waits, or a place that is gone, changes nothing.
    fn move_prompt(&mut self, prompt: PromptId, before: Option<PromptId>) {
        let Some(from) = self.queue.iter().position(|queued| queued.id == prompt) else { return };
        let moved = self.queue.remove(from);
        let place = match before {
            None => self.queue.len(),
            Some(next) => self.queue.iter().position(|queued| queued.id == next).unwrap_or(from),
        };
        self.queue.insert(place, moved);
    }

    fn start(&mut self, turn: TurnId, prompt: PromptId, at: Timestamp) {
        let place = self.queue.iter().position(|queued| queued.id == prompt);
        let queued = place.map(|place| self.queue.remove(place));
        let (text, authors) = match queued {
            Some(queued) => (queued.text, [vec![queued.author], queued.editors].concat()),
            None => (String::new(), Vec::new()),
        };
        if self.queue.is_empty() {
            self.queue = Vec::new();
        }
        let carried = self.ledger.begin(prompt);
        let left = std::mem::take(&mut self.left);
        self.turn = Some(Box::new(TurnState {
            id: turn,
            prompt,
            text,
            authors,
            started_at: at,
            open: Vec::new(),
            delivery: None,
            had_sandbox: self.sandbox.is_some_and(|(_, state)| takes_reads(state)),
            losses: 0,
            plan: left.plan,
            failing: left.failing,
            before: left.known,
            passed: None,
            judgement: None,
            doubted_after: None,
            may_have_changed: false,
            mistakes: Mistakes::default(),
            model: None,
            failed_models: Vec::new(),
            retry: None,
            steps: 0,
            tools_completed: 0,
            tools_skipped: 0,
            checks: Vec::new(),
            spend: Spend::default(),
            carried,
            calls_in_line: 0,
            model_ms: 0,
            tools_ms: 0,
            elapsed_ms: 0,
            completed: Vec::new(),
            skipped: Vec::new(),
            approval: None,
            decision: None,
            decided: None,
            held: Vec::new(),
            displaced: Vec::new(),
            actions: 0,
            stopping: None,
            said: String::new(),
        }));
    }

    fn sandbox_changed(&mut self, sandbox: SandboxId, state: SandboxState) {
        let goes = self.sandbox.is_some_and(|(current, _)| match state {
            SandboxState::Building => false,
            SandboxState::Stopped | SandboxState::Lost => current == sandbox,
            _ => current != sandbox,
        });
        if let Some(open) = self.turn.as_mut().filter(|_| goes) {
            open.displaced = open.open.iter().map(|item| item.id).collect();
        }
        match state {
            // Until there is an image there is no sandbox either.
            SandboxState::Building => {}
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
        if let Some(open) = &mut self.turn {
            open.had_sandbox |= takes_reads(state);
            open.losses += u32::from(state == SandboxState::Lost);
        }
    }

    fn turn_mut(&mut self, id: TurnId) -> Option<&mut TurnState> {
        self.turn.as_deref_mut().filter(|turn| turn.id == id)
    }

    /// Does something to the turn, if it is the one under way.
    fn in_turn(&mut self, id: TurnId, act: impl FnOnce(&mut TurnState)) {
        self.turn_mut(id).map(act);
    }

    /// The session.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Sequence number of the last event.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether everything is there that a fork takes over from another session. A server that died left the others behind,
    /// and they are no sessions until whoever asked for them asks again.
    pub(crate) fn is_whole(&self) -> bool {
        self.inherits_until.is_none()
    }

    /// The lineage of the log.
    pub(crate) fn lineage(&self) -> Option<LineageId> {
        self.lineages.last().map(|(lineage, _)| *lineage)
    }

    /// Whether the events up to `after` of this lineage are in the log. Of an earlier one that is what the backup had.
    pub(crate) fn has(&self, lineage: LineageId, after: u64) -> bool {
        match self.lineages.iter().position(|(known, _)| *known == lineage) {
            Some(place) => self.lineages.get(place + 1).is_none_or(|(_, first)| after < *first),
            None => after == 0,
        }
    }

    /// What the session was made with.
    pub(crate) fn created(&self) -> Option<&Created> {
        self.created.as_ref()
    }

    /// The model that works now: the one that took over in the turn under way, or else the session's own.
    pub(crate) fn model(&self) -> &str {
        let taken_over = self.turn.as_ref().and_then(|turn| turn.model.as_deref());
        taken_over.or(self.created.as_ref().map(|created| created.model.as_str())).unwrap_or_default()
    }

    /// The turn under way.
    pub(crate) fn turn(&self) -> Option<&TurnState> {
        self.turn.as_deref()
    }

    /// The prompt whose turn is next, unless the queue is paused or a budget is used up.
    pub(crate) fn next_prompt(&self) -> Option<&QueuedPrompt> {
        self.queue.first().filter(|_| !self.stays())
    }

    /// Whether the turn of a prompt that comes now begins at once: none is under way, and nothing waits or stays.
    pub(crate) fn is_free(&self) -> bool {
        let limits = self.paused || !self.session_limits().is_empty();
        self.turn.is_none() && self.queue.is_empty() && !limits
    }

    /// Whether a person paused the queue.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the turn under way waits for a person, so that there is nothing to do until somebody decides.
    pub(crate) fn waits(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.approval.is_some() && turn.stopping.is_none())
    }

    /// Whether the turn or the delivery under way was asked for after this command, as far as that can be told.
    pub(crate) fn works_on_later_than(&self, command: protocol::CommandId) -> bool {
        let delivery = self.delivery.as_ref().filter(|delivery| delivery.state.is_pending());
        match (&self.turn, delivery.and_then(|delivery| delivery.command)) {
            (Some(turn), _) => command.to_u128() < turn.id.to_u128(),
            (None, Some(other)) => command < other,
            (None, None) => false,
        }
    }

    /// The prompts that wait.
    pub(crate) fn queue(&self) -> Queue {
        Queue { paused: self.stays(), waits: self.out_of_budget(), prompts: self.queue.clone() }
    }

    /// How an approval was decided.
    pub(crate) fn decision(&self, approval: ApprovalId) -> Option<&Decision> {
        self.decisions.iter().find(|decision| decision.approval == approval)
    }

    /// The last turn that finished.
    pub(crate) fn last_turn(&self) -> Option<TurnId> {
        self.last_turn
    }

    /// The sandbox that the log says exists, and how far it is.
    pub(crate) fn sandbox(&self) -> Option<(SandboxId, SandboxState)> {
        self.sandbox
    }

    /// The last tree that passed its checks and was handed over.
    pub(crate) fn passed(&self) -> Option<&Passed> {
        self.passed.as_ref()
    }
}

/// The lineage that begins with a log. It follows from the first event, so that logs of older versions have one too; a
/// session that is made a second time under its id has another.
fn first_lineage(session: SessionId, at: Timestamp) -> LineageId {
    LineageId::from_u128(session.to_u128() ^ u128::from(at.as_microsecond().cast_unsigned()))
}

/// A tool call in a few words: the tool, and its command, file or pattern.
fn describe(call: &ToolCall) -> String {
    let keys = ["command", "path", "pattern", "name", "url", "id", "question", "subject", "query"];
    let argument = keys.iter().find_map(|key| call.input.get(*key)?.as_str()).unwrap_or_default();
    let line = argument.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let words = format!("{} {line}", call.tool);
    let mut short: String = words.trim_end().chars().take(WORDS).collect();
    if words.trim_end().chars().count() > WORDS {
        short.push('…');
    }
    short
}

/// An item that is still open, closed with a status that says it did not come to its end.
pub(crate) fn broken_off(item: &Item, status: ItemStatus, text: &str) -> Item {
    let mut closed = item.clone();
    closed.status = status;
    if let ItemKind::ToolCall(call) = &mut closed.kind {
        call.output = Some(protocol::item::Output {
            text: text.to_owned(),
            bytes: text.len() as u64,
            ..Default::default()
        });
    }
    closed
}

#[cfg(test)]
pub(crate) mod tests;
