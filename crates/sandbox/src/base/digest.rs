//! Digests: what content is called by.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{Error, LayerId};

/// The SHA-256 of some content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::from_hasher(Sha256::new_with_prefix(bytes))
    }

    pub(super) fn from_hasher(hasher: Sha256) -> Self {
        use fmt::Write;
        let mut hex = String::with_capacity(64);
        for byte in hasher.finalize() {
            // Writing to a string cannot fail.
            let _written = write!(hex, "{byte:02x}");
        }
        Self(hex)
    }

    pub(super) fn of_file(path: &Path) -> Result<Self, Error> {
        let file = std::fs::File::open(path).map_err(Error::io(path))?;
        let mut hashing = Hashing::new(file);
        io::copy(&mut hashing, &mut io::sink()).map_err(Error::io(path))?;
        Ok(hashing.finish())
    }

    /// The 64 digits.
    pub(super) fn hex(&self) -> &str {
        &self.0
    }

    /// The name of a layer with this content.
    pub(super) fn layer(&self, kind: &str) -> Result<LayerId, Error> {
        format!("{kind}-{}", &self.0[..24]).parse()
    }

    /// The name of a layer with this content over others, topmost first: what it becomes depends on them. What is over
    /// nothing has the name of its content alone.
    pub(super) fn layer_over(&self, kind: &str, below: &[LayerId]) -> Result<LayerId, Error> {
        if below.is_empty() {
            return self.layer(kind);
        }
        let below: Vec<&str> = below.iter().map(LayerId::as_str).collect();
        Self::of(format!("{self} over {}", below.join(" ")).as_bytes()).layer(kind)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let digit = |letter: u8| matches!(letter, b'0'..=b'9' | b'a'..=b'f');
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(digit) => Ok(Self(hex.to_owned())),
            _ => Err(Error::Build {
                message: format!("\"{}\" is no digest that is known here", text.escape_debug()),
                hint: "the image must be described with sha256 digests; push it again with a current tool"
                    .to_owned(),
            }),
        }
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes what is read through it.
pub(super) struct Hashing<R> {
    source: R,
    hasher: Sha256,
}

impl<R> Hashing<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, hasher: Sha256::new() }
    }

    pub(super) fn finish(self) -> Digest {
        Digest::from_hasher(self.hasher)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        Ok(got)
    }
}
