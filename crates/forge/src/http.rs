//! Requests to the world: one client, short waits, and what an answer other than success means for a second try.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, Url, redirect};

use crate::Token;

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a whole request may take.
const WHOLE: Duration = Duration::from_secs(30);
/// Most bytes of an answer.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;
/// Most bytes that are kept of the end of a log.
const TAIL_LIMIT: usize = 4 * 1024 * 1024;
/// Words of others are shortened to about this many characters.
const SAID_LIMIT: usize = 300;

/// Why something outside was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It may work later: nobody is there, or not now.
    #[error("{message}")]
    Later {
        /// What happened.
        message: String,
        /// Whether the request may have been carried out: it was sent, and no answer came that says otherwise.
        doubtful: bool,
        /// How long the other side asks us to wait.
        wait: Option<Duration>,
    },
    /// It will not work before somebody changes something.
    #[error("{message}")]
    Final {
        /// What happened, and what to do.
        message: String,
    },
}

impl Refusal {
    pub(crate) fn last(message: impl Into<String>) -> Self {
        Self::Final { message: message.into() }
    }
}

/// How much of an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it, up to a bound beyond which it is of no use.
    Whole,
    /// Its end, however long it is.
    Tail,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Read {
    /// It was answered.
    Answer(Answer),
    /// There is more than is read of an answer.
    TooLong,
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
    /// How many bytes there were before those of the body.
    pub(crate) left_out: usize,
    /// How long the other side asks us to wait.
    pub(crate) wait: Option<Duration>,
    /// Whether it counts our requests, and there were too many.
    pub(crate) limited: bool,
    /// Where it sends us instead.
    pub(crate) location: Option<Url>,
}

impl Answer {
    /// What the other side said, as it may be shown: short, on one line, without our secrets.
    pub(crate) fn said(&self, secrets: &[&Token]) -> String {
        let json: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let keys = ["message", "error_description", "error"];
        let message = json.as_ref().and_then(|json| keys.iter().find_map(|key| json.get(key))).map(words);
        tame(&message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned()), secrets)
    }

    /// The text of a long answer, from the beginning of a line, with what was left out before it.
    pub(crate) fn tail(&self) -> String {
        if self.left_out == 0 {
            return String::from_utf8_lossy(&self.body).into_owned();
        }
        let begin = self.body.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let begin = if begin == self.body.len() { 0 } else { begin };
        let text = String::from_utf8_lossy(&self.body[begin..]);
        format!("({} bytes before this are left out)\n{text}", self.left_out + begin)
    }

    /// The refusal of an answer that is no success, whose meaning is the same everywhere: too many requests, or a server
    /// that is not well.
    pub(crate) fn passing(&self, who: &str, secrets: &[&Token]) -> Option<Refusal> {
        let busy = self.limited || matches!(self.status.as_u16(), 408 | 425 | 429);
        (busy || self.status.is_server_error()).then(|| {
            let said = self.said(secrets);
            let said = if said.is_empty() { said } else { format!(": {said}") };
            Refusal::Later {
                message: format!("{who} answered {}{said}", self.status.as_u16()),
                doubtful: self.status.is_server_error(),
                wait: self.wait,
            }
        })
    }
}

/// Sends requests.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
}

impl Http {
    /// A client for one address. It goes through the system's proxy unless the address is this machine's, and follows no
    /// redirect, which could carry a secret away.
    pub(crate) fn new(address: &Url) -> Result<Self, String> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // It fails only if another thread has just installed one, which is as good.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        let builder = || {
            let builder = reqwest::Client::builder()
                .connect_timeout(CONNECT)
                .timeout(WHOLE)
                .redirect(redirect::Policy::none())
                .user_agent(concat!("slipway/", env!("CARGO_PKG_VERSION")));
            if is_loopback(address) { builder.no_proxy() } else { builder }
        };
        let client = builder().build().or_else(|error| {
            tracing::warn!(%error, "no root certificates were found, so https addresses cannot be verified");
            builder().tls_certs_only([]).build()
        });
        client
            .map(|client| Self { client })
            .map_err(|error| format!("the HTTP client cannot be set up: {error}"))
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Sends a request and reads the answer, whatever its status.
    pub(crate) async fn send(&self, who: &str, request: RequestBuilder) -> Result<Answer, Refusal> {
        match self.read(who, request, Part::Whole).await? {
            Read::Answer(answer) => Ok(answer),
            Read::TooLong => Err(too_long(who)),
        }
    }

    /// Sends a request and reads so much of the answer, whatever its status.
    pub(crate) async fn read(&self, who: &str, request: RequestBuilder, part: Part) -> Result<Read, Refusal> {
        let failed = |error: &reqwest::Error| Refusal::Later {
            message: format!("{who} cannot be reached: {}", root_cause(error)),
            // Without a connection nothing was sent.
            doubtful: !error.is_connect() && !error.is_builder(),
            wait: None,
        };
        let mut response = request.send().await.map_err(|error| failed(&error))?;
        let (status, wait, limited) = (response.status(), retry_after(&response), is_limited(&response));
        let location = response.headers().get("location").and_then(|place| place.to_str().ok());
        let location = location.and_then(|place| response.url().join(place).ok());
        let (mut body, mut left_out) = (Vec::new(), 0);
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            body.extend_from_slice(&chunk);
            match part {
                Part::Whole if body.len() > ANSWER_LIMIT => return Ok(Read::TooLong),
                // The beginning is let go now and then, and not with every chunk.
                Part::Tail if body.len() > 2 * TAIL_LIMIT => left_out += keep_end(&mut body),
                Part::Whole | Part::Tail => {}
            }
        }
        if part == Part::Tail {
            left_out += keep_end(&mut body);
        }
        // Some limits of GitHub are told in words alone; it wants to be left alone for a minute then.
        let told = status == StatusCode::FORBIDDEN && !limited && says_limited(&body);
        let wait = wait.or(told.then_some(Duration::from_secs(60)));
        Ok(Read::Answer(Answer { status, body, left_out, wait, limited: limited || told, location }))
    }
}

