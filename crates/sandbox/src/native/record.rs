//! What a sandbox's directory says about it: what it stands on and whose it is. It is there before anything is mounted,
//! so a layer that it names is in use from then on.

use std::path::{Path, PathBuf};

use launcher::spec::{Disk, Life};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Network, Owner, Stack};

/// Its file in the sandbox's directory.
const FILE: &str = "spec.json";

/// What is known of a sandbox however it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) stack: Stack,
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
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(record) => Ok(Some(record)),
                Err(error) => Err(Error::Io { path, source: std::io::Error::other(error) }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Writes it, for everyone who looks either as it was or as it is.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
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
