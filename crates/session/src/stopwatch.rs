//! How long a turn has been under way. Within one process that is measured with a clock which nobody can set; what came
//! before this process is what the log tells, or what was kept beside it. The time in which a turn waits for a person is not counted, nor is that in which
//! no server runs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use protocol::{Timestamp, TurnId};

use crate::state::TurnState;

/// Measures the turn under way.
#[derive(Default)]
pub(crate) struct Stopwatch {
    running: Mutex<Option<Running>>,
    /// What a process before this one kept: a turn, and its milliseconds.
    kept: Option<(TurnId, u64)>,
}

struct Running {
    turn: TurnId,
    /// Since when it is measured; not at all while it waits for a person.
    since: Option<Instant>,
    /// Milliseconds that it took before.
    before: u64,
}

impl Running {
    fn millis(&self) -> u64 {
        let here = self.since.map_or(0, |since| since.elapsed().as_millis());
        self.before.saturating_add(u64::try_from(here).unwrap_or(u64::MAX))
    }
}

impl Stopwatch {
    /// One that goes on from what was kept, where that is more than what the log tells.
    pub(crate) fn new(kept: Option<(TurnId, u64)>) -> Self {
        Self { running: Mutex::default(), kept }
    }

    /// A turn begins now.
    pub(crate) fn begin(&self, turn: TurnId) {
        *self.lock() = Some(Running { turn, since: Some(Instant::now()), before: 0 });
    }

    /// A turn goes on. One that did not begin here began in another process.
    pub(crate) fn go_on(&self, turn: &TurnState) {
        let mut running = self.lock();
        let before = match &*running {
            Some(known) if known.turn == turn.id => known.millis(),
            Some(_) | None => self.before(turn),
        };
        *running = Some(Running { turn: turn.id, since: Some(Instant::now()), before });
    }

    /// The turn waits for a person.
    pub(crate) fn rest(&self) {
        if let Some(running) = &mut *self.lock() {
            (running.before, running.since) = (running.millis(), None);
        }
    }

    /// Milliseconds that a turn has taken so far.
    pub(crate) fn read(&self, turn: &TurnState) -> u64 {
        match &*self.lock() {
            Some(known) if known.turn == turn.id => known.millis(),
            Some(_) | None => self.before(turn),
        }
    }

    /// What a turn took in other processes.
    fn before(&self, turn: &TurnState) -> u64 {
        let kept = self.kept.filter(|(kept, _)| *kept == turn.id).map_or(0, |(_, millis)| millis);
        kept.max(turn.elapsed_ms)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time on the wall after a wait; none where it is further away than can be told.
pub(crate) fn after(wait: Duration) -> Option<Timestamp> {
    Timestamp::now().checked_add(wait).ok()
}

/// How long it is until a time on the wall; nothing when it is over.
pub(crate) fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::turn_that_took;

    /// Far more than any of these tests takes.
    const LONG: u64 = 600_000;

    #[test]
    fn a_turn_of_another_process_goes_on_from_what_the_log_tells() {
        let (turn, watch) = (turn_that_took(LONG), Stopwatch::default());
        assert_eq!(watch.read(&turn), LONG, "nothing is measured yet");
        watch.go_on(&turn);
        assert!((LONG..2 * LONG).contains(&watch.read(&turn)));
    }

    #[test]
    fn what_was_kept_of_this_turn_counts_where_the_log_tells_less() {
        let turn = turn_that_took(LONG);
        assert_eq!(Stopwatch::new(Some((turn.id, LONG + 5))).read(&turn), LONG + 5);
        assert_eq!(Stopwatch::new(Some((turn.id, LONG - 5))).read(&turn), LONG);
        assert_eq!(
            Stopwatch::new(Some((TurnId::from_u128(99), LONG + 5))).read(&turn),
            LONG,
            "another one's"
        );
        let watch = Stopwatch::new(Some((turn.id, 2 * LONG)));
        watch.go_on(&turn);
        assert!((2 * LONG..3 * LONG).contains(&watch.read(&turn)));
    }

    #[test]
    fn a_turn_of_this_process_takes_as_long_as_it_takes_whatever_the_log_tells() {
        let (turn, watch) = (turn_that_took(LONG), Stopwatch::default());
        watch.begin(turn.id);
        watch.go_on(&turn);
        assert!(watch.read(&turn) < LONG);
    }

    #[test]
    fn waiting_for_a_person_takes_no_time() {
        let (turn, watch) = (turn_that_took(LONG), Stopwatch::default());
        watch.go_on(&turn);
        watch.rest();
        let rested = watch.read(&turn);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(watch.read(&turn), rested);
        watch.go_on(&turn);
        std::thread::sleep(Duration::from_millis(2));
        assert!(watch.read(&turn) > rested);
    }
}
