//! What a model turns out to do when it is asked: one small request with a tool, where that is not called as it should be one
//! for an answer of a given shape, and a look at what the server says about itself.

use std::time::Duration;

use protocol::chat::{AnswerSchema, Call, Completion, Message, Part, Request, Stop, ToolSpec};
use protocol::{EditFormat, ToolMode, Usage};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::error::{Class, Error};
use crate::model::Model;
use crate::retry::Failures;
use crate::wire::Format;

/// How long to wait for what a server says about itself; it is not needed.
const LOOK_WAIT: Duration = Duration::from_secs(5);

/// The most bytes that are read of what a server says about itself.
const LOOK_LIMIT: usize = 1024 * 1024;

/// Contexts that can be true and can be worked with.
const CONTEXTS: std::ops::RangeInclusive<u64> = 2048..=16_777_216;

/// The longest wait before a server that has too much to do is asked once more.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said where the server failed twice in a way that need not be for good.
const PASSING: &str = "the server failed when it was asked for an answer of a given shape; if that was a bad moment of its, \
                       try the model again before you set what fits";

/// Enough for models that think first.
const MOST_TOKENS: u32 = 2048;

/// What a model turned out to do.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Whether answers come as a stream.
    pub streams: bool,
    /// Whether the server reports what a call used.
    pub reports_usage: bool,
    /// How it calls tools.
    pub tool_calls: ToolCalls,
    /// Whether its answer kept to a schema; why not, if not. None where nothing depends on it, and it was not asked.
    pub structured: Option<Result<(), String>>,
    /// How long the first piece of an answer took.
    pub first_token: Duration,
    /// The context that the server says it serves.
    pub context: Option<u64>,
    /// What all of this used.
    pub usage: Usage,
    /// The mode that fits.
    pub tool_mode: ToolMode,
    /// How files are changed in that mode.
    pub edit_format: EditFormat,
    /// What was learned about the server.
    pub notes: Vec<String>,
}

/// How a model calls tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolCalls {
    /// In the provider's own format.
    Native,
    /// It wrote the call as text.
    AsText,
    /// It called something, and not the tool that it was given, or in a way that cannot be read; the text says what it did.
    Wrong(String),
    /// It did not call the tool.
    No,
    /// The server refuses tools; the text says why.
    Refused(String),
}

