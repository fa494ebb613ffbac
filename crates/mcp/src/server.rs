//! What is configured of a server: where it is, how it is reached, and which of its tools are offered.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::filter::Filter;
use crate::key::{Key, Value};

/// How long a server has for an answer, unless it is configured.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name, which its tools begin with; see [`crate::check_name`].
    pub name: String,
    /// How it is reached.
    pub place: Place,
    /// Which of its tools are offered.
    pub filter: Filter,
    /// How long it has for each answer.
    pub timeout: Duration,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program inside the sandbox of each session.
    Sandbox(Program),
    /// A program on this machine, one for all sessions.
    Host(Program),
    /// An address.
    Http(Http),
}

/// A program that speaks over its standard input and output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that are set for it.
    pub env: BTreeMap<String, Value>,
}

/// A server behind an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// The address.
    pub url: String,
    /// Headers of each request.
    pub headers: BTreeMap<String, Value>,
    /// How it knows who asks.
    pub auth: Auth,
}

/// How a server knows who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// It does not, or by headers.
    #[default]
    None,
    /// By a token.
    Token(Key),
    /// A person signed in.
    OAuth {
        /// A client that was registered by hand; else one is registered when somebody signs in.
        client_id: Option<String>,
        /// What is asked for; what the server proposes where it is empty.
        scopes: Vec<String>,
    },
}
