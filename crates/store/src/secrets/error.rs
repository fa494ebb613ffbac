//! Why a secret cannot be used, and what to do. No error has a value in it.

use std::path::PathBuf;

use crate::Error;

/// Why a secret cannot be set or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The name is none.
    #[error("this is no name for a secret")]
    Name,
    /// The value cannot be kept.
    #[error("the value of a secret {0}")]
    Value(&'static str),
    /// There is no secret of this name.
    #[error("there is no secret \"{0}\"")]
    Missing(String),
    /// There is no key, although the configuration says where it is, or something was sealed with it.
    #[error("the key of the secrets is not there: {} is missing", path.display())]
    NoKey {
        /// Where it should be.
        path: PathBuf,
        /// Whether the configuration says so.
        configured: bool,
    },
    /// What is in the key's file is no key.
    #[error("{} does not hold a key for secrets", .0.display())]
    BadKey(PathBuf),
    /// It was sealed with another key.
    #[error("the secret \"{name}\" was sealed with another key than the one in {}", path.display())]
    OtherKey {
        /// The secret.
        name: String,
        /// Where the key is.
        path: PathBuf,
    },
    /// What is stored is not what was sealed under this name.
    #[error("the secret \"{0}\" is damaged, or is not the one of that name")]
    Damaged(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
    /// The data directory cannot be read or written.
    #[error(transparent)]
    Store(#[from] Error),
}

impl SecretError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Name => {
                "use 1 to 64 letters, digits, '_', '-' and '.', and begin with a letter or digit".to_owned()
            }
            Self::Value(_) => {
                "give 1 to 65536 bytes of text without NUL, such as a key or a token".to_owned()
            }
            Self::Missing(name) | Self::Damaged(name) => format!("set it with: slipway secret set {name}"),
            Self::NoKey { path, configured: true } => format!(
                "put it back; if there never was one, make it with: openssl rand -hex 32 > {0} && chmod 600 {0}",
                path.display()
            ),
            Self::NoKey { .. } => {
                "put it back from where you keep it; if it is lost, remove the secrets that it sealed \
                                   (slipway secret rm NAME) and set them again"
                    .to_owned()
            }
            Self::BadKey(_) => {
                "it must be 64 hexadecimal digits, as `openssl rand -hex 32` prints them; put the right \
                                file back, or name it with secret_key_file in [server] of slipway.toml"
                    .to_owned()
            }
            Self::OtherKey { name, .. } => {
                format!("put that key back, or set the secret again: slipway secret set {name}")
            }
            Self::NoRandomness => "look at what this machine's kernel says".to_owned(),
            Self::Store(_) => "look at the data directory on the server's machine, then try again".to_owned(),
        }
    }

    /// What happened and what to do, in one line.
    pub fn advice(&self) -> String {
        format!("{self}; {}", self.hint())
    }
}
