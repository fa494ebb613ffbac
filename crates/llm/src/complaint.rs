//! What a server says about a failure, whichever shape it uses, and what it means: the class of the failure and words
//! for people. Status codes say half of it; the rest is in codes and sentences that no two servers share.

use std::time::Duration;

use serde_json::Value;

use crate::error::{Class, Error, excerpt};
use crate::hints::{self, Hints};
use crate::model::Model;

mod numbers;

/// What a server said about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The HTTP status, or the code inside an error that came in a stream.
    status: Option<u16>,
    /// Type and code words, in lower case.
    kind: String,
    message: String,
    /// The parameter that it is about, where that is told apart.
    parameter: String,
    /// How long it asks us to wait, and whether to come back at all.
    hints: Hints,
    /// What the model wrote that the server could not read, where it tells.
    written: String,
    /// Whether it tells why it does not like what is said in the conversation.
    moderated: bool,
}

impl Complaint {
    /// From a response that is no success.
    pub(crate) fn from_response(status: u16, hints: Hints, body: &str) -> Self {
        let parsed = serde_json::from_str::<Value>(body).ok();
        let complaint = parsed.as_ref().and_then(|value| {
            Self::from_json(value).or_else(|| {
                let text = ["message", "detail"].iter().find_map(|name| value.get(name))?;
                Some(Self::saying(words(text)))
            })
        });
        let mut complaint = complaint.unwrap_or_else(|| Self::saying(body.to_owned()));
        complaint.status = Some(status);
        complaint.hints = Hints { wait: hints.wait.or(complaint.hints.wait), retry: hints.retry };
        complaint
    }

    fn saying(message: String) -> Self {
        let hints = Hints { wait: hints::from_body(&Value::Null, &message), retry: None };
        let (kind, parameter, written) = Default::default();
        Self { status: None, kind, message, parameter, hints, written, moderated: false }
    }

    /// From JSON that has an `error` in it; `None` when it has not.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        // Gemini wraps its errors in an array.
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        // Some, such as older ones of vLLM, give the error bare, also in the middle of a stream.
        let bare = || Some(value).filter(|value| value.get("object").is_some_and(|kind| kind == "error"));
        let error = value.get("error").filter(|error| !error.is_null()).or_else(bare)?;
        let field = |name: &str| error.get(name).filter(|value| !value.is_null());
        let status = field("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let kind =
            ["type", "code", "status"].iter().filter_map(|name| field(name)?.as_str()).collect::<Vec<_>>();
        let mut message = field("message").map_or_else(|| words(error), words);
        // OpenRouter passes on what the model's own server said.
        if let Some(raw) = error.pointer("/metadata/raw") {
            message = format!("{message}: {}", words(raw));
        }
        let status = status.filter(|code| (300..600).contains(code));
        let parameter = field("param").map(words).unwrap_or_default();
        let hints = Hints { wait: hints::from_body(error, &message), retry: None };
        let written = field("failed_generation").map(words).unwrap_or_default();
        let moderated = error.pointer("/metadata/reasons").is_some_and(Value::is_array);
        let kind = kind.join(" ").to_lowercase();
        Some(Self { status, kind, message, parameter, hints, written, moderated })
    }

    /// The server stopped in the middle and gave this as its reason.
    pub(crate) fn stopped(reason: &str) -> Self {
        Self::saying(format!("the answer ended with the reason {reason:?}"))
    }

    /// Whether the server named this parameter as the trouble.
    pub(crate) fn names(&self, parameter: &str) -> bool {
        matches!(self.status, Some(400 | 404 | 422))
            && (self.message.contains(parameter) || self.parameter.contains(parameter))
    }

    /// Whether the server does not know this parameter, whose name is a word that may stand in any sentence: so it counts only
    /// where it is told apart, quoted, or set off by a colon.
    pub(crate) fn takes_no(&self, parameter: &str) -> bool {
        let said = self.message.trim_end_matches('.');
        let quoted = |quote| said.contains(&format!("{quote}{parameter}{quote}"));
        let list = said.rsplit_once(": ").map_or("", |(_, list)| list);
        let listed = list.split(", ").any(|name| name == parameter);
        let set_off = listed || said.starts_with(&format!("{parameter}: "));
        matches!(self.status, Some(400 | 404 | 422))
            && self.says_unsupported()
            && (self.parameter == parameter || set_off || ['\'', '"', '`'].into_iter().any(quoted))
    }

