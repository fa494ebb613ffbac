//! What a turn may use: looked at before each model call, and by a clock while something runs. A turn that says it is finished
//! is not ended for it any more: its checks run, and only if the model had to be asked again is the limit in the way.

use std::sync::Arc;

use agent::Effect;
use protocol::{Actor, Outcome};
use tokio_util::task::AbortOnDropHandle;

use super::{Context, End, Runner};
use crate::budget;
use crate::kept_time;
use crate::state::State;
use crate::stop::Stop;

/// How often it is looked at whether there is a limit on time now.
const A_LOOK: std::time::Duration = std::time::Duration::from_secs(1);

/// Keeps the time while something runs, and ends that when the time of the turn or of the session is over, as long as this is
/// held.
pub(super) struct Clock {
    _task: AbortOnDropHandle<()>,
}

impl Context {
    /// Tells people which limits are nearly used up, each once.
    pub(super) async fn warn_of_limits(&self) -> Result<(), store::Error> {
        let millis = self.elapsed_ms();
        let due = self.recorder.stream().with_state(|state| {
            let due = !budget::warnings(state, millis).is_empty();
            state.turn().map(|turn| turn.id).filter(|_| due)
        });
        if let Some(turn) = due {
            // The time is that of this turn, whichever is under way when it is written.
            let warnings = move |state: &State| match state.turn() {
                Some(now) if now.id == turn => (budget::warnings(state, millis), ()),
                Some(_) | None => (Vec::new(), ()),
            };
            self.recorder.append_if(&Actor::system(), warnings).await?;
        }
        Ok(())
    }

    /// Why the turn cannot go on, when a limit is reached.
    pub(crate) fn limits_reached(&self) -> Option<String> {
        let millis = self.elapsed_ms();
        let session = self.recorder.session();
        self.recorder.stream().with_state(|state| {
            let (turn, of_session) = state.used(millis);
            let reached = budget::reached(state.budgets()?, turn, of_session);
            (!reached.is_empty()).then(|| budget::reason(&reached, session))
        })
    }

    /// Waits until the time is over, and warns of that before.
    async fn time_over(&self) {
        loop {
            let stream = self.recorder.stream();
            // Made before the look, so that nothing can come between the two unnoticed.
            let changed = stream.budget_news();
            let millis = self.elapsed_ms();
            let left = stream.with_state(|state| budget::until_next(state, millis));
            match left {
                None => changed.await,
                Some(left) if left.is_zero() => {
                    // A limit may have come to be so low that nobody was warned of it.
                    self.warn_while_it_runs().await;
                    return;
                }
                Some(left) => {
                    self.keep_time(millis).await;
                    tokio::select! {
                        () = changed => {}
                        () = tokio::time::sleep(left.min(kept_time::EVERY)) => {}
                    }
                    self.warn_while_it_runs().await;
                }
            }
        }
    }

    /// Waits until the time is over, beside the turn's own clock, which warns and keeps it.
    pub(crate) async fn out_of_time(&self) {
        loop {
            let stream = self.recorder.stream();
            let changed = stream.budget_news();
            let millis = self.elapsed_ms();
            match stream.with_state(|state| budget::until_next(state, millis)) {
                Some(left) if left.is_zero() => return,
                left => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(left.unwrap_or(A_LOOK).min(A_LOOK)) => {}
                },
            }
        }
    }

    /// Keeps the time, and warns where it becomes short, for as long as it is polled.
    async fn tell_time(&self) {
        loop {
            let stream = self.recorder.stream();
            let changed = stream.budget_news();
            let millis = self.elapsed_ms();
            if stream.with_state(|state| budget::until_next(state, millis)).is_none() {
                changed.await;
                continue;
            }
            self.keep_time(millis).await;
            self.warn_while_it_runs().await;
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(kept_time::EVERY) => {}
            }
        }
    }

    /// Has the server after this one know how long the turn took, whenever this one dies.
    async fn keep_time(&self, millis: u64) {
        let Some(turn) = self.turn().map(|turn| turn.id) else { return };
        let dir = self.recorder.dir();
        let kept = tokio::task::spawn_blocking(move || kept_time::keep(&dir, turn, millis)).await;
        if let Err(error) = kept.map_err(std::io::Error::other).flatten() {
            let session = self.recorder.session();
            tracing::warn!(%session, %error, "how long the turn took could not be kept");
        }
    }

    /// A warning that cannot be written is not worth the turn, whose own next event will tell.
    async fn warn_while_it_runs(&self) {
        if let Err(error) = self.warn_of_limits().await {
            let session = self.recorder.session();
            tracing::warn!(%session, %error, "a warning could not be recorded");
        }
    }
}

impl Runner {
    /// Ends the turn where a limit is reached and the model would be asked for more.
    pub(super) async fn over_budget(&self, effect: &Effect) -> Result<Option<End>, store::Error> {
        match effect {
            Effect::CallModel(_) | Effect::Compact { .. } => {
                // A server that died may not have come to it.
                self.context.warn_of_limits().await?;
                Ok(self.context.limits_reached().map(|reason| self.out_of_budget(reason)))
            }
            Effect::Survey { .. }
            | Effect::ChangeModel { .. }
            | Effect::RunTool { .. }
            | Effect::RejectTool { .. }
            | Effect::Mistake { .. }
            | Effect::Note { .. }
            | Effect::Tell { .. }
            | Effect::Verify
            | Effect::Finish { .. } => Ok(None),
        }
    }

    /// The clock for what is about to be done. It does not end the checks of work that is finished.
    pub(super) fn clock_for(&self, effect: &Effect) -> Option<Clock> {
        match effect {
            Effect::CallModel(_)
            | Effect::Compact { .. }
            | Effect::Survey { .. }
            | Effect::RunTool { .. } => Some(self.clock()),
            Effect::Verify | Effect::Finish { .. } => {
                let context = Arc::clone(&self.context);
                let task = tokio::spawn(async move { context.tell_time().await });
                Some(Clock { _task: AbortOnDropHandle::new(task) })
            }
            Effect::ChangeModel { .. }
            | Effect::RejectTool { .. }
            | Effect::Mistake { .. }
            | Effect::Note { .. }
            | Effect::Tell { .. } => None,
        }
    }

    /// The clock for what comes before the first step. Time that was over before it is for that step to find out: there may
    /// be nothing left to do but checks.
    pub(super) fn clock_to_begin(&self) -> Option<Clock> {
        self.context.limits_reached().is_none().then(|| self.clock())
    }

    /// The clock for a call that is ended when the time is over.
    pub(super) fn clock(&self) -> Clock {
        let (context, stop): (Arc<Context>, Stop) = (Arc::clone(&self.context), self.stop.clone());
        let task = tokio::spawn(async move {
            context.time_over().await;
            stop.give_for_time();
        });
        Clock { _task: AbortOnDropHandle::new(task) }
    }

    /// The end of a turn whose time was over while something ran.
    pub(super) fn out_of_time(&self) -> End {
        let reached = self.context.limits_reached();
        self.out_of_budget(reached.unwrap_or_else(|| "its time was over".to_owned()))
    }

    fn out_of_budget(&self, mut reason: String) -> End {
        let failing: Vec<String> = self.context.recorder.stream().with_state(|state| {
            state
                .turn()
                .map(|turn| turn.failing.iter().map(|(name, _)| name.clone()).collect())
                .unwrap_or_default()
        });
        if !failing.is_empty() {
            reason.push_str(budget::STILL_FAIL);
            reason.push_str(&failing.join(", "));
        }
        End { outcome: Outcome::OutOfBudget, reason: Some(reason) }
    }
}
