//! Paths in which no link is followed. Whoever decided on a path has seen where its links lead, and what runs beside may make
//! others of them at any time: so each directory is opened by itself, and what is done is done in the one that was opened.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, open, openat};
use rustix::io::Errno;

/// Whether links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// What is done about directories that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fail,
    Make,
}

/// A name in a directory that is held open.
pub(super) struct Pinned {
    directory: OwnedFd,
    name: OsString,
}

impl Pinned {
    /// A path to it that leads through the open directory, as long as this value is there.
    pub(super) fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(&self.name)
    }
}

/// Holds the directory that a path is in.
pub(super) fn parent(path: &Path, missing: Missing) -> io::Result<Pinned> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?.to_owned();
    let directory = directory(path.parent().unwrap_or(Path::new("/")), missing)?;
    Ok(Pinned { directory, name })
}

/// Holds a directory; the name is the directory itself.
pub(super) fn whole(path: &Path) -> io::Result<Pinned> {
    Ok(Pinned { directory: directory(path, Missing::Fail)?, name: ".".into() })
}

fn directory(path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    const FLAGS: OFlags =
        OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut at = open("/", FLAGS, Mode::empty())?;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::ParentDir => "..".as_ref(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        at = match openat(&at, name, FLAGS, Mode::empty()) {
            Err(Errno::NOENT) if missing == Missing::Make => {
                match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&at, name, FLAGS, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(at)
}
