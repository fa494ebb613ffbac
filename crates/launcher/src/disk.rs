//! The limits of a sandbox's disk, kept by looking: overlayfs has no quota of its own.
//!
//! Once a second one system call tells how much is free on the file system. Only when that fell by a part of what the
//! sandbox may still use are its files counted. So an idle sandbox costs next to nothing, and one that writes without
//! end is stopped within about a second of reaching its limit.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::{Errno, Result};
use rustix::process::Pid;

use crate::spec::{Disk, DiskUsage, files};

/// How often to look.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);

/// A change too small to be worth counting for is counted after this long.
const SLOW_PERIOD: Duration = Duration::from_secs(30);

/// Counting may take this part of the time.
const SHARE: u32 = 10;

/// Paths longer than this begin at a directory of their own.
const LONGEST_PATH: usize = 2000;

/// What a file system has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Free {
    bytes: u64,
    inodes: u64,
}

/// Keeps one sandbox within its limits.
pub(crate) struct Keeper {
    limit: Disk,
    upper: OwnedFd,
    usage: DiskUsage,
    /// What was free when files were counted last, and when that was, and how long it took.
    free: Free,
    counted: Instant,
    took: Duration,
    bytes: Line,
    inodes: Line,
}

/// A limit and how far beyond it somebody got. Whoever is over may still run what makes room, but not take more.
#[derive(Debug, Default)]
struct Line {
    reached_at: Option<u64>,
}

impl Line {
    /// Whether the limit was reached, again or for the first time.
    fn crossed(&mut self, used: u64, limit: u64, slack: u64) -> bool {
        if used <= limit {
            self.reached_at = None;
            return false;
        }
        let crossed = self.reached_at.is_none_or(|reached| used > reached.saturating_add(slack));
        if crossed {
            self.reached_at = Some(used);
        }
        crossed
    }
}

impl Keeper {
    /// For the writable layer in the working directory.
    pub(crate) fn new(limit: Disk) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let upper = openat(CWD, files::UPPER, flags, Mode::empty())?;
        Ok(Self {
            limit,
            free: free(&upper)?,
            upper,
            usage: DiskUsage::default(),
            counted: Instant::now(),
            took: Duration::ZERO,
            bytes: Line::default(),
            inodes: Line::default(),
        })
    }

    /// What was found last.
    pub(crate) fn usage(&self) -> DiskUsage {
        self.usage
    }

    /// Looks, and counts if there is reason to. Whether the sandbox has to be stopped.
    pub(crate) fn look(&mut self, init: Pid) -> bool {
        let Ok(now) = free(&self.upper) else { return false };
        let quiet = self.counted.elapsed();
        let due = (now != self.free && quiet >= SLOW_PERIOD) || self.fell(now);
        if !due || quiet < self.took * SHARE {
            return false;
        }
        self.count(init)
    }

    /// Whether so much was used, by whomever, that it could be this sandbox at its limit.
    fn fell(&self, now: Free) -> bool {
        let step = |limit: u64, used: u64, least: u64, most: u64| {
            (limit.saturating_sub(used) / 8).clamp(least, most)
        };
        let bytes = step(self.limit.bytes, self.usage.bytes, 1 << 20, 64 << 20);
        let inodes = step(self.limit.inodes, self.usage.inodes, 100, 50_000);
        self.free.bytes.saturating_sub(now.bytes) >= bytes
            || self.free.inodes.saturating_sub(now.inodes) >= inodes
    }

    /// Counts now. Whether the sandbox has to be stopped.
    pub(crate) fn count(&mut self, init: Pid) -> bool {
        let begun = Instant::now();
        if let Ok(now) = free(&self.upper) {
            self.free = now;
        }
        let (mut bytes, mut inodes) = match count(self.upper.as_fd(), self.limit.inodes) {
            Ok(counted) => counted,
            // A tree that cannot be counted with the descriptors there are is deeper than any that is meant to be.
            Err(_) => (self.usage.bytes, self.limit.inodes.saturating_add(1)),
        };
        let (hidden_bytes, hidden_inodes) = unlinked(init, &self.upper);
        bytes += hidden_bytes;
        inodes += hidden_inodes;
        (self.usage.bytes, self.usage.inodes) = (bytes, inodes);
        let slack = |limit: u64, least: u64, most: u64| (limit / 16).clamp(least, most);
        let over_bytes =
            self.bytes.crossed(bytes, self.limit.bytes, slack(self.limit.bytes, 1 << 20, 64 << 20));
        let over_inodes =
            self.inodes.crossed(inodes, self.limit.inodes, slack(self.limit.inodes, 100, 50_000));
        self.usage.byte_hits += u64::from(over_bytes);
        self.usage.inode_hits += u64::from(over_inodes);
        self.counted = Instant::now();
        self.took = begun.elapsed();
        over_bytes || over_inodes
    }
}

