//! Secrets: values that are kept by name, for models and for the proxies of sandboxes. Each is a file of its own that is
//! sealed with a key in another file, so that a backup or a copy of one without the other gives nothing away.
//!
//! The files are replaced as a whole, so they can be read without the lock of the data directory; only whoever has the
//! lock writes.

mod error;
mod seal;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use zeroize::Zeroizing;

pub use self::error::SecretError;
pub use self::seal::Sealed;
use self::seal::{KeyFile, write_whole};
use crate::Error;
use crate::layout::sync_dir;

/// The key's file in the data directory, unless the configuration names another.
const KEY_FILE: &str = "secret.key";
/// The directory of the sealed values.
const DIR: &str = "secrets";
/// Longest value.
const LONGEST: usize = 64 * 1024;
/// More than a sealed value ever takes on disk.
const FILE_LIMIT: u64 = 4 * LONGEST as u64;

/// The secrets of a data directory. Clones share it.
#[derive(Debug, Clone)]
pub struct Secrets {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    key: KeyFile,
    /// Held by whoever writes.
    writing: Mutex<()>,
}

/// A secret without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSecret {
    /// Its name.
    pub name: String,
    /// When it was set, unless that cannot be read.
    pub set_at: Option<Timestamp>,
    /// Why it cannot be used.
    pub problem: Option<SecretError>,
}

impl Secrets {
    /// Those of a data directory, with the key in this file, or in the data directory.
    pub fn new(data_dir: &Path, key_file: Option<&Path>) -> Self {
        let path = key_file.map_or_else(|| data_dir.join(KEY_FILE), Path::to_owned);
        let key = KeyFile { path, configured: key_file.is_some() };
        Self { inner: Arc::new(Inner { dir: data_dir.join(DIR), key, writing: Mutex::default() }) }
    }

    /// Whether this can be the name of a secret.
    pub fn check_name(name: &str) -> Result<(), SecretError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if first && name.len() <= 64 && name.bytes().all(good) { Ok(()) } else { Err(SecretError::Name) }
    }

    /// Whether this can be the value of a secret.
    pub fn check_value(value: &str) -> Result<(), SecretError> {
        match value {
            "" => Err(SecretError::Value("is empty")),
            long if long.len() > LONGEST => Err(SecretError::Value("is longer than 64 KiB")),
            text if text.contains('\0') => Err(SecretError::Value("has a NUL in it")),
            _ => Ok(()),
        }
    }

    /// Where the key is.
    pub fn key_file(&self) -> &Path {
        &self.inner.key.path
    }

    /// Whether others than its owner may read the key.
    pub fn key_is_exposed(&self) -> bool {
        self.inner.key.is_exposed()
    }

    /// The value of a secret.
    pub fn get(&self, name: &str) -> Result<Zeroizing<String>, SecretError> {
        let sealed = self.sealed(name)?;
        self.inner.key.demand()?.open(name, &sealed, &self.inner.key)
    }

    /// Keeps a value under a name, in place of the one before.
    pub fn set(&self, name: &str, value: &str) -> Result<Timestamp, SecretError> {
        Self::check_name(name)?;
        Self::check_value(value)?;
        let _writing = self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match self.inner.key.read()? {
            Some(key) => key,
            // Where something is sealed there was a key, and another one would hide that it is missing.
            None if self.inner.key.configured || !self.names()?.is_empty() => self.inner.key.demand()?,
            None => self.inner.key.make()?,
        };
        let sealed = key.seal(name, Timestamp::now(), value)?;
        self.write(&sealed)?;
        Ok(sealed.set_at)
    }

    /// Removes a secret; false when it was not there. It needs no key.
    pub fn remove(&self, name: &str) -> Result<bool, SecretError> {
        Self::check_name(name)?;
        let _writing = self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => sync_dir(&self.inner.dir).map(|()| true).map_err(SecretError::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(&path, &error).into()),
        }
    }

    /// Every secret, by name.
    pub fn list(&self) -> Result<Vec<KnownSecret>, SecretError> {
        let key = self.inner.key.demand();
        let known = |name: String| {
            let sealed = match self.sealed(&name) {
                Ok(sealed) => sealed,
                // Removed meanwhile.
                Err(SecretError::Missing(_)) => return None,
                Err(problem) => return Some(KnownSecret { name, set_at: None, problem: Some(problem) }),
            };
            let opened = match &key {
                Ok(key) => key.open(&name, &sealed, &self.inner.key).map(drop),
                Err(error) => Err(error.clone()),
            };
            Some(KnownSecret { name, set_at: Some(sealed.set_at), problem: opened.err() })
        };
        Ok(self.names()?.into_iter().filter_map(known).collect())
    }

    /// Every secret as it is sealed, for a backup. One that cannot be read is left out, and said so in the log.
    pub fn all_sealed(&self) -> Result<Vec<Sealed>, SecretError> {
        let mut all = Vec::new();
        for name in self.names()? {
            match self.sealed(&name) {
                Ok(sealed) => all.push(sealed),
                Err(SecretError::Missing(_)) => {}
                Err(error @ SecretError::Damaged(_)) => {
                    tracing::warn!(%error, "a secret is not in the backup");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Puts a sealed secret of a backup in its place, unless there is one of that name; whether it did.
    pub fn adopt(&self, sealed: &Sealed) -> Result<bool, SecretError> {
        Self::check_name(&sealed.name)?;
        let _writing = self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path(&sealed.name);
        if path.try_exists().map_err(|error| Error::io(&path, &error))? {
            return Ok(false);
        }
        self.write(sealed).map(|()| true)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.inner.dir.join(name)
    }

    fn names(&self) -> Result<Vec<String>, SecretError> {
        let dir = &self.inner.dir;
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(dir, &error).into()),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| Error::io(dir, &error))?;
            // What is being written begins with a dot, which no name does.
            names.extend(entry.file_name().into_string().ok().filter(|name| Self::check_name(name).is_ok()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sealed(&self, name: &str) -> Result<Sealed, SecretError> {
        Self::check_name(name)?;
        let path = self.path(name);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => SecretError::Missing(name.to_owned()),
            _ => Error::io(&path, &error).into(),
        };
        let damaged = || SecretError::Damaged(name.to_owned());
        if fs::metadata(&path).map_err(failed)?.len() > FILE_LIMIT {
            return Err(damaged());
        }
        let text = fs::read(&path).map_err(failed)?;
        let sealed: Sealed = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if sealed.name == name { Ok(sealed) } else { Err(damaged()) }
    }

    fn write(&self, sealed: &Sealed) -> Result<(), SecretError> {
        let dir = &self.inner.dir;
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| Error::io(dir, &error))?;
        if let Some(parent) = dir.parent() {
            sync_dir(parent)?;
        }
        let path = self.path(&sealed.name);
        let text = serde_json::to_vec(sealed).map_err(|error| Error::other(&path, error.to_string()))?;
        write_whole(&path, &dir.join(format!(".{}.new", sealed.name)), &text)
    }
}
