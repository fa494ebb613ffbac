//! The sessions that one WebSocket follows. Each is asked in its turn, one event at a time, so one that has much to say
//! does not keep the others from being heard.

use std::collections::HashMap;
use std::pin::Pin;

use futures_util::future::AbortHandle;
use futures_util::stream::{self, Abortable, SelectAll, Stream, StreamExt};
use protocol::{LineageId, Problem, SessionId};
use session::{Feed, Frame};

/// Something of a session that is followed.
pub(super) enum Told {
    /// Its frames follow.
    Begun(SessionId, Option<LineageId>),
    Frame(Frame),
    /// The server ends.
    Closing,
    Broken(SessionId, Problem),
}

/// Tells one subscription to a session from the next one.
pub(super) type Generation = u64;

type Heard = (SessionId, Generation, Told);

struct Entry {
    generation: Generation,
    /// None before the feed is there.
    abort: Option<AbortHandle>,
}

/// The sessions that one WebSocket follows.
#[derive(Default)]
pub(super) struct Subscriptions {
    entries: HashMap<SessionId, Entry>,
    feeds: SelectAll<Pin<Box<dyn Stream<Item = Heard> + Send>>>,
    last: Generation,
}

impl Subscriptions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, session: SessionId) -> bool {
        self.entries.contains_key(&session)
    }

    /// A place for a feed that is yet to come; one before it ends.
    pub(super) fn reserve(&mut self, session: SessionId) -> Generation {
        self.remove(session);
        self.last += 1;
        self.entries.insert(session, Entry { generation: self.last, abort: None });
        self.last
    }

    /// Gives up a place that no feed came for; whether it was still wanted.
    pub(super) fn give_up(&mut self, session: SessionId, generation: Generation) -> bool {
        self.is_wanted(session, generation) && self.remove(session)
    }

    fn is_wanted(&self, session: SessionId, generation: Generation) -> bool {
        self.entries.get(&session).is_some_and(|entry| entry.generation == generation)
    }

    /// Puts the feed into its place, if it is still wanted.
    pub(super) fn begin(&mut self, session: SessionId, generation: Generation, feed: Feed) {
        let begun = Told::Begun(session, feed.lineage());
        self.follow(session, generation, stream::iter([begun]).chain(told(session, feed)));
    }

    /// For one that cannot be followed: what comes of it is the reason.
    pub(super) fn refuse(&mut self, session: SessionId, problem: Problem) {
        let generation = self.reserve(session);
        self.follow(session, generation, stream::iter([Told::Broken(session, problem)]));
    }

    fn follow(
        &mut self,
        session: SessionId,
        generation: Generation,
        told: impl Stream<Item = Told> + Send + 'static,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&session).filter(|entry| entry.generation == generation)
        else {
            return false;
        };
        let (abort, registration) = AbortHandle::new_pair();
        entry.abort = Some(abort);
        let told = told.map(move |told| (session, generation, told));
        self.feeds.push(Box::pin(Abortable::new(told, registration)));
        true
    }

    /// Ends one; whether there was one.
    pub(super) fn remove(&mut self, session: SessionId) -> bool {
        let Some(entry) = self.entries.remove(&session) else { return false };
        if let Some(abort) = entry.abort {
            abort.abort();
        }
        true
    }

    /// What comes next; None while nothing is followed. Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Told> {
        loop {
            let (session, generation, told) = self.feeds.next().await?;
            if !self.is_wanted(session, generation) {
                continue;
            }
            if let Told::Broken(..) = told {
                self.remove(session);
            }
            return Some(told);
        }
    }
}

/// A feed as a stream. The stream owns the wait for the next frame, so a reader that looks elsewhere meanwhile
/// cannot lose one.
fn told(session: SessionId, feed: Feed) -> impl Stream<Item = Told> {
    stream::unfold(Some(feed), move |feed| async move {
        let mut feed = feed?;
        Some(match feed.next().await {
            Ok(Some(frame)) => (Told::Frame(frame), Some(feed)),
            Ok(None) => (Told::Closing, None),
            Err(problem) => (Told::Broken(session, problem), None),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;

    fn frame(kind: &'static str) -> Told {
        Told::Frame(Frame { seq: None, kind, json: "{}".to_owned().into() })
    }

    fn heard(subscriptions: &mut Subscriptions) -> Option<&'static str> {
        match subscriptions.next().now_or_never()?? {
            Told::Frame(frame) => Some(frame.kind),
            Told::Begun(..) | Told::Closing | Told::Broken(..) => None,
        }
    }

    #[test]
    fn one_that_never_stops_does_not_drown_the_others() {
        let mut subscriptions = Subscriptions::default();
        let noisy = SessionId::from_u128(1);
        let generation = subscriptions.reserve(noisy);
        assert!(subscriptions.follow(noisy, generation, stream::repeat_with(|| frame("noise"))));
        for _ in 0..10 {
            assert_eq!(heard(&mut subscriptions), Some("noise"));
        }
        for quiet in 2..12 {
            let quiet = SessionId::from_u128(quiet);
            let generation = subscriptions.reserve(quiet);
            let words = stream::iter([frame("word"), frame("word")]).chain(stream::pending());
            assert!(subscriptions.follow(quiet, generation, words));
        }
        let heard: Vec<_> = (0..25).filter_map(|_| heard(&mut subscriptions)).collect();
        let words = heard.iter().filter(|kind| **kind == "word").count();
        assert_eq!(words, 20, "each has its turn: {heard:?}");
    }

    #[test]
    fn what_is_not_wanted_any_more_is_let_go() {
        let mut subscriptions = Subscriptions::default();
        let session = SessionId::from_u128(1);
        let held = Arc::new(());
        let first = subscriptions.reserve(session);
        let kept = Arc::clone(&held);
        let endless = stream::repeat_with(move || {
            let _ = &kept;
            frame("old")
        });
        assert!(subscriptions.follow(session, first, endless));
        assert_eq!(heard(&mut subscriptions), Some("old"));
        let second = subscriptions.reserve(session);
        assert!(!subscriptions.give_up(session, first), "that was an earlier one");
        assert!(subscriptions.follow(session, second, stream::repeat_with(|| frame("new"))));
        assert_eq!((heard(&mut subscriptions), heard(&mut subscriptions)), (Some("new"), Some("new")));
        assert_eq!(Arc::strong_count(&held), 1, "the first feed is gone");
        assert!(subscriptions.remove(session) && !subscriptions.remove(session));
        assert_eq!((heard(&mut subscriptions), subscriptions.len()), (None, 0));
    }
}
