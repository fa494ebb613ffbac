//! Copies one file, of whatever kind, with everything about it that a layer keeps.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown,
    fstat, ftruncate, futimens, mknodat, openat, readlinkat, seek, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::marks::Marks;
use super::trail::{chmod_unopened, is_whiteout};

/// A file of this size is read and written at once; it has no hole worth keeping.
pub(super) const SMALL: u64 = 4096;

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

/// Owner, permissions and time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

impl From<&Stat> for Kept {
    fn from(stat: &Stat) -> Self {
        Self {
            mode: stat.st_mode & 0o7777,
            user: stat.st_uid,
            group: stat.st_gid,
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or_default(),
        }
    }
}

impl Kept {
    fn mode(&self) -> Mode {
        Mode::from_raw_mode(self.mode & 0o7777)
    }

    fn owner(&self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.user)), Some(Gid::from_raw(self.group)))
    }

    fn times(&self) -> Timestamps {
        let modified = Timespec { tv_sec: self.seconds, tv_nsec: self.nanoseconds.into() };
        Timestamps { last_access: modified, last_modification: modified }
    }
}

impl Metadata {
    /// Owner, permissions and time, in the order in which none undoes another.
    pub(super) fn apply(self, file: impl AsFd, kept: &Kept) -> io::Result<()> {
        if self.owners == Owners::Inside {
            let (user, group) = kept.owner();
            fchown(&file, user, group)?;
        }
        fchmod(&file, kept.mode())?;
        Ok(futimens(&file, &kept.times())?)
    }

    /// Makes what is neither a directory nor a regular file.
    pub(super) fn make(
        self,
        special: &Special,
        to: BorrowedFd<'_>,
        name: &CStr,
        kept: &Kept,
    ) -> io::Result<()> {
        match special {
            Special::Symlink(text) => symlinkat(text, to, name)?,
            Special::Fifo => {
                mknodat(to, name, FileType::Fifo, kept.mode(), 0)?;
                rustix::fs::chmodat(to, name, kept.mode(), AtFlags::empty())?;
            }
            Special::Whiteout => mknodat(to, name, FileType::CharacterDevice, Mode::empty(), 0)?,
        }
        if self.owners == Owners::Inside {
            let (user, group) = kept.owner();
            chownat(to, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(to, name, &kept.times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// What is neither a directory nor a regular file, as far as a layer keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Special {
    Symlink(CString),
    Fifo,
    /// Stands for a removal.
    Whiteout,
}

impl Special {
    /// Reads one; None for sockets and devices, which are left out, and for what was replaced a moment ago.
    pub(super) fn read(from: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<Option<Self>> {
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => match readlinkat(from, name, Vec::new()) {
                Err(Errno::NOENT | Errno::INVAL) => None,
                other => Some(Self::Symlink(other?)),
            },
            FileType::Fifo => Some(Self::Fifo),
            FileType::CharacterDevice if is_whiteout(stat) => Some(Self::Whiteout),
            FileType::Socket => None,
            kind => {
                let name = OsStr::from_bytes(name.to_bytes());
                tracing::warn!(?name, ?kind, "a device in a sandbox was not copied");
                None
            }
        })
    }
}

/// A regular file that was opened to be copied.
pub(super) struct Original {
    file: OwnedFd,
    stat: Stat,
    /// The permissions it had, if it had to be opened up.
    closed: Option<Mode>,
}

impl Original {
    /// Opens one without following links; None if it is no regular file any more.
    pub(super) fn open(from: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Self>> {
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
        let file = match opened {
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            other => other?,
        };
        let mut stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        if let Some(mode) = closed {
            stat.st_mode = (stat.st_mode & !0o7777) | mode.as_raw_mode();
        }
        Ok(Some(Self { file, stat, closed }))
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How it was when it was opened, with its own permissions.
    pub(super) fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Gives it its own permissions back.
    pub(super) fn close(self) -> io::Result<Stat> {
        if let Some(mode) = self.closed {
            fchmod(&self.file, mode)?;
        }
        Ok(self.stat)
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
        match Special::read(from, name, stat)? {
            Some(special) => self.metadata.make(&special, to, name, &stat.into()),
            None => Ok(()),
        }
    }

    /// Copies a regular file, and tells how it was before; None if it is none any more.
    pub(super) fn regular(
        &mut self,
        (from, name): (BorrowedFd<'_>, &CStr),
        (to, new_name): (BorrowedFd<'_>, &CStr),
    ) -> io::Result<Option<Stat>> {
        let Some(original) = Original::open(from, name)? else { return Ok(None) };
        let copy = create(to, new_name)?;
        self.content(original.file(), copy.as_fd(), original.stat())?;
        self.metadata.marks.copy(original.file(), &copy)?;
        self.metadata.apply(&copy, &original.stat().into())?;
        original.close().map(Some)
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
        let reached = parts(from, size, |start, end| {
            self.count(end - start)?;
            copy_range(from, to, start, end)
        })?;
        if reached < size {
            ftruncate(to, reached)?;
        }
        Ok(())
    }
}

/// Makes a file that only we can use until it is finished.
pub(super) fn create(to: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?)
}

/// Calls `each` with every part of a file that holds data. It says how far it got; if that is not to the end, the file
/// became shorter meanwhile. Gives the length of the file then.
pub(super) fn parts(
    file: BorrowedFd<'_>,
    size: u64,
    mut each: impl FnMut(u64, u64) -> io::Result<u64>,
) -> io::Result<u64> {
    let mut at = 0;
    while at < size {
        let data = match seek(file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            other => other?,
        };
        let end = match seek(file, SeekFrom::Hole(data)) {
            Err(Errno::NXIO) => break,
            other => other?.min(size),
        };
        if data >= end {
            break;
        }
        let reached = each(data, end)?;
        if reached < end {
            return Ok(reached);
        }
        at = end;
    }
    Ok(size)
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

/// Writes all of it at a place in a file.
pub(super) fn write_all(to: BorrowedFd<'_>, mut piece: &[u8], mut at: u64) -> io::Result<()> {
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

/// Bytes on disk.
pub(super) fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512)
}

/// The error of a tree that is larger than its limit.
pub(super) fn too_much(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it holds more {what} than its limit allows"))
}
