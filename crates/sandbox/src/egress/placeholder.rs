//! What stands for a secret inside. It is the same in every sandbox of an environment and after every restart, so a
//! program that holds one, or a file that an image or a snapshot keeps with one in it, stays of use.
//!
//! A placeholder is no secret: it is of use only in a sandbox whose proxy has that secret, and there it is in a variable
//! anyway. It is made from a random key all the same, so that nobody can write one down beforehand.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::vault::random;
use crate::Error;

/// Bytes of the key.
const KEY: usize = 32;

/// Makes the placeholders of all environments from one key.
#[derive(Debug, Clone)]
pub struct Placeholders {
    key: [u8; KEY],
}

impl Placeholders {
    /// Reads the key from a file, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let made = match read(path)? {
            Some(key) => key,
            None => make(path)?,
        };
        Ok(Self { key: made })
    }

    /// What stands for a secret of an environment.
    pub fn of(&self, environment: &str, secret: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(self.key);
        // The length keeps two names apart from two others that are written the same in a row.
        digest.update((environment.len() as u64).to_le_bytes());
        digest.update(environment);
        digest.update(secret);
        let hex: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        written(secret, &hex)
    }
}

/// A placeholder as it is written, so that people who meet one know what it is.
pub(super) fn written(secret: &str, hex: &str) -> String {
    format!("slipway-{secret}-{hex}")
}

fn read(path: &Path) -> Result<Option<[u8; KEY]>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => match <[u8; KEY]>::try_from(bytes.as_slice()) {
            Ok(key) => Ok(Some(key)),
            Err(_) => Err(Error::Io {
                path: path.to_owned(),
                source: std::io::Error::other(
                    "it is damaged: remove it, and secrets get new placeholders when sandboxes are made anew",
                ),
            }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

/// Writes a new key beside and links it into place, so that of two processes at once one wins and both use its key.
fn make(path: &Path) -> Result<[u8; KEY], Error> {
    let (first, second) = (random()?, random()?);
    let mut key = [0; KEY];
    key[..16].copy_from_slice(&first);
    key[16..].copy_from_slice(&second);
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}.new", std::process::id()));
    let aside = Path::new(&aside);
    let place = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(aside)?;
        file.write_all(&key)?;
        file.sync_all()?;
        let linked = std::fs::hard_link(aside, path);
        std::fs::remove_file(aside)?;
        linked
    };
    match place() {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| Error::Io { path: path.to_owned(), source: error })
        }
        Err(source) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_stay_and_differ() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("placeholders");
        let first = Placeholders::open(&path).unwrap();
        let one = first.of("shop", "TOKEN");
        assert!(one.starts_with("slipway-TOKEN-") && one.len() == "slipway-TOKEN-".len() + 32, "{one}");
        assert_eq!(Placeholders::open(&path).unwrap().of("shop", "TOKEN"), one);
        assert_ne!(first.of("shop", "OTHER"), one);
        assert_ne!(first.of("other", "TOKEN"), one);
        let tail = |text: String| text.rsplit('-').next().unwrap().to_owned();
        assert_ne!(tail(first.of("a", "bc")), tail(first.of("ab", "c")));
        let elsewhere = Placeholders::open(&dir.path().join("elsewhere")).unwrap();
        assert_ne!(elsewhere.of("shop", "TOKEN"), one);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside");
    }

    #[test]
    fn a_damaged_key_is_told_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("placeholders");
        std::fs::write(&path, "short").unwrap();
        let error = Placeholders::open(&path).unwrap_err();
        let Error::Io { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains("damaged"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
    }
}
