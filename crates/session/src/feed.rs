//! The feed: the log, and then what happens now, in one step. A reader has a place and takes frames at its own pace; one
//! that is slow goes back to the log and never slows the actor or another reader.

mod frame;
mod in_flight;
mod remains;
mod ring;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::{EphemeralBody, LineageId, Problem, SessionId};
use store::Store;
use tokio_util::sync::CancellationToken;

pub use self::frame::{Frame, Text};
use self::remains::Remains;
pub(crate) use self::stream::Stream;
use self::stream::{Found, Seen};
use crate::presence::Presence;
use crate::problem;
use crate::recorder::Recorder;

/// Events of one page of the replay.
const PAGE: usize = 200;

/// Where the events come from.
enum Source {
    /// A session that can be used.
    Session(Arc<Recorder>),
    /// One whose log is damaged.
    Remains(Box<Remains>),
}

/// A reader's place in a session's stream.
pub struct Feed {
    source: Source,
    closed: CancellationToken,
    lineage: Option<LineageId>,
    sent: u64,
    /// Where it is among what happens now; None while it reads the log.
    live: Option<Seen>,
    announced: bool,
    pending: VecDeque<Frame>,
    /// Why nothing comes after what is pending, once that is known.
    broken: Option<Box<Problem>>,
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
        let lineage = recorder.stream().with_state(|state| state.lineage());
        Self::at(Source::Session(recorder), after, VecDeque::new(), presence, closed).of(lineage)
    }

    /// For a session that cannot be opened for `problem`: its events before the damage, and then the problem. Where there
    /// are none after `after`, it is the problem at once.
    pub(crate) async fn remains(
        store: Store,
        session: SessionId,
        after: u64,
        problem: Problem,
        closed: CancellationToken,
    ) -> Result<Self, Problem> {
        let remains = Remains { store, session, problem };
        let first = remains.page(after).await?;
        Ok(Self::at(Source::Remains(Box::new(remains)), after, first.into(), None, closed))
    }

    fn at(
        source: Source,
        after: u64,
        pending: VecDeque<Frame>,
        presence: Option<Presence>,
        closed: CancellationToken,
    ) -> Self {
        Self {
            source,
            closed,
            lineage: None,
            sent: after,
            live: None,
            announced: false,
            pending,
            broken: None,
            _presence: presence,
        }
    }

    /// With the lineage of the log, where that is known.
    #[must_use]
    pub(crate) fn of(mut self, lineage: Option<LineageId>) -> Self {
        self.lineage = lineage;
        self
    }

    /// The lineage of the log; None where the log is too damaged to tell.
    pub fn lineage(&self) -> Option<LineageId> {
        self.lineage
    }

    /// The next frame; None when the server shuts down. A `live` frame comes once, after the replay, then who is there,
    /// and then the texts in flight so far. A delta stands for whatever the reader has of that text from its offset on:
    /// a reader that missed some is given the text anew. A problem ends the stream: the log cannot be read any further, or
    /// nothing can be recorded.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Option<Frame>, Problem> {
        loop {
            if let Some(frame) = self.next_pending() {
                return Ok(Some(frame));
            }
            if let Some(problem) = &self.broken {
                return Err(Problem::clone(problem));
            }
            let recorder = match &self.source {
                Source::Session(recorder) => Arc::clone(recorder),
                Source::Remains(remains) => {
                    let page = Box::pin(remains.page(self.sent)).await?;
                    self.pending.extend(page);
                    continue;
                }
            };
            let stream = recorder.stream();
            // Made before the look, so that nothing can come between the two unnoticed.
            let news = stream.news();
            let found = match &mut self.live {
                None => {
                    // Boxed, so that a reader who waits for news takes no room for it.
                    Box::pin(self.replay(&recorder)).await?;
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
                // A reader that asked for what was not folded yet has it from elsewhere.
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
        if let (Some(seen), Source::Session(recorder)) = (self.live.take(), &self.source) {
            recorder.stream().leave(&seen);
        }
    }

    async fn replay(&mut self, recorder: &Recorder) -> Result<(), Problem> {
        let (mut page, damage) = recorder.read_sound(self.sent, PAGE).await.map_err(problem::store)?;
        self.broken = damage.map(|damage| Box::new(problem::store(damage)));
        if self.broken.is_none() {
            // What is on the disk and not folded yet comes in a moment: whoever sees an event finds what follows from it.
            let folded = recorder.stream().with_state(|state| state.seq());
            page.retain(|event| event.seq <= folded);
        }
        if !page.is_empty() || self.broken.is_some() {
            self.pending.extend(page.iter().map(Frame::durable));
            return Ok(());
        }
        // A reader that has what is not folded yet waits for it among the live ones: `join` succeeds at once.
        if let Some((seen, now)) = recorder.stream().join(self.sent) {
            self.live = Some(seen);
            if !self.announced {
                self.announced = true;
                let body = EphemeralBody::Live { seq: self.sent, lineage: self.lineage };
                self.pending.push_back(Frame::ephemeral(recorder.session(), body));
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
