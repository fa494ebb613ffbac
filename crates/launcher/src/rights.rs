//! Open descriptors on their way from one process to another.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Most descriptors in one message.
const MOST: usize = 8;

/// Sends bytes, all of them at once or not at all, with descriptors.
pub fn send(stream: &UnixStream, bytes: &[u8], descriptors: &[OwnedFd]) -> Result<(), Errno> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(Errno::MSGSIZE);
    }
    let sent = loop {
        match sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    if sent == bytes.len() { Ok(()) } else { Err(Errno::MSGSIZE) }
}

/// Receives some bytes and the descriptors that came with them, which no program started later inherits. No bytes are
/// the end of the stream.
pub fn receive(stream: &UnixStream, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn descriptors_arrive_open_and_closed_at_exec() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        send(&ours, b"r", &[other.into()]).unwrap();
        let mut byte = [0; 8];
        let (length, mut descriptors) = receive(&theirs, &mut byte).unwrap();
        assert_eq!((length, byte[0], descriptors.len()), (1, b'r', 1));
        let received = descriptors.remove(0);
        let flags = rustix::io::fcntl_getfd(&received).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        UnixStream::from(received).write_all(b"x").unwrap();
        let mut text = String::new();
        one.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }
}
