//! The end of a turn: open items are closed, the work is kept whatever the outcome, a branch that is done is
//! delivered, and `turn.finished` is written once.

use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, ActorKind, Code, EventBody, ItemStatus, Outcome, Problem, Receipt, Timestamp};

use super::{End, Runner, delivery, settled};
use crate::failure::Failure;
use crate::state::{TurnState, broken_off};
use crate::workspace::{Keep, Kept, prefix};

/// How to have another go at a push that failed.
const TRY_AGAIN: &str = "the work is kept: put right what is wrong, then run `slipway deliver";

impl Runner {
    /// What a failure means for the turn. Only a store that cannot be written is passed on.
    pub(super) async fn failed(&mut self, failure: Failure) -> Result<End, store::Error> {
        let problem = match failure {
            Failure::Store(error) => return Err(error),
            Failure::Stopped => {
                let reason = Some("a person stopped it".to_owned());
                return Ok(End { outcome: Outcome::Cancelled, reason });
            }
            Failure::Problem(problem) => problem,
            Failure::Lost(detail) => match self.lost(&detail).await {
                Ok(_) => Problem::new(Code::SandboxUnavailable, format!("the sandbox died: {detail}"))
                    .hint("send a prompt: a new sandbox is made from the work that was kept"),
                Err(Failure::Store(error)) => return Err(error),
                Err(other) => other.into_problem(),
            },
        };
        self.context.raise(&problem).await?;
        Ok(End { outcome: Outcome::Failed, reason: Some(problem.title) })
    }

    /// Ends the turn.
    pub(super) async fn finish(mut self, mut end: End) -> Result<(), store::Error> {
        let Some(turn) = self.context.turn() else { return Ok(()) };
        self.close_open(&turn, end.outcome).await?;
        match self.settled().await {
            Ok(Some(note)) => self.notice(note).await?,
            Ok(None) => {}
            Err(failure) => {
                let failed = self.failed(failure).await?;
                if end.outcome == Outcome::Done {
                    end = failed;
                }
            }
        }
        let mut counts = (0, 0, 0);
        match self.keep(end.outcome).await {
            Ok(Some(kept)) => {
                counts = (kept.files, kept.insertions, kept.deletions);
                if end.outcome == Outcome::Done {
                    let delivered = delivery::deliver(&self.context, &self.agent, &kept.commit).await?;
                    end = self.after_delivery(&delivered);
                }
            }
            Ok(None) => counts = self.earlier_counts().await,
            Err(failure) => {
                let failure = self.rescue(failure).await;
                // What was not done stays what it was; what was done and cannot be kept is not done.
                let failed = self.failed(failure).await?;
                if end.outcome == Outcome::Done {
                    end = failed;
                }
            }
        }
        self.write_finish(end, counts).await?;
        self.freeze().await
    }

    /// Freezes the workspace as the turn left it. The turn is finished, so a failure is told and changes nothing.
    async fn freeze(&self) -> Result<(), store::Error> {
        match self.context.workspace.freeze(&self.context.recorder, self.turn).await {
            Ok(()) => Ok(()),
            Err(Failure::Store(error)) => Err(error),
            Err(failure) => self.context.raise(&failure.into_problem()).await,
        }
    }

    /// Goes on with a turn whose delivery had begun when the server ended.
    pub(super) async fn finish_delivery(
        self,
        turn: &TurnState,
        mut delivery: Delivery,
    ) -> Result<(), store::Error> {
        self.close_open(turn, Outcome::Done).await?;
        if settled(delivery.state).is_none()
            && let Some(commit) = delivery.commit.clone()
        {
            delivery = delivery::deliver(&self.context, &self.agent, &commit).await?;
        }
        let mut counts = (0, 0, 0);
        if let (Some(saved), Some(commit)) = (self.context.workspace.saved(), &delivery.commit)
            && let Ok(mirror) = self.context.workspace.mirror().await
            && let Ok(diff) = mirror.diff(&saved.base, commit).await
        {
            counts = (diff.files, diff.insertions, diff.deletions);
        }
        let end = self.after_delivery(&delivery);
        self.write_finish(end, counts).await?;
        self.freeze().await
    }

    fn after_delivery(&self, delivery: &Delivery) -> End {
        match delivery.state {
            DeliveryState::Pushed => End { outcome: Outcome::Done, reason: None },
            DeliveryState::Intended | DeliveryState::Failed => {
                let error = delivery.error.as_deref().unwrap_or("the branch could not be pushed");
                let session = self.context.recorder.session();
                End { outcome: Outcome::Failed, reason: Some(format!("{error}; {TRY_AGAIN} {session}`")) }
            }
        }
    }

