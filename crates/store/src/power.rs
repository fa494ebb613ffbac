//! Lets a test see what the journal asks of the disk, so that it can cut the power at any moment.

use std::path::Path;
use std::sync::OnceLock;

/// Who watches.
pub trait Disk: Send + Sync {
    /// These bytes were written, and may be lost.
    fn wrote(&self, path: &Path, at: u64, bytes: &[u8]);
    /// What was written before is durable now. There is no real sync.
    fn synced(&self, path: &Path);
    /// The file is gone.
    fn removed(&self, path: &Path);
    /// The file has another name.
    fn renamed(&self, from: &Path, to: &Path);
}

static DISK: OnceLock<Box<dyn Disk>> = OnceLock::new();

/// Has somebody watch, for the life of the process.
pub fn watch(disk: Box<dyn Disk>) {
    DISK.get_or_init(|| disk);
}

pub(crate) fn is_watched() -> bool {
    DISK.get().is_some()
}

pub(crate) fn wrote(path: &Path, at: u64, bytes: &[u8]) {
    if let Some(disk) = DISK.get() {
        disk.wrote(path, at, bytes);
    }
}

/// Whether somebody watches, and so no real sync is needed.
pub(crate) fn synced(path: &Path) -> bool {
    DISK.get().inspect(|disk| disk.synced(path)).is_some()
}

pub(crate) fn removed(path: &Path) {
    if let Some(disk) = DISK.get() {
        disk.removed(path);
    }
}

pub(crate) fn renamed(from: &Path, to: &Path) {
    if let Some(disk) = DISK.get() {
        disk.renamed(from, to);
    }
}
