//! A secret that goes out in a header, and is never shown.

use std::fmt;

/// A token or key. It has no text form, so that it cannot get into a log or an event by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A secret as a person typed or stored it; white space around it is dropped.
    pub fn new(secret: &str) -> Self {
        Self(secret.trim().to_owned())
    }

    /// The secret in an environment variable, unless that is unset, empty or not text.
    pub fn from_env(name: &str) -> Option<Self> {
        let token = Self::new(&std::env::var(name).ok()?);
        (!token.0.is_empty()).then_some(token)
    }

    /// The secret itself, for where it is sealed.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it stands in a text, in one of the usual spellings.
    pub fn is_told_in(&self, text: &str) -> bool {
        crate::hidden::is_told_in(text, &self.0)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
