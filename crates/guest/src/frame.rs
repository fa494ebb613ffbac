//! The frames in which a process's output travels: `[kind u8][offset u64 BE][len u32 BE]`, then the payload.
//!
//! The header is outside the payload, so that bytes of any kind pass untouched, and the offset makes a gap visible.

use bytes::BytesMut;

/// Bytes before the payload.
pub(crate) const HEADER: usize = 13;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Standard output, or the terminal.
    Stdout = 1,
    /// Standard error.
    Stderr = 2,
    /// The exit, as JSON; the last frame.
    Exit = 3,
    /// Nothing: the guest is still there.
    Keepalive = 4,
}

/// Appends one frame. A payload is at most a segment of a ring long, so its length always fits.
#[cfg(feature = "daemon")]
pub(crate) fn encode(buffer: &mut BytesMut, kind: Kind, offset: u64, payload: &[u8]) {
    use bytes::BufMut;

    buffer.reserve(HEADER + payload.len());
    buffer.put_u8(kind as u8);
    buffer.put_u64(offset);
    buffer.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    buffer.put_slice(payload);
}

#[cfg(feature = "client")]
pub(crate) use decoding::decode;

#[cfg(feature = "client")]
mod decoding {
    use bytes::{Buf, Bytes};

    use super::{BytesMut, HEADER, Kind};

    /// No frame of ours is longer; a longer one means that the stream is not ours.
    const LONGEST: usize = 1 << 20;

    /// One frame.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Frame {
        pub(crate) kind: Kind,
        pub(crate) offset: u64,
        pub(crate) payload: Bytes,
    }

    /// Takes one frame off the front; None when it is not all there yet.
    pub(crate) fn decode(buffer: &mut BytesMut) -> Result<Option<Frame>, String> {
        let Some(mut header) = buffer.get(..HEADER) else { return Ok(None) };
        let kind = match header.get_u8() {
            1 => Kind::Stdout,
            2 => Kind::Stderr,
            3 => Kind::Exit,
            4 => Kind::Keepalive,
            other => return Err(format!("it sent a frame of unknown kind {other}")),
        };
        let offset = header.get_u64();
        let length = usize::try_from(header.get_u32()).unwrap_or(usize::MAX);
        if length > LONGEST {
            return Err(format!("it sent a frame of {length} bytes"));
        }
        if buffer.len() < HEADER + length {
            return Ok(None);
        }
        buffer.advance(HEADER);
        Ok(Some(Frame { kind, offset, payload: buffer.split_to(length).freeze() }))
    }
}

#[cfg(all(test, feature = "client", feature = "daemon"))]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn frames_survive_any_cut() {
        let mut sent = BytesMut::new();
        encode(&mut sent, Kind::Stdout, 7, b"\x00\xff");
        encode(&mut sent, Kind::Keepalive, 9, b"");
        encode(&mut sent, Kind::Exit, u64::MAX, b"{}");
        let mut received = BytesMut::new();
        let mut frames = Vec::new();
        for byte in &sent {
            received.put_u8(*byte);
            frames.extend(
                decode(&mut received).unwrap().map(|frame| (frame.kind, frame.offset, frame.payload)),
            );
        }
        assert_eq!(
            frames,
            [
                (Kind::Stdout, 7, bytes::Bytes::from_static(b"\x00\xff")),
                (Kind::Keepalive, 9, bytes::Bytes::new()),
                (Kind::Exit, u64::MAX, bytes::Bytes::from_static(b"{}")),
            ]
        );
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(decode(&mut BytesMut::from(&b"HTTP/1.1 200 OK"[..])).is_err());
        assert!(decode(&mut BytesMut::from(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255][..])).is_err());
    }
}
