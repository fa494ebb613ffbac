//! Copies one file, of whatever kind, with everything about it that a layer keeps.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown,
    fstat, ftruncate, futimens, mknodat, openat, readlinkat, seek, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::marks::Marks;
use super::trail::{chmod_unopened, is_whiteout};

/// A file of this size is read and written at once; it has no hole worth keeping.
const SMALL: u64 = 4096;

/// What is kept of a file beside its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metadata {
    /// Where overlayfs keeps its marks.
    pub(super) marks: Marks,
    /// Whether files have owners of their own; only root can keep them.
    pub(super) owners: Owners,
}

/// Whose the files of layers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// Each has the ids that it has inside.
    Inside,
    /// All are this user's own.
    Own,
}

impl Metadata {
    /// Owner, permissions and time, in the order in which none undoes another.
    pub(super) fn apply(self, file: impl AsFd, stat: &Stat) -> io::Result<()> {
        if self.owners == Owners::Inside {
            let (user, group) = owner(stat);
            fchown(&file, Some(user), Some(group))?;
        }
        fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        Ok(futimens(&file, &times(stat))?)
    }
}

/// Copies files one at a time, and counts.
pub(super) struct Duplicator {
    metadata: Metadata,
    /// Bytes that may still be copied.
    left: u64,
    /// Whether copies can share their blocks with the original, as far as we know.
    reflink: bool,
}

impl Duplicator {
    pub(super) fn new(metadata: Metadata, limit: u64) -> Self {
        Self { metadata, left: limit, reflink: true }
    }

    /// Takes bytes from what may be copied.
    pub(super) fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| too_much("bytes"))?;
        Ok(())
    }

    /// Copies what is neither a directory nor a regular file. Sockets and devices are left out.
    pub(super) fn special(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> io::Result<()> {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let text = match readlinkat(from, name, Vec::new()) {
                    // It was replaced a moment ago.
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(()),
                    other => other?,
                };
                symlinkat(&text, to, name)?;
            }
            FileType::Fifo => {
                mknodat(to, name, FileType::Fifo, mode, 0)?;
                rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
            }
            FileType::CharacterDevice if is_whiteout(stat) => {
                mknodat(to, name, FileType::CharacterDevice, Mode::empty(), 0)?;
            }
            FileType::Socket => return Ok(()),
            kind => {
                let name = OsStr::from_bytes(name.to_bytes());
                tracing::warn!(?name, ?kind, "a device in a sandbox was not copied");
                return Ok(());
            }
        }
        if self.metadata.owners == Owners::Inside {
            let (user, group) = owner(stat);
            chownat(to, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(to, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Copies a regular file, and tells how it was before; None if it is none any more.
    pub(super) fn regular(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> io::Result<Option<Stat>> {
        // Whatever it became meanwhile, opening it does not wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let mut closed = None;
        let opened = match openat(from, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {
                closed = Some(chmod_unopened(from, name, Mode::RUSR)?);
                openat(from, name, flags, Mode::empty())
            }
            other => other,
        };
        let original = match opened {
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            other => other?,
        };
        let mut stat = fstat(&original)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
        self.content(original.as_fd(), copy.as_fd(), &stat)?;
        self.metadata.marks.copy(&original, &copy)?;
        if let Some(mode) = closed {
            fchmod(&original, mode)?;
            stat.st_mode = (stat.st_mode & !0o7777) | mode.as_raw_mode();
        }
        self.metadata.apply(&copy, &stat)?;
        Ok(Some(stat))
    }

    fn content(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size == 0 {
            return Ok(());
        }
        if self.reflink {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => return self.count(blocks(stat)),
                Err(_) => self.reflink = false,
            }
        }
        if size <= SMALL {
            self.count(size)?;
            let size = usize::try_from(size).unwrap_or_default();
            let mut buffer = [0; SMALL as usize];
            let mut filled = 0;
            while filled < size {
                match rustix::io::pread(from, &mut buffer[filled..size], filled as u64) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            return write_all(to, &buffer[..filled], 0);
        }
        // What is not written stays a hole.
        ftruncate(to, size)?;
        let mut at = 0;
        while at < size {
            let data = match seek(from, SeekFrom::Data(at)) {
                Err(Errno::NXIO) => break,
                other => other?,
            };
            let end = match seek(from, SeekFrom::Hole(data)) {
                Err(Errno::NXIO) => break,
                other => other?.min(size),
            };
            if data >= end {
                break;
            }
            self.count(end - data)?;
            let reached = copy_range(from, to, data, end)?;
            if reached < end {
                // It became shorter meanwhile.
                ftruncate(to, reached)?;
                break;
            }
            at = end;
        }
        Ok(())
    }
}

/// Copies a part of a file; gives where it ended, earlier than asked if the file did.
fn copy_range(from: BorrowedFd<'_>, to: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        let (mut read, mut written) = (at, at);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), wanted) {
            Ok(0) => return Ok(at),
            Ok(count) => at += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_range_by_hand(from, to, at, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

fn copy_range_by_hand(from: BorrowedFd<'_>, to: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
    let mut buffer = vec![0; 128 * 1024];
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
        let count = match rustix::io::pread(from, &mut buffer[..wanted], at) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        if count == 0 {
            break;
        }
        write_all(to, &buffer[..count], at)?;
        at += count as u64;
    }
    Ok(at)
}

fn write_all(to: BorrowedFd<'_>, mut piece: &[u8], mut at: u64) -> io::Result<()> {
    while !piece.is_empty() {
        match rustix::io::pwrite(to, piece, at) {
            Err(Errno::INTR) => {}
            Ok(written) => {
                piece = piece.get(written..).unwrap_or_default();
                at += written as u64;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn owner(stat: &Stat) -> (Uid, Gid) {
    (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))
}

/// Bytes on disk.
pub(super) fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512)
}

fn times(stat: &Stat) -> Timestamps {
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
    Timestamps { last_access: modified, last_modification: modified }
}

/// The error of a tree that is larger than its limit.
pub(super) fn too_much(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it holds more {what} than its limit allows"))
}
