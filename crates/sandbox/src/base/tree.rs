//! A directory that is written by names from a stranger, and becomes a layer over others.
//!
//! A name is walked one part at a time from open directories. A link on the way, in this directory or in the layers
//! below it, is followed as it would be inside; nothing leads outside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;

use super::below::{Below, DIRECTORY, Parts, Shown, is_removal};

/// A longer name is of use to nobody: programs cannot even say it.
const NAME_BYTES: usize = 16 * 1024;

/// A name in an archive: parts with one `/` between them, none of them `.` or `..`; empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// A leading `/` means the root that is unpacked to; a name that goes up is refused.
    pub(super) fn new(bytes: &[u8]) -> io::Result<Self> {
        let bad = |message: &str| io::Error::new(io::ErrorKind::InvalidData, message.to_owned());
        if bytes.len() > NAME_BYTES {
            return Err(bad("it has a name of more than 16 KiB"));
        }
        if bytes.contains(&0) {
            return Err(bad("it has a name with a zero byte"));
        }
        let mut name = Vec::with_capacity(bytes.len());
        for part in bytes.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return Err(bad("it has a name that leaves the archive")),
                _ => {}
            }
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend_from_slice(part);
        }
        Ok(Self(name))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The directory it is in, and its last part; None for the root.
    pub(super) fn split(&self) -> Option<(&[u8], &[u8])> {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => Some((&self.0[..slash], &self.0[slash + 1..])),
            None if self.0.is_empty() => None,
            None => Some((b"", &self.0)),
        }
    }
}

/// The directory, and the one in it where the last entry was.
pub(super) struct Tree {
    root: OwnedFd,
    here: OwnedFd,
    at: Option<Place>,
    below: Below,
    /// Whether directories that are made like one below get its owner, too.
    owners: bool,
}

/// The directory that was entered last.
struct Place {
    /// As it was asked for.
    name: Vec<u8>,
    /// Without links.
    way: Vec<u8>,
}

impl Tree {
    pub(super) fn open(path: &Path, below: Below, owners: bool) -> io::Result<Self> {
        let root = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
        let here = root.try_clone()?;
        Ok(Self { root, here, at: None, below, owners })
    }

    /// The directory that was entered last.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// The name, without links on the way, of something in the directory that was entered last.
    pub(super) fn way_to(&self, name: &[u8]) -> Vec<u8> {
        match &self.at {
            Some(Place { way, .. }) if !way.is_empty() => [way, name].join(&b'/'),
            _ => name.to_vec(),
        }
    }

