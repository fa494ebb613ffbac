//! What is known of a session now, and how readers are told of it: a ring of durable frames and a ring of fleeting
//! ones. Nobody waits for a reader. One that falls behind in the fleeting frames is given the texts in flight anew; one
//! that falls behind in the durable frames goes back to the log.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::event::Channel;
use protocol::{EphemeralBody, Event, EventBody, ItemId, Problem, SessionId};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Frame;
use super::in_flight::InFlight;
use super::ring::Ring;
use crate::presence::People;
use crate::state::State;
use crate::terminal::Terminals;

/// Durable frames that a reader may be behind before it is sent back to the log.
pub(super) const DURABLE: usize = 256;
/// Fleeting frames that a reader may be behind before it is given the texts in flight anew.
pub(super) const FLEETING: usize = 128;
/// Bytes of either kind that are held for readers that are behind.
const BYTES: usize = 512 * 1024;
/// Frames that a reader takes at once.
const BATCH: usize = 32;

struct Live {
    state: State,
    in_flight: Vec<InFlight>,
    /// The number of the last frame of either kind.
    order: u64,
    durable: Ring,
    fleeting: Ring,
    /// How many follow.
    readers: usize,
    people: People,
    /// Why nothing can be recorded now, when that is so.
    trouble: Option<Problem>,
}

/// How far a reader at the rings has come.
pub(super) struct Seen {
    order: u64,
}

/// What a reader finds.
pub(super) enum Found {
    /// Nothing that it does not have.
    Nothing,
    /// More.
    More,
    /// It has to go back to the log.
    Behind,
    /// Nothing, and nothing will come, for this reason.
    Trouble(Problem),
}

/// What is known of a session now, and how readers are told of it.
pub(crate) struct Stream {
    session: SessionId,
    live: Mutex<Live>,
    /// Rings when there is something new.
    bell: Notify,
    /// Rings when the session may use more or less.
    budget_bell: Notify,
    pub(crate) terminals: Terminals,
}

impl Stream {
    /// For a session whose log was folded into `state`.
    pub(crate) fn new(session: SessionId, state: State) -> Arc<Self> {
        let live = Live {
            state,
            in_flight: Vec::new(),
            order: 0,
            durable: Ring::new(DURABLE, BYTES),
            fleeting: Ring::new(FLEETING, BYTES),
            readers: 0,
            people: People::default(),
            trouble: None,
        };
        Arc::new(Self {
            session,
            live: Mutex::new(live),
            bell: Notify::new(),
            budget_bell: Notify::new(),
            terminals: Terminals::default(),
        })
    }

    /// Tells readers that nothing can be recorded, or that it can again. There is no event for it: nothing that is not
    /// in the log is an event.
    pub(crate) fn set_trouble(&self, trouble: Option<Problem>) {
        self.lock().trouble = trouble;
        self.bell.notify_waiters();
    }

    /// Why nothing can be recorded.
    pub(crate) fn trouble(&self) -> Option<Problem> {
        self.lock().trouble.clone()
    }

