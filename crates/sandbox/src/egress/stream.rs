//! Byte streams: the sandbox's side, of which the first bytes can be looked at, and the outer side, which is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::ticket::Ticket;

/// A connection over which no byte went for this long is ended.
const IDLE: Duration = Duration::from_secs(600);

/// The sandbox's side of a connection. Bytes that were looked at are read again.
pub(super) struct Client<S> {
    inner: S,
    seen: BytesMut,
    moved: Arc<AtomicU64>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, seen: BytesMut::new(), moved: Arc::default() }
    }

    /// What was looked at and not read yet.
    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Looks at more bytes; 0 at the end. Nothing is lost when it is not waited for.
    pub(super) async fn look(&mut self) -> std::io::Result<usize> {
        let read = self.inner.read_buf(&mut self.seen).await?;
        self.moved.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    /// Returns when no byte went either way for long.
    pub(super) fn idle(&self) -> impl Future<Output = ()> + Send + use<S> {
        let moved = self.moved.clone();
        async move {
            let mut before = moved.load(Ordering::Relaxed);
            loop {
                tokio::time::sleep(IDLE).await;
                let now = moved.load(Ordering::Relaxed);
                if now == before {
                    return;
                }
                before = now;
            }
        }
    }

    /// The stream itself.
    pub(super) fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Client<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        if !this.seen.is_empty() {
            let take = this.seen.len().min(into.remaining());
            into.put_slice(&this.seen.split_to(take));
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, into);
        this.moved.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Client<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.moved.fetch_add(*written as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// A connection to the outside. Its bytes are counted, and it is told of.
pub(super) struct Outbound {
    stream: TcpStream,
    ticket: Ticket,
}

impl Outbound {
    pub(super) fn new(stream: TcpStream, ticket: Ticket) -> Self {
        Self { stream, ticket }
    }

    pub(super) fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

impl AsyncRead for Outbound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = &mut *self;
        let before = into.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, into);
        this.ticket.received(into.filled().len() - before);
        polled
    }
}

impl AsyncWrite for Outbound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = &polled {
            self.ticket.sent(*written);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
