//! The end of a turn: open items are closed, the work is kept whatever the outcome, a branch that is done is
//! delivered, and `turn.finished` is written once.

use failpoint::Point;
use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, ActorKind, Code, EventBody, ItemStatus, Outcome, Problem, Receipt};

use super::approval::Asked;
use super::delivery::Delivered;
use super::resume::waits;
use super::{End, Runner, delivery, settled};
use crate::failure::Failure;
use crate::state::{State, TurnState, broken_off};

/// How to have another go at a push that failed.
const TRY_AGAIN: &str = "the work is kept: put right what is wrong, then run `slipway deliver";

/// Why what waits is not begun after a turn in which no model could be used.
const NO_MODEL: &str = "no model could be used, and what waits would fail in the same way; when that is mended, go on with: slipway \
     queue";

impl End {
    /// What becomes of items that are open when a turn comes to this end.
    fn of_open_items(&self) -> (ItemStatus, String) {
        let ended = match self.outcome {
            Outcome::Cancelled => return (ItemStatus::Cancelled, agent::history::CANCELLED.to_owned()),
            Outcome::Failed => "failed",
            Outcome::Done | Outcome::Escalated | Outcome::OutOfBudget => "ended",
        };
        let why = self.reason.as_deref().unwrap_or("for no reason that is known");
        let text = format!(
            "interrupted: the turn {ended} before this was done; if it had begun, its effects may be partial: {why}"
        );
        (ItemStatus::Interrupted, text)
    }
}

