//! How often a failed call is worth repeating, and after which wait. Only the caller repeats a call, so that every
//! retry is seen.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::error::{Class, Error};

const CAP: Duration = Duration::from_secs(30);

/// The longest wait that is worth it. Who is asked to wait longer is told so, and another model may take over.
const LONGEST: Duration = Duration::from_secs(300);

/// The longest wait that there is, with what comes on top by chance.
pub const LONGEST_WAIT: Duration = Duration::from_secs(375);

/// The most attempts of one call, whatever the kinds of its failures.
const MOST_ATTEMPTS: u32 = 8;

/// How long to wait before a failed call is made again; `None` when it should not be. `attempt` counts from 1 (the call
/// that failed). What the server asked for is the least, and never cut short. From the second wait on our own back-off is
/// the least too: a server that asks for a moment again and again has more trouble than it knows. A wait of nothing is none.
pub fn retry_delay(error: &Error, attempt: u32) -> Option<Duration> {
    if attempt >= attempts(error.class) || !error.class.may_pass() || error.hopeless {
        return None;
    }
    let doubled = |first: u64| Duration::from_secs(first << attempt.saturating_sub(1).min(8)).min(CAP);
    let delay = match error.class {
        Class::Unreachable | Class::BadResponse => doubled(1),
        _ => doubled(2),
    };
    let delay = match error.retry_after {
        Some(asked) if asked > LONGEST => return None,
        Some(asked) if attempt == 1 && !asked.is_zero() => asked,
        Some(asked) => asked.max(delay),
        None => delay,
    };
    Some(delay + jitter(delay))
}

/// How often one call has failed so far. Kinds of failure are counted apart: in an incident a busy server breaks answers off
/// too, and what it was waited for does not say that it breaks them off for good.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failures {
    /// By the most attempts that a kind of failure is worth, which is how a log tells kinds apart.
    by_attempts: BTreeMap<u32, u32>,
}

/// A call that is worth making again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// How long to wait before.
    pub delay: Duration,
    /// Which attempt it will be, for this kind of failure.
    pub attempt: u32,
    /// The most attempts for this kind of failure.
    pub attempts: u32,
}

impl Failures {
    /// Whether and when the call should be made again after this failure, which is not counted yet.
    pub fn again(&self, error: &Error) -> Option<Again> {
        let attempts = attempts(error.class);
        let failed = self.by_attempts.get(&attempts).copied().unwrap_or(0) + 1;
        let delay = retry_delay(error, failed).filter(|_| self.all() + 1 < MOST_ATTEMPTS)?;
        Some(Again { delay, attempt: failed + 1, attempts })
    }

    /// Counts a failure after which the call is made again.
    pub fn count(&mut self, attempt: u32, attempts: u32) {
        self.by_attempts.insert(attempts, attempt.saturating_sub(1));
    }

    fn all(&self) -> u32 {
        self.by_attempts.values().fold(0, |all, failed| all.saturating_add(*failed))
    }
}

/// The most attempts for this kind of failure, for "2 of 5".
pub fn attempts(class: Class) -> u32 {
    match class {
        Class::Overloaded | Class::RateLimited => 6,
        Class::Unreachable => 4,
        Class::TimedOut | Class::BadResponse => 3,
        Class::Auth
        | Class::Unpaid
        | Class::UnknownModel
        | Class::Unsupported
        | Class::ContextOverflow
        | Class::BadRequest => 1,
    }
}

/// Up to a quarter more, so that sessions which failed together do not come back together. The standard library seeds
/// each `RandomState` anew, which is random enough for this.
fn jitter(delay: Duration) -> Duration {
    let quarter = u64::try_from(delay.as_millis() / 4).unwrap_or(u64::MAX - 1);
    Duration::from_millis(RandomState::new().hash_one(quarter) % (quarter + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(class: Class, retry_after: Option<Duration>) -> Vec<Duration> {
        let error = Error { retry_after, ..Error::new(class, "") };
        (1..10).map_while(|attempt| retry_delay(&error, attempt)).collect()
    }

    #[test]
    fn each_class_has_its_number_of_attempts() {
        for class in
            [Class::Unreachable, Class::TimedOut, Class::Overloaded, Class::RateLimited, Class::BadResponse]
        {
            assert_eq!(delays(class, None).len() as u32, attempts(class) - 1, "{class:?}");
        }
        for class in [
            Class::Auth,
            Class::Unpaid,
            Class::UnknownModel,
            Class::Unsupported,
            Class::ContextOverflow,
            Class::BadRequest,
        ] {
            assert_eq!(delays(class, Some(Duration::from_secs(1))), vec![], "{class:?}");
        }
    }

    #[test]
    fn delays_double_up_to_the_cap_with_little_jitter() {
        let within = |class, seconds: &[u64]| {
            for (delay, least) in delays(class, None).into_iter().zip(seconds) {
                let least = Duration::from_secs(*least);
                assert!(least <= delay && delay <= least + least / 4, "{class:?}: {delay:?}, not {least:?}");
            }
        };
        within(Class::RateLimited, &[2, 4, 8, 16, 30]);
        within(Class::Unreachable, &[1, 2, 4]);
        within(Class::BadResponse, &[1, 2]);
    }

    #[test]
    fn kinds_of_failure_are_counted_apart_and_all_of_them_have_an_end() {
        let mut failures = Failures::default();
        let mut fail = |class| {
            let again = failures.again(&Error::new(class, ""))?;
            failures.count(again.attempt, again.attempts);
            let delay = again.delay.as_secs();
            Some((again.attempt, again.attempts, delay))
        };
        for _ in 0..2 {
            assert!(fail(Class::RateLimited).is_some());
        }
        assert_eq!(fail(Class::BadResponse).map(|(attempt, attempts, _)| (attempt, attempts)), Some((2, 3)));
        assert_eq!(fail(Class::Unreachable), Some((2, 4, 1)), "its own first wait");
        let busy = fail(Class::Overloaded).unwrap();
        assert_eq!((busy.0, busy.1), (4, 6), "being busy has two names");
        assert!((8..=10).contains(&busy.2), "{busy:?}");
        assert!(fail(Class::TimedOut).is_some());
        assert_eq!(fail(Class::BadResponse), None, "three answers were broken or did not come");
        assert!(fail(Class::Unreachable).is_some());
        assert_eq!(fail(Class::RateLimited), None, "eight attempts are enough");
        assert_eq!(fail(Class::Auth), None);
    }

    #[test]
    fn what_the_server_asks_for_is_the_least() {
        let asked = |seconds| delays(Class::RateLimited, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(20).len(), 5);
        for delay in &asked(20)[..4] {
            assert!((Duration::from_secs(20)..=Duration::from_secs(25)).contains(delay), "{delay:?}");
        }
        assert_eq!(asked(86_400), vec![], "nobody waits for a day");
    }
    #[test]
    fn a_short_wait_that_is_asked_for_does_not_turn_the_back_off_off() {
        for (asked, first) in [(0, 2000), (1, 1), (50, 50), (1500, 1500)] {
            let waits = delays(Class::RateLimited, Some(Duration::from_millis(asked)));
            for (delay, least) in waits.iter().zip([first, 4000, 8000, 16_000, 30_000]) {
                let least = Duration::from_millis(least);
                assert!(least <= *delay && *delay <= least + least / 4, "{asked}: {delay:?}, not {least:?}");
            }
        }
    }
}