/// Leaves only the end of what is too long, and gives the number of bytes that were before it.
fn keep_end(body: &mut Vec<u8>) -> usize {
    let over = body.len().saturating_sub(TAIL_LIMIT);
    body.drain(..over).len()
}

/// The refusal for an answer of which there is more than is read.
pub(crate) fn too_long(who: &str) -> Refusal {
    Refusal::last(format!("{who} gave an answer of more than {ANSWER_LIMIT} bytes"))
}

/// Checks an address of somebody outside; the error is a sentence.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("\"{text}\" is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(format!(
            "\"{text}\" is no address that can be called: it begins with https:// or http://"
        ));
    }
    Ok(url)
}

/// Text of others on its way into a message: bounded, on one line, without our secrets.
pub(crate) fn tame(text: &str, secrets: &[&Token]) -> String {
    let secrets: Vec<&str> = secrets.iter().map(|token| token.expose()).collect();
    let text = crate::hidden::hidden(text, &secrets);
    let words: Vec<&str> = text.split_whitespace().collect();
    let clean: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match clean.char_indices().nth(SAID_LIMIT) {
        None => clean,
        Some((at, _)) => format!("{}…", &clean[..at]),
    }
}

/// What is said in a list, or about each of some fields, as one sentence.
fn words(value: &serde_json::Value) -> String {
    use serde_json::Value;
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            let about = |(name, value): (&String, &Value)| match name.as_str() {
                "base" => words(value),
                _ => format!("{name} {}", words(value)),
            };
            fields.iter().map(about).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn number(response: &Response, header: &str) -> Option<u64> {
    response.headers().get(header)?.to_str().ok()?.trim().parse().ok()
}

fn retry_after(response: &Response) -> Option<Duration> {
    number(response, "retry-after").map(Duration::from_secs)
}

/// Whether a refusal speaks of a limit on requests.
fn says_limited(body: &[u8]) -> bool {
    let said = String::from_utf8_lossy(&body[..body.len().min(4096)]).to_lowercase();
    said.contains("rate limit") || said.contains("abuse detection")
}

/// GitHub and Gitea refuse too many requests with 403 and say so in a header.
fn is_limited(response: &Response) -> bool {
    response.status() == StatusCode::FORBIDDEN
        && (number(response, "x-ratelimit-remaining") == Some(0)
            || response.headers().contains_key("retry-after"))
}

/// The innermost reason, which is the one that tells something. It never has a URL in it.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer came in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    tame(&cause.to_string(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_words_too() {
        assert!(says_limited(
            br#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes"}"#
        ));
        assert!(says_limited(b"You have triggered an abuse detection mechanism."));
        assert!(!says_limited(br#"{"message":"Resource not accessible by integration"}"#));
    }

    #[test]
    fn what_is_said_of_fields_becomes_a_sentence() {
        let said = |body: &str| {
            let body = body.as_bytes().to_vec();
            Answer {
                status: StatusCode::BAD_REQUEST,
                body,
                left_out: 0,
                wait: None,
                limited: false,
                location: None,
            }
            .said(&[])
        };
        assert_eq!(said(r#"{"message":{"title":["is too long","is bad"]}}"#), "title is too long; is bad");
        assert_eq!(said(r#"{"message":["a","b"]}"#), "a; b");
        assert_eq!(
            said(r#"{"error":"invalid_token","error_description":"Token was revoked."}"#),
            "Token was revoked."
        );
        assert_eq!(said("<html>"), "<html>");
    }
}
