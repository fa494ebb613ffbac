//! Why a call gave no answer: the class of the failure, which decides what happens next, and a message that tells a
//! person what to do. A message never holds a key, not even one that the server echoed.

use std::time::Duration;

use protocol::Usage;

/// Why a call gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of failure.
    pub class: Class,
    /// What happened and what to do, for people. Never has a key in it.
    pub message: String,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
    /// Whether the server said that the same call will not succeed later either.
    pub hopeless: bool,
    /// Tokens of request and answer together that the server takes, where it says so. What the model thinks comes on top.
    pub takes: Option<u64>,
    /// What the server says that the call used all the same: an answer that cannot be used is paid for too.
    pub usage: Usage,
}

/// What kind of failure; decides about retries and about other models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No connection, or it closed before the answer began.
    Unreachable,
    /// The server was silent for too long, or the answer took too long.
    TimedOut,
    /// The server failed or has too much to do.
    Overloaded,
    /// We asked too often.
    RateLimited,
    /// What came back is not an answer, or broke off.
    BadResponse,
    /// No key, a wrong one, or one that may not use the model.
    Auth,
    /// The account has no money or no quota left.
    Unpaid,
    /// The server does not know the model.
    UnknownModel,
    /// The model or its server cannot do what was asked for, such as tools or images.
    Unsupported,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    /// The server will not take the request, now or later.
    BadRequest,
}

impl Class {
    /// Whether the same call may succeed later.
    pub fn may_pass(self) -> bool {
        match self {
            Self::Unreachable | Self::TimedOut | Self::Overloaded | Self::RateLimited | Self::BadResponse => {
                true
            }
            Self::Auth
            | Self::Unpaid
            | Self::UnknownModel
            | Self::Unsupported
            | Self::ContextOverflow
            | Self::BadRequest => false,
        }
    }
}

impl Error {
    /// A failure of this kind.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
            hopeless: false,
            takes: None,
            usage: Usage::default(),
        }
    }

    /// Takes out texts that must not be shown.
    pub(crate) fn redact(mut self, secrets: &[String]) -> Self {
        for secret in secrets {
            self.message = self.message.replace(secret.as_str(), "…");
        }
        self
    }
}

/// The beginning of a text on one line, short enough for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LIMIT: usize = 200;
    let mut short = String::new();
    for word in text.split_whitespace() {
        if !short.is_empty() {
            short.push(' ');
        }
        short.extend(word.chars().filter(|letter| !letter.is_control()));
        if short.chars().count() > LIMIT {
            return short.chars().take(LIMIT).chain("…".chars()).collect();
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(" <html>\r\n\t<body>\u{1b}[31mno  "), "<html> <body>[31mno");
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), 201);
    }
}
