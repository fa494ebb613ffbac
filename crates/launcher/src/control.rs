//! The monitor's side of its socket: a few connections at a time, each for one question.
//!
//! Only the sandbox's owner can reach the socket. Still nothing here waits for a peer, and one that says nothing is let
//! go.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::rights;
use crate::spec::{Answer, Command, files};

/// Most connections at once; more wait in the queue.
const MOST: usize = 8;

/// Longest question.
const LONGEST: usize = 4096;

/// A peer that has not asked by then is let go.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket and whoever is connected.
pub(crate) struct Control {
    listener: UnixListener,
    peers: Vec<Peer>,
}

struct Peer {
    stream: UnixStream,
    said: Vec<u8>,
    since: Instant,
}

/// What a peer wants.
enum Said {
    NotYet,
    Gone,
    Asked(Result<Command, String>),
}

impl Control {
    /// Makes the socket in the working directory.
    pub(crate) fn open() -> std::io::Result<Self> {
        let listener = UnixListener::bind(files::CONTROL)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, peers: Vec::new() })
    }

    /// What to wait for.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        // Without room for another, nobody is called in.
        let door = if self.peers.len() < MOST { PollFlags::IN } else { PollFlags::empty() };
        let peers = self.peers.iter().map(|peer| (peer.stream.as_fd(), PollFlags::IN));
        std::iter::once((self.listener.as_fd(), door)).chain(peers)
    }

    /// How long until a peer is to be let go.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        self.peers.iter().map(|peer| (peer.since + PATIENCE).saturating_duration_since(now)).min()
    }

    /// Takes in and answers whoever is ready. An answer may come with descriptors.
    pub(crate) fn serve<'a>(&mut self, mut answer: impl FnMut(Command) -> (Answer, &'a [OwnedFd])) {
        let now = Instant::now();
        while self.peers.len() < MOST {
            // Nobody is there, or whoever was has gone.
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.peers.push(Peer { stream, said: Vec::new(), since: now });
            }
        }
        self.peers.retain_mut(|peer| match peer.listen() {
            Said::NotYet => now.saturating_duration_since(peer.since) < PATIENCE,
            Said::Gone => false,
            Said::Asked(command) => {
                let (answer, descriptors) = match command {
                    Ok(command) => answer(command),
                    Err(why) => (Answer::Refused(why), &[] as &[OwnedFd]),
                };
                peer.tell(&answer, descriptors);
                false
            }
        });
    }
}

impl Peer {
    fn listen(&mut self) -> Said {
        let mut piece = [0; 512];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Said::Gone,
                Ok(length) => self.said.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Said::NotYet,
                Err(_) => return Said::Gone,
            }
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let command = serde_json::from_slice(&self.said[..end]);
                return Said::Asked(
                    command.map_err(|error| format!("the monitor knows no such command: {error}")),
                );
            }
            if self.said.len() > LONGEST {
                return Said::Asked(Err("the question is too long".to_owned()));
            }
        }
    }

    fn tell(&self, answer: &Answer, descriptors: &[OwnedFd]) {
        let Ok(mut line) = serde_json::to_vec(answer) else { return };
        line.push(b'\n');
        // A short answer always fits into a fresh connection; a peer that has gone needs none.
        let _gone = rights::send(&self.stream, &line, descriptors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::DiskUsage;
    use std::io::Write;

    fn control() -> (tempfile::TempDir, Control) {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        listener.set_nonblocking(true).unwrap();
        (dir, Control { listener, peers: Vec::new() })
    }

    #[test]
    fn one_question_gets_one_answer_whoever_else_is_silent() {
        let (dir, mut control) = control();
        let connect = || UnixStream::connect(dir.path().join("s")).unwrap();
        let _silent = connect();
        let mut asks = connect();
        let mut babbles = connect();
        asks.write_all(b"\"di").unwrap();
        babbles.write_all(&[b'x'; 3 * LONGEST]).unwrap();
        control.serve(|_| panic!("nobody has asked yet"));
        asks.write_all(b"sk\"\n").unwrap();
        let mut asked = Vec::new();
        control.serve(|command| {
            asked.push(command);
            (Answer::Disk(DiskUsage::default()), &[])
        });
        assert_eq!(asked, [Command::Disk]);
        let mut text = String::new();
        asks.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("{\"disk\":{") && text.ends_with("}}\n"), "{text}");
        assert_eq!(control.peers.len(), 1, "the silent one waits");
        drop((dir, asks, babbles));
    }

    #[test]
    fn a_crowd_waits_outside() {
        let (dir, mut control) = control();
        let crowd: Vec<_> =
            (0..2 * MOST).map(|_| UnixStream::connect(dir.path().join("s")).unwrap()).collect();
        control.serve(|_| panic!("nobody asks"));
        assert_eq!(control.peers.len(), MOST);
        drop(crowd);
        control.serve(|_| panic!("nobody asks"));
        control.serve(|_| panic!("nobody asks"));
        assert!(control.peers.len() <= MOST);
    }
}
