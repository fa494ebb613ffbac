//! What stands for a secret inside. It is the same in every sandbox of an environment and after every restart, so a
//! program that holds one, or a file that an image or a snapshot keeps with one in it, stays of use.
//!
//! A placeholder is no secret: it is of use only in a sandbox whose proxy has that secret, and there it is in a variable
//! anyway. It is made from a random key all the same, so that nobody can write one down beforehand.

use std::io::Write as _;
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

/// Writes a new key beside, under a name that nobody else has, and gives it its name only where that is free: of several
/// at once, in one process or in many, one wins and all use its key.
fn make(path: &Path) -> Result<[u8; KEY], Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let (first, second) = (random()?, random()?);
    let mut key = [0; KEY];
    key[..16].copy_from_slice(&first);
    key[16..].copy_from_slice(&second);
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).map_err(io)?;
    file.write_all(&key).and_then(|()| file.as_file().sync_all()).map_err(io)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(key),
        Err(taken) if taken.error.kind() == std::io::ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| io(taken.error))
        }
        Err(other) => Err(io(other.error)),
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
    fn whoever_comes_at_the_same_time_has_the_same() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("placeholders");
            let open = || Placeholders::open(&path).unwrap().of("shop", "TOKEN");
            let made: Vec<String> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(made.iter().all(|one| *one == open()), "{made:?}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside");
        }
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