impl Client {
    /// Tries a model out. An error means that it cannot be used at all.
    pub async fn probe(&self, model: &Model) -> Result<Findings, Error> {
        let with_tool = self.ask(model, &tool_request()).await;
        let (first, judged) = match with_tool {
            Ok(answer) => {
                let judged = judge(&answer.completion);
                (answer, judged)
            }
            Err(error) if matches!(error.class, Class::Unsupported | Class::BadRequest) => {
                let plain = Request { tools: Vec::new(), ..tool_request() };
                match self.ask(model, &plain).await {
                    Ok(answer) => (answer, (ToolCalls::Refused(error.message), None)),
                    // It is not about the tools.
                    Err(_) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        let (tool_calls, note) = judged;
        let known = model.profile().tool_mode;
        // That says nothing of what it can do.
        let declined = first.completion.stop == Stop::Refusal;
        let shaped = match tool_calls {
            ToolCalls::Native => None,
            _ => Some(self.ask(model, &shaped_request()).await),
        };
        let says_nothing = |answer: &Answer| is_empty(&answer.completion.parts);
        let answered = shaped.as_ref().and_then(|shaped| shaped.as_ref().ok());
        if says_nothing(&first) && answered.is_none_or(says_nothing) {
            return Err(Error::new(
                Class::BadResponse,
                format!(
                    "The answers of model \"{0}\" are empty. Check model of [models.{0}] in slipway.toml, and the log of \
                     the model server.",
                    model.name
                ),
            ));
        }
        let mut usage = first.completion.usage;
        let mut notes = first.notes;
        notes.extend(note);
        let structured = match shaped {
            None => None,
            Some(Ok(answer)) => {
                usage += answer.completion.usage;
                notes.extend(
                    answer.notes.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>(),
                );
                Some(keeps_shape(&answer.completion, &model.secrets()))
            }
            Some(Err(error)) if matches!(error.class, Class::Auth | Class::Unpaid) => return Err(error),
            // What was found before is true all the same.
            Some(Err(error)) => {
                if error.class.may_pass() {
                    notes.push(PASSING.to_owned());
                }
                Some(Err(error.message))
            }
        };
        let served = self.served_context(model).await;
        let context = served.filter(|tokens| CONTEXTS.contains(tokens));
        if let Some(few) = served.filter(|tokens| (1..*CONTEXTS.start()).contains(tokens)) {
            notes.push(format!("the server says that it reads {few} tokens, which are too few to work with"));
        }
        let tool_mode = match declined {
            true => known,
            false => fitting(known, &tool_calls, matches!(structured, Some(Ok(())))),
        };
        let mut fitted = model.clone();
        fitted.overrides.tool_mode = Some(tool_mode);
        let edit_format = fitted.profile().edit_format;
        Ok(Findings {
            streams: first.streamed,
            reports_usage: first.usage_told,
            tool_calls,
            structured,
            first_token: first.first_token,
            context,
            usage,
            tool_mode,
            edit_format,
            notes,
        })
    }

    /// Asks; once more where the failure may pass soon.
    async fn ask(&self, model: &Model, request: &Request) -> Result<Answer, Error> {
        let error = match self.complete(model, request, &mut |_| {}).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let soon = Failures::default().again(&error).filter(|again| again.delay <= PATIENCE);
        // Nothing answers later where nothing listens, and silence was waited for long enough.
        match soon.filter(|_| !matches!(error.class, Class::Unreachable | Class::TimedOut)) {
            Some(again) => tokio::time::sleep(again.delay).await,
            None => return Err(error),
        }
        self.complete(model, request, &mut |_| {}).await
    }

    /// The context that the server says it serves; many do not say.
    async fn served_context(&self, model: &Model) -> Option<u64> {
        if !matches!(model.provider.format(), Format::Chat | Format::Responses) {
            return None;
        }
        let version = self.version(model).unwrap_or_default();
        let list = self.look(model, model.url(&format!("{version}/models")).ok()?).await?;
        let entries = list.get("data").and_then(Value::as_array)?;
        let entry =
            entries.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(&model.model));
        let entry = entry.or(entries.first().filter(|_| entries.len() == 1))?;
        let told = ["/max_model_len", "/context_length", "/max_context_length", "/meta/n_ctx"];
        if let Some(told) = told.iter().find_map(|pointer| entry.pointer(pointer)?.as_u64()) {
            return Some(told);
        }
        if entry.get("owned_by").and_then(Value::as_str) != Some("llamacpp") {
            return None;
        }
        let mut props = model.url("").ok()?;
        props.set_path(&format!("{}/props", props.path().trim_end_matches('/').trim_end_matches("/v1")));
        let props = self.look(model, props).await?;
        props.pointer("/default_generation_settings/n_ctx")?.as_u64()
    }

    async fn look(&self, model: &Model, url: reqwest::Url) -> Option<Value> {
        let key = model.key_text().ok()?;
        let headers = model.request_headers(key.as_deref().map(String::as_str)).ok()?;
        let reading = async {
            let mut response =
                self.request(Method::GET, url).headers(headers).send().await?.error_for_status()?;
            let mut bytes = Vec::new();
            while let Some(piece) = response.chunk().await? {
                bytes.extend_from_slice(&piece);
                if bytes.len() > LOOK_LIMIT {
                    return Ok(None);
                }
            }
            Ok(Some(bytes))
        };
        match tokio::time::timeout(LOOK_WAIT, reading).await {
            Ok(Ok(bytes)) => serde_json::from_slice(&bytes?).ok(),
            Ok(Err(error)) => {
                let error: reqwest::Error = error;
                tracing::debug!(status = ?error.status(), "the server does not say what it serves");
                None
            }
            Err(_) => None,
        }
    }
}

/// The mode that fits: what is known of the model, unless the test showed that it does not work.
fn fitting(known: ToolMode, calls: &ToolCalls, keeps_shape: bool) -> ToolMode {
    match (known, calls) {
        (ToolMode::Native, ToolCalls::Native) => ToolMode::Native,
        // That it called a tool once does not say that it does so in a long conversation.
        (ToolMode::JsonStep, ToolCalls::Native) => ToolMode::JsonStep,
        (ToolMode::Native | ToolMode::JsonStep, _) if keeps_shape => ToolMode::JsonStep,
        (ToolMode::Native | ToolMode::JsonStep | ToolMode::Fenced, _) => ToolMode::Fenced,
    }
}

fn tool_request() -> Request {
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"],
        "additionalProperties": false});
    Request {
        system: "Use the tools that you are given.".to_owned(),
        messages: vec![Message::user("Add 1923 and 2377 with the tool add.")],
        tools: vec![ToolSpec { name: "add".to_owned(), description: "Adds two numbers.".to_owned(), schema }],
        max_output_tokens: MOST_TOKENS,
        ..Request::default()
    }
}

