//! A base that is a root file system in an archive on the host.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::accounts::Accounts;
use super::digest::Digest;
use super::progress::Progress;
use super::unpack::Bounds;
use super::{Bases, Resolved, blocking, scan};
use crate::{Archive, Base, Error, LayerId, Stack};

/// A file as it was when it was hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[derive(Serialize, Deserialize)]
struct Hashed {
    state: State,
    digest: Digest,
}

/// A file that changed so shortly ago may change again without its times telling.
const SETTLED_SECONDS: i64 = 2;

impl State {
    fn of(path: &Path) -> Result<Self, Error> {
        let stat = std::fs::metadata(path).map_err(|error| Error::Build {
            message: format!("the archive {} of the base cannot be read: {error}", path.display()),
            hint: "put a tar file there, plain or compressed with gzip or zstd".to_owned(),
        })?;
        if !stat.is_file() {
            return Err(Error::Build {
                message: format!("the base {} is not an archive but something else", path.display()),
                hint: "put a tar file there, plain or compressed with gzip or zstd".to_owned(),
            });
        }
        Ok(Self {
            device: stat.dev(),
            inode: stat.ino(),
            size: stat.size(),
            modified: (stat.mtime(), stat.mtime_nsec()),
            changed: (stat.ctime(), stat.ctime_nsec()),
        })
    }

    fn settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        i64::try_from(now).is_ok_and(|now| now - self.changed.0.max(self.modified.0) > SETTLED_SECONDS)
    }
}

impl Bases {
    pub(super) async fn tar(&self, path: &Path, progress: &Progress<'_>) -> Result<Resolved, Error> {
        let state = State::of(path)?;
        let digest = self.tar_digest(path, &state, progress).await?;
        let layer = digest.layer("base")?;
        let accounts = match self.known_layer(&layer).await? {
            Some(accounts) => accounts,
            None => {
                let _lock = self.cache.lock(layer.as_str(), progress).await?;
                match self.known_layer(&layer).await? {
                    Some(accounts) => accounts,
                    None => self.import_tar(path, &state, &layer, progress).await?,
                }
            }
        };
        let mut stack = Stack { base: Base::Scratch, layers: vec![layer], env: Vec::new() };
        if let Some(fit) = self.fit(&[accounts], &stack.layers, progress).await? {
            stack = stack.with(fit);
        }
        Ok(Resolved { stack, key: format!("tar-{}", digest.hex()) })
    }

    /// What a layer says about users, if it is there and was brought in by us.
    pub(super) async fn known_layer(&self, layer: &LayerId) -> Result<Option<Accounts>, Error> {
        match self.cache.record("layers", layer.as_str())? {
            Some(accounts) if self.driver.layer(layer).await?.is_some() => Ok(Some(accounts)),
            _ => Ok(None),
        }
    }

    async fn tar_digest(&self, path: &Path, state: &State, progress: &Progress<'_>) -> Result<Digest, Error> {
        use std::os::unix::ffi::OsStrExt;
        let record = Digest::of(path.as_os_str().as_bytes());
        if let Some(hashed) = self.cache.record::<Hashed>("archives", record.hex())?
            && hashed.state == *state
        {
            return Ok(hashed.digest);
        }
        progress.say(format!("reading {}", path.display()));
        let file = path.to_owned();
        let digest = blocking(move || Digest::of_file(&file)).await?;
        if state.settled() {
            let hashed = Hashed { state: state.clone(), digest: digest.clone() };
            self.cache.keep("archives", record.hex(), &hashed)?;
        }
        Ok(digest)
    }

    async fn import_tar(
        &self,
        path: &Path,
        before: &State,
        layer: &LayerId,
        progress: &Progress<'_>,
    ) -> Result<Accounts, Error> {
        progress.say(format!("unpacking {}", path.display()));
        let file = path.to_owned();
        let scanned = blocking(move || scan::scan(&file, false, Bounds::default())).await?;
        if scanned.empty {
            return Err(Error::Build {
                message: format!("the archive {} of the base has nothing in it", path.display()),
                hint: "put a root file system there, as a tar file".to_owned(),
            });
        }
        let archive = Archive { path: path.to_owned(), whiteouts: false, below: Vec::new() };
        let room = self.make_room(scanned.bytes).await?;
        self.driver.import(layer, &archive).await?;
        drop(room);
        if State::of(path)? != *before {
            // The layer would have a name that belongs to other content.
            self.driver.remove_layer(layer).await?;
            return Err(Error::Build {
                message: format!("{} changed while it was read", path.display()),
                hint: "build again when it is complete; better, write it elsewhere and rename it".to_owned(),
            });
        }
        self.cache.keep("layers", layer.as_str(), &scanned.accounts)?;
        Ok(scanned.accounts)
    }
}
