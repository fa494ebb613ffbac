//! A connection whose other end has taken nothing for a while is given up, whatever is sent over it: a stream of events
//! that nobody reads would otherwise be kept for as long as its client keeps the connection. Small pieces that are written
//! to it go out together, so that nobody above it needs a buffer of its own for that while nothing is sent.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long the other end may take nothing while something waits for it.
pub(crate) const STALL: Duration = Duration::from_secs(10);

/// Pieces are collected up to this many bytes before they are written.
const TOGETHER: usize = 4 * 1024;

/// A connection with a limit to its patience.
pub(crate) struct Patient<S> {
    stream: S,
    /// Since when it waits; made only then.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Pieces since the last flush. Takes no room while nothing is sent.
    pieces: Vec<u8>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, stuck: None, pieces: Vec::new() }
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

impl<S: AsyncWrite + Unpin> Patient<S> {
    /// Writes the pieces that were collected.
    fn poll_pieces(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while !self.pieces.is_empty() {
            let written = Pin::new(&mut self.stream).poll_write(context, &self.pieces);
            match ready!(self.bounded(context, written))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                taken => drop(self.pieces.drain(..taken)),
            }
        }
        self.pieces = Vec::new();
        Poll::Ready(Ok(()))
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
        if self.pieces.len() + data.len() > TOGETHER {
            ready!(self.poll_pieces(context))?;
        }
        if data.len() < TOGETHER {
            self.pieces.extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, data);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        ready!(self.poll_pieces(context))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_pieces(context))?;
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_pieces(context))?;
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
        let writer = tokio::spawn(async move {
            ours.write_all(&[7; 64]).await.map_err(|error| error.kind())?;
            ours.flush().await.map_err(|error| error.kind())
        });
        for _ in 0..3 {
            sleep(STALL - Duration::from_secs(1)).await;
            let mut piece = [0; 16];
            reader.read_exact(&mut piece).await.unwrap();
        }
        let late = tokio::time::Instant::now();
        assert_eq!(writer.await.unwrap(), Ok(()), "the last piece fits");
        let (_reader, ours) = duplex(16);
        let mut ours = Patient::new(ours);
        ours.write_all(&[7; 64]).await.unwrap();
        assert_eq!(ours.flush().await.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(late.elapsed().as_secs(), STALL.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_go_out_together_and_in_order_whatever_their_size() {
        let (mut reader, ours) = duplex(1024 * 1024);
        let mut ours = Patient::new(ours);
        let sizes = [1, TOGETHER - 1, 1, 7, TOGETHER, 3 * TOGETHER, 2, 2];
        let mut sent = Vec::new();
        for (number, size) in sizes.into_iter().enumerate() {
            let piece = vec![number as u8; size];
            ours.write_all(&piece).await.unwrap();
            sent.extend(piece);
        }
        assert_eq!(ours.pieces, [6, 6, 7, 7], "small ones wait for the flush");
        let slices = [IoSlice::new(&[8]), IoSlice::new(&[9, 9])];
        assert_eq!(ours.write_vectored(&slices).await.unwrap(), 3, "after those before it");
        sent.extend([8, 9, 9]);
        ours.write_all(&[10]).await.unwrap();
        ours.shutdown().await.unwrap();
        sent.push(10);
        assert_eq!(ours.pieces.capacity(), 0, "nothing is held while nothing is sent");
        let mut came = Vec::new();
        reader.read_to_end(&mut came).await.unwrap();
        assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
    }
}
