//! Copies what a sandbox wrote, also while the sandbox writes on.
//!
//! Every name is opened from an open directory without following links, so nothing inside can lead the copy outside;
//! what goes away meanwhile is left out. Everything overlayfs needs is kept. Files share their blocks with the original
//! where the file system can do that.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use launcher::spec::Disk;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::direct::Direct;
use super::duplicate::{Kept, Metadata, blocks, too_much};
use super::index::{Index, PATH, Version};
use super::trail::{Trail, is_whiteout, names, open_own, stat_at};

/// How many files with more than one name are remembered; those beyond become files of their own.
const LINKS: usize = 100_000;

/// What to copy, and how.
pub(super) struct Order<'a> {
    /// What is kept of each file.
    pub(super) metadata: Metadata,
    /// More than this is an error.
    pub(super) limit: Disk,
    /// With more than this to copy, and not only to link, it is given up.
    pub(super) patience: Option<Disk>,
    /// Earlier copies, whose files are linked where they are still the same.
    pub(super) likes: &'a [Like],
    /// A file that changed later than this, in nanoseconds since 1970, may change again without a sign of it: clocks of
    /// file systems are coarse.
    pub(super) settled: i128,
    /// Files that are mapped so that they can be written without a sign of it.
    pub(super) mapped: &'a HashSet<u64>,
}

/// An earlier copy of the same tree.
pub(super) struct Like {
    /// Where its files are; None while they are only in a pack.
    pub(super) root: Option<OwnedFd>,
    pub(super) index: Index,
}

/// What was copied.
pub(super) struct Copied {
    /// What the copies are copies of.
    pub(super) index: Index,
    /// How much there is now.
    pub(super) size: Disk,
    /// Whether that is all, or it was given up.
    pub(super) whole: bool,
}

/// Where a copy goes.
pub(super) trait Sink {
    /// Begins a directory in the current one, and makes it the current one; false if the name is taken.
    fn enter(&mut self, name: &CStr) -> io::Result<bool>;
    /// Finishes the current directory and goes back to where it was begun.
    fn leave(&mut self, from: BorrowedFd<'_>, kept: &Kept, whiteouts: bool) -> io::Result<()>;
    /// Takes in what is neither a directory nor a regular file.
    fn special(&mut self, from: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<()>;
    /// Takes in a regular file, and tells how it was before; None if it is none any more.
    fn regular(&mut self, from: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Stat>>;
    /// Takes in another name of a file that it has; false if it must be taken in as a file of its own.
    fn link(&mut self, first: &CStr, name: &CStr) -> io::Result<bool>;
    /// Takes in a file of an earlier copy; false if it cannot.
    fn share(&mut self, like: usize, path: &[u8], name: &CStr, stat: &Stat) -> io::Result<bool>;
}

/// Copies the content of `from` into `to`, which is empty.
pub(super) fn copy(from: &Path, to: &Path, order: &Order<'_>) -> io::Result<Copied> {
    walk(from, &mut Direct::new(to, order)?, order)
}

/// Gives the content of `from` to a sink.
pub(super) fn walk(from: &Path, sink: &mut dyn Sink, order: &Order<'_>) -> io::Result<Copied> {
    let source = Trail::begin(open_own(from)?)?;
    let root = fstat(source.here())?;
    let mut copier = Copier {
        order,
        root,
        source,
        sink,
        path: Vec::new(),
        index: Index::default(),
        links: HashMap::new(),
        names: 0,
        size: Disk { bytes: blocks(&root), inodes: 1 },
        copied: Disk { bytes: 0, inodes: 0 },
    };
    let whole = match copier.run() {
        // Nothing else here is ever told to come back later.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        other => other.map(|()| true)?,
    };
    Ok(Copied { index: copier.index, size: copier.size, whole })
}

struct Copier<'a> {
    order: &'a Order<'a>,
    root: Stat,
    source: Trail,
    sink: &'a mut dyn Sink,
    /// The current directory, from the root of the tree; ends with a slash unless it is empty.
    path: Vec<u8>,
    index: Index,
    links: HashMap<u64, CString>,
    names: u64,
    size: Disk,
    copied: Disk,
}

/// A directory that is being copied.
struct Frame {
    stat: Stat,
    files: Files,
    path: usize,
}

/// What is in a directory.
struct Files {
    /// Directories that are still to be copied.
    left: Vec<CString>,
    /// Whether something is removed in it.
    whiteouts: bool,
}

/// The name stands for a removal.
#[derive(PartialEq, Eq)]
struct Whiteout;

impl Copier<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut frames = vec![Frame { stat: self.root, files: self.files()?, path: 0 }];
        while let Some(frame) = frames.last_mut() {
            self.path.truncate(frame.path);
            if let Some(name) = frame.files.left.pop() {
                if let Some(stat) = self.enter(&name)? {
                    self.path.extend_from_slice(name.as_bytes());
                    self.path.push(b'/');
                    frames.push(Frame { stat, files: self.files()?, path: self.path.len() });
                }
                continue;
            }
            let (kept, whiteouts) = (Kept::from(&frame.stat), frame.files.whiteouts);
            self.sink.leave(self.source.here(), &kept, whiteouts)?;
            frames.pop();
            if !frames.is_empty() {
                self.source.leave()?;
            }
        }
        Ok(())
    }

