//! The feed: the log, and then what happens now, in one step. A reader has a place and takes frames at its own pace; one
//! that is slow goes back to the log and never slows the actor or another reader.

mod frame;
mod in_flight;
mod ring;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{EphemeralBody, Problem};
use tokio_util::sync::CancellationToken;

pub use self::frame::{Frame, Text};
pub(crate) use self::stream::Stream;
use self::stream::{Found, Seen};
use crate::presence::Presence;
use crate::problem;
use crate::recorder::Recorder;

/// Events of one page of the replay.
const PAGE: usize = 200;

/// A reader's place in a session's stream.
pub struct Feed {
    recorder: Arc<Recorder>,
    closed: CancellationToken,
    sent: u64,
    /// Where it is among what happens now; None while it reads the log.
    live: Option<Seen>,
    announced: bool,
    pending: VecDeque<Frame>,
    /// The reader is there for others to see.
    _presence: Option<Presence>,
}

impl Feed {
    pub(crate) fn new(
        recorder: Arc<Recorder>,
        after: u64,
        person: Option<String>,
        closed: CancellationToken,
    ) -> Self {
        let presence = person.map(|person| Presence::new(recorder.stream(), person));
        Self {
            recorder,
            closed,
            sent: after,
            live: None,
            announced: false,
            pending: VecDeque::new(),
            _presence: presence,
        }
    }

    /// The next frame; None when the server shuts down. A `live` frame comes once, after the replay, then who is there,
    /// and then the texts in flight so far. A delta stands for whatever the reader has of that text from its offset on:
    /// a reader that missed some is given the text anew. A problem ends the stream: the log cannot be read, or nothing
    /// can be recorded.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Frame>, Problem> {
        let stream = Arc::clone(self.recorder.stream());
        loop {
            if let Some(frame) = self.next_pending() {
                return Ok(Some(frame));
            }
            // Made before the look, so that nothing can come between the two unnoticed.
            let news = stream.news();
            let found = match &mut self.live {
                None => {
                    self.replay().await?;
                    continue;
                }
                Some(seen) => stream.take(seen, &mut self.pending),
            };
            match found {
                Found::More => {}
                Found::Behind => self.go_back(),
                Found::Trouble(problem) => return Err(problem),
                Found::Nothing => {
                    tokio::select! {
                        biased;
                        () = news => {}
                        () = self.closed.cancelled() => return Ok(None),
                    }
                }
            }
        }
    }

    /// What was taken already and is new to the reader.
    fn next_pending(&mut self) -> Option<Frame> {
        while let Some(frame) = self.pending.pop_front() {
            match frame.seq {
                // A reader that asked for what was not there yet has it from elsewhere.
                Some(seq) if self.live.is_some() && seq <= self.sent => {}
                Some(seq) => {
                    self.sent = seq;
                    return Some(frame);
                }
                None => return Some(frame),
            }
        }
        if self.pending.capacity() > 0 {
            self.pending = VecDeque::new();
        }
        None
    }

    fn go_back(&mut self) {
        if let Some(seen) = self.live.take() {
            self.recorder.stream().leave(&seen);
        }
    }

    async fn replay(&mut self) -> Result<(), Problem> {
        let page = self.recorder.read(self.sent, PAGE).await.map_err(problem::store)?;
        if !page.is_empty() {
            self.pending.extend(page.iter().map(Frame::durable));
            return Ok(());
        }
        // A reader that asks for what is not there yet waits for it among the live ones: `join` succeeds at once.
        if let Some((seen, now)) = self.recorder.stream().join(self.sent) {
            self.live = Some(seen);
            if !self.announced {
                self.announced = true;
                let body = EphemeralBody::Live { seq: self.sent };
                self.pending.push_back(Frame::ephemeral(self.recorder.session(), body));
            }
            self.pending.extend(now);
        }
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.go_back();
    }
}

#[cfg(test)]
mod tests;
