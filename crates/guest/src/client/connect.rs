//! One HTTP/1.1 exchange over a fresh Unix connection.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixStream;

use super::Error;

/// Longest path that fits into `sockaddr_un` with its final zero.
const LONGEST_SOCKET_PATH: usize = 107;

/// How long to knock at a guest whose queue of waiting connections is full.
const QUEUE_PATIENCE: Duration = Duration::from_secs(10);

/// An answer, and the connection it comes over.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) connection: Connection,
}

/// Dropping it hangs up, which is how the guest learns that nobody follows any more.
///
/// It has no task of its own: whoever waits for something drives it meanwhile, so that an answer wakes nobody else first.
pub(super) struct Connection {
    exchange: Pin<Box<http1::Connection<Eager, Full<Bytes>>>>,
    over: bool,
}

impl Connection {
    /// Waits for what comes over this connection.
    pub(super) async fn drive<T>(&mut self, waited_for: impl Future<Output = T>) -> T {
        let mut waited_for = pin!(waited_for);
        poll_fn(|context| {
            if let Poll::Ready(value) = waited_for.as_mut().poll(context) {
                return Poll::Ready(value);
            }
            if !self.over {
                // How the connection ends is told to the request or to the body, whichever is waiting for it.
                self.over = self.exchange.as_mut().poll(context).is_ready();
            }
            waited_for.as_mut().poll(context)
        })
        .await
    }
}

/// Sends one request and waits for the head of the answer.
pub(super) async fn request(
    socket: &Path,
    method: Method,
    target: &str,
    body: Bytes,
) -> Result<Answer, Error> {
    let stream = connect(socket).await.map_err(|error| Error::Unavailable(error.to_string()))?;
    let broken = |error: hyper::Error| Error::Unavailable(format!("the connection broke: {error}"));
    let (mut sender, exchange) = http1::handshake(Eager(TokioIo::new(stream))).await.map_err(broken)?;
    let mut connection = Connection { exchange: Box::pin(exchange), over: false };
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().map_err(|error| Error::Refused(format!("not a request: {error}")))?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("guest"));
    let response = connection.drive(sender.send_request(request)).await.map_err(broken)?;
    Ok(Answer { response, connection })
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    // The directory stays open until the connection is made, because the short path goes through its descriptor.
    let (path, _directory) = short(socket)?;
    let address = SocketAddrUnix::new(&path)?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // A Unix connection is made at once or not at all, so nothing has to be waited for.
        match rustix::net::connect(&stream, &address) {
            // The queue of a Unix socket cannot be waited for: the kernel only says that it is full now.
            Err(Errno::AGAIN) if start.elapsed() < QUEUE_PATIENCE => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(()) => return UnixStream::from_std(stream.into()),
        }
    }
}

/// A stream that writes at once, where tokio's own would first wait to be told that a new socket can be written to.
struct Eager(TokioIo<UnixStream>);

impl Eager {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<UnixStream>> {
        Pin::new(&mut self.get_mut().0)
    }

    fn at_once(&self, bytes: &[u8]) -> Option<io::Result<usize>> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(self.0.inner(), bytes, flags) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            sent => Some(sent.map_err(io::Error::from)),
        }
    }
}

impl Read for Eager {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(context, buffer)
    }
}

impl Write for Eager {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.at_once(bytes) {
            Some(sent) => Poll::Ready(sent),
            None => self.inner().poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

/// A path to the same socket that fits into an address, and what must stay open while it is used.
fn short(socket: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    if socket.as_os_str().as_bytes().len() <= LONGEST_SOCKET_PATH {
        return Ok((socket.to_owned(), None));
    }
    let name = socket.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = socket.parent().unwrap_or(Path::new("/"));
    let directory =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(parent)?;
    let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((path, Some(directory)))
}
