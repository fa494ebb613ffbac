//! The directory of downloads: blobs on their way to a layer, and records of what was brought in.
//!
//! `blobs/` has what was downloaded and checked and is not yet a layer; `records/<kind>/` what is known, one small file
//! each; `locks/` who is at what; `scratch/` what only lives as long as whoever made it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::blocking;
use super::digest::Digest;
use super::progress::Progress;
use crate::{Error, LayerId};

/// What nobody touched for so long is left over from somebody who died.
const LEFT_OVER: Duration = Duration::from_secs(24 * 3600);

/// The directory.
#[derive(Clone)]
pub(super) struct Cache {
    dir: PathBuf,
}

/// Held as long as somebody is at something; others wait.
pub(super) struct Lock {
    file: std::fs::File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a lock stays behind; it holds nobody up");
        }
        // The lock itself ends with the file, which is closed after this.
        tracing::trace!(file = ?self.file, "unlocked");
    }
}

impl Cache {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        use std::os::unix::fs::DirBuilderExt;
        let folder = self.dir.join(name);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(Error::io(&folder))?;
        Ok(folder)
    }

    /// Where a blob is once it is checked.
    pub(super) fn blob(&self, digest: &Digest) -> Result<PathBuf, Error> {
        Ok(self.folder("blobs/sha256")?.join(digest.hex()))
    }

    /// A file beside the blobs that is gone unless it becomes one.
    pub(super) fn new_blob(&self) -> Result<tempfile::NamedTempFile, Error> {
        let folder = self.folder("blobs/sha256")?;
        tempfile::Builder::new().prefix(".new-").tempfile_in(&folder).map_err(Error::io(&folder))
    }

    /// A directory that is gone when it is dropped.
    pub(super) fn scratch(&self) -> Result<tempfile::TempDir, Error> {
        let folder = self.folder("scratch")?;
        tempfile::tempdir_in(&folder).map_err(Error::io(&folder))
    }

    /// What is known under a name; nothing when it is damaged.
    pub(super) fn record<T: DeserializeOwned>(&self, kind: &str, name: &str) -> Result<Option<T>, Error> {
        let path = self.record_path(kind, name)?;
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(&path))?,
        };
        Ok(serde_json::from_slice(&bytes)
            .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "a record is damaged; it is made anew"))
            .ok())
    }

    /// Remembers something, whole or not at all.
    pub(super) fn keep<T: Serialize>(&self, kind: &str, name: &str, value: &T) -> Result<(), Error> {
        let path = self.record_path(kind, name)?;
        let folder = path.parent().unwrap_or(&self.dir);
        let bytes = serde_json::to_vec(value)
            .map_err(|error| Error::Io { path: path.clone(), source: error.into() })?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(Error::io(folder))?;
        file.write_all(&bytes).map_err(Error::io(&path))?;
        file.persist(&path).map_err(|error| Error::Io { path: path.clone(), source: error.error })?;
        Ok(())
    }

    fn record_path(&self, kind: &str, name: &str) -> Result<PathBuf, Error> {
        Ok(self.folder(&format!("records/{kind}"))?.join(format!("{name}.json")))
    }

    /// Waits until nobody else, in this process or another, is at the same.
    pub(super) async fn lock(&self, name: &str, progress: &Progress<'_>) -> Result<Lock, Error> {
        let path = self.folder("locks")?.join(name);
        if let Some(lock) = take(&path, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(lock);
        }
        progress.say(format!("waiting for another build that brings in {name}"));
        blocking(move || {
            loop {
                if let Some(lock) = take(&path, FlockOperation::LockExclusive)? {
                    return Ok(lock);
                }
            }
        })
        .await
    }

    pub(super) fn sweep(&self, layers: &[LayerId]) -> Result<u64, Error> {
        let mut freed = 0;
        for folder in ["blobs/sha256", "scratch"] {
            let folder = self.folder(folder)?;
            for path in entries(&folder)? {
                let stat = std::fs::symlink_metadata(&path).map_err(Error::io(&path))?;
                let age = stat.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
                if age.is_some_and(|age| age > LEFT_OVER) {
                    freed += stat.len();
                    launcher::tree::remove(&path).map_err(Error::io(&path))?;
                }
            }
        }
        let folder = self.folder("records/layers")?;
        for path in entries(&folder)? {
            let known = path.file_stem().and_then(|stem| stem.to_str());
            if !layers.iter().any(|layer| Some(layer.as_str()) == known) {
                launcher::tree::remove(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(freed)
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(Error::io(folder))).collect()
}

/// None when it is to be tried again: it is taken, or it was released and its file is gone.
fn take(path: &Path, how: FlockOperation) -> Result<Option<Lock>, Error> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(Error::io(path))?;
    match rustix::fs::flock(&file, how) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => return Ok(None),
        Err(error) => return Err(Error::Io { path: path.to_owned(), source: error.into() }),
    }
    let held = file.metadata().map_err(Error::io(path))?;
    match std::fs::symlink_metadata(path) {
        Ok(now) if (now.dev(), now.ino()) == (held.dev(), held.ino()) => {
            Ok(Some(Lock { file, path: path.to_owned() }))
        }
        _ => Ok(None),
    }
}
