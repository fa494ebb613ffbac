//! Keys: in memory, in a file that is read for each call, because tokens of clouds live for an hour and are written
//! anew by others, or in a store of secrets that is asked for each call. There is no way to print one.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

/// The most bytes of a key file; tokens have a few thousand.
const FILE_LIMIT: u64 = 64 * 1024;

/// A key that cannot be printed by accident: it is neither displayed nor serialised, and its memory is overwritten before
/// it is given back.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Text(Zeroizing<String>),
    File(PathBuf),
    Stored(Stored),
}

/// A secret in a store, and how to ask for it.
#[derive(Clone)]
struct Stored {
    name: String,
    ask: Arc<Ask>,
}

/// Gives the value of a secret, or says why there is none and what to do.
type Ask = dyn Fn(&str) -> Result<Zeroizing<String>, String> + Send + Sync;

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Stored {}

impl Key {
    /// A key as a person typed or stored it; white space around it is dropped.
    pub fn new(secret: String) -> Self {
        let secret = Zeroizing::new(secret);
        Self(Source::Text(Zeroizing::new(secret.trim().to_owned())))
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

    /// The key that is a secret of a store, which is asked for it for each call.
    pub fn from_store(
        name: &str,
        ask: impl Fn(&str) -> Result<Zeroizing<String>, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Stored(Stored { name: name.to_owned(), ask: Arc::new(ask) }))
    }

    /// Name of the secret that it is, if it is in a store.
    pub fn secret_name(&self) -> Option<&str> {
        match &self.0 {
            Source::Stored(stored) => Some(&stored.name),
            Source::Text(_) | Source::File(_) => None,
        }
    }

    /// The same key, which does not change any more; one that cannot be had may still come.
    pub(crate) fn as_it_is_now(&self) -> Self {
        match (&self.0, self.expose()) {
            (Source::File(_), Ok(text)) => Self(Source::Text(text)),
            (Source::Stored(stored), Ok(text)) => Self::from_store(&stored.name, move |_| Ok(text.clone())),
            (Source::Text(_), _) | (_, Err(_)) => self.clone(),
        }
    }

    /// Says why there is no key to be had, if so.
    pub fn check(&self) -> Result<(), String> {
        self.expose().map(|_| ())
    }

    /// The key itself.
    pub(crate) fn expose(&self) -> Result<Zeroizing<String>, String> {
        match &self.0 {
            Source::Text(secret) => Ok(secret.clone()),
            Source::File(path) => read(path),
            Source::Stored(Stored { name, ask }) => {
                let value = ask(name)?;
                match value.trim() {
                    "" => Err(format!(
                        "the secret \"{name}\" is nothing but white space; set it with: slipway secret set {name}"
                    )),
                    key => Ok(Zeroizing::new(key.to_owned())),
                }
            }
        }
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    // Opening a pipe would wait for whoever writes to it, and a device may never end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("{shown} is no ordinary file: put the key into one"));
    }
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_LIMIT {
        return Err(format!("{shown} has more than {FILE_LIMIT} bytes, which is no key"));
    }
    match text.trim() {
        "" => Err(format!("{shown} is empty")),
        key => Ok(Zeroizing::new(key.to_owned())),
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Text(_) => f.write_str("Key(…)"),
            Source::File(path) => write!(f, "Key({})", path.display()),
            Source::Stored(stored) => write!(f, "Key(secret {})", stored.name),
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
        assert_eq!(*key.expose().unwrap(), "sk-first");
        std::fs::write(&file, " sk-second ").unwrap();
        assert_eq!(*key.expose().unwrap(), "sk-second");
        assert!(!format!("{key:?}").contains("sk-"), "{key:?}");
        std::fs::write(&file, "\n").unwrap();
        assert!(key.check().unwrap_err().contains("is empty"));
        std::fs::write(&file, "x".repeat(FILE_LIMIT as usize + 1)).unwrap();
        assert!(key.check().unwrap_err().contains("no key"));
        std::fs::remove_file(&file).unwrap();
        for endless in ["/dev/zero", "/dev", "/dev/tty"] {
            assert!(Key::from_file(endless).check().unwrap_err().contains("no ordinary file"), "{endless}");
        }
    }

    #[test]
    fn a_key_in_a_store_is_asked_for_each_time_and_never_shown() {
        use std::sync::Mutex;
        let value = Arc::new(Mutex::new(Err("there is none".to_owned())));
        let stored = Arc::clone(&value);
        let key = Key::from_store("MAIN", move |name| {
            assert_eq!(name, "MAIN");
            stored.lock().unwrap().clone().map(Zeroizing::new)
        });
        assert_eq!((key.secret_name(), key.check()), (Some("MAIN"), Err("there is none".to_owned())));
        *value.lock().unwrap() = Ok(" sk-first\n".to_owned());
        assert_eq!(*key.expose().unwrap(), "sk-first");
        *value.lock().unwrap() = Ok("sk-second".to_owned());
        assert_eq!(*key.expose().unwrap(), "sk-second");
        *value.lock().unwrap() = Ok(" \n".to_owned());
        assert!(key.check().unwrap_err().contains("slipway secret set MAIN"));
        assert_eq!(format!("{key:?} {:?}", Key::new("sk-third".to_owned())), "Key(secret MAIN) Key(…)");
        assert_eq!(Key::new("sk-third".to_owned()).secret_name(), None);
    }
}
