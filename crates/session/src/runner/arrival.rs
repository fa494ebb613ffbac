//! The sandbox on its way: made, or found again, while the model already reads the prompt. Whatever needs it waits here.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Actor, Code, Problem};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::gate::Taken;
use super::{Runner, WORK_IS_GONE};
use crate::failure::Failure;
use crate::state::TurnState;
use crate::stop::Stop;
use crate::workspace::{Expected, Saved};

/// How long a turn that is over waits for a sandbox that it did not need. The next one will want it.
const SOON: Duration = Duration::from_secs(3);

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Coming,
    Here,
    Failed,
}

/// A sandbox on its way.
pub(super) struct Arrival {
    task: AbortOnDropHandle<Result<Taken, Failure>>,
    way: watch::Receiver<Way>,
    /// Given when nobody waits for it any more.
    leave: Stop,
    /// Whether the turn had a sandbox under an earlier server, and did something in it that no person looks at yet.
    resumed: bool,
}

impl Arrival {
    /// Waits until it will not come.
    async fn failed(&self) {
        if self.way.clone().wait_for(|way| *way == Way::Failed).await.is_err() {
            // It came, or its task is gone, which whoever waits for the sandbox is told.
            std::future::pending().await
        }
    }

    /// Waits a little for one that nobody needs, then gives it up.
    async fn or_leave(&self) {
        let mut way = self.way.clone();
        let ended = way.wait_for(|way| *way != Way::Coming);
        if tokio::time::timeout(SOON, ended).await.is_err() {
            self.leave.give(Actor::system());
        }
    }
}

impl Runner {
    /// Lets the sandbox come.
    pub(super) fn expect(&mut self, turn: &TurnState) {
        let (sender, way) = watch::channel(Way::Coming);
        let (context, stop, leave) = (Arc::clone(&self.context), self.stop.clone(), Stop::default());
        let task = tokio::spawn({
            let leave = leave.clone();
            async move {
                let ensure = Box::pin(context.workspace.ensure(&context.recorder, &leave));
                let pass_on = async {
                    stop.given().await;
                    leave.give(stop.by().unwrap_or_else(Actor::system));
                    std::future::pending::<()>().await;
                };
                let ready = tokio::select! {
                    ready = ensure => ready,
                    () = pass_on => Err(Failure::Stopped),
                };
                // Nobody listens once the turn is over.
                sender.send_replace(if ready.is_ok() { Way::Here } else { Way::Failed });
                ready.map(|ready| Taken::new(ready, &context, &stop))
            }
        });
        let task = AbortOnDropHandle::new(task);
        // What waited for a person was kept, and is back.
        let resumed = turn.steps() > 0 && turn.had_sandbox && turn.decision.is_none();
        self.arrival = Some(Arrival { task, way, leave, resumed });
    }

    /// Waits for the sandbox, if it is not here yet. Gives what it is prepared with if it came just now.
    pub(super) async fn arrive(&mut self) -> Result<Option<Saved>, Failure> {
        let Some(Arrival { task, resumed, .. }) = self.arrival.take() else { return Ok(None) };
        let taken = task.await.unwrap_or_else(|error| {
            Err(Problem::new(Code::Internal, format!("the sandbox was not made: {error}"))
                .hint("this is a fault of slipway: report it with the server's log")
                .into())
        })?;
        let (made, saved) = (taken.ready.made, taken.ready.saved.clone());
        for text in self.take_up(taken).await? {
            self.notice(text).await?;
        }
        if !made {
            // One that ended while nobody looked.
            for text in self.tend(Expected::Any).await? {
                self.notice(text).await?;
            }
        }
        if made && resumed {
            // A turn that is resumed had a sandbox, and what it did in there is gone.
            self.notice(format!("The sandbox was lost while the platform was down. {WORK_IS_GONE}")).await?;
        }
        Ok(Some(saved))
    }

    /// The same at the end of a turn. One that still takes long is given up.
    pub(super) async fn arrive_or_leave(&mut self) -> Result<(), Failure> {
        let Some(arrival) = &self.arrival else { return Ok(()) };
        arrival.or_leave().await;
        match self.arrive().await {
            Ok(_) | Err(Failure::Stopped) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Waits until there is no use in the model's answer: somebody stopped the turn, or there will be no sandbox.
    pub(super) async fn given_up(&self) {
        match &self.arrival {
            Some(arrival) => tokio::select! {
                () = self.stop.given() => {}
                () = arrival.failed() => {}
            },
            None => self.stop.given().await,
        }
    }
}
