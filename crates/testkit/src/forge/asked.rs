//! A request that was read, and what was decided on.

use axum::http::request::Parts;
use serde_json::Value;

/// A request that was read.
pub(super) struct Asked<'a> {
    pub(super) head: &'a Parts,
    pub(super) body: &'a [u8],
    /// The parts of the path, each decoded by itself.
    pub(super) path: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    /// The server's own address.
    pub(super) url: &'a str,
}

impl<'a> Asked<'a> {
    pub(super) fn new(head: &'a Parts, body: &'a [u8], url: &'a str) -> Self {
        let path = head.uri.path().split('/').skip(1).map(decode).collect();
        Self { head, body, path, query: pairs(head.uri.query().unwrap_or_default()), url }
    }

    pub(super) fn method(&self) -> &str {
        self.head.method.as_str()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    pub(super) fn parts(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    pub(super) fn queried(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The part of a list that is asked for.
    pub(super) fn page(&self, all: Vec<Value>, size: &str) -> Value {
        let number = |name: &str, default: usize| {
            self.queried(name).and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        let (count, page) = (number(size, 30), number("page", 1));
        all.into_iter().skip(count * page.saturating_sub(1)).take(count).collect()
    }

    pub(super) fn is_json(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("application/json"))
    }
}

/// What was decided on.
pub(super) struct Decided {
    pub(super) status: u16,
    pub(super) body: Value,
    /// Instead of the JSON.
    pub(super) raw: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) acted: bool,
}

impl Decided {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, raw: None, headers: Vec::new(), acted: false }
    }

    /// Something is there now that was not there before.
    pub(super) fn acted(status: u16, body: Value) -> Self {
        Self { acted: true, ..Self::new(status, body) }
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// The pairs of a query or a form.
pub(super) fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (plus(key), plus(value))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn plus(text: &str) -> String {
    decode(&text.replace('+', " "))
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
