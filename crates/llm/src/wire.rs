//! Wire formats: how a request is written and how the events of a stream fold into a completion. One file per format;
//! here is what they share. A format knows neither addresses nor keys, so its faults carry no advice yet.

pub(crate) mod anthropic;
pub(crate) mod chat;
mod endless;
pub(crate) mod gemini;
mod parts;
pub(crate) mod responses;

use protocol::Usage;
use protocol::chat::{Completion, Request};
use serde_json::{Map, Value};

use crate::client::Delta;
use crate::complaint::Complaint;
use crate::model::Model;
use crate::quirks::Quirks;
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

/// Marks a signature as OpenRouter's details of reasoning, which are of many makers.
const OPENROUTER_MARK: &str = "openrouter:";

/// What Gemini accepts in place of a signature that is not known.
const GEMINI_UNSIGNED: &str = "skip_thought_signature_validator";

/// How many positions before a mark Anthropic looks for what it has in its cache: 20 with the mark's own, less one to be safe.
const CACHE_REACH: usize = 18;

/// Where the pieces of the answer go while it streams.
pub(crate) type Sink<'a> = dyn FnMut(Delta) + Send + 'a;

/// Why a stream is not an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// The server said so.
    Server(Box<Complaint>),
    /// It ended too early.
    BrokeOff,
    /// It is malformed; the text completes "the model server's answer …".
    Malformed(String),
}

impl Fault {
    pub(crate) fn server(complaint: Complaint) -> Self {
        Self::Server(Box::new(complaint))
    }

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
    /// What the call cost in dollars, where the server tells.
    fn cost_usd(&self) -> Option<f64> {
        None
    }
    /// What came so far, and what the server says that it used.
    fn so_far(&mut self) -> (&mut Parts, Usage);
}

/// The body of a call; the request was prepared for this server.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    match model.provider.format() {
        Format::Chat => chat::body(model, request, quirks),
        Format::Responses => responses::body(model, request, quirks),
        Format::Anthropic => anthropic::body(model, request, quirks),
        Format::Gemini => gemini::body(model, request, quirks),
    }
}

/// The body as it is sent: what stands still comes first, then the conversation, and marks after what they mark. So a request
/// begins with the bytes of the one before it, and a mark that moves on leaves them as they were. Properties of a schema stand in
/// the order in which they are required, because servers that hold a model to a schema have it write them in that order.
pub(crate) fn text(body: &Value) -> String {
    let mut text = String::new();
    write(body, &mut text);
    text
}

fn write(value: &Value, text: &mut String) {
    const LAST: [&str; 4] = ["messages", "input", "contents", "cache_control"];
    let is_last = |(name, _): &(&String, &Value)| LAST.contains(&name.as_str());
    match value {
        Value::Object(fields) => {
            let (last, first): (Vec<_>, Vec<_>) = fields.iter().partition(is_last);
            let required = fields.get("required").and_then(Value::as_array);
            write_fields(first.into_iter().chain(last), text, |name, value, text| {
                match (name, value, required) {
                    ("properties", Value::Object(properties), Some(required)) => {
                        let place = |name: &str| required.iter().position(|known| known == name);
                        let mut ordered: Vec<_> = properties.iter().collect();
                        ordered.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
                        write_fields(ordered.into_iter(), text, |_, value, text| write(value, text));
                    }
                    _ => write(value, text),
                }
            });
        }
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string())
        }
    }
}

fn write_fields<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    text: &mut String,
    write: impl Fn(&str, &Value, &mut String),
) {
    text.push('{');
    for (index, (name, value)) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        write(name, value, text);
    }
    text.push('}');
}

/// The fold for a call's answer.
pub(crate) fn fold(model: &Model, request: &Request, quirks: Quirks) -> Box<dyn Fold> {
    let parts = Parts::after(request);
    match model.provider.format() {
        Format::Chat => Box::new(chat::Fold::new(parts)),
        Format::Responses => {
            Box::new(responses::Fold::new(parts, responses::most(model, request, quirks).unwrap_or(0)))
        }
        Format::Anthropic => Box::new(anthropic::Fold::new(parts)),
        Format::Gemini => Box::new(gemini::Fold::new(parts)),
    }
}

/// Parses the data of an event; none of one of a kind that the format does not know and that has no JSON, such as a sign of
/// life in words.
fn read(event: &Event, knows: fn(&str) -> bool) -> Result<Option<Value>, Fault> {
    let name = event.name.trim();
    match json(&event.data) {
        Err(Fault::Malformed(_)) if !name.is_empty() && !knows(name) => Ok(None),
        value => value.map(Some),
    }
}

/// Names of events in formats that give them none, as some gateways do.
fn is_plain_name(name: &str) -> bool {
    matches!(name, "message" | "error" | "data" | "chunk" | "delta" | "completion" | "chat.completion.chunk")
}

/// Parses JSON that the server sent.
pub(crate) fn json(data: &str) -> Result<Value, Fault> {
    let value: Value = serde_json::from_str(data).map_err(|_| {
        Fault::malformed(format!("is not JSON where it should be: {}", crate::error::excerpt(data)))
    })?;
    match Complaint::from_json(&value) {
        Some(complaint) => Err(Fault::server(complaint)),
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

/// A count in a usage object. Some write it as a decimal number.
fn count(usage: &Value, pointer: &str) -> u64 {
    let number = usage.pointer(pointer);
    let whole =
        |number: &Value| number.as_u64().or_else(|| number.as_f64().map(|number| number.round() as u64));
    number.and_then(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests;
