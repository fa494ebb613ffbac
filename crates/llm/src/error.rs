//! Why a call gave no answer: what a server said, the class of the failure, and a message that tells a person what to
//! do. A message never holds a key, not even one that the server echoed.

use std::time::Duration;

use serde_json::Value;

use crate::model::Model;

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
}

/// What kind of failure; decides about retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// No connection, or it closed before the answer began.
    Unreachable,
    /// The server was silent for too long.
    TimedOut,
    /// The server failed or has too much to do.
    Overloaded,
    /// We asked too often, or a quota is used up.
    RateLimited,
    /// No key, a wrong one, or one that may not use the model.
    Auth,
    /// The conversation is longer than the model can read.
    ContextOverflow,
    /// The server will not take the request, now or later.
    BadRequest,
    /// What came back is not an answer, or broke off.
    BadResponse,
}

impl Error {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None }
    }

    /// Takes out texts that must not be shown.
    pub(crate) fn redact(mut self, secrets: &[&str]) -> Self {
        for secret in secrets {
            self.message = self.message.replace(secret, "…");
        }
        self
    }
}

/// What a server said about a failure, whichever shape it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The HTTP status, or the code inside an error that came in a stream.
    status: Option<u16>,
    /// Type and code words, in lower case.
    kind: String,
    message: String,
}

impl Complaint {
    /// From the body of a response that is no success.
    pub(crate) fn from_body(status: u16, body: &str) -> Self {
        let parsed = serde_json::from_str::<Value>(body).ok();
        let complaint = parsed.as_ref().and_then(|value| {
            Self::from_json(value).or_else(|| {
                let text = ["message", "detail"].iter().find_map(|name| value.get(name))?;
                Some(Self { status: None, kind: String::new(), message: words(text) })
            })
        });
        let mut complaint =
            complaint.unwrap_or_else(|| Self { status: None, kind: String::new(), message: body.to_owned() });
        complaint.status = Some(status);
        complaint
    }

    /// From JSON that has an `error` in it; `None` when it has not.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        // Gemini wraps its errors in an array.
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null())?;
        let field = |name: &str| error.get(name).filter(|value| !value.is_null());
        let status = field("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let kind =
            ["type", "code", "status"].iter().filter_map(|name| field(name)?.as_str()).collect::<Vec<_>>();
        let message = field("message").map_or_else(|| words(error), words);
        let status = status.filter(|code| (300..600).contains(code));
        Some(Self { status, kind: kind.join(" ").to_lowercase(), message })
    }

    /// Whether the server named this parameter as the trouble.
    pub(crate) fn names(&self, parameter: &str) -> bool {
        matches!(self.status, Some(400 | 422)) && self.message.contains(parameter)
    }

    /// Whether the trouble is that the server does not take a parameter, rather than its value.
    pub(crate) fn says_unsupported(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        ["unsupported", "not supported", "unrecognized", "unknown", "extra inputs", "not permitted"]
            .iter()
            .any(|word| said.contains(word))
    }

    fn class(&self) -> Class {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        match self.status {
            Some(401..=403) => Class::Auth,
            Some(408) => Class::TimedOut,
            Some(429) => Class::RateLimited,
            // A body that is too large is cured like a context that is too long: by a shorter conversation.
            Some(413) => Class::ContextOverflow,
            _ if has(OVERFLOW) => Class::ContextOverflow,
            Some(400) if has(&["api key not valid", "invalid api key", "incorrect api key"]) => Class::Auth,
            Some(500..) => Class::Overloaded,
            Some(_) => Class::BadRequest,
            None => {
                let kind = |words: &[&str]| words.iter().any(|word| self.kind.contains(word));
                if kind(&["rate_limit", "too_many_requests", "quota", "resource_exhausted"]) {
                    Class::RateLimited
                } else if kind(&["authentication", "permission", "invalid_api_key"]) {
                    Class::Auth
                } else if kind(&["request_too_large"]) {
                    Class::ContextOverflow
                } else if kind(&["timeout"]) {
                    Class::TimedOut
                } else if kind(&["invalid_request", "not_found", "invalid_argument"]) {
                    Class::BadRequest
                } else {
                    Class::Overloaded
                }
            }
        }
    }

    /// The error for people.
    pub(crate) fn into_error(self, model: &Model, retry_after: Option<Duration>) -> Error {
        let class = self.class();
        let name = &model.name;
        let status = self.status.map(|status| format!(" ({status})")).unwrap_or_default();
        let said = match excerpt(&self.message) {
            said if said.is_empty() => String::new(),
            said => format!(": {}", said.trim_end_matches('.')),
        };
        let message = match class {
            Class::Auth if model.key.is_some() => {
                format!(
                    "The model server refused the key of model \"{name}\"{status}{said}. {}",
                    model.key_advice()
                )
            }
            Class::Auth => {
                format!(
                    "The model server wants a key for model \"{name}\"{status}{said}. {}",
                    model.key_advice()
                )
            }
            Class::RateLimited if self.kind.contains("quota") => format!(
                "The quota for model \"{name}\" is used up{status}{said}. Check the plan and billing of the provider's \
                 account, or choose another model."
            ),
            Class::RateLimited => format!(
                "The model server limits how often model \"{name}\" may be called{status}{said}. Wait a little, or \
                 choose another model."
            ),
            Class::Overloaded => format!(
                "The model server failed or has too much to do{status}{said}. Try again later, or choose another model."
            ),
            Class::TimedOut => {
                format!(
                    "The model server gave up waiting{status}{said}. Try again, or choose a faster model."
                )
            }
            Class::ContextOverflow => format!(
                "The conversation is too long for model \"{name}\"{status}{said}. Shorten it, or choose a model with a \
                 larger context."
            ),
            Class::BadRequest if self.status.is_some_and(|status| (300..400).contains(&status)) => format!(
                "The server at {} redirects elsewhere{status}, which is not followed because of the key. Set base_url of \
                 [models.{name}] in slipway.toml to the final address.",
                model.address()
            ),
            Class::BadRequest
                if matches!(self.status, Some(404 | 405)) || self.kind.contains("not_found") =>
            {
                format!(
                    "The server at {} does not know the model {:?}{status}{said}. Check model and base_url of \
                 [models.{name}] in slipway.toml.",
                    model.address(),
                    model.model
                )
            }
            Class::Unreachable | Class::BadRequest | Class::BadResponse => format!(
                "The model server would not take the request{status}{said}. Check [models.{name}] in slipway.toml."
            ),
        };
        Error { class, message, retry_after }
    }
}

