//! Room on the disk: what is used is known from time to time, what is added since is noted, and before anything large is made
//! both are held against the budget.
//!
//! Measuring looks at every file, so it is done beside the work where that will do, and where somebody waits only when there
//! seems to be no room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::{Problem, SessionId};
use sandbox::{Sandbox, gc};
use tokio::time::Instant;

use super::Builds;
use crate::problem;

/// A sandbox that starts needs about this much.
const START: u64 = 16 << 20;
/// The disk is measured no more often than this while there is room,
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);
/// and so much less often than it takes.
const SHARE: u32 = 50;

/// What is known of the disk.
#[derive(Debug, Default)]
pub(super) struct Disk(Mutex<Account>);

#[derive(Debug, Default)]
struct Account {
    /// Bytes that were used when it was measured last; None before the first time.
    used: Option<u64>,
    /// Bytes that snapshots took up since, at most.
    added: u64,
    /// Bytes that were promised to what is still being written.
    held: u64,
    /// When it was measured, or somebody began to.
    looked: Option<Instant>,
    took: Duration,
}

impl Disk {
    fn account(&self) -> MutexGuard<'_, Account> {
        // Every change is one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so much more fits, as far as is known; None while nothing is.
    pub(super) fn fits(&self, wanted: u64, budget: u64) -> Option<bool> {
        let account = self.account();
        let used = account.used?.saturating_add(account.added).saturating_add(account.held);
        Some(used.saturating_add(wanted) <= budget)
    }

    /// Whether it is time to measure; whoever is told so does it.
    fn is_due(&self) -> bool {
        let mut account = self.account();
        let wait = BETWEEN_LOOKS.max(account.took * SHARE);
        let due = account.looked.is_none_or(|looked| looked.elapsed() > wait);
        if due {
            account.looked = Some(Instant::now());
        }
        due
    }

    pub(super) fn add(&self, bytes: u64) {
        let mut account = self.account();
        account.added = account.added.saturating_add(bytes);
    }

    /// So much is promised to somebody who is about to write it.
    pub(super) fn hold(&self, bytes: u64) {
        let mut account = self.account();
        account.held = account.held.saturating_add(bytes);
    }

    /// Somebody who was promised so much is done: it may be on the disk, and counts as such until that is measured.
    pub(super) fn used_up(&self, bytes: u64) {
        let mut account = self.account();
        account.held = account.held.saturating_sub(bytes);
        account.added = account.added.saturating_add(bytes);
    }

    /// What is promised to all together.
    fn held(&self) -> u64 {
        self.account().held
    }

    /// Somebody begins to measure.
    pub(super) fn begin(&self) -> Measuring<'_> {
        Measuring { disk: self, began: Instant::now(), added: self.account().added }
    }
}

/// A measurement under way. What is added meanwhile may be in it or not, so it counts until the next one.
pub(super) struct Measuring<'a> {
    disk: &'a Disk,
    began: Instant,
    added: u64,
}

impl Measuring<'_> {
    /// It is done.
    pub(super) fn found(self, used: u64) {
        let mut account = self.disk.account();
        let added = account.added.saturating_sub(self.added);
        let (looked, took) = (Some(Instant::now()), self.began.elapsed());
        *account = Account { used: Some(used), added, held: account.held, looked, took };
    }
}

impl Builds {
    /// Refuses a new sandbox when there is no room for it, also after collecting. As long as nothing is known there is.
    pub(crate) async fn refuse_when_crowded(self: &Arc<Self>) -> Result<(), Problem> {
        if self.disk.fits(START, self.options.disk.budget_bytes) == Some(false) {
            return self.make_room(START).await;
        }
        self.measure_beside();
        Ok(())
    }

    /// Refuses a snapshot when there is no room for it, also after collecting.
    pub(crate) async fn room_for_snapshot(
        self: &Arc<Self>,
        sandbox: &dyn Sandbox,
        session: SessionId,
    ) -> Result<(), Problem> {
        let usage = sandbox.usage().await.map_err(|error| problem::sandbox(&error))?;
        let written = usage.disk_bytes.unwrap_or(0);
        let estimate = self.options.snapshots.estimate(sandbox, session, written);
        // What the sandbox itself has written may be newer than what is known.
        match self.disk.fits(estimate.saturating_add(written), self.options.disk.budget_bytes) {
            Some(true) => {
                self.measure_beside();
                Ok(())
            }
            Some(false) | None => self.make_room(estimate).await,
        }
    }