    /// The session.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the folded state.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    /// Ready when something came after this call.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.bell.notified()
    }

    /// Ready when the session may use more or less, since this call.
    pub(crate) fn budget_news(&self) -> Notified<'_> {
        self.budget_bell.notified()
    }

    /// Folds and sends events that are in the log. Only the recorder calls this.
    pub(crate) fn publish(&self, events: &[Event]) {
        // Most sessions are read by nobody most of the time.
        let watched = self.lock().readers > 0;
        let mut frames: VecDeque<Frame> =
            if watched { events.iter().map(Frame::durable).collect() } else { VecDeque::new() };
        let mut live = self.lock();
        for event in events {
            live.state.apply(event);
            match &event.body {
                EventBody::ItemCompleted { item, .. } => live.in_flight.retain(|text| text.item != item.id),
                EventBody::TurnFinished { .. } => live.in_flight = Vec::new(),
                _ => {}
            }
            let frame = frames.pop_front();
            if live.readers > 0 {
                live.push_durable(frame.unwrap_or_else(|| Frame::durable(event)));
            }
        }
        drop(live);
        self.bell.notify_waiters();
        if events.iter().any(|event| matches!(event.body, EventBody::BudgetChanged { .. })) {
            self.budget_bell.notify_waiters();
        }
    }

    /// Sends more of an item's text.
    pub(crate) fn delta(&self, item: ItemId, channel: Channel, offset: u64, text: String) {
        let mut live = self.lock();
        match live.in_flight.iter_mut().find(|text| text.item == item && text.channel == channel) {
            Some(known) => known.push(offset, &text),
            None => {
                let mut new = InFlight::new(item, channel, offset);
                new.push(offset, &text);
                live.in_flight.push(new);
            }
        }
        if live.readers > 0 {
            let body = EphemeralBody::Delta { item, channel, offset, text };
            live.push_fleeting(Frame::ephemeral(self.session, body));
        }
        drop(live);
        self.bell.notify_waiters();
    }

    /// Changes who is there, and tells all if that made a difference.
    pub(crate) fn change_people(&self, change: impl FnOnce(&mut People) -> bool) {
        let mut live = self.lock();
        if change(&mut live.people) && live.readers > 0 {
            let body = live.people.presence();
            live.push_fleeting(Frame::ephemeral(self.session, body));
            drop(live);
            self.bell.notify_waiters();
        }
    }

    /// Tells all that somebody writes, unless they were told a moment ago.
    pub(crate) fn typing(&self, person: &str) {
        let mut live = self.lock();
        if live.people.types(person) && live.readers > 0 {
            let body = EphemeralBody::Typing { person: person.to_owned() };
            live.push_fleeting(Frame::ephemeral(self.session, body));
            drop(live);
            self.bell.notify_waiters();
        }
    }

    /// Joins the readers if this one has every event that was published; what is in flight is as it is at that very
    /// moment, so that nothing is missed and nothing comes twice.
    pub(super) fn join(&self, sent: u64) -> Option<(Seen, Vec<Frame>)> {
        let mut live = self.lock();
        if live.state.seq() > sent {
            return None;
        }
        live.readers += 1;
        Some((Seen { order: live.order }, live.now(self.session)))
    }

    /// A reader goes, or goes back to the log.
    pub(super) fn leave(&self, seen: &Seen) {
        let mut live = self.lock();
        live.readers = live.readers.saturating_sub(1);
        live.durable.skip_after(seen.order);
        live.fleeting.skip_after(seen.order);
        live.durable.tidy();
        live.fleeting.tidy();
    }

    /// Gives a reader what it does not have yet, in order.
    pub(super) fn take(&self, seen: &mut Seen, into: &mut VecDeque<Frame>) -> Found {
        let mut live = self.lock();
        if live.durable.missed(seen.order) {
            return Found::Behind;
        }
        if seen.order == live.order {
            return live.trouble.clone().map_or(Found::Nothing, Found::Trouble);
        }
        if live.fleeting.missed(seen.order) {
            live.take_all_durable(seen.order, into);
            into.extend(live.now(self.session));
            live.fleeting.skip_after(seen.order);
            seen.order = live.order;
        } else {
            seen.order = live.take_some(seen.order, into);
        }
        live.durable.tidy();
        live.fleeting.tidy();
        Found::More
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        let live = self.lock();
        (live.durable.len(), live.fleeting.len())
    }
}

impl Live {
    fn push_durable(&mut self, frame: Frame) {
        self.order += 1;
        self.durable.push(self.order, self.readers, frame);
    }

    fn push_fleeting(&mut self, frame: Frame) {
        self.order += 1;
        self.fleeting.push(self.order, self.readers, frame);
    }

    /// What a reader cannot read in the log: who is there, and the texts in flight.
    fn now(&self, session: SessionId) -> Vec<Frame> {
        let people = self.people.anybody().then(|| self.people.presence());
        let texts = self.in_flight.iter().map(InFlight::delta);
        people.into_iter().chain(texts).map(|body| Frame::ephemeral(session, body)).collect()
    }

    fn take_all_durable(&mut self, seen: u64, into: &mut VecDeque<Frame>) {
        let mut place = self.durable.place_after(seen);
        while let Some(frame) = self.durable.take(place) {
            into.push_back(frame);
            place += 1;
        }
    }

    /// Takes frames of both kinds in the order they were sent; gives the order of the last.
    fn take_some(&mut self, mut seen: u64, into: &mut VecDeque<Frame>) -> u64 {
        let (mut durable, mut fleeting) = (self.durable.place_after(seen), self.fleeting.place_after(seen));
        for _ in 0..BATCH {
            let (next, frame) = match (self.durable.order(durable), self.fleeting.order(fleeting)) {
                (Some(one), other) if other.is_none_or(|other| one < other) => {
                    durable += 1;
                    (one, self.durable.take(durable - 1))
                }
                (_, Some(other)) => {
                    fleeting += 1;
                    (other, self.fleeting.take(fleeting - 1))
                }
                (_, None) => return self.order,
            };
            seen = next;
            into.extend(frame);
        }
        seen
    }
}
