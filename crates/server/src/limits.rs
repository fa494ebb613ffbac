//! What one user and one connection may use, so that nobody can take the server away from the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::{Code, Problem};
use tokio::time::Instant;

/// Limits that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Streams of events that one user may have open: WebSockets, server-sent events and JSON lines.
    pub sockets_per_user: usize,
    /// Sessions that one WebSocket may follow.
    pub subscriptions_per_socket: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sockets_per_user: 4096, subscriptions_per_socket: 1200 }
    }
}

/// Counts the open streams of each user.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<HashMap<String, usize>>>);

/// An open stream, for as long as this is kept.
pub(crate) struct Seat {
    seats: Seats,
    user: String,
}

impl Seats {
    /// One more stream for this user, or why not.
    pub(crate) fn take(&self, user: &str, limits: &Limits) -> Result<Seat, Problem> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(user.to_owned()).or_default();
        if *count >= limits.sockets_per_user {
            return Err(Problem::new(
                Code::RateLimited,
                format!("{user} has {count} open streams, and that is all a user may have"),
            )
            .hint("close some of them: one WebSocket at /api/v1/socket can follow many sessions"));
        }
        *count += 1;
        Ok(Seat { seats: self.clone(), user: user.to_owned() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

/// Lets through so much a second, and a burst.
#[derive(Debug)]
pub(crate) struct Bucket {
    left: f64,
    burst: f64,
    per_second: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(burst: u32, per_second: u32) -> Self {
        let burst = f64::from(burst);
        Self { left: burst, burst, per_second: f64::from(per_second), filled: Instant::now() }
    }

    /// Takes so much at this time; whether there was as much.
    pub(crate) fn take(&mut self, amount: usize, now: Instant) -> bool {
        let elapsed = now.checked_duration_since(self.filled).unwrap_or(Duration::ZERO);
        self.filled = now;
        self.left = (self.left + elapsed.as_secs_f64() * self.per_second).min(self.burst) - amount as f64;
        self.left >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_seats_and_gets_them_back() {
        let (seats, limits) = (Seats::default(), Limits { sockets_per_user: 2, ..Limits::default() });
        let first = seats.take("ann", &limits).unwrap();
        let _second = seats.take("ann", &limits).unwrap();
        let refused = seats.take("ann", &limits).err().unwrap();
        assert_eq!((refused.code, refused.status), (Code::RateLimited, 429));
        assert!(seats.take("bob", &limits).is_ok(), "others have seats of their own");
        drop(first);
        assert!(seats.take("ann", &limits).is_ok());
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_a_rate() {
        let mut bucket = Bucket::new(10, 5);
        let start = bucket.filled;
        assert!(bucket.take(10, start));
        assert!(!bucket.take(1, start));
        let later = start + Duration::from_secs(1);
        assert!(bucket.take(4, later), "five came in, one was owed");
        assert!(!bucket.take(1, later));
        assert!(bucket.take(10, later + Duration::from_secs(60)));
    }
}
