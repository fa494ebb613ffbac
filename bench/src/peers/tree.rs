//! A root directory for peers that want one: mount points, and the system's own directories shown in it read-only, as
//! the base `host` of a sandbox has them.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Top-level names that hold programs and libraries: links on most systems, directories on some.
const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "nix"];

/// Where the dynamic loader finds what libraries are where.
pub(super) const LOADER_CACHE: &str = "/etc/ld.so.cache";

/// The directory and what belongs into it.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Has the mount points and the links.
    pub(crate) dir: PathBuf,
    /// Host directories to show at the same place.
    pub(crate) shown: Vec<PathBuf>,
    /// Links at the top and where they lead.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
}

impl Tree {
    /// A root that is whole by itself.
    pub(crate) fn of(root: &Path) -> Self {
        Self { dir: root.to_owned(), shown: Vec::new(), links: Vec::new() }
    }

    pub(crate) fn make(dir: &Path) -> anyhow::Result<Self> {
        let mut tree = Self { dir: dir.to_owned(), shown: Vec::new(), links: Vec::new() };
        let failed = || format!("making a root in {}", dir.display());
        for name in ["dev", "etc", "proc", "sys", "tmp"] {
            std::fs::create_dir_all(dir.join(name)).with_context(failed)?;
        }
        // Without it the loader of every dynamic program searches dozens of directories; a sandbox of ours has it too.
        let cache = Path::new(LOADER_CACHE);
        if cache.is_file() {
            std::fs::copy(cache, dir.join("etc/ld.so.cache")).with_context(failed)?;
        }
        for name in SYSTEM {
            let path = Path::new("/").join(name);
            if let Ok(target) = std::fs::read_link(&path) {
                symlink(&target, dir.join(name)).with_context(failed)?;
                tree.links.push((path, target));
            } else if path.is_dir() {
                std::fs::create_dir(dir.join(name)).with_context(failed)?;
                tree.shown.push(path);
            }
        }
        Ok(tree)
    }
}