fn free(upper: &OwnedFd) -> Result<Free> {
    let data = rustix::fs::fstatvfs(upper)?;
    Ok(Free { bytes: data.f_bfree.saturating_mul(data.f_frsize), inodes: data.f_ffree })
}

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

/// Bytes and number of everything below a directory. Links are not followed, and a file with many names counts once.
/// Counting ends when there is far more than the limit.
fn count(top: BorrowedFd<'_>, limit: u64) -> Result<(u64, u64)> {
    let (mut bytes, mut inodes) = (0u64, 0u64);
    let mut seen = HashSet::new();
    let mut left =
        vec![Place { from: Rc::new(rustix::io::fcntl_dupfd_cloexec(top, 3)?), path: PathBuf::from(".") }];
    while let Some(place) = left.pop() {
        let Some(directory) = place.open()? else { continue };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let data = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                other => other?,
            };
            let is_directory = FileType::from_raw_mode(data.st_mode) == FileType::Directory;
            if !is_directory && data.st_nlink > 1 && !seen.insert(data.st_ino) {
                continue;
            }
            inodes += 1;
            bytes += (data.st_blocks as u64).saturating_mul(512);
            if is_directory {
                match place.below(&directory, name) {
                    // It went away.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    other => left.push(other?),
                }
            }
        }
        if inodes > limit.saturating_mul(2).saturating_add(1 << 16) {
            break;
        }
    }
    Ok((bytes, inodes))
}

/// Bytes and number of files that have no name any more and are still open in the sandbox. Processes that cannot be
/// looked at are left out.
fn unlinked(init: Pid, upper: &OwnedFd) -> (u64, u64) {
    let storage = rustix::fs::fstat(upper).map(|data| data.st_dev).ok();
    let (mut bytes, mut seen) = (0u64, HashSet::new());
    for pid in descendants(init.as_raw_nonzero().get()) {
        let process = Path::new("/proc").join(pid.to_string());
        // overlayfs shows some files as its own, and some as those of the file system below.
        let root = rustix::fs::stat(process.join("root")).map(|data| data.st_dev).ok();
        for open in std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Ok(data) = rustix::fs::stat(open.path()) else { continue };
            let regular = FileType::from_raw_mode(data.st_mode) == FileType::RegularFile;
            let ours = [storage, root].contains(&Some(data.st_dev));
            if regular && ours && data.st_nlink == 0 && seen.insert(data.st_ino) {
                bytes += (data.st_blocks as u64).saturating_mul(512);
            }
        }
    }
    (bytes, seen.len() as u64)
}

/// Every process below another. Below pid 1 of a namespace that is all of them: orphans become its children.
fn descendants(top: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut left = vec![top];
    while let Some(pid) = left.pop() {
        // Taken out, so that numbers which changed hands meanwhile cannot lead in circles.
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        left.extend(below);
    }
    found
}

/// The second field after a name that may hold anything, also parentheses.
fn parent(stat: &[u8]) -> Option<i32> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    std::str::from_utf8(&stat[after..]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (bytes, inodes) = count(top.as_fd(), 1000).unwrap();
        assert_eq!(inodes, 4);
        assert!((64 << 10..256 << 10).contains(&bytes), "{bytes}");
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
        assert_eq!(count(top.as_fd(), 10_000).unwrap().1, 1200);
        crate::tree::remove(&dir.path().join("deep")).unwrap();
    }

    #[test]
    fn a_name_cannot_hide_the_parent() {
        assert_eq!(parent(b"12 (a) R 7 (x)) S 34 12 12 0"), Some(34));
        assert_eq!(parent(b"12 (\xff) R 7 12"), Some(7));
        assert_eq!(parent(b"12"), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let found = descendants(std::process::id().try_into().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&pid), "{pid} in {found:?}");
    }

    #[test]
    fn a_limit_is_crossed_again_only_by_taking_more() {
        let mut line = Line::default();
        assert!(!line.crossed(10, 10, 5));
        assert!(line.crossed(12, 10, 5));
        assert!(!line.crossed(17, 10, 5));
        assert!(line.crossed(18, 10, 5));
        assert!(!line.crossed(9, 10, 5));
        assert!(line.crossed(11, 10, 5));
    }
}
