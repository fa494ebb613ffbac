//! People who sign in at a forge: with a code that they type in there, where the forge has that, or with a token that they
//! made there. What is got is theirs, and opens pull requests in their name.

use std::time::Duration;

use reqwest::{Method, Url};
use serde::Deserialize;

use super::api::{Api, Scheme};
use super::keys::Key;
use super::{Kind, Repository, github};
use crate::Token;
use crate::http::{self, Answer, Http, Refusal, tame};

/// How a device asks for its token.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Between two looks where the forge does not say.
const INTERVAL: u64 = 5;

/// Where people sign in.
#[derive(Debug, Clone)]
pub struct SignIn {
    kind: Kind,
    url: Url,
    api: Api,
    http: Http,
    /// The application that they let in; None where there is none.
    client: Option<String>,
}

/// A device that waits for a person to type in its code.
#[derive(Debug, Clone)]
pub struct Device {
    code: Token,
    /// What is typed in.
    pub user_code: String,
    /// Where.
    pub url: String,
    /// How long it is good for.
    pub expires: Duration,
    /// How long to wait between two looks.
    pub interval: Duration,
}

/// What a person let us have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Acts in their name.
    pub token: Token,
    /// Gets the next one.
    pub refresh: Option<Token>,
    /// How long it lasts; None where it does not end by itself.
    pub expires: Option<Duration>,
}

/// Whether a code was typed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// It was.
    Yes(Grant),
    /// Not yet. The forge may want more time between two looks from now on.
    NotYet {
        /// Whether it said that we look too often.
        slower: bool,
    },
}

#[derive(Deserialize)]
struct Begun {
    device_code: String,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    expires_in: Option<u64>,
    #[serde(default)]
    interval: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Granted {
    access_token: Option<String>,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    error: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct User {
    login: Option<String>,
    username: Option<String>,
}

impl SignIn {
    /// For a forge whose pages are at this address.
    pub fn new(kind: Kind, url: &str, api_url: &str, client: Option<&str>) -> Result<Self, String> {
        let url = http::address(url)?;
        let api = match kind {
            Kind::GitHub => github::api(api_url)?,
            Kind::GitLab => Api::new(api_url, Scheme::Bearer, &[("accept", "application/json")])?,
            Kind::Gitea => Api::new(api_url, Scheme::Token, &[("accept", "application/json")])?,
        };
        Ok(Self { kind, http: Http::new(&url)?, url, api, client: client.map(str::to_owned) })
    }

    /// Whether people can sign in with a code.
    pub fn has_codes(&self) -> bool {
        self.client.is_some() && self.kind != Kind::Gitea
    }

    /// Whose token this is, by the name that they log in with.
    pub async fn who(&self, token: &Token) -> Result<String, Refusal> {
        let key = Key::new(token.clone(), "this token".to_owned());
        let answer = self.api.call(Method::GET, self.api.url(["user"])?, &key, None).await?;
        let nowhere = Repository { owner: String::new(), name: String::new() };
        let user: User = self.api.expect(&answer, &[200], &key, &nowhere)?;
        user.login
            .or(user.username)
            .filter(|name| !name.is_empty())
            .ok_or_else(|| Refusal::last(format!("{} does not say whose token this is", self.api.who)))
    }

    /// Asks for a code.
    pub async fn begin(&self) -> Result<Device, Refusal> {
        let (path, scope) = match self.kind {
            Kind::GitHub => ("login/device/code", "repo"),
            Kind::GitLab | Kind::Gitea => ("oauth/authorize_device", "api"),
        };
        let answer = self.post(path, &[("client_id", self.client()?), ("scope", scope)]).await?;
        let begun: Begun = match serde_json::from_slice(&answer.body) {
            Ok(begun) if answer.status.is_success() => begun,
            _ => return Err(self.refused(&answer, &[])),
        };
        Ok(Device {
            code: Token::new(&begun.device_code),
            user_code: tame(&begun.user_code, &[]),
            url: tame(&begun.verification_uri, &[]),
            expires: Duration::from_secs(begun.expires_in.unwrap_or(900)),
            interval: Duration::from_secs(begun.interval.unwrap_or(INTERVAL)),
        })
    }

    /// Looks whether the code was typed in.
    pub async fn look(&self, device: &Device) -> Result<Typed, Refusal> {
        let fields =
            [("client_id", self.client()?), ("device_code", device.code.expose()), ("grant_type", GRANT)];
        let answer = self.post(self.token_path(), &fields).await?;
        let granted: Granted = serde_json::from_slice(&answer.body).unwrap_or_default();
        match granted.error.as_deref() {
            Some("authorization_pending") => Ok(Typed::NotYet { slower: false }),
            Some("slow_down") => Ok(Typed::NotYet { slower: true }),
            Some("expired_token" | "incorrect_device_code" | "invalid_grant") => {
                Err(Refusal::last("the code is not good any more: begin again"))
            }
            Some("access_denied") => Err(Refusal::last("somebody refused it at the forge")),
            Some(_) => Err(self.refused(&answer, &[&device.code])),
            None => self.grant(granted, &answer, &[&device.code]).map(Typed::Yes),
        }
    }

    /// Gets the next token for one that ends.
    pub async fn renew(&self, refresh: &Token) -> Result<Grant, Refusal> {
        let fields = [
            ("client_id", self.client()?),
            ("refresh_token", refresh.expose()),
            ("grant_type", "refresh_token"),
        ];
        let answer = self.post(self.token_path(), &fields).await?;
        let granted: Granted = serde_json::from_slice(&answer.body).unwrap_or_default();
        if granted.error.is_some() {
            return Err(self.refused(&answer, &[refresh]));
        }
        self.grant(granted, &answer, &[refresh])
    }

    fn grant(&self, granted: Granted, answer: &Answer, sent: &[&Token]) -> Result<Grant, Refusal> {
        match granted.access_token.filter(|token| answer.status.is_success() && !token.is_empty()) {
            Some(token) => Ok(Grant {
                token: Token::new(&token),
                refresh: granted.refresh_token.as_deref().filter(|token| !token.is_empty()).map(Token::new),
                expires: granted.expires_in.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            }),
            None => Err(self.refused(answer, sent)),
        }
    }

    fn token_path(&self) -> &'static str {
        match self.kind {
            Kind::GitHub => "login/oauth/access_token",
            Kind::GitLab | Kind::Gitea => "oauth/token",
        }
    }

    fn client(&self) -> Result<&str, Refusal> {
        self.client.as_deref().filter(|_| self.has_codes()).ok_or_else(|| {
            Refusal::last(format!(
                "people do not sign in at {} with a code: give a token that was made there",
                self.api.who
            ))
        })
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Result<Answer, Refusal> {
        let mut url = self.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        url.set_query(None);
        let mut form = url.clone();
        form.query_pairs_mut().extend_pairs(fields);
        let body = form.query().unwrap_or_default().to_owned();
        let request = self
            .http
            .client()
            .post(url)
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        self.http.send(&self.api.who, request).await
    }

    /// What the forge says, without what it was sent.
    fn refused(&self, answer: &Answer, sent: &[&Token]) -> Refusal {
        if let Some(passing) = answer.passing(&self.api.who, sent) {
            return passing;
        }
        let granted: Granted = serde_json::from_slice(&answer.body).unwrap_or_default();
        let said = granted.error_description.or(granted.error).unwrap_or_else(|| answer.said(sent));
        Refusal::last(format!("{} does not let this application in: {}", self.api.who, tame(&said, sent)))
    }
}
