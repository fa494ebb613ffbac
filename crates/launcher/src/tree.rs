//! Removes a directory tree that a sandbox could write to.
//!
//! Names are resolved one at a time from open directories and links are never followed, so that nothing the sandbox
//! left there (or a process that still writes) can lead the removal outside. Directories without permissions, which
//! overlayfs and sandboxed programs make, are opened up first.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, Result};

/// How deep a chain of directories may be before it is flattened by moving it up; keeps open files bounded.
const DEPTH: usize = 200;

/// Removes `path` and everything below it. Succeeds when it is not there.
pub fn remove(path: &Path) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let parent = match openat(CWD, parent, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let name = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name))?;
    let mut removal = Removal { top: parent.as_fd(), pending: vec![name], moved: 0 };
    while let Some(name) = removal.pending.pop() {
        removal.remove(removal.top, &name, 0)?;
    }
    Ok(())
}

/// One removal: the directory that holds the tree, and what is left to remove in it.
struct Removal<'a> {
    top: BorrowedFd<'a>,
    pending: Vec<CString>,
    moved: u32,
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // chmod cannot be told to not follow links on older kernels, so it goes through the opened path itself.
            let handle =
                openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let itself = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle));
            rustix::fs::chmod(itself, Mode::RWXU)?;
            openat(parent, name, flags, Mode::empty())
        }
        Ok(directory) => {
            // Names can be removed only from a directory that may be written and searched.
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
            if !mode.contains(Mode::RWXU) {
                rustix::fs::fchmod(&directory, Mode::RWXU)?;
            }
            Ok(directory)
        }
        other => other,
    }
}

impl Removal<'_> {
    fn remove(&mut self, parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<()> {
        match unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        if depth >= DEPTH {
            // A tree deeper than we want open files for: its lower part is put beside the top and removed after the rest.
            self.moved += 1;
            let moved = format!(".removing-{}-{}", rustix::process::getpid().as_raw_nonzero(), self.moved);
            let moved = CString::new(moved).map_err(|_| Errno::INVAL)?;
            rustix::fs::renameat(parent, name, self.top, &moved)?;
            self.pending.push(moved);
            return Ok(());
        }
        let directory = match open_directory(parent, name) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
        // A process that still writes can put names back; it gets a few rounds, then the error is shown.
        for round in 0.. {
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let entry_name = entry.file_name();
                if entry_name == c"." || entry_name == c".." {
                    continue;
                }
                if entry.file_type() == FileType::Directory {
                    self.remove(directory.as_fd(), entry_name, depth + 1)?;
                } else {
                    match unlinkat(&directory, entry_name, AtFlags::empty()) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(Errno::ISDIR) => self.remove(directory.as_fd(), entry_name, depth + 1)?,
                        Err(error) => return Err(error),
                    }
                }
            }
            match unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY) if round < 5 => {
                    rustix::fs::seek(&directory, rustix::fs::SeekFrom::Start(0))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn removes_closed_directories_and_never_follows_links() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "x").unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::write(tree.join("a/b/file"), "x").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        symlink("/", tree.join("a/root")).unwrap();
        std::fs::set_permissions(tree.join("a/b"), PermissionsExt::from_mode(0o000)).unwrap();
        std::fs::set_permissions(tree.join("a"), PermissionsExt::from_mode(0o500)).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        remove(&tree).unwrap();
    }

    #[test]
    fn removes_trees_deeper_than_the_open_files_it_takes() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let mut at = openat(CWD, &tree, OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "deep", Mode::RWXU).unwrap();
            at = openat(&at, "deep", OFlags::DIRECTORY | OFlags::PATH, Mode::empty()).unwrap();
        }
        remove(&tree).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
