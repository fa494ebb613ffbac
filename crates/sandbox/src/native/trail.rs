//! A way down into a tree that a sandbox may still be changing, and back up.
//!
//! Names are opened one at a time from open directories and links are never followed. Only the directories near the
//! current one stay open, so that no tree is too deep; the way back up leads through `..`, and counts only if it ends
//! at the very directory that was left.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fchmod, fstat, openat, statat};
use rustix::io::{Errno, Result};

/// How many directories above the current one stay open.
const OPEN: usize = 12;

/// Room for the names that are read from a directory at once.
const NAMES: usize = 32 * 1024;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open directory, with the permissions it had before it was opened up for us.
struct Place {
    fd: OwnedFd,
    seen: Seen,
}

/// What is known of a directory whether or not it is open.
#[derive(Clone, Copy)]
struct Seen {
    device: u64,
    inode: u64,
    closed: Option<Mode>,
}

/// Where we are in a tree, and how we got there.
pub(super) struct Trail {
    here: Place,
    above: Vec<(Seen, Option<OwnedFd>)>,
}

impl Trail {
    /// Begins at a directory.
    pub(super) fn begin(root: OwnedFd) -> Result<Self> {
        let stat = fstat(&root)?;
        let closed = open_up(&root, &stat)?;
        Ok(Self { here: Place { fd: root, seen: Seen::of(&stat, closed) }, above: Vec::new() })
    }

    /// Begins at a directory by its name in another.
    pub(super) fn begin_at(parent: impl AsFd, name: &CStr) -> Result<Self> {
        let place = open(parent.as_fd(), name)?.0;
        Ok(Self { here: place, above: Vec::new() })
    }

    /// The current directory.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.here.fd.as_fd()
    }

    /// Goes into a directory and tells what it is like, with the permissions it has for its own users.
    pub(super) fn enter(&mut self, name: &CStr) -> Result<Stat> {
        let (place, stat) = open(self.here(), name)?;
        let left = std::mem::replace(&mut self.here, place);
        self.above.push((left.seen, Some(left.fd)));
        if let Some(far) = self.above.len().checked_sub(OPEN + 1)
            && let Some((_, fd)) = self.above.get_mut(far)
        {
            *fd = None;
        }
        Ok(stat)
    }

    /// Goes back to where `enter` was called. Gives the directory that was left.
    pub(super) fn leave(&mut self) -> Result<OwnedFd> {
        let (seen, fd) = self.above.pop().ok_or(Errno::INVAL)?;
        let fd = match fd {
            Some(fd) => fd,
            None => {
                let fd = openat(&self.here.fd, c"..", DIRECTORY, Mode::empty())?;
                let stat = fstat(&fd)?;
                if (stat.st_dev, stat.st_ino) != (seen.device, seen.inode) {
                    // Somebody moved the directory we were in.
                    return Err(Errno::STALE);
                }
                fd
            }
        };
        let left = std::mem::replace(&mut self.here, Place { fd, seen });
        left.close()
    }
}

/// Calls `each` with the name of everything in a directory that was not read from before, and what kind of file it is.
pub(super) fn names(
    directory: BorrowedFd<'_>,
    mut each: impl FnMut(&CStr, FileType) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(NAMES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match stat_at(directory, name)? {
                Some(stat) => FileType::from_raw_mode(stat.st_mode),
                None => continue,
            },
            kind => kind,
        };
        each(name, kind)?;
    }
    Ok(())
}

impl Seen {
    fn of(stat: &Stat, closed: Option<Mode>) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino, closed }
    }
}

impl Place {
    /// Gives a directory the permissions back that it had.
    fn close(self) -> Result<OwnedFd> {
        if let Some(mode) = self.seen.closed {
            fchmod(&self.fd, mode)?;
        }
        Ok(self.fd)
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        // After an error, as far as it can be done; the error itself is what the caller is told.
        let above = self.above.iter().filter_map(|(seen, fd)| Some((seen.closed?, fd.as_ref()?)));
        for (mode, fd) in self.here.seen.closed.map(|mode| (mode, &self.here.fd)).into_iter().chain(above) {
            let _kept_open = fchmod(fd, mode);
        }
    }
}

/// Opens a directory, also one that its owner closed to himself: an ordinary user has no other way in.
fn open(parent: BorrowedFd<'_>, name: &CStr) -> Result<(Place, Stat)> {
    let (fd, closed) = match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let mode = chmod_unopened(parent, name, Mode::RWXU)?;
            (openat(parent, name, DIRECTORY, Mode::empty())?, Some(mode))
        }
        other => (other?, None),
    };
    let mut stat = fstat(&fd)?;
    let closed = match closed {
        Some(mode) => {
            stat.st_mode = (stat.st_mode & !0o7777) | mode.as_raw_mode();
            Some(mode)
        }
        None => open_up(&fd, &stat)?,
    };
    Ok((Place { seen: Seen::of(&stat, closed), fd }, stat))
}

/// Lets its owner search a directory; root may anyway.
fn open_up(fd: &OwnedFd, stat: &Stat) -> Result<Option<Mode>> {
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    if mode.contains(Mode::RWXU) || rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    fchmod(fd, mode | Mode::RWXU)?;
    Ok(Some(mode))
}

/// Adds permissions to what cannot be opened as it is; gives those it had. The file is the one that `name` is now, and no
/// link is followed.
pub(super) fn chmod_unopened(parent: BorrowedFd<'_>, name: &CStr, add: Mode) -> Result<Mode> {
    let handle = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&handle)?.st_mode & 0o7777);
    rustix::fs::chmod(itself(&handle), mode | add)?;
    Ok(mode)
}

/// A path that leads to an open file, for calls that take only paths.
pub(super) fn itself(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()))
}

/// What a name is, without following it; None if it is gone.
pub(super) fn stat_at(parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>> {
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it stands for a removal in overlayfs.
pub(super) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Opens a directory that nobody but us can put somewhere else.
pub(super) fn open_own(path: &std::path::Path) -> std::io::Result<OwnedFd> {
    Ok(openat(rustix::fs::CWD, path, DIRECTORY, Mode::empty())?)
}

/// A name for a system call.
pub(super) fn c_name(name: &std::ffi::OsStr) -> std::io::Result<CString> {
    Ok(CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?)
}
