//! Files that have a name.

use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::{Errno, Result};

use super::tally::Tally;

/// Paths longer than this begin at a directory of their own.
const LONGEST_PATH: usize = 2000;

/// A directory that is still to be counted: how to get there from an open one.
struct Place {
    from: Rc<OwnedFd>,
    path: PathBuf,
}

impl Place {
    /// Opens it; None when it is gone or something else is there now.
    fn open(&self) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match openat2(&*self.from, &self.path, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::AGAIN) => Ok(None),
            other => other.map(Some),
        }
    }

    /// A directory in this one, which is open as `here`.
    fn below(&self, here: &OwnedFd, name: &CStr) -> Result<Self> {
        let path = self.path.join(OsStr::from_bytes(name.to_bytes()));
        if path.as_os_str().len() <= LONGEST_PATH {
            return Ok(Self { from: self.from.clone(), path });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let from = Rc::new(openat(here, name, flags, Mode::empty())?);
        Ok(Self { from, path: PathBuf::from(".") })
    }
}

/// Adds everything below a directory, until it is enough. Links are not followed, and a file with many names counts once.
/// Whether something went away meanwhile: it may be somewhere else now, and not counted.
pub(super) fn count(top: BorrowedFd<'_>, tally: &mut Tally) -> Result<bool> {
    let mut went_away = false;
    let mut left =
        vec![Place { from: Rc::new(rustix::io::fcntl_dupfd_cloexec(top, 3)?), path: PathBuf::from(".") }];
    while let Some(place) = left.pop() {
        let Some(directory) = place.open()? else {
            went_away = true;
            continue;
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let data = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {
                    went_away = true;
                    continue;
                }
                other => other?,
            };
            let is_directory = FileType::from_raw_mode(data.st_mode) == FileType::Directory;
            if is_directory || data.st_nlink < 2 {
                tally.add(&data);
            } else {
                tally.add_once(&data);
            }
            if tally.is_enough() {
                return Ok(went_away);
            }
            if is_directory {
                match place.below(&directory, name) {
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => went_away = true,
                    other => left.push(other?),
                }
            }
        }
    }
    Ok(went_away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::fd::AsFd;

    #[test]
    fn counts_links_once_and_follows_none() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![1; 1 << 20]).unwrap();
        std::fs::write(top.join("a/file"), vec![1; 64 << 10]).unwrap();
        std::fs::hard_link(top.join("a/file"), top.join("a/b/again")).unwrap();
        std::os::unix::fs::symlink(dir.path(), top.join("a/b/out")).unwrap();
        let top = openat(CWD, &top, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut tally = Tally::up_to(u64::MAX, 1000);
        count(top.as_fd(), &mut tally).unwrap();
        assert_eq!(tally.inodes, 4);
        assert!((64 << 10..256 << 10).contains(&tally.bytes), "{tally:?}");
    }

    #[test]
    fn counts_trees_deeper_than_a_path_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let top = openat(CWD, dir.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut at = rustix::io::fcntl_dupfd_cloexec(&top, 3).unwrap();
        for _ in 0..1200 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = openat(&at, "deep", OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).unwrap();
        }
        let mut tally = Tally::up_to(u64::MAX, 10_000);
        count(top.as_fd(), &mut tally).unwrap();
        assert_eq!(tally.inodes, 1200);
        crate::tree::remove(&dir.path().join("deep")).unwrap();
    }

    #[test]
    fn ends_when_it_is_enough() {
        let dir = tempfile::tempdir().unwrap();
        for file in 0..100 {
            std::fs::write(dir.path().join(file.to_string()), vec![1; 8192]).unwrap();
        }
        let top = openat(CWD, dir.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for (bytes, inodes) in [(u64::MAX, 10), (10 * 8192, u64::MAX)] {
            let mut tally = Tally::up_to(bytes, inodes);
            count(top.as_fd(), &mut tally).unwrap();
            assert!(tally.is_enough() && tally.inodes == 11, "{tally:?}");
        }
    }
}
