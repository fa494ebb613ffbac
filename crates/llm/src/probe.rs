//! What a model turns out to do when it is asked: one small request with a tool, one for an answer of a given shape, and
//! a look at what the server says about itself.

use std::time::Duration;

use protocol::chat::{AnswerSchema, Message, Part, Request, ToolSpec};
use protocol::{ToolMode, Usage};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::error::{Class, Error};
use crate::model::Model;
use crate::wire::Format;

/// How long to wait for what a server says about itself; it is not needed.
const LOOK_WAIT: Duration = Duration::from_secs(5);

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
    /// Whether its answer kept to a schema; why not, if not.
    pub structured: Result<(), String>,
    /// How long the first piece of an answer took.
    pub first_token: Duration,
    /// The context that the server says it serves.
    pub context: Option<u64>,
    /// What all of this used.
    pub usage: Usage,
    /// The mode that fits.
    pub tool_mode: ToolMode,
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
    /// It did not call the tool.
    No,
    /// The server refuses tools; the text says why.
    Refused(String),
}

impl Client {
    /// Tries a model out. An error means that it cannot be used at all.
    pub async fn probe(&self, model: &Model) -> Result<Findings, Error> {
        let with_tool = self.ask(model, &tool_request()).await;
        let (first, tool_calls) = match with_tool {
            Ok(answer) => {
                let calls = judge(&answer.completion.parts);
                (answer, calls)
            }
            Err(error) if error.class == Class::Unsupported => {
                let plain = Request { tools: Vec::new(), ..tool_request() };
                (self.ask(model, &plain).await?, ToolCalls::Refused(error.message))
            }
            Err(error) => return Err(error),
        };
        let shaped = self.ask(model, &shaped_request()).await;
        let mut usage = first.completion.usage;
        let mut notes = first.notes;
        let structured = match shaped {
            Ok(answer) => {
                usage += answer.completion.usage;
                notes.extend(
                    answer.notes.into_iter().filter(|note| !notes.contains(note)).collect::<Vec<_>>(),
                );
                keeps_shape(&answer.completion.parts)
            }
            Err(error) if error.class == Class::BadRequest || error.class == Class::Unsupported => {
                Err(error.message)
            }
            Err(error) => return Err(error),
        };
        let tool_mode = fitting(model.profile().tool_mode, &tool_calls, structured.is_ok());
        Ok(Findings {
            streams: first.streamed,
            reports_usage: first.usage_told,
            tool_calls,
            structured,
            first_token: first.first_token,
            context: self.served_context(model).await,
            usage,
            tool_mode,
            notes,
        })
    }

    async fn ask(&self, model: &Model, request: &Request) -> Result<Answer, Error> {
        self.complete(model, request, &mut |_| {}).await
    }

    /// The context that the server says it serves; many do not say.
    async fn served_context(&self, model: &Model) -> Option<u64> {
        if !matches!(model.provider.format(), Format::Chat | Format::Responses) {
            return None;
        }
        let list = self.look(model, model.url("/models").ok()?).await?;
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
            let response =
                self.request(Method::GET, url).headers(headers).send().await?.error_for_status()?;
            response.bytes().await
        };
        match tokio::time::timeout(LOOK_WAIT, reading).await {
            Ok(Ok(bytes)) => serde_json::from_slice(&bytes).ok(),
            Ok(Err(error)) => {
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
        (ToolMode::Native | ToolMode::JsonStep, _) if keeps_shape => ToolMode::JsonStep,
        (ToolMode::JsonStep, ToolCalls::Native) => ToolMode::Native,
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

fn judge(parts: &[Part]) -> ToolCalls {
    let native = parts.iter().any(|part| match part {
        Part::Call(call) => {
            let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
            call.tool == "add" && arguments.is_some_and(|sent| sent["a"] == 1923 && sent["b"] == 2377)
        }
        Part::Text { .. } | Part::Reasoning { .. } => false,
    });
    let text = said(parts);
    if native {
        ToolCalls::Native
    } else if text.contains('{') && ["add", "1923", "2377"].iter().all(|word| text.contains(word)) {
        ToolCalls::AsText
    } else {
        ToolCalls::No
    }
}

fn keeps_shape(parts: &[Part]) -> Result<(), String> {
    let text = said(parts);
    match serde_json::from_str::<Value>(text.trim()) {
        Ok(answer) if answer.get("capital").is_some_and(Value::is_string) => Ok(()),
        Ok(_) => Err("the answer is JSON of another shape".to_owned()),
        Err(_) if text.trim().is_empty() => Err("the answer is empty".to_owned()),
        Err(_) => Err(format!("the answer is not JSON: {}", crate::error::excerpt(&text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::chat::Call;

    #[test]
    fn the_mode_that_fits_is_the_known_one_unless_it_does_not_work() {
        use ToolMode::{Fenced, JsonStep, Native};
        for (known, calls, keeps_shape, expected) in [
            (Native, ToolCalls::Native, false, Native),
            (Native, ToolCalls::AsText, true, JsonStep),
            (Native, ToolCalls::No, false, Fenced),
            (JsonStep, ToolCalls::AsText, true, JsonStep),
            (JsonStep, ToolCalls::Native, false, Native),
            (JsonStep, ToolCalls::No, false, Fenced),
            (Fenced, ToolCalls::Native, true, Fenced),
        ] {
            assert_eq!(fitting(known, &calls, keeps_shape), expected, "{known:?} {calls:?} {keeps_shape}");
        }
    }

    #[test]
    fn a_call_is_told_from_a_call_that_was_only_written() {
        let call = |arguments: &str| {
            judge(&[Part::Call(Call { id: "a".into(), tool: "add".into(), arguments: arguments.into() })])
        };
        let text = |text: &str| judge(&[Part::Text { text: text.into() }]);
        assert_eq!(call(r#"{"a":1923,"b":2377}"#), ToolCalls::Native);
        assert_eq!(call("{broken"), ToolCalls::No);
        assert_eq!(
            text("```json\n{\"name\":\"add\",\"arguments\":{\"a\":1923,\"b\":2377}}\n```"),
            ToolCalls::AsText
        );
        assert_eq!(text("It is 4300."), ToolCalls::No);
    }
}
