//! How much of a command's output is taken in at a time. A command that prints without end would have the processors of
//! everybody else; it waits instead, as it would for a slow terminal. What builds and tests print is far below this.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes a second.
const RATE: u64 = 64 << 20;
/// Bytes that are taken in at once after a silence.
const BURST: u64 = 4 << 20;

/// The intake of one command.
#[derive(Debug)]
pub(crate) struct Intake {
    /// When everything that was taken in would have come at the rate.
    even: Instant,
}

impl Intake {
    pub(crate) fn new(now: Instant) -> Self {
        Self { even: now }
    }

    /// Bytes were taken in; gives when there may be more, if that is not now.
    pub(crate) fn took(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        self.even = self.even.max(now) + time_of(bytes as u64);
        self.even.checked_sub(time_of(BURST)).filter(|next| *next > now)
    }
}

fn time_of(bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_slowed_down_to_the_rate_and_others_are_not() {
        let start = Instant::now();
        let mut now = start;
        let mut intake = Intake::new(now);
        assert_eq!(intake.took(BURST as usize, now), None, "a burst");
        // A flood: whoever prints on as soon as it may.
        let pieces = 1000;
        for _ in 0..pieces {
            now = intake.took(64 << 10, now).unwrap_or(now);
        }
        let flooded = time_of(pieces * (64 << 10));
        assert!((now - start).abs_diff(flooded) < Duration::from_micros(10), "{:?} {flooded:?}", now - start);
        // After a silence it may go at once again, but has not saved up more than a burst.
        now += Duration::from_secs(60);
        assert_eq!(intake.took(BURST as usize, now), None);
        assert!(intake.took(64 << 10, now).is_some());
        // A steady few megabytes a second never wait.
        for _ in 0..100 {
            now += Duration::from_millis(100);
            assert_eq!(intake.took(400 << 10, now), None);
        }
    }
}
