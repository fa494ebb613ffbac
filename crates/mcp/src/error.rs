//! What can go wrong with a server. Each is told to the model as the failure of one call, and none of them ends a turn.

use std::error::Error as _;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpError};

use crate::tail::Tail;

/// Most characters of what a server says of itself in a message.
const QUOTED: usize = 600;

/// Why a server cannot be used, or a call did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It could not be started or reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("it did not answer within {} s{said}", limit.as_secs_f32())]
    Slow {
        /// How long it had.
        limit: Duration,
        /// What it said on its standard error.
        said: String,
    },
    /// It ended. A call that was under way may have taken effect.
    #[error("it ended{0}")]
    Gone(String),
    /// Nobody is signed in to it, or not any more.
    #[error("nobody is signed in to it ({0})")]
    SignIn(String),
    /// A token or another secret for it cannot be had, or is refused.
    #[error("{0}")]
    Key(String),
    /// It refused a request, in its own words.
    #[error("it refused: {0}")]
    Refused(String),
    /// It does not speak the protocol.
    #[error("it does not speak the protocol: {0}")]
    Rubbish(String),
}

impl Error {
    /// Whether it may be another time if nothing is changed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Slow { .. } | Self::Gone(_) => true,
            Self::SignIn(_) | Self::Key(_) | Self::Refused(_) | Self::Rubbish(_) => false,
        }
    }

    /// What a person does about it.
    pub fn hint(&self, server: &str) -> String {
        match self {
            Self::SignIn(_) => format!("sign in with `slipway mcp login {server}`"),
            Self::Key(_) => format!(
                "correct [mcp.{server}] in slipway.toml, or what the variable, file or secret that it names has"
            ),
            Self::Slow { .. } => {
                format!("try `slipway mcp test {server}`, or raise timeout_s of [mcp.{server}]")
            }
            Self::Unreachable(_) | Self::Gone(_) | Self::Refused(_) | Self::Rubbish(_) => {
                format!("try `slipway mcp test {server}`")
            }
        }
    }

    /// The same, where it is known what the server was given in place of somebody who is signed in.
    pub(crate) fn with_reason(self, denied: Option<&str>) -> Self {
        match (self, denied) {
            (Self::SignIn(_), Some(denied)) => Self::Key(denied.to_owned()),
            (error, _) => error,
        }
    }

    pub(crate) fn slow(limit: Duration, tail: &Tail) -> Self {
        Self::Slow { limit, said: tail.said() }
    }

    /// Why there is no connection.
    pub(crate) fn connecting(error: &ClientInitializeError, tail: &Tail) -> Self {
        if error.is_authorization_required() {
            return Self::SignIn("it asks for authorization".to_owned());
        }
        match error {
            ClientInitializeError::ConnectionClosed(_) => {
                Self::Gone(format!(" before it was ready{}", tail.said()))
            }
            ClientInitializeError::JsonRpcError(refused) => Self::Refused(quoted(&refused.message)),
            ClientInitializeError::TransportError { error, .. } if wants_sign_in(error) => {
                Self::SignIn("it asks for authorization".to_owned())
            }
            ClientInitializeError::TransportError { error, .. } => Self::Unreachable(causes(error)),
            other => Self::Rubbish(quoted(&other.to_string())),
        }
    }

    /// Why a request has no answer.
    pub(crate) fn asking(error: &ServiceError, tail: &Tail) -> Self {
        match error {
            ServiceError::McpError(refused) => Self::Refused(quoted(&refused.message)),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => Self::Gone(tail.said()),
            ServiceError::TransportSend(error) if wants_sign_in(error) => {
                Self::SignIn("it asks for authorization".to_owned())
            }
            ServiceError::TransportSend(error) => Self::Unreachable(causes(error)),
            other => Self::Rubbish(quoted(&other.to_string())),
        }
    }
}

/// Whether a server answered that it does not know who asks, or there is nobody to ask as.
fn wants_sign_in(error: &DynamicTransportError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.error.as_ref());
    while let Some(one) = cause {
        let unauthorized = matches!(one.downcast_ref::<AuthError>(), Some(AuthError::AuthorizationRequired));
        // Many leave out the header that says where one signs in, and then it is only told in words.
        let in_words = matches!(
            one.downcast_ref::<StreamableHttpError<reqwest::Error>>(),
            Some(StreamableHttpError::UnexpectedServerResponse(words)) if words.starts_with("HTTP 401")
        );
        if unauthorized || in_words || one.is::<AuthRequiredError>() {
            return true;
        }
        cause = one.source();
    }
    false
}

/// An error with what is behind it; the innermost says most.
fn causes(error: &DynamicTransportError) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    while let Some(one) = cause {
        let said = one.to_string();
        if !words.iter().any(|known| known.contains(&said)) {
            words.push(said);
        }
        cause = one.source();
    }
    if words.is_empty() {
        words.push(error.to_string());
    }
    quoted(&words.join(": "))
}

/// A few words of others in one line, without letters that a terminal takes for orders.
pub(crate) fn quoted(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut words: String = line.chars().filter(|letter| !letter.is_control()).take(QUOTED).collect();
    if words.len() < line.len() && line.chars().count() > QUOTED {
        words.push('…');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_one_short_line() {
        assert_eq!(quoted(" a\n\u{1b}[31mb\tc "), "a [31mb c");
        let long = quoted(&"é".repeat(2000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (QUOTED + 1, true));
    }

    #[test]
    fn each_error_says_what_to_do() {
        assert!(Error::SignIn("x".into()).hint("sentry").contains("slipway mcp login sentry"));
        assert!(
            Error::Slow { limit: Duration::from_secs(2), said: String::new() }
                .to_string()
                .contains("within 2 s")
        );
        assert!(Error::Gone(String::new()).may_pass() && !Error::Rubbish(String::new()).may_pass());
    }
}
