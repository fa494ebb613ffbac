//! How long git in a workspace may take, and what ends it early.

use std::time::Duration;

use tokio::time::Instant;

use crate::failure::Failure;
use crate::stop::Stop;

/// Git commands on a large workspace take their time; none takes this long.
const LONGEST: Duration = Duration::from_secs(600);

/// When a command in the workspace is not waited for any more.
#[derive(Clone, Copy, Default)]
pub(crate) struct Patience<'a> {
    stop: Option<&'a Stop>,
    until: Option<Instant>,
}

impl<'a> Patience<'a> {
    /// Until somebody stops the turn.
    pub(crate) fn unless(stop: &'a Stop) -> Self {
        Self { stop: Some(stop), until: None }
    }

    /// For this long, also in a turn that was stopped.
    pub(crate) fn at_most(time: Duration) -> Self {
        Self { stop: None, until: Some(Instant::now() + time) }
    }

    /// What ends a command early.
    pub(super) fn stop(&self) -> Option<&'a Stop> {
        self.stop
    }

    /// How long a command that begins now may take.
    pub(super) fn left(&self) -> Duration {
        let left = self.until.map_or(LONGEST, |until| until.saturating_duration_since(Instant::now()));
        // A time limit of nothing would be none.
        left.clamp(Duration::from_millis(1), LONGEST)
    }

    /// Does something on the host in the time there is. None when it was not done in it.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<Option<T>, Failure> {
        tokio::select! {
            done = work => Ok(Some(done)),
            () = given(self.stop) => Err(Failure::Stopped),
            () = tokio::time::sleep(self.left()) => Ok(None),
        }
    }

    /// Waits; whether there is still time after it.
    pub(super) async fn pause(&self, wait: Duration) -> bool {
        if wait >= self.left() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = given(self.stop) => false,
        }
    }
}

/// Waits for a stop that may come.
async fn given(stop: Option<&Stop>) {
    match stop {
        Some(stop) => stop.given().await,
        None => std::future::pending().await,
    }
}
