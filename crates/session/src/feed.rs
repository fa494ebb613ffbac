//! The feed: the log, and then what happens now, in one step. Live frames are made once for all readers and go through
//! a broadcast ring, so a slow reader loses its place in the ring and goes back to the log; it never slows the actor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::event::Channel;
use protocol::{Ephemeral, EphemeralBody, Event, EventBody, ItemId, Problem, SessionId};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::problem;
use crate::recorder::Recorder;
use crate::state::State;

/// Live frames that a reader may be behind before it is sent back to the log.
const RING: usize = 256;
/// Events of one page of the replay.
const PAGE: usize = 200;
/// How much of an item's text a late reader is given.
const IN_FLIGHT: usize = 64 * 1024;

/// One thing to send to a reader.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The durable event's number; None for ephemeral ones.
    pub seq: Option<u64>,
    /// Type name, for SSE.
    pub kind: &'static str,
    /// The JSON text, made once for all readers.
    pub json: Arc<str>,
}

impl Frame {
    fn durable(event: &Event) -> Self {
        Self { seq: Some(event.seq), kind: event.body.name(), json: json(event) }
    }

    fn ephemeral(session: SessionId, body: EphemeralBody) -> Self {
        let kind = match &body {
            EphemeralBody::Delta { .. } => "delta",
            EphemeralBody::Live { .. } => "live",
            EphemeralBody::Presence { .. } => "presence",
            EphemeralBody::Typing { .. } => "typing",
            EphemeralBody::Ping {} => "ping",
        };
        Self { seq: None, kind, json: json(&Ephemeral::new(session, body)) }
    }
}

fn json(value: &impl serde::Serialize) -> Arc<str> {
    match serde_json::to_string(value) {
        Ok(text) => text.into(),
        // Our own types have string keys and no failing serializers, so this does not happen; a reader that gets
        // an empty object is better off than a server that ends.
        Err(error) => {
            tracing::error!(%error, "a frame could not be written as JSON");
            "{}".into()
        }
    }
}

/// The text of an item that is not completed yet, for readers that come late.
struct InFlight {
    item: ItemId,
    channel: Channel,
    offset: u64,
    text: String,
}

impl InFlight {
    fn push(&mut self, offset: u64, text: &str) {
        // A hole (output that was left out) or a new start (a model call made again) begins the kept text anew.
        if offset != self.offset + self.text.len() as u64 {
            self.text.clear();
            self.offset = offset;
        }
        self.text.push_str(text);
        if self.text.len() > IN_FLIGHT {
            let mut cut = self.text.len() - IN_FLIGHT;
            while !self.text.is_char_boundary(cut) {
                cut += 1;
            }
            self.text.drain(..cut);
            self.offset += cut as u64;
        }
    }
}

struct Live {
    state: State,
    in_flight: Vec<InFlight>,
    frames: broadcast::Sender<Frame>,
}

/// What is known of a session now, and the ring that tells readers of it.
pub(crate) struct Stream {
    session: SessionId,
    live: Mutex<Live>,
    /// Why nothing can be recorded now, when that is so.
    trouble: watch::Sender<Option<Problem>>,
}

impl Stream {
    /// For a session whose log was folded into `state`.
    pub(crate) fn new(session: SessionId, state: State) -> Arc<Self> {
        let (frames, _) = broadcast::channel(RING);
        let live = Mutex::new(Live { state, in_flight: Vec::new(), frames });
        Arc::new(Self { session, live, trouble: watch::Sender::new(None) })
    }

    /// Tells readers that nothing can be recorded, or that it can again. There is no event for it: nothing that is not
    /// in the log is an event.
    pub(crate) fn set_trouble(&self, trouble: Option<Problem>) {
        self.trouble.send_replace(trouble);
    }

    /// Why nothing can be recorded.
    pub(crate) fn trouble(&self) -> Option<Problem> {
        self.trouble.borrow().clone()
    }

