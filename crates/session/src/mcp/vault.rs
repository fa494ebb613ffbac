//! The sealed secrets of the data directory as MCP servers need them.

use mcp::Vault;
use store::{SecretError, Secrets};
use zeroize::Zeroizing;

/// Secrets of a data directory.
#[derive(Debug, Clone)]
pub struct Sealed(Secrets);

impl Sealed {
    /// Those.
    pub fn new(secrets: Secrets) -> Self {
        Self(secrets)
    }
}

impl Vault for Sealed {
    fn get(&self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        match self.0.get(name) {
            Ok(value) => Ok(Some(value)),
            Err(SecretError::Missing(_)) => Ok(None),
            Err(error) => Err(error.advice()),
        }
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        self.0.set(name, value).map(drop).map_err(|error| error.advice())
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.0.remove(name).map(drop).map_err(|error| error.advice())
    }
}
