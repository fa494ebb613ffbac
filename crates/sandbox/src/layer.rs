//! Layers: immutable trees that sandboxes stand on, and the order they are stacked in.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;

/// The name of a layer: what it is of and a key of its content, such as `setup-3f9c…`. Letters, digits, `-`, `_` and
/// `.` only, so that it can be a file's name everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LayerId(String);

impl LayerId {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LayerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if !text.is_empty() && text.len() <= 128 && text.chars().all(good) && !text.starts_with(['.', '-']) {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::Unsupported {
            message: format!("\"{}\" is no name for a layer", text.escape_debug()),
            hint: "use up to 128 letters, digits, dots, dashes and underscores".to_owned(),
        })
    }
}

impl<'de> Deserialize<'de> for LayerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A layer as its driver has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name.
    pub id: LayerId,
    /// Bytes on disk. What is shared with other layers counts in each.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
    /// When it was made.
    pub made_at: protocol::Timestamp,
    /// Whether something that could not be stopped may have written while it was saved. Then its files can be of
    /// different moments.
    #[serde(default)]
    pub blurred: bool,
}

/// What is below the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// The host's own system directories and toolchains, read-only.
    Host,
    /// Nothing: the layers are a whole system.
    Scratch,
}

/// What a sandbox stands on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// What is below the layers.
    pub base: Base,
    /// Topmost first.
    pub layers: Vec<LayerId>,
    /// Variables that come with the layers, such as an OCI image's, over the base's own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
}

impl Stack {
    /// The host's system and an empty workspace.
    pub fn host() -> Self {
        Self { base: Base::Host, layers: Vec::new(), env: Vec::new() }
    }

    /// With one more layer on top.
    pub fn with(&self, layer: LayerId) -> Self {
        let mut stack = self.clone();
        stack.layers.insert(0, layer);
        stack
    }
}

/// An archive that becomes a layer.
#[derive(Debug, Clone)]
pub struct Archive {
    /// A tar file, plain or compressed with gzip or zstd.
    pub path: PathBuf,
    /// Whether names that begin with `.wh.` stand for removals, as in OCI images.
    pub whiteouts: bool,
    /// The layers that it is put over, topmost first. Its names go through the links in them, so what it becomes depends on
    /// them: its layer's name must, too.
    pub below: Vec<LayerId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_name_is_always_a_file_name() {
        for good in ["setup-3f9c", "snp_01k", "a.b"] {
            assert_eq!(good.parse::<LayerId>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "-x", "a\nb", "\0", &"x".repeat(129)] {
            assert!(bad.parse::<LayerId>().is_err(), "{bad:?}");
        }
    }
}