/// How servers say that the conversation is too long; none has a code for it that others share.
const OVERFLOW: &[&str] = &[
    "context_length",
    "context length",
    "context window",
    "context size",
    "context_size",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "input token count",
    "maximum prompt length",
    "too many input tokens",
    "reduce the length of the messages",
];

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
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
    use crate::model::{Key, Provider};

    fn model() -> Model {
        Model {
            name: "main".into(),
            provider: Provider::OpenAiCompatible,
            model: "big".into(),
            base_url: Some("http://127.0.0.1:1/v1".into()),
            key: Some(Key::new("sk-secret".into())),
            headers: Default::default(),
            price: None,
        }
    }

    #[test]
    fn status_and_words_give_the_class() {
        let class = |status, body: &str| Complaint::from_body(status, body).class();
        assert_eq!(class(401, ""), Class::Auth);
        assert_eq!(class(403, "<html>"), Class::Auth);
        assert_eq!(class(404, "{}"), Class::BadRequest);
        assert_eq!(class(408, ""), Class::TimedOut);
        assert_eq!(
            class(429, r#"{"error":{"message":"too many input tokens per minute"}}"#),
            Class::RateLimited
        );
        for status in [500, 502, 503, 504, 529] {
            assert_eq!(class(status, "oops"), Class::Overloaded);
        }
        assert_eq!(class(413, ""), Class::ContextOverflow);
        assert_eq!(class(400, r#"{"error":{"message":"no such parameter"}}"#), Class::BadRequest);
        for said in [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000"}}"#,
            r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum","status":"INVALID_ARGUMENT"}}]"#,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        ] {
            assert_eq!(class(400, said), Class::ContextOverflow, "{said}");
        }
        assert_eq!(
            class(
                400,
                r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]"#
            ),
            Class::Auth
        );
    }

    #[test]
    fn errors_inside_a_stream_are_classed_by_their_words() {
        let class = |json: Value| Complaint::from_json(&json).unwrap().class();
        let error =
            |kind: &str| serde_json::json!({"type": "error", "error": {"type": kind, "message": "m"}});
        assert_eq!(class(error("overloaded_error")), Class::Overloaded);
        assert_eq!(class(error("rate_limit_error")), Class::RateLimited);
        assert_eq!(class(error("invalid_request_error")), Class::BadRequest);
        assert_eq!(class(error("api_error")), Class::Overloaded);
        assert_eq!(class(serde_json::json!({"error": {"code": 429, "message": "slow"}})), Class::RateLimited);
        assert_eq!(class(serde_json::json!({"error": "out of memory"})), Class::Overloaded);
        assert_eq!(Complaint::from_json(&serde_json::json!({"error": null, "choices": []})), None);
    }

    #[test]
    fn messages_say_what_to_do_and_hide_the_key() {
        let body = r#"{"error":{"message":"Incorrect API key provided: sk-secret."}}"#;
        let error = Complaint::from_body(401, body).into_error(&model(), None).redact(&model().secrets());
        assert_eq!(
            error.message,
            "The model server refused the key of model \"main\" (401): Incorrect API key provided: …. Check api_key_env \
             of [models.main] in slipway.toml and the variable that it names."
        );
        let error = Complaint::from_body(404, "").into_error(&model(), None);
        assert_eq!(
            error.message,
            "The server at http://127.0.0.1:1/v1 does not know the model \"big\" (404). Check model and base_url of \
             [models.main] in slipway.toml."
        );
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(" <html>\r\n\t<body>\u{1b}[31mno  "), "<html> <body>[31mno");
        assert_eq!(excerpt(&"é".repeat(1000)).chars().count(), 201);
    }
}
