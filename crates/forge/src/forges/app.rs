//! A GitHub App: signs a short statement of who it is with its RSA key, and trades it for a token that reaches one
//! repository for an hour. Tokens are kept until shortly before they end.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Method;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::Repository;
use super::api::Api;
use super::github;
use super::keys::Key;
use crate::Token;
use crate::http::Refusal;

/// How long a statement holds; GitHub takes ten minutes at most.
const STATEMENT: u64 = 540;
/// Clocks differ: a statement begins this much earlier.
const SKEW: u64 = 60;
/// A token that ends sooner is not begun with: a push may take as long.
const SPARE: Duration = Duration::from_secs(600);

/// A GitHub App with its key.
pub struct App {
    api: Api,
    id: String,
    key: RsaKeyPair,
    /// The lines of the key, by which it is known again in a text.
    pem: Vec<String>,
    tokens: Mutex<HashMap<String, (Token, SystemTime)>>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("App").field(&self.id).finish()
    }
}

#[derive(Debug, Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct Minted {
    token: String,
    expires_at: jiff::Timestamp,
}

impl App {
    /// The app with this id (or client id) and the key that GitHub gave for it, as PEM. The error is a sentence.
    pub fn new(api_url: &str, id: &str, pem: &Token) -> Result<Self, String> {
        let api = github::api(api_url)?;
        let key = read_key(pem.expose())?;
        let lines =
            pem.expose().lines().map(str::trim).filter(|line| line.len() >= 32 && !line.starts_with('-'));
        let pem = lines.map(str::to_owned).collect();
        Ok(Self { api, id: id.to_owned(), key, pem, tokens: Mutex::default() })
    }

    /// A token for one repository, minted unless there is one that lasts.
    pub(super) async fn token(&self, repository: &Repository) -> Result<Token, Refusal> {
        let name = repository.to_string();
        // Held while a token is minted, so that two who need one mint one.
        let mut tokens = self.tokens.lock().await;
        let lasting = SystemTime::now() + SPARE;
        if let Some((token, ends)) = tokens.get(&name)
            && *ends > lasting
        {
            return Ok(token.clone());
        }
        let minted = self.mint(repository).await?;
        let ends =
            UNIX_EPOCH + Duration::from_secs(u64::try_from(minted.expires_at.as_second()).unwrap_or(0));
        let token = Token::new(&minted.token);
        tokens.retain(|_, (_, ends)| *ends > SystemTime::now());
        tokens.insert(name, (token.clone(), ends));
        Ok(token)
    }

    /// Lets go of a token that the forge does not take any more, unless there is another by now.
    pub(super) async fn forget(&self, repository: &Repository, refused: &Token) {
        let name = repository.to_string();
        let mut tokens = self.tokens.lock().await;
        if tokens.get(&name).is_some_and(|(known, _)| known == refused) {
            tokens.remove(&name);
        }
    }

    /// Whether one of its tokens stands in a text. While one is minted nobody knows, and that is no reason to wait.
    pub(super) fn is_told_in(&self, text: &str) -> bool {
        let Ok(tokens) = self.tokens.try_lock() else { return false };
        tokens.values().any(|(token, _)| token.is_told_in(text))
            || self.pem.iter().any(|line| text.contains(line))
    }

    async fn mint(&self, repository: &Repository) -> Result<Minted, Refusal> {
        let key = Key::new(self.statement()?, format!("the key of app {}", self.id));
        let url = self.api.url(["repos", &repository.owner, &repository.name, "installation"])?;
        let answer = self.api.get(url, &key).await?;
        if answer.status.as_u16() == 404 {
            return Err(Refusal::last(format!(
                "{} has no repository {repository}, or app {} is not installed on it: install it there",
                self.api.who, self.id
            )));
        }
        let installation: Installation = self.api.expect(&answer, &[200], &key, repository)?;
        let url = self.api.url(["app", "installations", &installation.id.to_string(), "access_tokens"])?;
        let body = json!({"repositories": [repository.name]});
        let answer = self.api.call(Method::POST, url, &key, Some(&body)).await?;
        self.api.expect(&answer, &[201], &key, repository)
    }

    /// A JSON web token that says who we are, for the next minutes.
    fn statement(&self) -> Result<Token, Refusal> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = json!({"iat": now.saturating_sub(SKEW), "exp": now + STATEMENT, "iss": self.id});
        let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&json!({"alg": "RS256", "typ": "JWT"})), encode(&claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| Refusal::last(format!("the key of app {} cannot sign", self.id)))?;
        Ok(Token::new(&format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

/// Reads an RSA key, in the form that GitHub gives it (PKCS #1) or in that of openssl's newer commands (PKCS #8).
fn read_key(pem: &str) -> Result<RsaKeyPair, String> {
    const WANTED: &str = "the key of the app is a file that begins with -----BEGIN RSA PRIVATE KEY-----";
    let body = |label: &str| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
        let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
        let text: String = body.split_whitespace().collect();
        STANDARD.decode(text).ok()
    };
    let read = match (body("RSA PRIVATE KEY"), body("PRIVATE KEY")) {
        (Some(der), _) => RsaKeyPair::from_der(&der),
        (None, Some(der)) => RsaKeyPair::from_pkcs8(&der),
        (None, None) => return Err(WANTED.to_owned()),
    };
    read.map_err(|error| format!("the key of the app cannot be used ({error}): {WANTED}"))
}
