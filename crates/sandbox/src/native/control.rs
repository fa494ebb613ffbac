//! Questions to a sandbox's monitor, over its socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use launcher::spec::{Answer, Command, DiskUsage, files};
use rustix::fs::{Mode, OFlags};

use crate::{Error, egress};

/// A monitor answers at once, unless it has to count very many files.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest path that fits into `sockaddr_un` with its final zero.
const LONGEST_SOCKET_PATH: usize = 107;

/// Longest answer.
const LONGEST: usize = 64 << 10;

/// The sockets of the sandbox in this directory; None if it has no network. They can be asked for as often as one likes:
/// what was not taken up from one set waits in the other.
pub(super) async fn sockets(dir: &Path) -> Result<Option<egress::Sockets>, Error> {
    let (answer, descriptors) = ask(dir, Command::Sockets).await?;
    let strange = || unexpected(&dir.join(files::CONTROL), &answer);
    let mut descriptors = descriptors.into_iter();
    match answer {
        Answer::Refused(_) => Ok(None),
        Answer::Sockets { transparent, names, ipv6 } => {
            let mut next = || descriptors.next().ok_or_else(strange);
            let mut sockets = egress::Sockets {
                proxy: next()?.into(),
                dns: next()?.into(),
                names: None,
                transparent: None,
                datagrams: None,
                ipv6: None,
            };
            if names {
                sockets.names = Some(next()?.into());
            }
            if transparent {
                sockets.transparent = Some(next()?.into());
                sockets.datagrams = Some(next()?.into());
            }
            if ipv6 {
                let (transparent, dns, datagrams) = (next()?.into(), next()?.into(), next()?.into());
                sockets.ipv6 = Some(egress::Ipv6Sockets { transparent, dns, datagrams });
            }
            Ok(Some(sockets))
        }
        _ => Err(strange()),
    }
}

/// Counts what is on the disk now.
pub(super) async fn disk(dir: &Path) -> Result<DiskUsage, Error> {
    match ask(dir, Command::Disk).await?.0 {
        Answer::Disk(usage) => Ok(usage),
        answer => Err(unexpected(&dir.join(files::CONTROL), &answer)),
    }
}

fn unexpected(path: &Path, answer: &Answer) -> Error {
    let source = match answer {
        Answer::Refused(why) => io::Error::other(why.clone()),
        _ => io::Error::other("the sandbox's monitor gave an answer to another question"),
    };
    Error::Io { path: path.to_owned(), source }
}

async fn ask(dir: &Path, command: Command) -> Result<(Answer, Vec<OwnedFd>), Error> {
    let path = dir.join(files::CONTROL);
    let socket = path.clone();
    wait(move || hear(&tell(&socket, command)?), &path).await
}

/// The exchange takes microseconds, and descriptors cannot be received by tokio's streams.
async fn wait<T: Send + 'static>(
    exchange: impl FnOnce() -> io::Result<T> + Send + 'static,
    path: &Path,
) -> Result<T, Error> {
    let result = tokio::task::spawn_blocking(exchange).await;
    result.map_err(io::Error::other).and_then(|result| result).map_err(Error::io(path))
}

/// Says it; the answer comes over what is returned.
fn tell(socket: &Path, command: Command) -> io::Result<UnixStream> {
    // The directory stays open until the connection is made, because the short path goes through its descriptor.
    let (path, _directory) = short(socket)?;
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_vec(&command)?;
    line.push(b'\n');
    launcher::rights::send(&stream, &line, &[])?;
    Ok(stream)
}

fn hear(stream: &UnixStream) -> io::Result<(Answer, Vec<OwnedFd>)> {
    let (mut said, mut descriptors) = (Vec::new(), Vec::new());
    loop {
        let mut piece = [0; 1024];
        let (length, more) = launcher::rights::receive(stream, &mut piece)?;
        said.extend_from_slice(&piece[..length]);
        descriptors.extend(more);
        if let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            return Ok((serde_json::from_slice(&said[..end])?, descriptors));
        }
        if length == 0 || said.len() > LONGEST {
            return Err(io::Error::other("the sandbox's monitor gave no answer"));
        }
    }
}

/// A path to the same socket that fits into an address, and what must stay open while it is used.
fn short(socket: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    if socket.as_os_str().as_bytes().len() <= LONGEST_SOCKET_PATH {
        return Ok((socket.to_owned(), None));
    }
    let parent = socket.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(parent, flags, Mode::empty())?;
    let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(files::CONTROL);
    Ok((path, Some(directory)))
}
