//! The archive as bytes: entries that are hashed while they go in or come out.

use std::io::{self, Read, Write};

use protocol::Problem;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Sender;

use super::{Entry, Place};

/// Passes bytes on, and knows their number and checksum.
pub(super) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// The entry that these bytes were.
    pub(super) fn finish(self, place: &Place) -> Entry {
        let digest = self.hash.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Entry { name: place.path(), bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// Writes one entry of exactly this size.
pub(super) fn put(
    tar: &mut tar::Builder<impl Write>,
    place: &Place,
    bytes: u64,
    content: impl Read,
) -> io::Result<Entry> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    let mut content = Hashing::new(content.take(bytes));
    tar.append_data(&mut header, place.path(), &mut content)?;
    let entry = content.finish(place);
    if entry.bytes == bytes {
        Ok(entry)
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"))
    }
}

/// Sends what is written through a channel in pieces, and waits for whoever reads it.
pub(super) struct Pieces {
    sender: Sender<Result<bytes::Bytes, Problem>>,
    piece: Vec<u8>,
}

impl Pieces {
    const SIZE: usize = 64 * 1024;

    pub(super) fn new(sender: Sender<Result<bytes::Bytes, Problem>>) -> Self {
        Self { sender, piece: Vec::with_capacity(Self::SIZE) }
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(Self::SIZE));
        self.sender
            .blocking_send(Ok(piece.into()))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "whoever wanted the backup went away"))
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= Self::SIZE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}
