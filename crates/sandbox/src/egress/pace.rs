//! How fast a sandbox may come to different hosts. What is let through is told with its host always, so there must be an
//! end to how much that is: whoever wants more waits.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::rules::Host;

/// Different hosts and ports that are let through within [`WINDOW`].
const DIFFERENT: usize = 128;

const WINDOW: Duration = Duration::from_secs(1);

/// The pace of one sandbox.
#[derive(Default)]
pub(super) struct Pace {
    window: Mutex<Option<Window>>,
}

struct Window {
    ends: Instant,
    seen: HashSet<(Host, u16)>,
}

impl Pace {
    /// Returns when it is this host's turn, which is at once unless there were very many different ones just now.
    pub(super) async fn turn(&self, host: &Host, port: u16) {
        while let Some(later) = self.try_turn(host, port) {
            tokio::time::sleep_until(later).await;
        }
    }

    /// When to try again; None if it is its turn.
    fn try_turn(&self, host: &Host, port: u16) -> Option<Instant> {
        let now = Instant::now();
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.as_ref().is_some_and(|window| window.ends <= now) {
            *window = None;
        }
        let window = window.get_or_insert_with(|| Window { ends: now + WINDOW, seen: HashSet::new() });
        let key = (host.clone(), port);
        if window.seen.len() >= DIFFERENT && !window.seen.contains(&key) {
            return Some(window.ends);
        }
        window.seen.insert(key);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn very_many_different_hosts_wait_and_the_same_ones_do_not() {
        let pace = Pace::default();
        let host = |n: usize| Host::Name(format!("{n}.test"));
        let begin = Instant::now();
        for n in 0..DIFFERENT {
            pace.turn(&host(n), 443).await;
        }
        for n in 0..DIFFERENT {
            pace.turn(&host(n), 443).await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for n in DIFFERENT..DIFFERENT * 4 {
            pace.turn(&host(n), 443).await;
        }
        assert!(begin.elapsed() >= WINDOW * 3, "{:?}", begin.elapsed());
    }
}
