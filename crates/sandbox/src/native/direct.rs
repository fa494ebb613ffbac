//! A copy that goes straight into a tree.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, Stat, linkat, mkdirat};
use rustix::io::Errno;

use super::copy::{Like, Order, Sink};
use super::duplicate::{Duplicator, Kept, Metadata, blocks};
use super::trail::{Trail, open_own};

/// The tree that is being made.
pub(super) struct Direct<'a> {
    metadata: Metadata,
    likes: &'a [Like],
    root: OwnedFd,
    target: Trail,
    depth: usize,
    duplicator: Duplicator,
}

impl<'a> Direct<'a> {
    /// Copies into an empty directory.
    pub(super) fn new(to: &Path, order: &Order<'a>) -> io::Result<Self> {
        let root = open_own(to)?;
        Ok(Self {
            metadata: order.metadata,
            likes: order.likes,
            target: Trail::begin(root.try_clone()?)?,
            root,
            depth: 0,
            duplicator: Duplicator::new(order.metadata, order.limit.bytes),
        })
    }
}

impl Sink for Direct<'_> {
    fn enter(&mut self, name: &CStr) -> io::Result<bool> {
        // Nobody but us may use it until it is finished.
        match mkdirat(self.target.here(), name, Mode::RWXU) {
            Err(Errno::EXIST) => return Ok(false),
            other => other?,
        }
        self.target.enter(name)?;
        self.depth += 1;
        Ok(true)
    }

    fn leave(&mut self, from: BorrowedFd<'_>, kept: &Kept, whiteouts: bool) -> io::Result<()> {
        let marks = self.metadata.marks;
        marks.copy(from, self.target.here())?;
        if whiteouts {
            marks.has_whiteouts(self.target.here())?;
        }
        let done = match self.depth {
            0 => self.root.try_clone()?,
            _ => {
                self.depth -= 1;
                self.target.leave()?
            }
        };
        self.metadata.apply(&done, kept)
    }

    fn special(&mut self, from: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()> {
        self.duplicator.special(from, self.target.here(), name, stat)
    }

    fn regular(&mut self, from: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Stat>> {
        self.duplicator.regular((from, name), (self.target.here(), name))
    }

    fn link(&mut self, first: &CStr, name: &CStr) -> io::Result<bool> {
        Ok(linkat(&self.root, first, self.target.here(), name, AtFlags::empty()).is_ok())
    }

    /// What fails here can still be copied.
    fn share(&mut self, like: usize, path: &[u8], name: &CStr, stat: &Stat) -> io::Result<bool> {
        let Some(root) = self.likes.get(like).and_then(|like| like.root.as_ref()) else { return Ok(false) };
        if linkat(root, path, self.target.here(), name, AtFlags::empty()).is_err() {
            return Ok(false);
        }
        self.duplicator.count(blocks(stat))?;
        Ok(true)
    }
}
