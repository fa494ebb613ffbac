//! Files in a directory that a stranger filled: whatever links are in it, only what is in it is opened.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::Error;

fn open(top: &Path, name: &str, flags: OFlags) -> Result<Option<File>, Error> {
    let whole = || top.join(name);
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top_fd = rustix::fs::open(top, directory, Mode::empty())
        .map_err(|error| Error::Io { path: top.to_owned(), source: error.into() })?;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let name = if name.is_empty() { "." } else { name };
    match rustix::fs::openat2(top_fd, name, flags | OFlags::CLOEXEC, Mode::empty(), inside) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::XDEV | Errno::LOOP) => Err(Error::Build {
            message: format!("{} is a link that leads elsewhere", whole().display()),
            hint: "put the file itself there".to_owned(),
        }),
        Err(error) => Err(Error::Io { path: whole(), source: error.into() }),
    }
}

/// An open regular file; None when it is not there.
pub(super) fn file(top: &Path, name: &str) -> Result<Option<File>, Error> {
    // A pipe that is opened without this would wait for a writer.
    let Some(file) = open(top, name, OFlags::RDONLY | OFlags::NONBLOCK)? else { return Ok(None) };
    let stat =
        rustix::fs::fstat(&file).map_err(|error| Error::Io { path: top.join(name), source: error.into() })?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Some(file)),
        _ => Err(Error::Build {
            message: format!("{} is not a file", top.join(name).display()),
            hint: "put a file there".to_owned(),
        }),
    }
}

/// The text of a file that has no more than `most` bytes; None when it is not there.
pub(super) fn read(top: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = file(top, name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(Error::io(top.join(name)))?;
    if bytes.len() as u64 > most {
        return Err(Error::Build {
            message: format!("{} has more than {most} bytes", top.join(name).display()),
            hint: "it is not what it should be; replace it".to_owned(),
        });
    }
    Ok(Some(bytes))
}

/// Where a file or directory really is, for programs that take paths; None when it is not there.
pub(super) fn path(top: &Path, name: &str) -> Result<Option<PathBuf>, Error> {
    let Some(file) = open(top, name, OFlags::PATH)? else { return Ok(None) };
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    std::fs::read_link(&link).map(Some).map_err(Error::io(link))
}