    /// A snapshot of so many bytes was taken. If that was too much after all, others go.
    pub(crate) fn snapshot_taken(self: &Arc<Self>, bytes: u64) {
        self.disk.add(bytes);
        if self.disk.fits(0, self.options.disk.budget_bytes) == Some(false) {
            let this = Arc::clone(self);
            self.tasks.spawn(async move { this.keep_budget().await });
        }
    }

    /// Measures from time to time, and collects when there is more than there may be: sandboxes write without asking.
    pub(super) async fn look_at_disk(&self) {
        if self.disk.is_due() {
            self.keep_budget().await;
        }
    }

    /// Measures, and collects if there is more than there may be.
    async fn keep_budget(&self) {
        let measured = tokio::select! {
            measured = self.measure() => measured,
            () = self.end.cancelled() => return,
        };
        match measured {
            Ok(used) if used > self.options.disk.budget_bytes => self.collect_quietly().await,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the disk could not be looked at"),
        }
    }

    fn measure_beside(self: &Arc<Self>) {
        if self.disk.is_due() {
            let this = Arc::clone(self);
            self.tasks.spawn(async move {
                if let Err(error) = this.measure().await {
                    tracing::warn!(%error, "the disk could not be looked at");
                }
            });
        }
    }

    async fn measure(&self) -> Result<u64, sandbox::Error> {
        let measuring = self.disk.begin();
        let used = gc::used(&*self.options.driver, &self.options.images).await?;
        measuring.found(used);
        Ok(used)
    }

    /// Makes room for so much more, or says why there is none.
    pub(super) async fn make_room(&self, wanted: u64) -> Result<(), Problem> {
        let options = &self.options;
        let _one_at_a_time = self.collecting.lock().await;
        let known = self.known().await?;
        let measuring = self.disk.begin();
        // What others were promised and have not written yet cannot be measured.
        let wanted = wanted.saturating_add(self.disk.held());
        let made = gc::make_room(&known.world(options), &options.disk, wanted).await;
        // When there is none, it is looked for anew by whoever asks next.
        measuring.found(*made.as_ref().unwrap_or(&options.disk.budget_bytes));
        made.map(drop).map_err(|error| problem::sandbox(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_counts_until_it_is_measured() {
        let disk = Disk::default();
        assert_eq!(disk.fits(1, 100), None, "nothing is known yet");
        assert!(disk.is_due());
        assert!(!disk.is_due(), "somebody is at it");
        let found = |used, took| {
            disk.begin().found(used);
            disk.account().took = took;
        };
        found(60, Duration::from_secs(1));
        assert_eq!((disk.fits(40, 100), disk.fits(41, 100)), (Some(true), Some(false)));
        disk.add(30);
        assert_eq!((disk.fits(10, 100), disk.fits(11, 100)), (Some(true), Some(false)));
        let since = |seconds| {
            disk.account().looked = Some(Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap());
        };
        since(45);
        assert!(!disk.is_due(), "it takes its time, so it is done less often");
        since(51);
        assert!(disk.is_due());
        found(60, Duration::from_millis(1));
        assert_eq!(disk.fits(40, 100), Some(true), "most of it was shared");
        let measuring = disk.begin();
        disk.add(30);
        measuring.found(60);
        assert_eq!(disk.fits(11, 100), Some(false), "what came meanwhile may not be in it");
        found(60, Duration::from_millis(1));
        disk.hold(30);
        found(60, Duration::from_millis(1));
        assert_eq!((disk.fits(10, 100), disk.fits(11, 100)), (Some(true), Some(false)), "it is promised");
        disk.used_up(30);
        assert_eq!(disk.fits(11, 100), Some(false), "and may be written by now");
        found(60, Duration::from_millis(1));
        assert_eq!(disk.fits(40, 100), Some(true));
        disk.add(u64::MAX);
        assert_eq!(disk.fits(1, 100), Some(false));
    }
}