    async fn troubled(&self) -> Problem {
        let mut trouble = self.trouble.subscribe();
        loop {
            if let Some(problem) = trouble.borrow_and_update().clone() {
                return problem;
            }
            if trouble.changed().await.is_err() {
                // The sender is part of `self`, so this does not happen.
                std::future::pending::<()>().await;
            }
        }
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

    /// Folds and sends events that are in the log. Only the recorder calls this.
    pub(crate) fn publish(&self, events: &[Event]) {
        let frames: Vec<Frame> = events.iter().map(Frame::durable).collect();
        let mut live = self.lock();
        for (event, frame) in events.iter().zip(frames) {
            live.state.apply(event);
            match &event.body {
                EventBody::ItemCompleted { item, .. } => live.in_flight.retain(|text| text.item != item.id),
                EventBody::TurnFinished { .. } => live.in_flight.clear(),
                _ => {}
            }
            // An error says only that nobody follows.
            drop(live.frames.send(frame));
        }
    }

    /// Sends more of an item's text.
    pub(crate) fn delta(&self, item: ItemId, channel: Channel, offset: u64, text: String) {
        let mut live = self.lock();
        match live.in_flight.iter_mut().find(|text| text.item == item && text.channel == channel) {
            Some(known) => known.push(offset, &text),
            None => {
                let mut new = InFlight { item, channel, offset, text: String::new() };
                new.push(offset, &text);
                live.in_flight.push(new);
            }
        }
        if live.frames.receiver_count() > 0 {
            let body = EphemeralBody::Delta { item, channel, offset, text };
            drop(live.frames.send(Frame::ephemeral(self.session, body)));
        }
    }

    /// Joins the ring if the reader has every event that was published; the texts in flight are those at that very
    /// moment, so that nothing is missed and nothing comes twice.
    fn join(&self, seen: u64) -> Option<(broadcast::Receiver<Frame>, Vec<Frame>)> {
        let live = self.lock();
        if live.state.seq() > seen {
            return None;
        }
        let texts = live.in_flight.iter().map(|text| {
            let InFlight { item, channel, offset, text } = text;
            let body =
                EphemeralBody::Delta { item: *item, channel: *channel, offset: *offset, text: text.clone() };
            Frame::ephemeral(self.session, body)
        });
        Some((live.frames.subscribe(), texts.collect()))
    }
}

/// Where a reader is.
enum Place {
    /// In the log.
    Replay,
    /// At the ring.
    Live(broadcast::Receiver<Frame>),
}

/// A reader's place in a session's stream.
pub struct Feed {
    recorder: Arc<Recorder>,
    closed: CancellationToken,
    sent: u64,
    place: Place,
    announced: bool,
    pending: std::collections::VecDeque<Frame>,
}

impl Feed {
    pub(crate) fn new(recorder: Arc<Recorder>, after: u64, closed: CancellationToken) -> Self {
        let pending = std::collections::VecDeque::new();
        Self { recorder, closed, sent: after, place: Place::Replay, announced: false, pending }
    }

    /// The next frame; None when the server shuts down. A `live` frame comes once, after the replay, and then the
    /// texts in flight so far. A problem ends the stream: the log cannot be read, or nothing can be recorded.
    pub async fn next(&mut self) -> Result<Option<Frame>, Problem> {
        loop {
            if let Some(frame) = self.pending.pop_front() {
                return Ok(Some(frame));
            }
            match &mut self.place {
                Place::Replay => self.replay().await?,
                Place::Live(ring) => {
                    let received = tokio::select! {
                        biased;
                        received = ring.recv() => received,
                        () = self.closed.cancelled() => return Ok(None),
                        problem = self.recorder.stream().troubled() => return Err(problem),
                    };
                    match received {
                        Ok(frame) => match frame.seq {
                            Some(seq) if seq <= self.sent => {}
                            Some(seq) => {
                                self.sent = seq;
                                return Ok(Some(frame));
                            }
                            None => return Ok(Some(frame)),
                        },
                        Err(broadcast::error::RecvError::Lagged(_)) => self.place = Place::Replay,
                        Err(broadcast::error::RecvError::Closed) => return Ok(None),
                    }
                }
            }
        }
    }

    async fn replay(&mut self) -> Result<(), Problem> {
        let page = self.recorder.read(self.sent, PAGE).await.map_err(problem::store)?;
        if let Some(last) = page.last() {
            self.sent = last.seq;
            self.pending.extend(page.iter().map(Frame::durable));
            return Ok(());
        }
        // A reader that asks for what is not there yet waits for it at the ring: `join` succeeds at once.
        if let Some((ring, texts)) = self.recorder.stream().join(self.sent) {
            self.place = Place::Live(ring);
            // After a lag the reader has the texts, with a hole that the offsets show.
            if !self.announced {
                self.announced = true;
                let body = EphemeralBody::Live { seq: self.sent };
                self.pending.push_back(Frame::ephemeral(self.recorder.session(), body));
                self.pending.extend(texts);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
