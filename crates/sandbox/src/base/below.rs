//! What a layer is put over: the layers below it, seen as the one tree that they show together.
//!
//! Names are walked one part at a time from open directories, and nothing is followed by the kernel. A link leads where it
//! would inside, with the root of the layers as its root; `..` at the top stays there. So no name leads outside, whatever
//! links the layers hold and however they go through each other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Opens a directory, and nothing else.
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Links on one way; a kernel follows no more either.
const LINKS: u32 = 40;

/// The directories of several layers that show one directory together, topmost first.
pub(super) type Parts = Vec<OwnedFd>;

/// What layers show under a name.
pub(super) enum Shown {
    Nothing,
    Directory(Parts),
    Link(Vec<u8>),
    Other,
}

/// Where a name leads.
pub(super) struct Way {
    /// The directory without links on the way to it, parts with a `/` between them.
    pub(super) name: Vec<u8>,
    /// What shows it; None when it is not there.
    pub(super) parts: Option<Parts>,
}

/// The layers below, topmost first.
pub(super) struct Below {
    roots: Parts,
    opaque: &'static str,
}

impl Below {
    pub(super) fn open(roots: &[PathBuf], opaque: &'static str) -> io::Result<Self> {
        let open = |root: &PathBuf| Ok(rustix::fs::open(root, DIRECTORY, Mode::empty())?);
        Ok(Self { roots: roots.iter().map(open).collect::<io::Result<_>>()?, opaque })
    }

    /// The root of what shows through a layer.
    pub(super) fn root(&self) -> io::Result<Parts> {
        self.together(None)
    }

    /// The root of these layers, with one more on top.
    fn together(&self, top: Option<BorrowedFd<'_>>) -> io::Result<Parts> {
        let mut parts = Vec::new();
        for root in top.into_iter().chain(self.roots.iter().map(AsFd::as_fd)) {
            parts.push(root.try_clone_to_owned()?);
            if self.hides(root)? {
                break;
            }
        }
        Ok(parts)
    }

    /// Whether a directory hides what layers below have in its place.
    pub(super) fn hides(&self, directory: impl AsFd) -> io::Result<bool> {
        let mut value = [0; 8];
        match rustix::fs::fgetxattr(directory, self.opaque, &mut value) {
            Ok(length) => Ok(value.get(..length) == Some(b"y")),
            Err(Errno::NODATA | Errno::RANGE | Errno::NOTSUP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What a directory's parts show under a name.
    pub(super) fn look(&self, parts: &[OwnedFd], name: &[u8]) -> io::Result<Shown> {
        let mut found = Vec::new();
        for part in parts {
            match rustix::fs::openat(part, name, DIRECTORY, Mode::empty()) {
                Ok(directory) => {
                    let last = self.hides(&directory)?;
                    found.push(directory);
                    if last {
                        break;
                    }
                }
                Err(Errno::NOENT) => {}
                // It ends a directory of the layers above it, or is what is shown.
                Err(Errno::NOTDIR | Errno::LOOP) if found.is_empty() => return other(part.as_fd(), name),
                Err(Errno::NOTDIR | Errno::LOOP) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(if found.is_empty() { Shown::Nothing } else { Shown::Directory(found) })
    }

    /// Where a directory is in these layers with `top` above them, after all links on the way. It need not be there.
    pub(super) fn resolve(&self, top: BorrowedFd<'_>, name: &[u8]) -> io::Result<Way> {
        let mut way: Vec<Vec<u8>> = Vec::new();
        let mut parts = Some(self.together(Some(top))?);
        let mut left = reversed(name);
        let mut links = 0;
        while let Some(part) = left.pop() {
            if part == b".." {
                way.pop();
                parts = self.walk(top, &way)?;
                continue;
            }
            let shown = match &parts {
                Some(parts) => self.look(parts, &part)?,
                None => Shown::Nothing,
            };
            parts = match shown {
                Shown::Link(target) => {
                    links += 1;
                    if links > LINKS {
                        return Err(bad("its way goes through links without end"));
                    }
                    left.extend(reversed(&target));
                    if target.starts_with(b"/") {
                        way.clear();
                        parts = Some(self.together(Some(top))?);
                    }
                    continue;
                }
                Shown::Other if links > 0 => {
                    return Err(bad("its way goes through a link that leads to no directory"));
                }
                Shown::Directory(parts) => Some(parts),
                Shown::Nothing | Shown::Other => None,
            };
            way.push(part);
        }
        Ok(Way { name: way.join(&b'/'), parts })
    }

    /// A directory by a way without links; None when it is not there.
    fn walk(&self, top: BorrowedFd<'_>, way: &[Vec<u8>]) -> io::Result<Option<Parts>> {
        let mut parts = self.together(Some(top))?;
        for part in way {
            match self.look(&parts, part)? {
                Shown::Directory(next) => parts = next,
                Shown::Nothing | Shown::Link(_) | Shown::Other => return Ok(None),
            }
        }
        Ok(Some(parts))
    }
}

/// The parts of a name, last first, without those that lead nowhere else.
fn reversed(name: &[u8]) -> Vec<Vec<u8>> {
    let parts = name.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.rev().map(<[u8]>::to_vec).collect()
}

/// What is there that is not a directory.
fn other(at: BorrowedFd<'_>, name: &[u8]) -> io::Result<Shown> {
    let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Shown::Link(rustix::fs::readlinkat(at, name, Vec::new())?.into_bytes()),
        _ if is_removal(&stat) => Shown::Nothing,
        _ => Shown::Other,
    })
}

/// Whether it stands for the removal of what layers below have.
pub(super) fn is_removal(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn bad(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}
