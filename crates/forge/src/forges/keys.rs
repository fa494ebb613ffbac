//! What lets us in at a forge: a token of its own, or one that is minted for a repository by an app.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};

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

/// A token, and where it comes from in words that people understand. One that an app minted may be another from one request to
/// the next: the forge can take it back at any time.
#[derive(Debug)]
pub(super) struct Key {
    token: RwLock<Token>,
    pub(super) source: String,
    /// What mints another, and for which repository.
    mint: Option<(Arc<App>, Repository)>,
}

impl Key {
    pub(super) fn new(token: Token, source: String) -> Self {
        Self { token: RwLock::new(token), source, mint: None }
    }

    /// The token as it is now.
    pub(super) fn token(&self) -> Token {
        self.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another token instead of one that the forge does not take any more. False where there is none to be had. (The future is in
    /// a box because minting is itself a request, of a key that cannot be renewed.)
    pub(super) fn renew<'a>(
        &'a self,
        refused: &'a Token,
    ) -> Pin<Box<dyn Future<Output = Result<bool, Refusal>> + Send + 'a>> {
        Box::pin(async move {
            let Some((app, repository)) = &self.mint else { return Ok(false) };
            app.forget(repository, refused).await;
            let token = app.token(repository).await?;
            *self.token.write().unwrap_or_else(PoisonError::into_inner) = token;
            Ok(true)
        })
    }
}

/// Where keys come from.
#[derive(Debug)]
pub(super) enum Keys {
    /// A token in a variable of the server's environment.
    Token { token: Option<Token>, source: String },
    /// Installation tokens of a GitHub App.
    App(Arc<App>),
}

impl Keys {
    /// Whether a key stands in a text.
    pub(super) fn is_told_in(&self, text: &str) -> bool {
        match self {
            Self::Token { token, .. } => token.as_ref().is_some_and(|token| token.is_told_in(text)),
            Self::App(app) => app.is_told_in(text),
        }
    }

    /// Whether its tokens are kept for a while, in which the forge may take them back.
    pub(super) fn are_kept(&self) -> bool {
        matches!(self, Self::App(_))
    }

    /// The key for a repository.
    pub(super) async fn of(&self, who: &str, repository: &Repository) -> Result<Key, Refusal> {
        match self {
            Self::Token { token: Some(token), source } => {
                Ok(Key::new(token.clone(), format!("the token in {source}")))
            }
            Self::Token { token: None, source } => Err(Refusal::last(format!(
                "there is no token for {who}: set {source} where the server runs, and start it again"
            ))),
            Self::App(app) => {
                let token = app.token(repository).await?;
                let mint = Some((Arc::clone(app), repository.clone()));
                Ok(Key { mint, ..Key::new(token, "the token of the app".to_owned()) })
            }
        }
    }
}
