//! Trying again: a step that fails may have met a network or a server on a bad day.

use std::time::Duration;

use crate::Error;

/// How long to wait after each failure, as multiples of the first wait; the last goes on.
const WAITS: [u32; 3] = [1, 4, 10];

/// How long to wait after so many failures in a row, when the first wait is this long.
pub fn wait_after(failures: u32, first: Duration) -> Duration {
    let number = usize::try_from(failures).unwrap_or(usize::MAX).clamp(1, WAITS.len());
    first.saturating_mul(WAITS[number - 1])
}

/// Does `work`, told how many times it was tried before, until it succeeds or was tried `attempts` times. `failed` is
/// told of every failure, and how long the next attempt is away if there is one.
pub(super) async fn retry<T, F: Future<Output = Result<T, Error>>>(
    attempts: u32,
    pause: Duration,
    mut work: impl FnMut(u32) -> F,
    mut failed: impl FnMut(&Error, Option<Duration>),
) -> Result<T, Error> {
    let mut before = 0;
    loop {
        let error = match work(before).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        before += 1;
        if before >= attempts || !worth_another(&error) {
            failed(&error, None);
            return Err(error);
        }
        let wait = wait_after(before, pause);
        failed(&error, Some(wait));
        tokio::time::sleep(wait).await;
    }
}

/// What this machine does not have, it will not have in ten seconds.
fn worth_another(error: &Error) -> bool {
    !matches!(error, Error::Unsupported { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(1);

    fn failure() -> Error {
        Error::Build { message: "no".to_owned(), hint: "none".to_owned() }
    }

    #[tokio::test]
    async fn what_fails_twice_and_then_works_works() {
        let mut waits = Vec::new();
        let work = |before| async move { if before < 2 { Err(failure()) } else { Ok(before) } };
        let done = retry(3, PAUSE, work, |_, wait| waits.push(wait)).await.unwrap();
        assert_eq!(done, 2);
        assert_eq!(waits, [Some(PAUSE), Some(PAUSE * 4)]);
    }

    #[tokio::test]
    async fn waits_grow_to_a_bound_and_the_last_failure_is_told() {
        let mut waits = Vec::new();
        let error = retry(5, PAUSE, |_| async { Err::<(), _>(failure()) }, |_, wait| waits.push(wait)).await;
        assert!(error.is_err());
        assert_eq!(waits, [Some(PAUSE), Some(PAUSE * 4), Some(PAUSE * 10), Some(PAUSE * 10), None]);
    }

    #[tokio::test]
    async fn what_the_machine_lacks_is_tried_once() {
        let mut tries = 0;
        let work = |_| {
            tries += 1;
            async { Err::<(), _>(Error::Unsupported { message: "no".to_owned(), hint: "none".to_owned() }) }
        };
        assert!(retry(3, PAUSE, work, |_, _| ()).await.is_err());
        assert_eq!(tries, 1);
    }
}
