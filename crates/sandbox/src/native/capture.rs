//! A copy that stays in memory, so that a sandbox has to stand still only as long as its files are read.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use launcher::spec::Disk;
use rustix::fs::Stat;
use rustix::io::Errno;

use super::copy::{Copied, Order, Sink, walk};
use super::duplicate::{Kept, Metadata, Original, SMALL, Special, blocks, parts, too_much};
use super::pack::{Attribute, Contents, Encoder};

/// More than this is not held in memory, whatever the patience.
const ROOM: usize = 96 << 20;

/// What was captured.
pub(super) struct Captured {
    pub(super) contents: Contents,
    pub(super) copied: Copied,
    /// Whether files of the earlier copies are needed to make the tree.
    pub(super) shares: bool,
}

/// Captures the content of a directory. Gives up, as a copy does, when it is more than the order's patience or than
/// there is room for.
pub(super) fn capture(from: &Path, order: &Order<'_>, patience: Disk) -> io::Result<Captured> {
    let mut capture = Capture {
        metadata: order.metadata,
        left: order.limit.bytes,
        contents: Contents::default(),
        shares: false,
        names: vec![HashSet::new()],
    };
    let order = Order { patience: Some(patience), ..*order };
    let copied = walk(from, &mut capture, &order)?;
    Ok(Captured { contents: capture.contents, copied, shares: capture.shares })
}

struct Capture {
    metadata: Metadata,
    /// Bytes that may still be captured.
    left: u64,
    contents: Contents,
    shares: bool,
    /// What the current directory and those above it have so far.
    names: Vec<HashSet<CString>>,
}

impl Capture {
    /// A directory that changes while it is read can give a name twice; the first counts.
    fn is_new(&self, name: &CStr) -> io::Result<()> {
        match self.names.last() {
            Some(names) if names.contains(name) => Err(io::ErrorKind::AlreadyExists.into()),
            _ => self.room(0).map(drop),
        }
    }

    fn remember(&mut self, name: &CStr) {
        if let Some(names) = self.names.last_mut() {
            names.insert(name.to_owned());
        }
    }

    fn encode(&mut self) -> Encoder<'_> {
        Encoder(&mut self.contents.entries)
    }

    /// Takes bytes from what may be captured.
    fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| too_much("bytes"))?;
        Ok(())
    }

    /// Says if there is no room for so many bytes more.
    fn room(&self, bytes: u64) -> io::Result<usize> {
        let used = self.contents.data.len() + self.contents.entries.len();
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        if used.saturating_add(wanted) > ROOM { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(wanted) }
    }

    /// Captures a part of a file; gives where it ended, earlier than asked if the file did.
    fn part(&mut self, file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
        self.count(end - start)?;
        let begin = self.contents.data.len();
        let full = begin + self.room(end - start)?;
        self.contents.data.resize(full, 0);
        let (mut filled, mut at) = (begin, start);
        while let Some(room) = self.contents.data.get_mut(filled..).filter(|room| !room.is_empty()) {
            match rustix::io::pread(file, room, at) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    at += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.contents.data.truncate(filled);
        Ok(at)
    }
}

impl Sink for Capture {
    fn enter(&mut self, name: &CStr) -> io::Result<bool> {
        match self.is_new(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            other => other?,
        }
        self.encode().enter(name);
        self.remember(name);
        self.names.push(HashSet::new());
        Ok(true)
    }

    fn leave(&mut self, from: BorrowedFd<'_>, kept: &Kept, whiteouts: bool) -> io::Result<()> {
        let attributes: Vec<Attribute> = self.metadata.marks.read(from)?;
        self.encode().leave(kept, &attributes, whiteouts);
        self.names.pop();
        Ok(())
    }

    fn special(&mut self, from: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
        self.is_new(name)?;
        if let Some(special) = Special::read(from, name, stat)? {
            self.encode().special(name, &stat.into(), &special);
            self.remember(name);
        }
        Ok(())
    }

    fn regular(&mut self, from: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Stat>> {
        self.is_new(name)?;
        let Some(original) = Original::open(from, name)? else { return Ok(None) };
        let stat = original.stat();
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let mut found = Vec::new();
        // Nothing of it is a hole, or none worth keeping.
        let reached = if size <= SMALL || blocks(stat) >= size {
            let end = if size == 0 { 0 } else { self.part(original.file(), 0, size)? };
            found.extend((end > 0).then_some((0, end)));
            end
        } else {
            parts(original.file(), size, |start, end| {
                let reached = self.part(original.file(), start, end)?;
                found.extend((reached > start).then_some((start, reached - start)));
                Ok(reached)
            })?
        };
        let attributes = self.metadata.marks.read(original.file())?;
        self.encode().file(name, &stat.into(), &attributes, reached, &found);
        self.remember(name);
        original.close().map(Some)
    }

    fn link(&mut self, first: &CStr, name: &CStr) -> io::Result<bool> {
        self.is_new(name)?;
        self.encode().link(name, first.to_bytes());
        self.remember(name);
        Ok(true)
    }

    fn share(&mut self, like: usize, path: &[u8], name: &CStr, stat: &Stat) -> io::Result<bool> {
        let Ok(like) = u8::try_from(like) else { return Ok(false) };
        self.is_new(name)?;
        self.count(blocks(stat))?;
        self.encode().same(name, like, path);
        self.remember(name);
        self.shares = true;
        Ok(true)
    }
}