    /// Goes into a directory; None if it is none any more.
    fn enter(&mut self, name: &CStr) -> io::Result<Option<Stat>> {
        let stat = match self.source.enter(name) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            other => other?,
        };
        if !self.sink.enter(name)? {
            // The name was something else when the directory was read.
            self.source.leave()?;
            return Ok(None);
        }
        self.add(&stat);
        Ok(Some(stat))
    }

    /// Copies everything but directories, whose names it gives.
    fn files(&mut self) -> io::Result<Files> {
        let directory = self.source.here().try_clone_to_owned()?;
        let mut files = Files { left: Vec::new(), whiteouts: false };
        names(directory.as_fd(), |name, kind| {
            self.names += 1;
            if self.names > self.order.limit.inodes {
                return Err(too_much("files"));
            }
            match kind {
                FileType::Directory => files.left.push(name.to_owned()),
                FileType::Socket => {}
                _ => match self.entry(name) {
                    // A directory that changes while it is read can give a name twice.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    other => files.whiteouts |= other? == Some(Whiteout),
                },
            }
            Ok(())
        })?;
        Ok(files)
    }

    fn entry(&mut self, name: &CStr) -> io::Result<Option<Whiteout>> {
        let Some(stat) = stat_at(self.source.here(), name)? else { return Ok(None) };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            self.file(name, &stat)?;
        } else {
            self.sink.special(self.source.here(), name, &stat)?;
            self.add(&stat);
        }
        Ok(is_whiteout(&stat).then_some(Whiteout))
    }

    /// Counts what the copy has now.
    fn add(&mut self, stat: &Stat) {
        self.size.bytes = self.size.bytes.saturating_add(blocks(stat));
        self.size.inodes += 1;
    }

    /// Says whether one more file is too much to copy now.
    fn wait_for(&mut self, stat: &Stat) -> io::Result<()> {
        self.copied.bytes = self.copied.bytes.saturating_add(blocks(stat));
        self.copied.inodes += 1;
        match self.order.patience {
            Some(limit) if self.copied.bytes > limit.bytes || self.copied.inodes > limit.inodes => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, name: &CStr, stat: &Stat) -> io::Result<()> {
        if stat.st_nlink > 1
            && let Some(first) = self.links.get(&stat.st_ino)
            && self.sink.link(first, name)?
        {
            return Ok(());
        }
        let whole = [&self.path, name.to_bytes()].concat();
        let copied = match self.share(name, stat)? {
            true => Some(*stat),
            false => {
                self.wait_for(stat)?;
                self.sink.regular(self.source.here(), name)?
            }
        };
        let Some(copied) = copied else { return Ok(()) };
        self.add(&copied);
        if whole.len() <= PATH {
            let version = Version::of(&copied);
            if version.changed() < self.order.settled && !self.order.mapped.contains(&copied.st_ino) {
                self.index.insert(version, &whole);
            }
            if copied.st_nlink > 1 && self.links.len() < LINKS {
                self.links.insert(copied.st_ino, CString::new(whole)?);
            }
        }
        Ok(())
    }

    /// Links the file from an earlier copy that has it in the same state. What fails here can still be copied.
    fn share(&mut self, name: &CStr, stat: &Stat) -> io::Result<bool> {
        let version = Version::of(stat);
        for (number, like) in self.order.likes.iter().enumerate() {
            if let Some(path) = like.index.find(&version)
                && self.sink.share(number, path, name, stat)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::duplicate::Owners;
    use crate::native::marks::Marks;

    fn order(limit: Disk, mapped: &HashSet<u64>) -> Order<'_> {
        let metadata = Metadata { marks: Marks::User, owners: Owners::Own };
        Order { metadata, limit, patience: None, likes: &[], settled: i128::MAX, mapped }
    }

    #[test]
    fn a_tree_that_is_larger_than_its_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        std::fs::create_dir(&from).unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(from.join(name), vec![1; 10_000]).unwrap();
        }
        let none = HashSet::new();
        let limits = [(Disk { bytes: 20_000, inodes: 9 }, false), (Disk { bytes: 40_000, inodes: 2 }, false)];
        for (number, (limit, fits)) in
            limits.into_iter().chain([(Disk { bytes: 40_000, inodes: 3 }, true)]).enumerate()
        {
            let to = dir.path().join(format!("to-{number}"));
            std::fs::create_dir(&to).unwrap();
            let copied = copy(&from, &to, &order(limit, &none));
            assert_eq!(copied.is_ok(), fits, "{limit:?}");
            if let Err(error) = copied.map(|copied| assert!(copied.whole)) {
                assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            }
        }
    }

    #[test]
    fn an_earlier_copy_is_linked_only_while_nothing_changed() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let [from, first, second] = ["from", "first", "second"].map(|name| dir.path().join(name));
        for path in [&from, &first, &second] {
            std::fs::create_dir(path).unwrap();
        }
        for name in ["same", "changed", "mapped"] {
            std::fs::write(from.join(name), name).unwrap();
        }
        let limit = Disk { bytes: 1 << 20, inodes: 10 };
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let mapped = HashSet::from([inode(&from.join("mapped"))]);
        let index = copy(&from, &first, &order(limit, &mapped)).unwrap().index;
        std::fs::write(from.join("changed"), "CHANGED").unwrap();
        let likes = [Like { root: Some(open_own(&first).unwrap()), index }];
        let none = HashSet::new();
        let patience = Some(Disk { bytes: 0, inodes: 0 });
        let third = dir.path().join("third");
        std::fs::create_dir(&third).unwrap();
        let given_up =
            copy(&from, &third, &Order { patience, likes: &likes, ..order(limit, &none) }).unwrap();
        assert!(!given_up.whole);
        let copied = copy(&from, &second, &Order { likes: &likes, ..order(limit, &none) }).unwrap();
        assert!(copied.whole && copied.size.inodes == 4, "{:?}", copied.size);
        let shared = |name: &str| inode(&first.join(name)) == inode(&second.join(name));
        assert_eq!(["same", "changed", "mapped"].map(shared), [true, false, false]);
        assert_eq!(std::fs::read_to_string(second.join("changed")).unwrap(), "CHANGED");
        // A copy never shares with the original, which can still be written.
        assert_ne!(inode(&from.join("same")), inode(&second.join("same")));
    }
}
