//! Netlink messages: written by hand, because the few that are needed take less than any library that knows them all.

use std::io::{Error, Result};
use std::num::NonZeroU32;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Marks an attribute that holds attributes.
const NESTED: u16 = 0x8000;
const HEADER: usize = 16;

/// Bytes under construction: a batch of messages, each with attributes.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    asked: u32,
    messages: u32,
}

impl Batch {
    /// Adds a message of a kind with a fixed part and what `fill` adds.
    pub(super) fn message(
        &mut self,
        kind: u16,
        flags: libc::c_int,
        fixed: &[u8],
        fill: impl FnOnce(&mut Attributes<'_>),
    ) {
        let start = self.bytes.len();
        self.messages += 1;
        self.asked += u32::from(flags & libc::NLM_F_ACK != 0);
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags as u16).to_ne_bytes());
        self.bytes.extend(self.messages.to_ne_bytes());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(fixed);
        fill(&mut Attributes(&mut self.bytes));
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// Sends all of it to a part of the kernel and waits until everything that asked for it was confirmed.
    pub(super) fn send(&self, protocol: libc::c_int) -> Result<()> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            NonZeroU32::new(protocol.unsigned_abs()).map(Protocol::from_raw),
        )?;
        // Without an address it goes to the kernel.
        send(&socket, &self.bytes, SendFlags::empty())?;
        let mut confirmed = 0;
        while confirmed < self.asked {
            let mut buffer = [0u8; 8192];
            // The kernel answers before it returns from the send, so an answer that is not there never comes.
            let (length, _) = recv(&socket, &mut buffer, RecvFlags::DONTWAIT)?;
            confirmed += answers(&buffer[..length])?;
        }
        Ok(())
    }
}

/// How many messages these bytes confirm; an error if one failed.
fn answers(mut bytes: &[u8]) -> Result<u32> {
    let mut confirmed = 0;
    while bytes.len() >= HEADER + 4 {
        let word = |at: usize| -> [u8; 4] { [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]] };
        let length = u32::from_ne_bytes(word(0)) as usize;
        if u16::from_ne_bytes([bytes[4], bytes[5]]) == libc::NLMSG_ERROR as u16 {
            match i32::from_ne_bytes(word(HEADER)) {
                0 => confirmed += 1,
                error => return Err(Error::from_raw_os_error(-error)),
            }
        }
        let next = length.max(HEADER).next_multiple_of(4).min(bytes.len());
        bytes = &bytes[next..];
    }
    Ok(confirmed)
}

/// Attributes of one message.
pub(super) struct Attributes<'a>(&'a mut Vec<u8>);

impl Attributes<'_> {
    /// An attribute with these bytes.
    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// An attribute with a number, most significant byte first.
    pub(super) fn number(&mut self, kind: u16, value: u32) -> &mut Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// An attribute with a name.
    pub(super) fn name(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut terminated = value.as_bytes().to_vec();
        terminated.push(0);
        self.bytes(kind, &terminated)
    }

    /// An attribute with attributes in it.
    pub(super) fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Attributes<'_>)) -> &mut Self {
        let start = self.0.len();
        self.0.extend([0, 0]);
        self.0.extend((kind | NESTED).to_ne_bytes());
        fill(&mut Attributes(self.0));
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kernels_layout() {
        let mut batch = Batch::default();
        batch.message(7, libc::NLM_F_ACK, &[9; 4], |attributes| {
            attributes.nest(2, |inner| {
                inner.name(1, "ab").number(3, 5);
            });
        });
        let length = batch.bytes.len();
        assert_eq!(batch.bytes[..4], (length as u32).to_ne_bytes());
        assert_eq!(batch.bytes[16..20], [9; 4]);
        assert_eq!(batch.bytes[20..22], 20u16.to_ne_bytes());
        assert_eq!(batch.bytes[22..24], (2 | NESTED).to_ne_bytes());
        assert_eq!(batch.bytes[24..26], 7u16.to_ne_bytes());
        assert_eq!(&batch.bytes[28..32], b"ab\0\0");
        assert_eq!(length, 40);
    }

    #[test]
    fn a_refusal_is_an_error_and_a_confirmation_counts() {
        let answer = |code: i32| {
            let mut bytes = vec![0u8; 20];
            bytes[..4].copy_from_slice(&20u32.to_ne_bytes());
            bytes[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
            bytes[16..].copy_from_slice(&code.to_ne_bytes());
            bytes
        };
        assert_eq!(answers(&[answer(0), answer(0)].concat()).unwrap(), 2);
        assert_eq!(answers(&answer(-libc::EPERM)).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(answers(&[1, 2, 3]).unwrap(), 0);
    }
}
