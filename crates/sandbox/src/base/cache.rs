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

/// What was only just made may not be locked yet.
const JUST_MADE: Duration = Duration::from_secs(60);

/// The directory.
#[derive(Clone)]
pub(super) struct Cache {
    dir: PathBuf,
}

/// A blob that is whole. Nobody takes it for left over as long as this is held.
pub(super) struct Blob {
    pub(super) path: PathBuf,
    _used: std::fs::File,
}

/// A directory that is gone when it is dropped, and that nobody takes for left over before.
pub(super) struct Scratch {
    dir: tempfile::TempDir,
    _used: std::fs::File,
}

impl Scratch {
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Something in the cache on its way to become a layer, or left over from that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Download {
    /// Where it is in the cache.
    pub(crate) name: String,
    /// What it takes up on the disk.
    pub(crate) bytes: u64,
    /// When it last changed.
    pub(crate) age: Duration,
    /// Whether somebody is at it.
    pub(crate) busy: bool,
}

/// Where such things are.
const ON_THE_WAY: [&str; 2] = ["blobs/sha256", "scratch"];

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
    fn blob_path(&self, digest: &Digest) -> Result<PathBuf, Error> {
        Ok(self.folder("blobs/sha256")?.join(digest.hex()))
    }

    /// A blob that is there, whether its content is right or not.
    pub(super) fn blob(&self, digest: &Digest) -> Result<Option<Blob>, Error> {
        let path = self.blob_path(digest)?;
        let file = match std::fs::File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(&path))?,
        };
        use_it(&file).map_err(Error::io(&path))?;
        Ok(path.exists().then_some(Blob { path, _used: file }))
    }

    /// A file beside the blobs that is gone unless it becomes one.
    pub(super) fn new_blob(&self) -> Result<tempfile::NamedTempFile, Error> {
        let folder = self.folder("blobs/sha256")?;
        let new =
            tempfile::Builder::new().prefix(".new-").tempfile_in(&folder).map_err(Error::io(&folder))?;
        use_it(new.as_file()).map_err(Error::io(new.path()))?;
        Ok(new)
    }

    /// Makes such a file the blob with this digest.
    pub(super) fn keep_blob(&self, new: tempfile::NamedTempFile, digest: &Digest) -> Result<Blob, Error> {
        let path = self.blob_path(digest)?;
        let kept = new.persist(&path);
        let file = kept.map_err(|error| Error::Io { path: path.clone(), source: error.error })?;
        Ok(Blob { path, _used: file })
    }

    /// A directory that is gone when it is dropped.
    pub(super) fn scratch(&self) -> Result<Scratch, Error> {
        let folder = self.folder("scratch")?;
        let dir = tempfile::tempdir_in(&folder).map_err(Error::io(&folder))?;
        let used = std::fs::File::open(dir.path()).map_err(Error::io(dir.path()))?;
        use_it(&used).map_err(Error::io(dir.path()))?;
        Ok(Scratch { dir, _used: used })
    }

    /// Everything that is on its way to become a layer, or was.
    pub(super) fn downloads(&self) -> Result<Vec<Download>, Error> {
        let mut found = Vec::new();
        for folder in ON_THE_WAY {
            let dir = self.folder(folder)?;
            for path in entries(&dir)? {
                // What has gone meanwhile is no more.
                let Some((bytes, changed)) = size(&path)? else { continue };
                let age = SystemTime::now().duration_since(changed).unwrap_or_default();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let busy = age < JUST_MADE || unused(&path)?.is_none();
                found.push(Download { name: format!("{folder}/{name}"), bytes, age, busy });
            }
        }
        Ok(found)
    }

    /// Removes one that nobody is at.
    pub(super) fn remove_download(&self, name: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        let known = ON_THE_WAY.iter().any(|folder| path.parent() == Some(&self.dir.join(folder)));
        match unused(&path)? {
            // Held meanwhile, so that whoever would use it now waits and then finds nothing.
            Some(_held) if known => launcher::tree::remove(&path).map_err(Error::io(&path)),
            _ => Err(Error::InUse { what: name.to_owned(), by: "a base that is brought in".to_owned() }),
        }
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

    /// Forgets what is remembered of layers beside these.
    pub(super) fn sweep(&self, layers: &[LayerId]) -> Result<(), Error> {
        let folder = self.folder("records/layers")?;
        for path in entries(&folder)? {
            let known = path.file_stem().and_then(|stem| stem.to_str());
            if !layers.iter().any(|layer| Some(layer.as_str()) == known) {
                launcher::tree::remove(&path).map_err(Error::io(&path))?;
            }
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::io(folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(Error::io(folder))).collect()
}

/// Marks an open file or directory as in use until it is closed. Several may use it.
fn use_it(file: &std::fs::File) -> std::io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::LockShared)?)
}

/// Something that nobody, in this process or another, has marked; nobody can as long as it is held.
fn unused(path: &Path) -> Result<Option<std::fs::File>, Error> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io(path))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::Io { path: path.to_owned(), source: error.into() }),
    }
}

/// Bytes of a file or a directory with all that is in it, and when it last changed; None if it is gone.
pub(super) fn size(top: &Path) -> Result<Option<(u64, SystemTime)>, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut sum: Option<(u64, SystemTime)> = None;
    let mut left = vec![top.to_owned()];
    while let Some(path) = left.pop() {
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let stat = match std::fs::symlink_metadata(&path) {
            Err(error) if gone(&error) => continue,
            other => other.map_err(Error::io(&path))?,
        };
        let changed = stat.modified().map_err(Error::io(&path))?;
        let (bytes, newest) = sum.unwrap_or((0, changed));
        sum = Some((bytes.saturating_add(stat.blocks().saturating_mul(512)), newest.max(changed)));
        if stat.is_dir() {
            match entries(&path) {
                Err(Error::Io { source, .. }) if gone(&source) => {}
                other => left.extend(other?),
            }
        }
    }
    Ok(sum)
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
