//! Secrets as a command sees them: it reads what is there, and holds what is to be written until the server writes it.

use std::sync::{Mutex, PoisonError};

use mcp::Vault;
use session::Sealed;
use zeroize::Zeroizing;

/// The secrets of the data directory, with one that is to be written.
#[derive(Debug)]
pub(super) struct Held {
    sealed: Sealed,
    written: Mutex<Option<(String, Zeroizing<String>)>>,
}

impl Held {
    pub(super) fn new(secrets: store::Secrets) -> Self {
        Self { sealed: Sealed::new(secrets), written: Mutex::default() }
    }

    /// What is to be written.
    pub(super) fn take(&self) -> Option<(String, Zeroizing<String>)> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Vault for Held {
    fn get(&self, name: &str) -> Result<Option<Zeroizing<String>>, String> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match written.as_ref().filter(|(known, _)| known == name) {
            Some((_, value)) => Ok(Some(value.clone())),
            None => self.sealed.get(name),
        }
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let value = Zeroizing::new(value.to_owned());
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.to_owned(), value));
        Ok(())
    }

    fn remove(&self, _name: &str) -> Result<(), String> {
        Ok(())
    }
}