fn shaped_request() -> Request {
    let schema = json!({"type": "object", "properties": {"capital": {"type": "string"}}, "required": ["capital"],
        "additionalProperties": false});
    Request {
        system: "Answer in JSON.".to_owned(),
        messages: vec![Message::user("What is the capital of France?")],
        max_output_tokens: MOST_TOKENS,
        answer: Some(AnswerSchema { name: "answer".to_owned(), schema }),
        ..Request::default()
    }
}

fn said(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Reasoning { .. } | Part::Call(_) => None,
    });
    texts.collect()
}

/// Whether there is nothing in an answer, not even a thought.
fn is_empty(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.trim().is_empty(),
        Part::Call(_) => false,
    })
}

/// How the tool was called, and what is to be said of it.
fn judge(completion: &Completion) -> (ToolCalls, Option<String>) {
    let calls = completion.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        Part::Text { .. } | Part::Reasoning { .. } => None,
    });
    let mut judged: Vec<_> = calls.map(judge_call).collect();
    // What works counts, whatever else was tried.
    judged.sort_by_key(|(calls, note)| (*calls != ToolCalls::Native, note.is_some()));
    if let Some(best) = judged.into_iter().next() {
        return best;
    }
    let text = said(&completion.parts);
    if text.contains('{') && ["add", "1923", "2377"].iter().all(|word| text.contains(word)) {
        return (ToolCalls::AsText, None);
    }
    (ToolCalls::No, why_not(completion.stop).map(|why| format!("the tool was not called: {why}")))
}

fn judge_call(call: &Call) -> (ToolCalls, Option<String>) {
    if call.tool != "add" {
        let wrong = format!("it called {:?}, which there is not", crate::error::excerpt(&call.tool));
        return (ToolCalls::Wrong(wrong), None);
    }
    let Some(sent) = object(&call.arguments) else {
        return (ToolCalls::Wrong("its arguments are not a JSON object".to_owned()), None);
    };
    // Numbers in quotes are taken out of them when a tool is run.
    let is = |name: &str, wanted: f64| {
        let sent = sent.get(name);
        let number = sent.and_then(|sent| sent.as_f64().or_else(|| sent.as_str()?.trim().parse().ok()));
        number == Some(wanted)
    };
    let as_asked = is("a", 1923.0) && is("b", 2377.0);
    (ToolCalls::Native, (!as_asked).then(|| "the tool was called with other arguments than asked".to_owned()))
}

/// Arguments as an object, also where they were written as a text in JSON.
fn object(arguments: &str) -> Option<Value> {
    let sent: Value = serde_json::from_str(arguments).ok()?;
    let sent = match &sent {
        Value::String(text) => serde_json::from_str(text).ok()?,
        _ => sent,
    };
    Some(sent).filter(Value::is_object)
}

