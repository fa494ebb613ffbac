//! Directories beside a session's log for what is on its way into a sandbox or out of it. Each goes when it was used; what a
//! server that was killed left of them is removed by the next one.

use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use tempfile::TempDir;

/// What the names of all of them begin with.
const PREFIX: &str = "tmp-";

/// What the names of those of this process begin with. The number of a process comes again, so the time is in it too.
static OURS: LazyLock<String> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{PREFIX}{}-{}-", std::process::id(), since.as_nanos())
});

/// Makes one in the directory of a session; gone when dropped.
pub(super) fn make(dir: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(OURS.as_str()).tempdir_in(dir)
}

/// Removes what others left in the directory of a session. For whoever has the data directory locked: nobody else uses it.
pub(crate) fn sweep(dir: &Path) {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        // The directory of a session whose log is gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(path = %dir.display(), %error, "cannot look for abandoned directories");
            return;
        }
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let abandoned = name.starts_with(PREFIX)
            && !name.starts_with(OURS.as_str())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        // A git that outlived its server may still write there; then the next start removes it.
        if abandoned && let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "cannot remove an abandoned directory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let ours = make(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("tmp-1-2-abc")).unwrap();
        std::fs::write(dir.path().join("tmp-1-2-abc/in.bundle"), "work").unwrap();
        std::fs::create_dir(dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("tmp-file"), "").unwrap();
        sweep(dir.path());
        let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()).collect();
        left.sort();
        let mut expected = vec![dir.path().join("kept"), dir.path().join("tmp-file"), ours.path().to_owned()];
        expected.sort();
        assert_eq!(left, expected);
        sweep(&dir.path().join("gone"));
    }
}