impl Runner {
    /// What a failure means for the turn. Only a store that cannot be written is passed on.
    pub(super) async fn failed(&mut self, failure: Failure) -> Result<End, store::Error> {
        let problem = match failure {
            Failure::Store(error) => return Err(error),
            Failure::Stopped | Failure::Waits => return Ok(End::stopped()),
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
        if self.stop.is_given() {
            end = End::stopped();
        }
        let (status, text) = end.of_open_items();
        self.close_open(&turn, status, &text).await?;
        let settled = match self.arrive_or_leave().await {
            Ok(()) => self.settled().await,
            Err(failure) => Err(failure),
        };
        match settled {
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
        // Until the finish is written: a server that ends lets a delivery come to its end, with what is told of it.
        let mut act = None;
        match self.keep(end.outcome).await {
            Ok(Some(kept)) => {
                counts = (kept.files, kept.insertions, kept.deletions);
                if end.outcome == Outcome::Done {
                    Box::pin(self.look_for_weakened(Some(&kept.commit))).await;
                    self.tell_weakened().await?;
                    let is_merged = self.context.recorder.stream().with_state(State::was_merged);
                    match self.ask(&kept).await? {
                        // The turn is left as it is: whoever decides lets it go on.
                        Asked::Waiting => return self.freeze().await,
                        Asked::Stopped => end = End::stopped(),
                        Asked::Refused(problem) => end = self.failed(problem.into()).await?,
                        // What was merged is delivered, and there is nothing else.
                        Asked::Nobody if is_merged && kept.files == 0 => {}
                        Asked::Nobody => {
                            act = Some(self.context.outside.begin());
                            let cause = self.agent.clone().into();
                            let delivered =
                                delivery::deliver(&self.context, &self.stop, &cause, &kept.commit).await?;
                            end = self.after_delivery(&delivered);
                        }
                    }
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
        self.look().await?;
        self.write_finish(end, counts).await?;
        drop(act);
        self.freeze().await
    }

    /// Freezes the workspace as the turn left it. The turn is finished, so a failure is told and changes nothing.
    pub(super) async fn freeze(&self) -> Result<(), store::Error> {
        match self.context.workspace.freeze(&self.context.recorder, self.turn).await {
            Ok(()) => Ok(()),
            Err(Failure::Store(error)) => Err(error),
            Err(failure) => self.context.raise(&failure.into_problem()).await,
        }
    }

    /// Goes on with a turn whose delivery had begun when the server ended. Also when it is being stopped: nobody knows how
    /// far the push is, so it gets the time to come to its end that it would have had.
    pub(super) async fn finish_delivery(
        mut self,
        turn: &TurnState,
        delivery: Delivery,
    ) -> Result<(), store::Error> {
        self.close_left(turn).await?;
        let commit = delivery::whole_commit(&self.context, &delivery);
        let cause = self.agent.clone().into();
        let act = self.context.outside.begin();
        let delivered = match (settled(delivery.state), &commit) {
            (None, Some(commit)) => delivery::deliver(&self.context, &self.stop, &cause, commit).await?,
            (Some(_), _) | (None, None) => Delivered::Ended(delivery),
        };
        let counts = self.kept_counts(commit.as_deref()).await;
        self.look_for_weakened(commit.as_deref()).await;
        let end = self.after_delivery(&delivered);
        self.write_finish(end, counts).await?;
        drop(act);
        self.freeze().await
    }

    /// Ends a turn that somebody stopped under a server that is gone. What still runs of it is ended, what it did is kept,
    /// and nothing else is done.
    pub(super) async fn finish_stopped(mut self, turn: &TurnState) -> Result<(), store::Error> {
        let settled = async {
            if let Some(ready) = self.context.workspace.find(&self.context.recorder).await? {
                self.sandbox = Some(ready.held.sandbox);
                self.exit = ready.held.exit;
            }
            self.settle_open(turn).await
        };
        if let Err(failure) = settled.await {
            self.failed(failure).await?;
        }
        self.finish(End::stopped()).await
    }

    /// What a kept commit changed since the session began. It is for show, so a failure costs only that.
    pub(super) async fn kept_counts(&self, commit: Option<&str>) -> (u32, u32, u32) {
        if let (Some(saved), Some(commit)) = (self.context.workspace.saved(), commit)
            && let Ok(mirrors) = self.context.workspace.mirrors().await
            && let Ok(diff) = mirrors.diff(&saved.base, commit).await
        {
            return (diff.files, diff.insertions, diff.deletions);
        }
        (0, 0, 0)
    }

    /// How the turn ended. One of which nothing is outside was cancelled.
    pub(super) fn after_delivery(&self, delivered: &Delivered) -> End {
        let delivery = match delivered {
            Delivered::Ended(delivery) => delivery,
            Delivered::Stopped(None) => return End::stopped(),
            Delivered::Stopped(Some(delivery)) => {
                let reason =
                    delivery.error.as_ref().map(|error| format!("a person stopped the delivery: {error}"));
                return End { outcome: Outcome::Cancelled, reason };
            }
        };
        match delivery.state {
            DeliveryState::Pushed | DeliveryState::Opened => End { outcome: Outcome::Done, reason: None },
            DeliveryState::Intended
            | DeliveryState::Opening
            | DeliveryState::Failed
            | DeliveryState::Unknown => {
                let error = delivery.error.as_deref().unwrap_or("the branch could not be pushed");
                let session = self.context.recorder.session();
                End { outcome: Outcome::Failed, reason: Some(format!("{error}; {TRY_AGAIN} {session}`")) }
            }
        }
    }

    /// Closes what an earlier server left open of a turn that is not worked on any more.
    pub(super) async fn close_left(&self, turn: &TurnState) -> Result<(), store::Error> {
        self.close_open(turn, ItemStatus::Interrupted, agent::history::INTERRUPTED).await
    }

    /// Closes what the turn leaves open.
    async fn close_open(&self, turn: &TurnState, status: ItemStatus, text: &str) -> Result<(), store::Error> {
        let words = |item| match status {
            ItemStatus::Cancelled if waits(turn, item) => agent::history::NOT_BEGUN,
            _ => text,
        };
        let close = |item| broken_off(item, status, words(item));
        let closed =
            turn.open.iter().map(|item| EventBody::ItemCompleted { turn: self.turn, item: close(item) });
        self.append(&self.agent, closed.collect()).await
    }

    /// Writes the one finish. A stop that was recorded before it counts, unless the push had begun: then that says how the
    /// turn ended.
    pub(super) async fn write_finish(
        &self,
        mut end: End,
        counts: (u32, u32, u32),
    ) -> Result<(), store::Error> {
        let (files_changed, insertions, deletions) = counts;
        if end.outcome == Outcome::Done {
            self.count_useful().await;
        }
        loop {
            let Some(turn) = self.context.turn() else { return Ok(()) };
            let stopped_by = turn.stopping.clone().or_else(|| self.stop.by());
            if stopped_by.is_some() && turn.delivery.is_none() {
                end = End::stopped();
            }
            let (outcome, mut reason) = (end.outcome, end.reason.clone());
            let actor = match outcome {
                Outcome::Cancelled => stopped_by.unwrap_or_else(|| self.agent.clone()),
                Outcome::Failed => Actor::system(),
                Outcome::Done | Outcome::Escalated | Outcome::OutOfBudget => self.agent.clone(),
            };
            if outcome == Outcome::Cancelled && actor.kind == ActorKind::System {
                reason = Some("the server was shut down".to_owned());
            }
            let receipt = turn.receipt(outcome, self.context.stopwatch.read(&turn));
            let weakened = self.weakened.clone();
            let commit = self.context.workspace.saved().and_then(|saved| saved.kept);
            let receipt = Receipt { files_changed, insertions, deletions, commit, weakened, ..receipt };
            let body = EventBody::TurnFinished { turn: self.turn, outcome, reason, receipt };
            let stopping = turn.stopping.is_some();
            let holds = outcome == Outcome::Failed && self.models_failed;
            let session = self.context.recorder.session();
            let hold = move |state: &State| {
                let waits = holds && !state.queue().paused && !state.queue().prompts.is_empty();
                waits.then(|| EventBody::QueuePaused {
                    reason: format!("{NO_MODEL} {session} resume"),
                    command: None,
                })
            };
            let written = self.context.recorder.append_if(&actor, move |state| match state.turn() {
                Some(now) if now.stopping.is_some() != stopping => (Vec::new(), false),
                Some(_) => (std::iter::once(body).chain(hold(state)).collect(), true),
                None => (Vec::new(), true),
            });
            failpoint::hit(Point::TurnFinishing);
            if written.await?.1 {
                failpoint::hit(Point::TurnFinished);
                return Ok(());
            }
        }
    }
}
