//! A directory that is written by names from a stranger.
//!
//! A name is walked one part at a time from open directories. A link on the way is followed as it would be inside, with
//! this directory as the root, by the kernel itself; nothing leads outside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, XattrFlags};
use rustix::io::Errno;

/// A longer name is of use to nobody: programs cannot even say it.
const NAME_BYTES: usize = 16 * 1024;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

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

    pub(super) fn top() -> Self {
        Self(Vec::new())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
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
    at: Option<Vec<u8>>,
}

impl Tree {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
        let here = root.try_clone()?;
        Ok(Self { root, here, at: Some(Vec::new()) })
    }

    /// The directory that was entered last.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Goes to a directory; what is missing on the way is made, at most `room`, and what is in the way is replaced.
    /// Says how many were made.
    pub(super) fn enter(&mut self, name: &[u8], room: u64, opaque: Option<&str>) -> io::Result<u64> {
        let mut made = 0;
        let mut done = 0;
        match self.at.take() {
            Some(at) if name.starts_with(&at) && (at.is_empty() || name.get(at.len()) == Some(&b'/')) => {
                done = if at.is_empty() { 0 } else { at.len() + 1 };
            }
            Some(at) if at == name => done = name.len(),
            _ => self.here = self.root.try_clone()?,
        }
        while done < name.len() {
            let end = name[done..].iter().position(|byte| *byte == b'/').map_or(name.len(), |at| done + at);
            let part = &name[done..end];
            match rustix::fs::openat(&self.here, part, DIRECTORY, Mode::empty()) {
                Ok(next) => self.here = next,
                Err(Errno::NOTDIR | Errno::LOOP) if self.is_link(part)? => {
                    self.here = self.through_links(&name[..end])?.ok_or_else(|| {
                        io::Error::new(
                            io::ErrorKind::InvalidData,
                            "its way goes through a link that leads to no directory",
                        )
                    })?;
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {
                    if made == room {
                        return Err(io::Error::new(
                            io::ErrorKind::InvalidData,
                            "it has more in it than a base may have",
                        ));
                    }
                    let (next, new) = self.directory(part, opaque)?;
                    if new {
                        // Nobody said how this one is to be. A temporary directory that is not for everybody breaks programs.
                        let mode = if matches!(&name[..end], b"tmp" | b"var/tmp") { 0o1777 } else { 0o755 };
                        rustix::fs::fchmod(&next, Mode::from_raw_mode(mode))?;
                        made += 1;
                    }
                    self.here = next;
                }
                Err(error) => return Err(error.into()),
            }
            done = end + 1;
        }
        self.at = Some(name.to_vec());
        Ok(made)
    }

    /// Opens a directory without making anything; None when there is none.
    pub(super) fn find(&self, name: &[u8]) -> io::Result<Option<OwnedFd>> {
        let mut here = self.root.try_clone()?;
        let mut end = 0;
        for part in name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            end += part.len() + usize::from(end > 0);
            match rustix::fs::openat(&here, part, DIRECTORY, Mode::empty()) {
                Ok(next) => here = next,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => match self.through_links(&name[..end])? {
                    Some(next) => here = next,
                    None => return Ok(None),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(here))
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

    fn is_link(&self, name: &[u8]) -> io::Result<bool> {
        Ok(self.kind(name)? == FileType::Symlink)
    }

    fn through_links(&self, name: &[u8]) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(&self.root, name, flags, Mode::empty(), inside) {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
            Err(error) => Err(error.into()),
        }
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
