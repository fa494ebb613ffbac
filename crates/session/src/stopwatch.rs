//! How long a turn has taken. Within one process that is measured with a clock which nobody can set. What came before
//! this process is known only by the clock on the wall, which may have been set back meanwhile: then it took no time.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use protocol::{Timestamp, TurnId};

use crate::state::TurnState;

/// Measures the turn under way.
#[derive(Default)]
pub(crate) struct Stopwatch(Mutex<Option<Running>>);

struct Running {
    turn: TurnId,
    since: Instant,
    /// Milliseconds that it took before.
    before: u64,
}

impl Stopwatch {
    /// A turn begins now.
    pub(crate) fn begin(&self, turn: TurnId) {
        self.set(Running { turn, since: Instant::now(), before: 0 });
    }

    /// A turn goes on. One that did not begin here began in another process.
    pub(crate) fn go_on(&self, turn: &TurnState) {
        self.millis(turn, Timestamp::now());
    }

    /// Milliseconds that a turn has taken so far.
    pub(crate) fn read(&self, turn: &TurnState) -> u64 {
        self.millis(turn, Timestamp::now())
    }

    fn millis(&self, turn: &TurnState, now: Timestamp) -> u64 {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*running {
            Some(known) if known.turn == turn.id => {
                let here = u64::try_from(known.since.elapsed().as_millis()).unwrap_or(u64::MAX);
                known.before.saturating_add(here)
            }
            Some(_) | None => {
                let before = millis_between(turn.started_at, now);
                *running = Some(Running { turn: turn.id, since: Instant::now(), before });
                before
            }
        }
    }

    fn set(&self, running: Running) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }
}

/// Whole milliseconds from one time to the other; 0 when the clock was set back.
fn millis_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond().saturating_sub(from.as_millisecond())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::turn_begun_at;

    const YEAR: i64 = 365 * 24 * 60 * 60;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_turn_of_this_process_takes_as_long_as_it_takes_wherever_the_clock_jumps() {
        let turn = turn_begun_at(at(40 * YEAR));
        for now in [at(0), at(40 * YEAR), at(80 * YEAR)] {
            let watch = Stopwatch::default();
            watch.begin(turn.id);
            assert!(watch.millis(&turn, now) < 60_000, "{now}");
        }
    }

    #[test]
    fn a_turn_of_another_process_is_measured_on_from_what_the_wall_says_and_never_took_less_than_nothing() {
        let turn = turn_begun_at(at(1000));
        let watch = Stopwatch::default();
        assert_eq!(watch.millis(&turn, at(1007)), 7_000);
        let later = watch.millis(&turn, at(40 * YEAR));
        assert!((7_000..67_000).contains(&later), "the jump came while this process measured: {later}");
        let watch = Stopwatch::default();
        assert_eq!(watch.millis(&turn, at(3)), 0, "it was set back");
    }
}
