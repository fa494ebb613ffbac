//! Keys: in memory, or in a file that is read for each call, because tokens of clouds live for an hour and are written
//! anew by others. There is no way to print one.

use std::fmt;
use std::path::{Path, PathBuf};

/// The most bytes of a key file; tokens have a few thousand.
const FILE_LIMIT: u64 = 64 * 1024;

/// A key that cannot be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Text(String),
    File(PathBuf),
}

impl Key {
    /// A key as a person typed or stored it; white space around it is dropped.
    pub fn new(secret: String) -> Self {
        Self(Source::Text(secret.trim().to_owned()))
    }

    /// The key in an environment variable, unless that is unset, empty or not text.
    pub fn from_env(name: &str) -> Option<Self> {
        let secret = std::env::var(name).ok()?;
        if secret.trim().is_empty() { None } else { Some(Self::new(secret)) }
    }

    /// The key in a file, which is read for each call.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// Says why there is no key to be had, if so.
    pub fn check(&self) -> Result<(), String> {
        self.expose().map(|_| ())
    }

    /// The key itself.
    pub(crate) fn expose(&self) -> Result<String, String> {
        match &self.0 {
            Source::Text(secret) => Ok(secret.clone()),
            Source::File(path) => read(path),
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let size = std::fs::metadata(path).map_err(|error| format!("{shown} cannot be read: {error}"))?.len();
    if size > FILE_LIMIT {
        return Err(format!("{shown} has {size} bytes, which is no key"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    match text.trim() {
        "" => Err(format!("{shown} is empty")),
        key => Ok(key.to_owned()),
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Text(_) => f.write_str("Key(…)"),
            Source::File(path) => write!(f, "Key({})", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_file_is_read_each_time_and_never_shown() {
        let file = std::env::temp_dir().join(format!("slipway-llm-key-{}", std::process::id()));
        let key = Key::from_file(&file);
        assert!(key.check().unwrap_err().contains("cannot be read"));
        std::fs::write(&file, "sk-first\n").unwrap();
        assert_eq!(key.expose().unwrap(), "sk-first");
        std::fs::write(&file, " sk-second ").unwrap();
        assert_eq!(key.expose().unwrap(), "sk-second");
        assert!(!format!("{key:?}").contains("sk-"), "{key:?}");
        std::fs::write(&file, "\n").unwrap();
        assert!(key.check().unwrap_err().contains("is empty"));
        std::fs::remove_file(&file).unwrap();
    }
}
