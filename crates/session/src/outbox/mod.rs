//! What a session does to the world outside: a branch is pushed, a pull request opened, somebody notified. The intent is
//! in the log before the act and follows from it by a fold, so a server that comes later finds what is pending. It reads
//! the world before it acts again: what is there is not done twice.

mod attempts;
mod body;
mod describe;
mod harmless;
pub(crate) mod links;
mod notifier;
mod outside;
pub(crate) mod pull_request;
mod redact;
mod replier;
mod served;
pub(crate) mod written;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use attempts::Attempts;
pub(crate) use body::check_template;
pub(crate) use describe::{Described, describe};
pub(crate) use harmless::quiet;
pub(crate) use notifier::{Notifier, Sender, give_up, intents};
pub(crate) use outside::Outside;
pub(crate) use redact::{LEFT_OUT, redacted};
pub(crate) use replier::{Replier, Voice, answers};
pub(crate) use served::tell_of_idle_forges;

/// Who is told of what happens, and how long to try.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    /// Where branches become pull requests. A repository that none of them serves gets its branch, and that is all.
    pub forges: forge::Forges,
    /// The same forges by name, with what people and webhooks need of them.
    pub sites: Vec<forge::Site>,
    /// Who is told when a turn finished or waits for a person.
    pub webhook: Option<Arc<forge::Webhook>>,
    /// Tokens and secrets of Slipway itself, with what they are: whoever has one speaks for a person, so none leaves.
    pub own: Vec<(String, forge::Token)>,
    /// For pushing and opening, which the turn waits for.
    pub delivery: Patience,
    /// For notifications and replies, which nobody waits for.
    pub notification: Patience,
}

/// How often to try, and how long to wait in between: twice as long each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Attempts in all.
    pub attempts: u32,
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { attempts: 6, first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}

impl Patience {
    /// For what nobody waits for: about a quarter of an hour.
    pub fn long() -> Self {
        Self { attempts: 11, longest: Duration::from_secs(300), ..Self::default() }
    }

    /// The wait after this many attempts, unless there were enough. The other side may ask for more, within bounds.
    pub(crate) fn wait(&self, made: u32, asked: Option<Duration>) -> Option<Duration> {
        if made >= self.attempts {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << made.saturating_sub(1).min(16));
        Some(doubled.max(asked.unwrap_or_default()).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let patience =
            Patience { attempts: 4, first: Duration::from_secs(1), longest: Duration::from_secs(3) };
        let waits: Vec<_> =
            (1..=5).map(|made| patience.wait(made, None).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(3), None, None]);
        assert_eq!(patience.wait(1, Some(Duration::from_secs(2))), Some(Duration::from_secs(2)));
        assert_eq!(patience.wait(1, Some(Duration::from_secs(3600))), Some(Duration::from_secs(3)));
    }
}