    /// Whether the server used these words, in any case. Chat templates that fail are often reported as 500.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self.status, Some(400 | 404 | 422 | 500)) && self.message.to_lowercase().contains(words)
    }

    /// Whether the trouble is reasoning that came from elsewhere: another account, another model, another time.
    pub(crate) fn refuses_signatures(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        self.status == Some(400)
            // Then it knows none, whoever it is from.
            && !said.contains("unknown name")
            && (said.contains("invalid_encrypted_content")
                || (said.contains("encrypted content") && said.contains("verified"))
                || (said.contains("signature") && (said.contains("thinking") || said.contains("thought"))))
    }

    /// Whether the trouble is one image: its size, its format or its bytes, and not that the model sees none.
    pub(crate) fn refuses_images(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        matches!(self.status, Some(400 | 413 | 422))
            && said.contains("image")
            && [
                "image exceeds",
                "dimensions exceed",
                "process image",
                "process input image",
                "valid image",
                "image is not valid",
                "invalid_image",
                "invalid image",
                "unsupported image",
                "unsupported mime type: image",
                "image_parse",
                "load image",
                "decode image",
                "identify image",
                "image appears to be",
                "image too large",
                "image_too_large",
                "image is too",
            ]
            .iter()
            .any(|words| said.contains(words))
    }

    /// Whether the trouble is that the server does not take a parameter, rather than its value.
    pub(crate) fn says_unsupported(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        [
            "unsupported",
            "not supported",
            "not support",
            "unrecognized",
            "unknown",
            "extra inputs",
            "not permitted",
            "unexpected keyword",
            "cannot find field",
            "not available",
        ]
        .iter()
        .any(|word| said.contains(word))
    }

    /// Tokens that the key may send in a time, where this request alone has more: no waiting cures that. Without a number
    /// where the server names none.
    fn beyond_the_key(&self) -> Option<Option<u64>> {
        if !matches!(self.status, None | Some(413 | 429)) {
            return None;
        }
        let said = self.message.to_lowercase();
        match numbers::at_once(&said) {
            Some(told) => (told.requested > told.limit && told.limit > 0).then_some(Some(told.limit)),
            None => (said.contains("request too large for") && said.contains("token")).then_some(None),
        }
    }

    /// Tokens that the key may send in a time, where this request alone has more and the server says how many.
    pub(crate) fn allowed_at_once(&self) -> Option<u64> {
        self.beyond_the_key()?
    }

    /// Tokens of request and answer together that the server takes, where that is the trouble and it says so.
    pub(crate) fn takes(&self) -> Option<u64> {
        if self.class() != Class::ContextOverflow {
            return None;
        }
        self.allowed_at_once().or_else(|| numbers::window(&self.message.to_lowercase()))
    }

    /// The call that the model wrote and its server could not read, in the server's words.
    pub(crate) fn broken_call(&self) -> Option<String> {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        let broken = BROKEN_CALL.iter().any(|words| said.contains(words));
        broken.then(|| format!("{} {}", self.message, self.written).trim().to_owned())
    }

    /// The most tokens of an answer that the server takes, where that is the trouble and it says so.
    pub(crate) fn longest_answer(&self) -> Option<u32> {
        let ours = self.names("max_tokens") || self.names("max_completion_tokens");
        let limit = || numbers::longest_answer(&self.message.to_lowercase());
        (ours && self.class() == Class::BadRequest).then(limit).flatten()
    }

    /// Whether the trouble is what is said in the conversation.
    fn is_filtered(&self) -> bool {
        let said = self.message.to_lowercase();
        let words = ["was flagged", "requires moderation", "content_filter", "content filter"];
        self.moderated
            || self.kind.contains("content_filter")
            || words.iter().any(|words| said.contains(words))
    }

    /// Whether the server has nothing at that address, which is told from not having the model.
    pub(crate) fn knows_no_such_place(&self) -> bool {
        // Gemini's addresses have the word in them.
        let said = self.message.to_lowercase().replace("/models", "");
        matches!(self.status, Some(404 | 405)) && !said.contains("model")
    }

    /// Whether the server says that it has no such model.
    pub(crate) fn names_no_model(&self) -> bool {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        self.class() == Class::UnknownModel && UNKNOWN_MODEL.iter().any(|words| said.contains(words))
    }

    pub(crate) fn class(&self) -> Class {
        match self.class_by_words() {
            // A server that says so knows better than a status that says nothing.
            Class::BadRequest if self.hints.retry == Some(true) => Class::Overloaded,
            class => class,
        }
    }

    fn class_by_words(&self) -> Class {
        let said = format!("{} {}", self.kind, self.message).to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        match self.status {
            // Another attempt is another answer.
            _ if self.broken_call().is_some() => Class::BadResponse,
            _ if has(UNPAID) || self.status == Some(402) => Class::Unpaid,
            // It is cured like a context that is too long.
            _ if self.beyond_the_key().is_some() => Class::ContextOverflow,
            Some(403) if self.is_filtered() => Class::BadRequest,
            Some(401 | 403) => Class::Auth,
            Some(408) => Class::TimedOut,
            Some(429) => Class::RateLimited,
            // A body that is too large is cured like a context that is too long: by a shorter conversation.
            Some(413) => Class::ContextOverflow,
            _ if has(OVERFLOW) => Class::ContextOverflow,
            Some(400) if has(&["api key not valid", "invalid api key", "incorrect api key"]) => Class::Auth,
            Some(501) => Class::Unsupported,
            Some(300..=599) if has(UNSUPPORTED) => Class::Unsupported,
            Some(404 | 405) => Class::UnknownModel,
            // Gateways say so with the status of a failure of their own.
            Some(300..=599) if has(UNKNOWN_MODEL) => Class::UnknownModel,
            Some(409 | 500..) => Class::Overloaded,
            Some(_) => Class::BadRequest,
            None => {
                let kind = |words: &[&str]| words.iter().any(|word| self.kind.contains(word));
                if kind(&["rate_limit", "too_many_requests", "quota", "resource_exhausted", "throttling"]) {
                    Class::RateLimited
                } else if kind(&["authentication", "permission", "invalid_api_key"]) {
                    Class::Auth
                } else if kind(&["request_too_large"]) {
                    Class::ContextOverflow
                } else if kind(&["timeout"]) {
                    Class::TimedOut
                } else if kind(&["not_found"]) {
                    Class::UnknownModel
                } else if kind(&["invalid_request", "invalid_argument", "invalid_prompt"]) {
                    Class::BadRequest
                } else {
                    Class::Overloaded
                }
            }
        }
    }

    /// The error for people.
    pub(crate) fn into_error(self, model: &Model) -> Error {
        let class = self.class();
        let status = self.status.map(|status| format!(" ({status})")).unwrap_or_default();
        // Before it is shortened: half a key is a secret too.
        let said = model.secrets().iter().fold(self.message.clone(), |said, key| said.replace(key, "…"));
        let said = match excerpt(&said) {
            said if said.is_empty() => String::new(),
            said => format!(": {}", said.trim_end_matches('.')),
        };
        let message = self.explain(class, model, &format!("{status}{said}"));
        let retry_after = self.hints.wait.filter(|_| class.may_pass());
        // What the server itself calls hopeless is not tried again, whatever its class.
        let hopeless = self.hints.retry == Some(false);
        Error { retry_after, hopeless, ..Error::new(class, message) }
    }

    fn explain(&self, class: Class, model: &Model, what: &str) -> String {
        let name = &model.name;
        match class {
            Class::Auth if model.key.is_some() => {
                format!("The model server refused the key of model \"{name}\"{what}. {}", model.key_advice())
            }
            Class::Auth => {
                format!("The model server wants a key for model \"{name}\"{what}. {}", model.key_advice())
            }
            Class::Unpaid => format!(
                "The account that pays for model \"{name}\" has nothing left{what}. Check the plan and billing of the \
                 provider's account, or choose another model."
            ),
            Class::RateLimited => format!(
                "The model server limits how often model \"{name}\" may be called{what}. {}, or choose another model.",
                match self.hints.wait {
                    Some(wait) if wait > Duration::from_secs(1) => format!("Wait {}", plain(wait)),
                    Some(_) | None => "Wait a little".to_owned(),
                }
            ),
            Class::Overloaded => format!(
                "The model server failed or has too much to do{what}. Try again later, or choose another model."
            ),
            Class::TimedOut => {
                format!("The model server gave up waiting{what}. Try again, or choose a faster model.")
            }
            Class::ContextOverflow if let Some(limit) = self.beyond_the_key() => {
                let limit = limit.map(|limit| format!(" than {limit}")).unwrap_or_default();
                format!(
                    "The key of model \"{name}\" may not send more tokens in a minute{limit}, and this request alone has \
                     more{what}. Shorten the conversation, have the provider raise the limit, or choose another model."
                )
            }
            Class::ContextOverflow => format!(
                "The conversation is too long for model \"{name}\"{what}. Shorten it, or choose a model with a larger \
                 context."
            ),
            Class::UnknownModel if self.knows_no_such_place() => format!(
                "The server at {} has no model API there, or does not know the model {:?}{what}. Check base_url and model of \
                 [models.{name}] in slipway.toml.",
                model.address(),
                model.model
            ),
            Class::UnknownModel => format!(
                "The server at {} does not know the model {:?}{what}. Check model and base_url of [models.{name}] in \
                 slipway.toml.",
                model.address(),
                model.model
            ),
            Class::Unsupported => {
                let advice = self.advice();
                format!("Model \"{name}\" cannot do what was asked for{what}. {advice}")
                    .replace("[models]", &format!("[models.{name}]"))
            }
            Class::BadRequest if self.status.is_some_and(|status| (300..400).contains(&status)) => format!(
                "The server at {} redirects elsewhere{what}, which is not followed because of the key. Set base_url of \
                 [models.{name}] in slipway.toml to the final address.",
                model.address()
            ),
            Class::BadRequest if self.is_filtered() => format!(
                "The provider's content filter refused the conversation{what}. Say it in other words, or choose another \
                 model."
            ),
            Class::BadRequest if self.names("max_tokens") || self.names("max_completion_tokens") => format!(
                "The model server takes no answer of that length{what}. Set max_output of [models.{name}] in slipway.toml \
                 to what it takes."
            ),
            Class::BadResponse => format!(
                "The model wrote a call that its server could not read{what}. Try again; if it happens often, set \
                 tool_mode of [models.{name}] in slipway.toml, or choose another model."
            ),
            Class::Unreachable | Class::BadRequest => format!(
                "The model server would not take the request{what}. Check [models.{name}] in slipway.toml."
            ),
        }
    }

    /// What to do about something that is not supported.
    fn advice(&self) -> &'static str {
        let said = self.message.to_lowercase();
        if said.contains("enable-auto-tool-choice") {
            "Start the server with --enable-auto-tool-choice and --tool-call-parser, or set tool_mode = \"json_step\" in \
             [models] of slipway.toml."
        } else if said.contains("--jinja") {
            "Start llama-server with --jinja, or set tool_mode = \"json_step\" or \"fenced\" in [models] of slipway.toml."
        } else if said.contains("system memory") {
            "Free memory on the machine of the model server, or choose a smaller model."
        } else if said.contains("image") || said.contains("vision") || said.contains("multimodal") {
            "Leave images out, or choose a model that sees."
        } else if said.contains("tool") || said.contains("function") {
            "Set tool_mode = \"json_step\" or \"fenced\" in [models] of slipway.toml, or choose another model."
        } else {
            "Check [models] in slipway.toml, or choose another model."
        }
    }
}

