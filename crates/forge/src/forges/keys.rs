//! What lets us in at a forge: a token of its own, or one that is minted for a repository by an app.

use std::fmt;

use async_trait::async_trait;

use super::Repository;
use super::app::App;
use crate::Token;
use crate::http::Refusal;

/// What git logs in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user name that the forge wants beside a token.
    pub user: String,
    /// The token.
    pub password: Token,
}

/// What has logins for git. They are asked for right before git runs, as they may not last.
#[async_trait]
pub trait Keyring: Send + Sync + fmt::Debug {
    /// A login that reads the repository and pushes to it.
    async fn login(&self, repository: &Repository) -> Result<Login, Refusal>;
}

/// A token, and where it comes from in words that people understand.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) token: Token,
    pub(super) source: String,
}

/// Where keys come from.
#[derive(Debug)]
pub(super) enum Keys {
    /// A token in a variable of the server's environment.
    Token { token: Option<Token>, source: String },
    /// Installation tokens of a GitHub App.
    App(Box<App>),
}

impl Keys {
    /// Whether a key stands in a text.
    pub(super) fn is_told_in(&self, text: &str) -> bool {
        match self {
            Self::Token { token, .. } => token.as_ref().is_some_and(|token| token.is_told_in(text)),
            Self::App(app) => app.is_told_in(text),
        }
    }

    /// The key for a repository.
    pub(super) async fn of(&self, who: &str, repository: &Repository) -> Result<Key, Refusal> {
        match self {
            Self::Token { token: Some(token), source } => {
                Ok(Key { token: token.clone(), source: format!("the token in {source}") })
            }
            Self::Token { token: None, source } => Err(Refusal::last(format!(
                "there is no token for {who}: set {source} where the server runs, and start it again"
            ))),
            Self::App(app) => {
                let token = app.token(repository).await?;
                Ok(Key { token, source: "the token of the app".to_owned() })
            }
        }
    }
}