/// Why an answer may lack what was asked for.
fn why_not(stop: Stop) -> Option<String> {
    match stop {
        Stop::Length | Stop::Window => {
            Some(format!("the answer was cut off at the limit of {MOST_TOKENS} tokens"))
        }
        Stop::Refusal => Some("the model declined".to_owned()),
        Stop::End | Stop::Tools => None,
    }
}

fn keeps_shape(completion: &Completion, secrets: &[String]) -> Result<(), String> {
    let text = said(&completion.parts);
    let kept = has_shape(&text, secrets);
    kept.map_err(|why| why_not(completion.stop).unwrap_or(why))
}

fn has_shape(text: &str, secrets: &[String]) -> Result<(), String> {
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(answer) if answer.get("capital").is_some_and(Value::is_string) => Ok(()),
        Ok(_) => Err("the answer is JSON of another shape".to_owned()),
        Err(_) if text.trim().is_empty() => Err("the answer is empty".to_owned()),
        Err(_) => {
            let shown = secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "…"));
            Err(format!("the answer is not JSON: {}", crate::error::excerpt(&shown)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_an_answer_is_not_shown() {
        let why = has_shape("your headers: Bearer sk-123456", &["sk-123456".into()]).unwrap_err();
        assert_eq!(why, "the answer is not JSON: your headers: Bearer …");
    }

    #[test]
    fn the_mode_that_fits_is_the_known_one_unless_it_does_not_work() {
        use ToolMode::{Fenced, JsonStep, Native};
        for (known, calls, keeps_shape, expected) in [
            (Native, ToolCalls::Native, false, Native),
            (Native, ToolCalls::AsText, true, JsonStep),
            (Native, ToolCalls::No, false, Fenced),
            (JsonStep, ToolCalls::AsText, true, JsonStep),
            (JsonStep, ToolCalls::Native, false, JsonStep),
            (JsonStep, ToolCalls::No, false, Fenced),
            (Fenced, ToolCalls::Native, true, Fenced),
        ] {
            assert_eq!(fitting(known, &calls, keeps_shape), expected, "{known:?} {calls:?} {keeps_shape}");
        }
    }

    #[test]
    fn a_call_is_told_from_a_call_that_was_only_written() {
        let made = |tool: &str, arguments: &str| {
            Part::Call(Call { id: "a".into(), tool: tool.into(), arguments: arguments.into() })
        };
        let judge = |part, stop| judge(&Completion { parts: vec![part], stop, usage: Usage::default() });
        for (arguments, as_asked) in [
            (r#"{"a":1923,"b":2377}"#, true),
            (r#"{"a":"1923","b":" 2377"}"#, true),
            (r#"{"a":1923.0,"b":2377}"#, true),
            (r#""{\"a\":1923,\"b\":2377}""#, true),
            (r#"{"a":1,"b":2}"#, false),
            ("{}", false),
        ] {
            let (calls, note) = judge(made("add", arguments), Stop::Tools);
            assert_eq!((calls, note.is_none()), (ToolCalls::Native, as_asked), "{arguments}");
        }
        for part in [made("add", "{broken"), made("add", "[1]"), made("sum", "{}")] {
            assert!(matches!(judge(part, Stop::Tools).0, ToolCalls::Wrong(_)));
        }
        let cut = judge(Part::Text { text: "Let me".into() }, Stop::Length);
        assert_eq!(cut.0, ToolCalls::No);
        assert!(cut.1.unwrap().contains("cut off at the limit of 2048 tokens"));
        let text = |text: &str| judge(Part::Text { text: text.into() }, Stop::End).0;
        assert_eq!(
            text("```json\n{\"name\":\"add\",\"arguments\":{\"a\":1923,\"b\":2377}}\n```"),
            ToolCalls::AsText
        );
        assert_eq!(text("It is 4300."), ToolCalls::No);
    }
}