/// A wait in words.
fn plain(wait: Duration) -> String {
    let seconds = wait.as_secs_f64().ceil();
    let minutes = (seconds / 60.0).ceil();
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{minutes:.0} min"),
        _ => format!("{:.0} h", (minutes / 60.0).ceil()),
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
    "input length",
    "maximum prompt length",
    "too many input tokens",
    "reduce the length of the messages",
    "longer than the model's context",
    "maximum model length",
    "model token limit",
    "max length exceeded",
    "exceeds max length",
    "`max_new_tokens` must be <=",
    "prompt token count",
    "too many tokens:",
    "payload size exceeds",
    "total message size",
    "exceeds the maximum number of tokens",
];

/// How servers say that there is no money left, which no waiting cures.
const UNPAID: &[&str] = &[
    "insufficient_quota",
    "insufficient credits",
    "insufficient balance",
    "credit balance is too low",
    "payment required",
    "billing_hard_limit",
    "billing_not_active",
    "enforced_spend_limit",
    "specified api usage limits",
];

/// How servers say that they could not read a call that the model wrote.
const BROKEN_CALL: &[&str] = &[
    "tool_use_failed",
    "error parsing tool call",
    // llama.cpp's server, of what its model wrote.
    "failed to parse input at pos",
];

/// How servers say that something is beyond the model.
const UNSUPPORTED: &[&str] = &[
    "does not support tools",
    "does not support tool",
    "tool use is not supported",
    "tool calling is not supported",
    "tools is not supported",
    "support tool use",
    "enable-auto-tool-choice",
    "function calling is not",
    "does not support function",
    "does not support image",
    "image input is not supported",
    "image_url is only supported",
    "support image input",
    "not a multimodal",
    "is not a vision",
    "does not support vision",
    "does not support streaming",
    "requires --jinja",
    "unsupported param: tool",
    "requires more system memory",
];

/// How servers say that a model is unknown, apart from 404.
const UNKNOWN_MODEL: &[&str] = &[
    "model_not_found",
    "no such model",
    "model not found",
    "unknown model",
    "is not a valid model",
    "invalid model",
    "model identifier is invalid",
    "deploymentnotfound",
    "no available channel",
];

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
