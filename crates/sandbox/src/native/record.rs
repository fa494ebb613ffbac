//! What a sandbox's directory says about it: what it stands on and whose it is. It is there before anything is mounted,
//! so a layer that it names is in use from then on.

use std::path::{Path, PathBuf};

use launcher::given::Given;
use launcher::spec::{Disk, Life, files};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Network, Owner, Stack};

/// Its file in the sandbox's directory.
const FILE: &str = "spec.json";

/// What is known of a sandbox however it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) stack: Stack,
    /// Whose it is now: who it was made for, or who it was given to since.
    pub(super) owner: Owner,
    pub(super) life: Life,
    pub(super) network: Network,
    pub(super) disk: Disk,
    /// Its control groups, so that they can be removed whenever its launcher died.
    pub(super) cgroups: Vec<PathBuf>,
}

impl Record {
    /// Reads a sandbox's record; None where there is none, which means that nothing was mounted yet.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        let mut record: Self = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| Error::Io { path, source: std::io::Error::other(error) })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { path, source }),
        };
        let path = dir.join(files::GIVEN);
        if let Some(given) = Given::read(dir).map_err(|errno| Error::io(&path)(errno.into()))? {
            record.owner = serde_json::from_str(&given.owner)
                .map_err(|error| Error::Io { path, source: std::io::Error::other(error) })?;
        }
        Ok(Some(record))
    }

    /// Notes that a sandbox has another owner from now on; the time of its life begins anew with it.
    pub(super) fn give(dir: &Path, owner: &Owner) -> Result<(), Error> {
        let path = dir.join(files::GIVEN);
        let failed = Error::io(&path);
        match serde_json::to_string(owner) {
            Ok(owner) => Given::now(owner).write(dir).map_err(|errno| failed(errno.into())),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Writes it, when the sandbox is made.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
        if matches!(self.owner, Owner::Pool { .. }) {
            let path = dir.join(files::GIVEN);
            Given::prepare(dir).map_err(|errno| Error::io(&path)(errno.into()))?;
        }
        write_json(&dir.join(FILE), self)
    }
}

/// Reads a file; None if it is not there or not readable.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Replaces a file as a whole.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let write = || {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".new");
        std::fs::write(&aside, serde_json::to_vec(value)?)?;
        std::fs::rename(&aside, path)
    };
    write().map_err(Error::io(path))
}

/// The same, and it is on the disk when this returns.
pub(crate) fn write_json_durably(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let write = || {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".new");
        super::durable::write(Path::new(&aside), &serde_json::to_vec(value)?)?;
        std::fs::rename(&aside, path)?;
        super::durable::sync_directory(path.parent().unwrap_or(Path::new("/")))
    };
    write().map_err(Error::io(path))
}
