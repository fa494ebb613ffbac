//! One environment's part of the pool: what it has, what it wants, and when to look again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use protocol::{SandboxId, WarmStatus};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Ready, Target};
use crate::Sandbox;

/// After a claim this long nothing is made, so that the first command of whoever claimed has the machine for itself.
const REST: Duration = Duration::from_millis(20);
/// How many are made at the same time.
const AT_ONCE: usize = 4;
/// The wait after the first failure; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// What one environment has.
pub(super) struct Room {
    pub(super) target: Arc<Target>,
    /// Changes with what sandboxes are made from; one that was begun before is of no use.
    pub(super) generation: u64,
    /// Told to those that are being made when they are no longer wanted.
    pub(super) cancel: CancellationToken,
    /// Oldest first; also those made for an earlier target, until they are replaced.
    ready: VecDeque<Ready>,
    /// How many of this generation are being made.
    pub(super) starting: usize,
    /// One more than nothing is wanted until then.
    warm_until: Option<Instant>,
    /// Why the last one was not made.
    pub(super) error: Option<String>,
    failures: u32,
    retry_at: Option<Instant>,
    /// Nothing is made until then.
    rest_until: Option<Instant>,
}

/// What is to be done.
pub(super) struct Order {
    /// How many to make; they are counted as starting already.
    pub(super) make: usize,
    /// What goes.
    pub(super) remove: Vec<Ready>,
}

impl Room {
    pub(super) fn new(target: Target, generation: u64) -> Self {
        Self {
            target: Arc::new(target),
            generation,
            cancel: CancellationToken::new(),
            ready: VecDeque::new(),
            starting: 0,
            warm_until: None,
            error: None,
            failures: 0,
            retry_at: None,
            rest_until: None,
        }
    }

    /// One was claimed: whoever was about to ask has asked, and comes first. A rest that goes on is not made longer, so
    /// that many claims cannot keep the room empty.
    pub(super) fn claimed(&mut self, now: Instant) {
        self.warm_until = None;
        self.rest_until.get_or_insert(now + REST);
    }

    /// Somebody is about to ask.
    pub(super) fn warm(&mut self, until: Instant) {
        self.warm_until = Some(until);
        self.rest_until = None;
    }

    /// Takes another target. What was learnt of the old one is forgotten if the new one is made differently.
    pub(super) fn change(&mut self, target: Target, generation: u64) {
        if !self.target.same(&target) {
            self.cancel.cancel();
            self.cancel = CancellationToken::new();
            self.generation = generation;
            self.starting = 0;
            self.error = None;
            self.failures = 0;
            self.retry_at = None;
        }
        self.target = Arc::new(target);
    }

    /// Tells those that are being made to stop, and gives away the rest.
    pub(super) fn close(self) -> impl Iterator<Item = Ready> {
        self.cancel.cancel();
        self.ready.into_iter()
    }

    /// Takes the oldest that stands on this image and is otherwise as wanted today.
    pub(super) fn take(&mut self, image: &str) -> Option<Ready> {
        let fits =
            |ready: &Ready| ready.made_for.image.key == image && ready.made_for.same_but_image(&self.target);
        let at = self.ready.iter().position(fits)?;
        self.ready.remove(at)
    }

    /// Those that are ready.
    pub(super) fn sandboxes(&self) -> impl Iterator<Item = Arc<dyn Sandbox>> {
        self.ready.iter().map(|ready| Arc::clone(&ready.sandbox))
    }

    /// Takes this one out, if it is still here.
    pub(super) fn take_out(&mut self, id: SandboxId) -> Option<Ready> {
        let at = self.ready.iter().position(|ready| ready.sandbox.id() == id)?;
        self.ready.remove(at)
    }

    pub(super) fn add(&mut self, ready: Ready) {
        self.ready.push_back(ready);
        self.error = None;
        self.failures = 0;
        self.retry_at = None;
    }

    pub(super) fn fail(&mut self, error: String, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16)).min(LAST_PAUSE);
        self.failures += 1;
        self.error = Some(error);
        self.retry_at = Some(now + pause);
    }

    pub(super) fn status(&self) -> WarmStatus {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        WarmStatus { ready: number(self.fitting()), starting: number(self.starting) }
    }

    fn fitting(&self) -> usize {
        self.ready.iter().filter(|ready| ready.made_for.same(&self.target)).count()
    }

    fn wanted(&self, now: Instant) -> usize {
        let warm = usize::from(self.warm_until.is_some_and(|until| until > now));
        usize::try_from(self.target.size).unwrap_or(usize::MAX).max(warm)
    }

    /// What to do now. Sandboxes of an earlier target stay until as many new ones are ready.
    pub(super) fn plan(&mut self, now: Instant) -> Order {
        if self.warm_until.is_some_and(|until| until <= now) {
            self.warm_until = None;
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
        }
        let wanted = self.wanted(now);
        let fitting = self.fitting();
        let mut surplus = fitting.saturating_sub(wanted);
        let mut outdated = (self.ready.len() - fitting).saturating_sub(wanted.saturating_sub(fitting));
        let mut remove = Vec::new();
        let mut keep = VecDeque::with_capacity(self.ready.len());
        for ready in self.ready.drain(..) {
            let left = if ready.made_for.same(&self.target) { &mut surplus } else { &mut outdated };
            if *left > 0 {
                *left -= 1;
                remove.push(ready);
            } else {
                keep.push_back(ready);
            }
        }
        self.ready = keep;
        // After a failure one is tried, and only that one.
        let most = match (self.retry_at.or(self.rest_until), self.failures) {
            (Some(_), _) => 0,
            (None, 0) => AT_ONCE,
            (None, _) => 1,
        };
        let missing = wanted.saturating_sub(fitting + self.starting);
        let make = missing.min(most.saturating_sub(self.starting));
        self.starting += make;
        Order { make, remove }
    }

    /// When time alone makes it necessary to plan again.
    pub(super) fn next(&self) -> Option<Instant> {
        [self.warm_until, self.retry_at, self.rest_until].into_iter().flatten().min()
    }
}
