//! One HTTP/1.1 exchange over a fresh Unix connection.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

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

/// Drives the connection; dropping it hangs up, which is how the guest learns that nobody follows any more.
pub(super) struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
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
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // How the connection ends is told to the request or to the body, whichever is waiting for it.
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.parse().map_err(|error| Error::Refused(format!("not a request: {error}")))?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("guest"));
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(Answer { response, connection })
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    // The directory stays open until the connection is made, because the short path goes through its descriptor.
    let (path, _directory) = short(socket)?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match UnixStream::connect(&path).await {
            // The queue of a Unix socket cannot be waited for: the kernel only says that it is full now.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < QUEUE_PATIENCE => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            done => return done,
        }
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