    /// Goes to a directory; what is missing on the way is made, at most `room`, and what is in the way is replaced.
    /// Says how many were made.
    pub(super) fn enter(&mut self, name: &[u8], room: u64, opaque: Option<&str>) -> io::Result<u64> {
        let inside = |at: &Place| {
            let beside = name.get(at.name.len());
            name.starts_with(&at.name) && (at.name.is_empty() || matches!(beside, None | Some(b'/')))
        };
        let (mut way, rest) = match self.at.take().filter(inside) {
            Some(at) => (at.way, &name[at.name.len()..]),
            None => {
                self.here = self.root.try_clone()?;
                (Vec::new(), name)
            }
        };
        for part in rest.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            match rustix::fs::openat(&self.here, part, DIRECTORY, Mode::empty()) {
                Ok(next) => self.here = next,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    return self.enter_through_below(name, room, opaque);
                }
                Err(error) => return Err(error.into()),
            }
            if !way.is_empty() {
                way.push(b'/');
            }
            way.extend_from_slice(part);
        }
        self.at = Some(Place { name: name.to_vec(), way });
        Ok(0)
    }

    /// The same where this layer alone does not show the way.
    fn enter_through_below(&mut self, name: &[u8], room: u64, opaque: Option<&str>) -> io::Result<u64> {
        let way = self.below.resolve(self.root.as_fd(), name)?.name;
        self.here = self.root.try_clone()?;
        // What shows through from below, as far as this layer lets it.
        let mut through = if self.below.hides(&self.root)? { Vec::new() } else { self.below.root()? };
        let mut made = 0;
        let mut end = 0;
        for part in way.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            end += part.len() + usize::from(end > 0);
            through = match self.below.look(&through, part)? {
                Shown::Directory(parts) => parts,
                Shown::Nothing | Shown::Link(_) | Shown::Other => Parts::new(),
            };
            self.here = match rustix::fs::openat(&self.here, part, DIRECTORY, Mode::empty()) {
                Ok(next) => next,
                Err(error @ (Errno::NOENT | Errno::NOTDIR)) => {
                    if made == room {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "it has more in it than a base may have",
                        ));
                    }
                    if error == Errno::NOTDIR {
                        through.clear();
                    }
                    made += 1;
                    let (next, _) = self.directory(part, opaque)?;
                    match through.first() {
                        Some(like) => self.dress_like(&next, like)?,
                        None => fchmod_unsaid(&next, &way[..end])?,
                    }
                    next
                }
                Err(error) => return Err(error.into()),
            };
            if self.below.hides(&self.here)? {
                through.clear();
            }
        }
        self.at = Some(Place { name: name.to_vec(), way });
        Ok(made)
    }

    /// Gives a directory that is only here because something is put into it what the one below has: this one is seen in
    /// its place.
    fn dress_like(&self, directory: &OwnedFd, like: &OwnedFd) -> io::Result<()> {
        let stat = rustix::fs::fstat(like)?;
        if self.owners {
            let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            rustix::fs::fchown(directory, Some(uid), Some(gid))?;
        }
        Ok(rustix::fs::fchmod(directory, Mode::from_raw_mode(stat.st_mode))?)
    }

    /// Opens a directory of this layer by a way without links; None when there is none.
    pub(super) fn find(&self, way: &[u8]) -> io::Result<Option<OwnedFd>> {
        let mut here = self.root.try_clone()?;
        for part in way.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            match rustix::fs::openat(&here, part, DIRECTORY, Mode::empty()) {
                Ok(next) => here = next,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(here))
    }

    /// The directory, of this layer or of one below, that has what is shown under a name in a directory; None when nothing
    /// is.
    pub(super) fn holder(&self, directory: &[u8], name: &[u8]) -> io::Result<Option<OwnedFd>> {
        let parts = self.below.resolve(self.root.as_fd(), directory)?.parts;
        for part in parts.into_iter().flatten() {
            match rustix::fs::statat(&part, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if is_removal(&stat) => return Ok(None),
                Ok(_) => return Ok(Some(part)),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Opens a directory here, and says whether it is new. Anything else of that name is replaced; since that hid what is
    /// below it in other layers, the directory then is marked to do so as well.
    pub(super) fn directory(&mut self, name: &[u8], opaque: Option<&str>) -> io::Result<(OwnedFd, bool)> {
        let mut new = true;
        match rustix::fs::mkdirat(&self.here, name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) if self.kind(name)? == FileType::Directory => new = false,
            Err(Errno::EXIST) => {
                self.remove(name)?;
                rustix::fs::mkdirat(&self.here, name, Mode::RWXU)?;
                if let Some(opaque) = opaque {
                    mark(rustix::fs::openat(&self.here, name, DIRECTORY, Mode::empty())?.as_fd(), opaque)?;
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok((rustix::fs::openat(&self.here, name, DIRECTORY, Mode::empty())?, new))
    }

    /// Makes something here; what has the name already is removed first.
    pub(super) fn make<T>(
        &mut self,
        name: &[u8],
        make: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        match make(self.here.as_fd()) {
            Err(Errno::EXIST) => {
                self.remove(name)?;
                Ok(make(self.here.as_fd())?)
            }
            other => Ok(other?),
        }
    }

    /// Marks this directory so that it hides what is below it in other layers.
    pub(super) fn mark(&self, opaque: &str) -> io::Result<()> {
        mark(self.here(), opaque)
    }

    fn kind(&self, name: &[u8]) -> io::Result<FileType> {
        let stat = rustix::fs::statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn remove(&mut self, name: &[u8]) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        // The place of the last entry may be in what is removed.
        self.at = None;
        if self.kind(name)? != FileType::Directory {
            return Ok(rustix::fs::unlinkat(&self.here, name, AtFlags::empty())?);
        }
        let here = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.here));
        launcher::tree::remove(&Path::new(&here).join(std::ffi::OsStr::from_bytes(name)))
    }
}

/// Marks a directory so that it hides what is below it in other layers.
pub(super) fn mark(directory: BorrowedFd<'_>, opaque: &str) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(directory, opaque, b"y", XattrFlags::empty())?)
}

/// Nobody said how this directory is to be. A temporary directory that is not for everybody breaks programs.
fn fchmod_unsaid(directory: &OwnedFd, way: &[u8]) -> io::Result<()> {
    let mode = if matches!(way, b"tmp" | b"var/tmp") { 0o1777 } else { 0o755 };
    Ok(rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?)
}
