//! What has to outlast a power cut.

use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;
use std::sync::OnceLock;

use super::trail::open_own;

/// Writes a file that is on the disk when this returns. Its name is only after [`sync_directory`].
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

/// The names in a directory are on the disk when this returns.
pub(super) fn sync_directory(dir: &Path) -> Result<()> {
    Ok(rustix::fs::fsync(open_own(dir)?)?)
}

/// Everything on the file system that a directory is on is on the disk when this returns. It takes as long as the disk
/// takes for what anybody has written there; but of a tree with many files each would take a moment of its own.
pub(super) fn sync_file_system(dir: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(open_own(dir)?)?)
}

/// Which start of the machine this is. What was written during another may never have reached the disk.
pub(super) fn boot() -> Result<&'static str> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(BOOT.get_or_init(|| boot.trim().to_owned()))
}
