//! A connection whose other end has taken nothing for a while is given up, whatever is sent over it: a stream of events
//! that nobody reads would otherwise be kept for as long as its client keeps the connection.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long the other end may take nothing while something waits for it.
pub(crate) const STALL: Duration = Duration::from_secs(10);

/// A connection with a limit to its patience.
pub(crate) struct Patient<S> {
    stream: S,
    /// Since when it waits; made only then.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, stuck: None }
    }

    fn bounded<T>(&mut self, context: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(STALL)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_is_slow_is_not() {
        let (mut reader, ours) = duplex(16);
        let mut ours = Patient::new(ours);
        let writer =
            tokio::spawn(async move { ours.write_all(&[7; 64]).await.map_err(|error| error.kind()) });
        for _ in 0..3 {
            sleep(STALL - Duration::from_secs(1)).await;
            let mut piece = [0; 16];
            reader.read_exact(&mut piece).await.unwrap();
        }
        let late = tokio::time::Instant::now();
        assert_eq!(writer.await.unwrap(), Ok(()), "the last piece fits");
        let (_reader, ours) = duplex(16);
        let mut ours = Patient::new(ours);
        assert_eq!(ours.write_all(&[7; 64]).await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(late.elapsed().as_secs(), STALL.as_secs());
    }
}
