//! One HTTP/1.1 exchange over a Unix connection of its own.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Method, Request, Response};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

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

/// A connection over which nothing was said yet.
pub(super) struct Line {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: Connection,
}

impl Line {
    /// Connects.
    pub(super) async fn open(socket: &Path) -> Result<Self, Error> {
        let stream = connect(socket).await.map_err(|error| Error::Unavailable(error.to_string()))?;
        let (sender, exchange) = http1::handshake(stream).await.map_err(broken)?;
        Ok(Self { sender, connection: Connection { exchange: Box::pin(exchange), over: false } })
    }

    /// Sends one request and waits for the head of the answer.
    pub(super) async fn request(self, method: Method, target: &str, body: Bytes) -> Result<Answer, Error> {
        let Self { mut sender, mut connection } = self;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            target.parse().map_err(|error| Error::Refused(format!("not a request: {error}")))?;
        request.headers_mut().insert(HOST, HeaderValue::from_static("guest"));
        let response = connection.drive(sender.send_request(request)).await.map_err(broken)?;
        Ok(Answer { response, connection })
    }
}

fn broken(error: hyper::Error) -> Error {
    Error::Unavailable(format!("the connection broke: {error}"))
}

async fn connect(socket: &Path) -> io::Result<Eager> {
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
            Ok(()) => return Eager::new(stream),
        }
    }
}

/// A stream that writes at once and is watched only for what comes in. tokio's own would be told right away that a new
/// socket can be written to, which wakes a thread for nothing just when the guest wants to run.
struct Eager {
    /// None only while it is being registered anew.
    socket: Option<AsyncFd<OwnedFd>>,
    /// Whether it is watched for room to write, too.
    for_room: bool,
}

impl Eager {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: Some(watched(socket, Interest::READABLE)?), for_room: false })
    }

    fn socket(&self) -> io::Result<&AsyncFd<OwnedFd>> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::send(self.socket()?, bytes, flags) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    /// The guest does not read as fast as we write: from now on, it is waited for.
    fn watch_for_room(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(socket) = self.socket.take_if(|_| !self.for_room) {
            let socket = watched(socket.into_inner(), Interest::READABLE | Interest::WRITABLE)?;
            self.for_room = true;
            // Whoever waited for something to read waited for it at the old registration.
            if socket.poll_read_ready(context).is_ready() {
                context.waker().wake_by_ref();
            }
            self.socket = Some(socket);
        }
        Ok(())
    }
}

fn watched(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is open, stays the same, and is closed only when the AsyncFd that owns it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

impl Read for Eager {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.socket()?;
        loop {
            let mut ready = ready!(socket.poll_read_ready(context))?;
            // SAFETY: nothing is read from it, and nothing that was initialised is made uninitialised.
            let room = unsafe { buffer.as_mut() };
            let received = ready.try_io(|socket| {
                let ((got, _), _) = rustix::net::recv(socket, room, RecvFlags::empty())?;
                Ok(got.len())
            });
            match received {
                Ok(Ok(length)) => {
                    // SAFETY: the kernel has written so many bytes.
                    unsafe { buffer.advance(length) };
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_not_ready_after_all) => {}
            }
        }
    }
}

impl Write for Eager {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.send(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.watch_for_room(context)?,
            sent => return Poll::Ready(sent),
        }
        loop {
            let mut ready = ready!(self.socket()?.poll_write_ready(context))?;
            match ready.try_io(|_| self.send(bytes)) {
                Ok(sent) => return Poll::Ready(sent),
                Err(_not_ready_after_all) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = rustix::net::shutdown(self.socket()?, rustix::net::Shutdown::Write);
        Poll::Ready(shut.map_err(io::Error::from))
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
