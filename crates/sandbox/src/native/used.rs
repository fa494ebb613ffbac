//! How much disk everything takes up, each file counted once however many layers share it.

use std::collections::HashSet;
use std::ffi::CString;
use std::path::Path;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::duplicate::blocks;
use super::trail::{Trail, names, open_own, stat_at};
use crate::Error;

/// Bytes on disk of these directories together. Sandboxes go on writing meanwhile, so it is only about right; what
/// cannot be entered or is gone is left out.
pub(super) fn measure(roots: &[&Path]) -> Result<u64, Error> {
    let mut count = Count { bytes: 0, seen: HashSet::new(), root: rustix::process::geteuid().is_root() };
    for root in roots {
        count.children(root).map_err(Error::io(*root))?;
    }
    Ok(count.bytes)
}

struct Count {
    bytes: u64,
    /// Device and number of every file with several names.
    seen: HashSet<(u64, u64)>,
    /// Whether no permissions stand in the way.
    root: bool,
}

impl Count {
    /// Counts each entry by itself: one that is moved about while it is looked at spoils only its own number.
    fn children(&mut self, root: &Path) -> std::io::Result<()> {
        let directory = open_own(root)?;
        let mut found = Vec::new();
        names(std::os::fd::AsFd::as_fd(&directory), |name, _| {
            found.push(name.to_owned());
            Ok(())
        })?;
        for name in found {
            let Some(stat) = stat_at(std::os::fd::AsFd::as_fd(&directory), &name)? else { continue };
            self.add(&stat);
            if !self.may_enter(&stat) {
                continue;
            }
            let counted =
                Trail::begin_at(&directory, &name).map_err(Into::into).and_then(|trail| self.tree(trail));
            if let Err(error) = counted {
                tracing::debug!(root = %root.display(), %error, "something was moved while it was measured");
            }
        }
        Ok(())
    }

    fn tree(&mut self, mut trail: Trail) -> std::io::Result<()> {
        let mut left = vec![self.here(&trail)?];
        while let Some(directories) = left.last_mut() {
            match directories.pop() {
                Some(name) => match trail.enter(&name) {
                    Ok(_) => left.push(self.here(&trail)?),
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                    Err(error) => return Err(error.into()),
                },
                None => {
                    left.pop();
                    if !left.is_empty() {
                        trail.leave()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts what is in the current directory; gives the directories in it.
    fn here(&mut self, trail: &Trail) -> std::io::Result<Vec<CString>> {
        let mut directories = Vec::new();
        names(trail.here(), |name, _| {
            let Some(stat) = stat_at(trail.here(), name)? else { return Ok(()) };
            self.add(&stat);
            if self.may_enter(&stat) {
                directories.push(name.to_owned());
            }
            Ok(())
        })?;
        Ok(directories)
    }

    fn add(&mut self, stat: &Stat) {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if directory || stat.st_nlink < 2 || self.seen.insert((stat.st_dev, stat.st_ino)) {
            self.bytes = self.bytes.saturating_add(blocks(stat));
        }
    }

    /// An ordinary user could open up what is closed, but not behind the back of whoever is at work in there.
    fn may_enter(&self, stat: &Stat) -> bool {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        directory && (self.root || stat.st_mode & 0o700 == 0o700)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_has_several_names_counts_once_and_links_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (layers, sandboxes) = (dir.path().join("layers"), dir.path().join("sandboxes"));
        let big = 4 << 20;
        for made in [layers.join("a/root/deep"), layers.join("b/root"), sandboxes.join("s/upper")] {
            std::fs::create_dir_all(made).unwrap();
        }
        std::fs::write(layers.join("a/root/deep/file"), vec![7; big]).unwrap();
        std::fs::hard_link(layers.join("a/root/deep/file"), layers.join("b/root/file")).unwrap();
        std::fs::hard_link(layers.join("a/root/deep/file"), sandboxes.join("s/upper/file")).unwrap();
        std::fs::write(dir.path().join("outside"), vec![7; 4 * big]).unwrap();
        symlink("../../../outside", sandboxes.join("s/upper/link")).unwrap();
        symlink(dir.path(), sandboxes.join("s/upper/loop")).unwrap();
        let used = measure(&[&layers, &sandboxes]).unwrap();
        assert!(used >= big as u64, "{used}");
        assert!(used < 2 * big as u64, "{used}");
    }

    #[test]
    fn a_tree_deeper_than_paths_are_long_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("sandboxes");
        std::fs::create_dir(&root).unwrap();
        let mut here = open_own(&root).unwrap();
        let name = "d".repeat(200);
        for _ in 0..100 {
            rustix::fs::mkdirat(&here, &name, rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            here = rustix::fs::openat(&here, &name, flags, rustix::fs::Mode::empty()).unwrap();
        }
        let file = rustix::fs::openat(
            &here,
            c"file",
            rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::RUSR,
        );
        rustix::io::write(file.unwrap(), &vec![7; 1 << 20]).unwrap();
        assert!(measure(&[&root]).unwrap() >= 1 << 20);
        launcher::tree::remove(&root).unwrap();
    }
}
