//! Tokens and other values for servers: where they are, and how they are read when they are needed. They are read for each
//! connection, so that one that was changed is used without a restart.

use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::Error;

/// Most bytes of a file with a token.
const FILE_LIMIT: u64 = 64 * 1024;

/// Where secrets are kept. Whoever implements it seals them.
pub trait Vault: Send + Sync + fmt::Debug {
    /// The value of a secret; None where there is none. The error says what to do.
    fn get(&self, name: &str) -> Result<Option<Zeroizing<String>>, String>;

    /// Keeps a value in place of the one before.
    fn set(&self, name: &str, value: &str) -> Result<(), String>;

    /// Removes a secret, if it is there.
    fn remove(&self, name: &str) -> Result<(), String>;
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// In a variable of this process.
    Env(String),
    /// In a file.
    File(PathBuf),
    /// In the vault.
    Secret(String),
}

/// A value that is written down, or where it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// The value itself.
    Text(String),
    /// Where it is.
    Key(Key),
}

/// A text that was written down may be a secret all the same.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::Key(key) => write!(f, "{key:?}"),
        }
    }
}

impl Key {
    /// Where the value is, for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Env(name) => format!("the variable {name}"),
            Self::File(path) => path.display().to_string(),
            Self::Secret(name) => format!("the secret \"{name}\""),
        }
    }

    /// The value.
    pub(crate) fn read(&self, vault: &dyn Vault) -> Result<Zeroizing<String>, Error> {
        let place = self.place();
        let found = match self {
            Self::Env(name) => std::env::var(name).ok().map(Zeroizing::new),
            Self::File(path) => {
                Some(file(path).map_err(|why| Error::Key(format!("{place} cannot be read: {why}")))?)
            }
            Self::Secret(name) => vault.get(name).map_err(Error::Key)?,
        };
        let Some(found) = found else { return Err(Error::Key(format!("{place} is not set"))) };
        match found.trim() {
            "" => Err(Error::Key(format!("{place} is empty"))),
            text => Ok(Zeroizing::new(text.to_owned())),
        }
    }
}

fn file(path: &std::path::Path) -> Result<Zeroizing<String>, String> {
    let told = |error: std::io::Error| error.to_string();
    // Opening a pipe would wait for whoever writes to it, and a device may never end.
    if !std::fs::metadata(path).map_err(told)?.is_file() {
        return Err("it is no ordinary file".to_owned());
    }
    let mut text = Zeroizing::new(String::new());
    let file = std::fs::File::open(path).map_err(told)?;
    file.take(FILE_LIMIT).read_to_string(&mut text).map_err(told)?;
    Ok(text)
}

impl Value {
    pub(crate) fn read(&self, vault: &dyn Vault) -> Result<Zeroizing<String>, Error> {
        match self {
            Self::Text(text) => Ok(Zeroizing::new(text.clone())),
            Self::Key(key) => key.read(vault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::tests::Drawer;

    #[test]
    fn a_value_is_read_where_it_is_and_missing_ones_are_named() {
        let drawer = Drawer::default();
        drawer.set("sentry", " tok \n").unwrap();
        assert_eq!(*Key::Secret("sentry".into()).read(&drawer).unwrap(), "tok");
        let missing = |key: Key| key.read(&drawer).unwrap_err().to_string();
        assert!(missing(Key::Secret("other".into())).contains("the secret \"other\" is not set"));
        assert!(missing(Key::Env("SLIPWAY_NO_SUCH".into())).contains("SLIPWAY_NO_SUCH is not set"));
        assert!(missing(Key::File("/dev/zero".into())).contains("no ordinary file"));
        assert_eq!(format!("{:?}", Value::Text("tok".into())), "Text(…)");
    }
}
