//! The body of a response that follows a process.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::process::Process;
use super::ring::CursorId;
use crate::frame::{self, HEADER, Kind};

/// How long a follower hears nothing at most.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// About how much is handed over at once.
const PIECE: usize = 64 << 10;

/// Frames of one process, for one follower.
pub(super) struct Follow {
    process: Rc<Process>,
    cursor: CursorId,
    keepalive: Pin<Box<Sleep>>,
    /// When the follower last heard something.
    heard: Instant,
    ended: bool,
}

impl Follow {
    /// From byte `after` of the output.
    pub(super) fn new(process: Rc<Process>, after: u64) -> Self {
        let cursor = process.ring.borrow_mut().attach(after);
        Self { process, cursor, keepalive: Box::pin(sleep(KEEPALIVE)), heard: Instant::now(), ended: false }
    }
}

impl Follow {
    /// Waits until the follower has heard nothing for so long that it has to. The timer is moved only when it runs out:
    /// moving it with every piece would cost more than the piece.
    fn silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.keepalive.as_mut().poll(context));
            let due = self.heard + KEEPALIVE;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.keepalive.as_mut().reset(due);
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.process.ring.borrow_mut().detach(self.cursor);
        self.process.room.notify_waiters();
    }
}

impl Body for Follow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut buffer = BytesMut::new();
        let mut ring = self.process.ring.borrow_mut();
        ring.take(self.cursor, &mut buffer, PIECE);
        let end = ring.end();
        drop(ring);
        if !buffer.is_empty() {
            self.process.room.notify_waiters();
        }
        // A piece that is not full has taken all there is, and after the exit nothing is added.
        let drained = buffer.len() + HEADER < PIECE;
        let exit = if drained { self.process.exit() } else { None };
        if let Some(exit) = exit {
            let exit = serde_json::to_vec(&exit).map_err(io::Error::other)?;
            frame::encode(&mut buffer, Kind::Exit, end, &exit);
            self.ended = true;
        }
        if buffer.is_empty() {
            self.process.ring.borrow_mut().wait(self.cursor, context.waker());
            ready!(self.silence(context));
            frame::encode(&mut buffer, Kind::Keepalive, end, &[]);
        }
        self.heard = Instant::now();
        Poll::Ready(Some(Ok(Frame::data(buffer.freeze()))))
    }
}
