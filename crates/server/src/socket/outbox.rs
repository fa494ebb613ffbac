//! What waits to be sent. Messages are handed over as fast as the client takes them and flushed once for many, while
//! what the client sends is read; nothing in here waits, so a slow client holds up nobody.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::{SinkExt, StreamExt};
use tokio::time::Instant;

/// Events are taken from the feeds only while less than this waits: what a client does not take stays in the log.
const ROOM: usize = 64 * 1024;

/// What the connection did.
pub(super) enum Io {
    /// Something came; None at its end.
    Received(Option<Result<Message, axum::Error>>),
    /// Everything that waited was sent.
    Sent,
    /// It is broken.
    Broken,
}

/// Messages that wait to be sent.
pub(super) struct Outbox {
    /// With whether it is one that the client's own doing brings about.
    queue: VecDeque<(Message, bool)>,
    bytes: usize,
    /// Bytes of those.
    owed: usize,
    busy: bool,
    /// When the client last took something, or had nothing to take.
    moved: Instant,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), bytes: 0, owed: 0, busy: false, moved: Instant::now() }
    }

    /// Whether there is room for more events.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < ROOM
    }

    /// Bytes that wait of what the client's own doing brings about: it can ask for more than it takes.
    pub(super) fn owed(&self) -> usize {
        self.owed
    }

    /// Since when the client has not taken anything, if something waits for it.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        self.busy.then_some(self.moved)
    }

    pub(super) fn push(&mut self, message: Message) {
        self.owed += size(&message);
        self.add(message, true);
    }

    /// An event. However long it is, it is in the log, and whoever follows has to get it: those that come after it wait there.
    pub(super) fn push_event(&mut self, text: Utf8Bytes) {
        self.add(Message::Text(text), false);
    }

    fn add(&mut self, message: Message, is_owed: bool) {
        if !self.busy {
            self.busy = true;
            self.moved = Instant::now();
        }
        self.bytes += size(&message);
        self.queue.push_back((message, is_owed));
    }

    /// JSON text.
    pub(super) fn push_json(&mut self, value: &impl serde::Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.push(Message::Text(Utf8Bytes::from(text))),
            // Our own types have string keys and no failing serializers.
            Err(error) => tracing::error!(%error, "a message could not be written as JSON"),
        }
    }

    /// Sends and receives until one of both has come to something. Nothing is lost when the future is dropped.
    pub(super) async fn io(&mut self, socket: &mut WebSocket) -> Io {
        poll_fn(|context| {
            if self.busy {
                match self.poll_send(socket, context) {
                    Poll::Ready(Ok(())) => return Poll::Ready(Io::Sent),
                    Poll::Ready(Err(error)) => {
                        tracing::debug!(%error, "a WebSocket broke");
                        return Poll::Ready(Io::Broken);
                    }
                    Poll::Pending => {}
                }
            }
            socket.poll_next_unpin(context).map(Io::Received)
        })
        .await
    }

    fn poll_send(
        &mut self,
        socket: &mut WebSocket,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), axum::Error>> {
        while !self.queue.is_empty() {
            ready!(socket.poll_ready_unpin(context))?;
            let Some((message, is_owed)) = self.queue.pop_front() else { break };
            self.bytes -= size(&message);
            self.owed -= if is_owed { size(&message) } else { 0 };
            self.moved = Instant::now();
            socket.start_send_unpin(message)?;
        }
        ready!(socket.poll_flush_unpin(context))?;
        self.busy = false;
        self.queue = VecDeque::new();
        Poll::Ready(Ok(()))
    }
}

fn size(message: &Message) -> usize {
    /// What a message costs beside its bytes.
    const OVERHEAD: usize = 48;
    OVERHEAD
        + match message {
            Message::Text(text) => text.len(),
            Message::Binary(data) | Message::Ping(data) | Message::Pong(data) => data.len(),
            Message::Close(_) => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_event_waits_like_any_other_and_only_answers_are_owed() {
        let mut outbox = Outbox::new();
        outbox.push_event("x".repeat(super::super::MAX_WAITING + 1).into());
        assert_eq!((outbox.owed(), outbox.has_room()), (0, false));
        outbox.push(Message::Text("answer".into()));
        assert!(outbox.owed() > 0 && outbox.owed() < 100);
    }
}
