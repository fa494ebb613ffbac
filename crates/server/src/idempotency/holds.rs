//! One at a time for each key: whoever sends a command that is being worked on waits for its answer, and not for ever.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

/// How long the second waits for the first.
const PATIENCE: Duration = Duration::from_secs(30);

type Lock = Arc<tokio::sync::Mutex<()>>;

/// The keys that somebody works on or waits for, with how many that are.
#[derive(Clone)]
pub(crate) struct Holds {
    keys: Arc<Mutex<HashMap<String, (Lock, usize)>>>,
    patience: Duration,
}

/// Nobody else works on the key as long as this is.
pub(super) struct Hold {
    _lock: OwnedMutexGuard<()>,
    _place: Place,
}

/// One who works on a key or waits for it.
struct Place {
    holds: Holds,
    key: String,
}

impl Default for Holds {
    fn default() -> Self {
        Self::new(PATIENCE)
    }
}

impl Holds {
    /// With another patience.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { keys: Arc::default(), patience }
    }

    /// Waits until nobody else works on the key; None when that takes too long.
    pub(super) async fn take(&self, key: &str) -> Option<Hold> {
        let lock = {
            let mut keys = self.lock();
            let (lock, count) = keys.entry(key.to_owned()).or_default();
            *count += 1;
            Arc::clone(lock)
        };
        let place = Place { holds: self.clone(), key: key.to_owned() };
        let lock = tokio::time::timeout(self.patience, lock.lock_owned()).await.ok()?;
        Some(Hold { _lock: lock, _place: place })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Lock, usize)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut keys = self.holds.lock();
        if let Some((_, count)) = keys.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_held_by_one_and_nothing_is_left_of_it() {
        let holds = Holds::default();
        let first = holds.take("a").await.unwrap();
        assert!(holds.take("b").await.is_some(), "another key is another matter");
        let mut second = Box::pin(holds.take("a"));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        let second = second.await.unwrap();
        let begun = tokio::time::Instant::now();
        assert!(holds.take("a").await.is_none(), "patience has an end");
        assert_eq!(begun.elapsed().as_secs(), PATIENCE.as_secs());
        assert_eq!(holds.lock().len(), 1);
        drop(second);
        assert_eq!(holds.lock().len(), 0);
    }
}
