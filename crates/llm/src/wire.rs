//! Wire formats: how a request is written and how the events of a stream fold into a completion. One file per format;
//! here is what they share. A format knows neither addresses nor keys, so its faults carry no advice yet.

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod gemini;
mod parts;
pub(crate) mod responses;

use protocol::chat::{Completion, Request};
use serde_json::{Map, Value};

use crate::client::Delta;
use crate::error::Complaint;
use crate::model::{Model, Provider};
use crate::sse::Event;

pub(crate) use parts::Parts;

/// A language that model servers speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Marks a signature as Gemini's, so that it is never sent to anyone else. It belongs to the part after it.
const GEMINI_MARK: &str = "gemini:";

/// What Gemini accepts in place of a signature that is not known.
const GEMINI_UNSIGNED: &str = "skip_thought_signature_validator";

/// Where the pieces of the answer go while it streams.
pub(crate) type Sink<'a> = dyn FnMut(Delta) + Send + 'a;

/// Why a stream is not an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// The server said so.
    Server(Complaint),
    /// It ended too early.
    BrokeOff,
    /// It is malformed; the text completes "the model server's answer …".
    Malformed(String),
}

impl Fault {
    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::Malformed(text.into())
    }
}

/// How far the answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// More must come.
    Open,
    /// The answer is whole; only its usage may still come.
    Settled,
    /// Nothing more will come.
    Closed,
}

/// Folds what a server sends into one completion.
pub(crate) trait Fold: Send {
    /// Takes one event of the stream.
    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<Progress, Fault>;
    /// Takes a whole answer, from a server that does not stream.
    fn whole(&mut self, answer: &Value, sink: &mut Sink<'_>) -> Result<(), Fault>;
    /// Gives the completion once the stream has ended.
    fn finish(self: Box<Self>) -> Result<Completion, Fault>;
}

/// What a server turned out not to understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quirks {
    /// Whether usage may be asked for in `stream_options`.
    pub(crate) stream_options: bool,
    /// Whether the limit of the answer is called `max_completion_tokens` rather than `max_tokens`.
    pub(crate) completion_limit: bool,
    /// Whether reasoning may be asked for in its encrypted form, which models that do not reason refuse.
    pub(crate) encrypted_reasoning: bool,
}

impl Quirks {
    /// What is known before the first call.
    pub(crate) fn of(model: &Model) -> Self {
        let openai = model.provider == Provider::OpenAi
            && model.base_url.as_deref().is_none_or(|url| url.contains("//api.openai.com"));
        Self { stream_options: true, completion_limit: openai, encrypted_reasoning: true }
    }

    /// What to try instead after a refusal; `None` when the refusal is about something else. Each quirk changes at most
    /// once from its first value, so this cannot go on for ever.
    pub(crate) fn adapt(self, first: Self, complaint: &Complaint) -> Option<Self> {
        if self.stream_options && complaint.names("stream_options") {
            return Some(Self { stream_options: false, ..self });
        }
        if self.encrypted_reasoning
            && ["ncrypted content", "encrypted_content"].iter().any(|name| complaint.names(name))
        {
            return Some(Self { encrypted_reasoning: false, ..self });
        }
        let limit = if self.completion_limit { "max_completion_tokens" } else { "max_tokens" };
        if self.completion_limit == first.completion_limit
            && complaint.names(limit)
            && complaint.says_unsupported()
        {
            return Some(Self { completion_limit: !self.completion_limit, ..self });
        }
        None
    }
}

/// The body of a call.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    match model.provider.format() {
        Format::Chat => chat::body(model, request, quirks),
        Format::Responses => responses::body(model, request, quirks),
        Format::Anthropic => anthropic::body(model, request),
        Format::Gemini => gemini::body(request),
    }
}

/// The fold for a call's answer.
pub(crate) fn fold(model: &Model, request: &Request) -> Box<dyn Fold> {
    let parts = Parts::after(request);
    match model.provider.format() {
        Format::Chat => Box::new(chat::Fold::new(parts)),
        Format::Responses => Box::new(responses::Fold::new(parts)),
        Format::Anthropic => Box::new(anthropic::Fold::new(parts)),
        Format::Gemini => Box::new(gemini::Fold::new(parts)),
    }
}

/// Parses the data of an event.
pub(crate) fn json(data: &str) -> Result<Value, Fault> {
    let value: Value = serde_json::from_str(data).map_err(|_| {
        Fault::malformed(format!("is not JSON where it should be: {}", crate::error::excerpt(data)))
    })?;
    match Complaint::from_json(&value) {
        Some(complaint) => Err(Fault::Server(complaint)),
        None => Ok(value),
    }
}

/// A call's arguments as an object. Servers refuse a conversation in which an earlier call has broken JSON, so the
/// model's text is wrapped; the model still sees what it wrote.
fn arguments(text: &str) -> Map<String, Value> {
    if text.trim().is_empty() {
        return Map::new();
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) | Err(_) => Map::from_iter([("unparsed".to_owned(), Value::from(text))]),
    }
}

/// A call's arguments as the text of an object. An object goes back as it came, so that the provider's cache still
/// matches.
fn arguments_text(text: &str) -> String {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => text.to_owned(),
        Ok(_) | Err(_) => Value::Object(arguments(text)).to_string(),
    }
}

/// A name that every server accepts, also when a model made one up or another provider chose it.
fn word(text: &str, limit: usize) -> String {
    let mut word: String = text
        .chars()
        .map(
            |letter| if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') { letter } else { '_' },
        )
        .take(limit)
        .collect();
    if word.is_empty() {
        word.push('_');
    }
    word
}

/// A count in a usage object.
fn count(usage: &Value, pointer: &str) -> u64 {
    usage.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}