    /// Closes what the turn leaves open.
    async fn close_open(&self, turn: &TurnState, outcome: Outcome) -> Result<(), store::Error> {
        let (status, text) = match outcome {
            Outcome::Cancelled => (ItemStatus::Cancelled, agent::history::CANCELLED),
            Outcome::Done | Outcome::Escalated | Outcome::Failed | Outcome::OutOfBudget => {
                (ItemStatus::Interrupted, agent::history::INTERRUPTED)
            }
        };
        let closed = turn
            .open
            .iter()
            .map(|item| EventBody::ItemCompleted { turn: self.turn, item: broken_off(item, status, text) });
        self.append(&self.agent, closed.collect()).await
    }

    /// Saves the workspace as an archive when git cannot keep it, and says where.
    async fn rescue(&self, failure: Failure) -> Failure {
        let mut problem = match failure {
            Failure::Problem(problem) => problem,
            other => return other,
        };
        let Some(sandbox) = &self.sandbox else { return Failure::Problem(problem) };
        problem.hint = Some(match self.context.workspace.rescue(&**sandbox).await {
            Ok(path) => format!("the whole workspace is saved in {}", path.display()),
            Err(failure) => {
                format!("the workspace could not be saved either: {}", failure.into_problem().title)
            }
        });
        Failure::Problem(problem)
    }

    /// Keeps the work of the turn, if it did any.
    async fn keep(&mut self, outcome: Outcome) -> Result<Option<Kept>, Failure> {
        match outcome {
            // It was kept when it had passed; a turn that is done and kept nothing changed nothing.
            Outcome::Done => return Ok(self.passed.take()),
            Outcome::Escalated | Outcome::Cancelled | Outcome::Failed | Outcome::OutOfBudget => {}
        }
        let Some(sandbox) = self.sandbox.clone() else { return Ok(None) };
        match self.context.workspace.changed(&*sandbox, self.turn).await? {
            Some(tree) => self.keep_tree(&tree, Keep::Progress).await,
            None => Ok(None),
        }
    }

    /// Keeps a tree of the workspace on the host.
    pub(super) async fn keep_tree(&self, tree: &str, keep: Keep) -> Result<Option<Kept>, Failure> {
        let (Some(sandbox), Some(turn)) = (&self.sandbox, self.context.turn()) else { return Ok(None) };
        self.context.workspace.keep(&**sandbox, tree, keep, &self.message(&turn)).await
    }

    /// What earlier turns changed, for a turn that changed nothing. It is for show, so a failure costs only that.
    async fn earlier_counts(&self) -> (u32, u32, u32) {
        let workspace = &self.context.workspace;
        let kept = workspace.saved().is_some_and(|saved| saved.kept.is_some());
        let Some(sandbox) = self.sandbox.as_ref().filter(|_| kept) else { return (0, 0, 0) };
        match workspace.counts(&**sandbox).await {
            Ok(counts) => counts,
            Err(failure) => {
                tracing::debug!(error = %failure.into_problem(), "the changes could not be counted");
                (0, 0, 0)
            }
        }
    }

    /// The commit's message: the prompt's first line, the prompt when it is longer, and the session.
    fn message(&self, turn: &TurnState) -> String {
        const BODY: usize = 8 * 1024;
        let title = crate::title(&turn.text);
        let session = self.context.recorder.session();
        let prompt = turn.text.trim();
        let body = if prompt == title { String::new() } else { format!("{}\n\n", prefix(prompt, BODY)) };
        // A program's arguments end at a NUL.
        format!("{title}\n\n{body}Slipway-Session: {session}").replace('\0', " ")
    }

    async fn write_finish(&self, end: End, counts: (u32, u32, u32)) -> Result<(), store::Error> {
        let Some(turn) = self.context.turn() else { return Ok(()) };
        let (files_changed, insertions, deletions) = counts;
        let receipt = Receipt { files_changed, insertions, deletions, ..turn.receipt(Timestamp::now()) };
        let End { outcome, reason } = end;
        let stopped_by = self.stop.by().filter(|_| outcome == Outcome::Cancelled);
        let actor = stopped_by.unwrap_or_else(|| match outcome {
            Outcome::Failed => Actor::system(),
            Outcome::Done | Outcome::Escalated | Outcome::Cancelled | Outcome::OutOfBudget => {
                self.agent.clone()
            }
        });
        let by_server = outcome == Outcome::Cancelled && actor.kind == ActorKind::System;
        let reason = if by_server { Some("the server was shut down".to_owned()) } else { reason };
        let body = EventBody::TurnFinished { turn: self.turn, outcome, reason, receipt };
        self.append(&actor, vec![body]).await
    }
}
