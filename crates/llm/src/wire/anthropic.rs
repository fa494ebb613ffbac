//! Anthropic's messages: content blocks, signed thinking, strict alternation of roles, and cache breakpoints where the
//! conversation will be read again.

use std::collections::HashMap;

use protocol::Usage;
use protocol::chat::{Completion, Image, Message, Part, Request, Stop, ToolChoice};
use serde_json::{Value, json};

use super::{Fault, Parts, Progress, Sink, arguments, count, word};
use crate::model::{Effort, Model};
use crate::provider::Provider;
use crate::quirks::{Quirks, Structured};
use crate::sse::Event;
use crate::thinking::{Split, split};

/// Marks a signature as the data of reasoning that Anthropic does not show.
const REDACTED_MARK: &str = "redacted:";

/// The version of the format at Vertex AI, where it stands in the body and the model in the address.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// Families that are given a budget for thinking; later ones are given an effort and decide by themselves.
const BUDGETED: &[&str] = &[
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4",
];

/// The least budget for thinking that is taken.
const LEAST_BUDGET: u32 = 1024;

/// The body of a call.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    let mark = |block: &mut Value| {
        if quirks.cache_marks {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
    };
    let mut messages = messages(request);
    // Four breakpoints are allowed: tools and system stand still, the last block is what the next call will read, and what
    // the previous call wrote is found from there unless it is too far away.
    for (message, block) in places_to_cache(&messages, Runs::of(model.provider)) {
        mark(&mut messages[message]["content"][block]);
    }
    let mut body = json!({
        "max_tokens": request.max_output_tokens,
        "stream": true,
        "messages": messages,
    });
    if model.provider == Provider::VertexAnthropic {
        body["anthropic_version"] = json!(VERTEX_VERSION);
    } else {
        body["model"] = json!(model.model);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if !request.system.trim().is_empty() {
        let mut block = text_block(&request.system);
        mark(&mut block);
        body["system"] = json!([block]);
    }
    let mut tools: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}))
        .collect();
    if let Some(last) = tools.last_mut() {
        mark(last);
        body["tools"] = Value::Array(tools);
        let choice = match request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("any"),
            ToolChoice::Never => Some("none"),
        };
        if let Some(choice) = choice.filter(|_| quirks.tool_choice) {
            body["tool_choice"] = json!({"type": choice});
        }
    }
    if let Some(answer) = request.answer.as_ref().filter(|_| quirks.structured == Structured::Schema) {
        body["output_config"] = json!({"format": {"type": "json_schema", "schema": answer.schema}});
    }
    // A model that thinks cannot be made to call a tool.
    if let Some(effort) = model.overrides.effort.filter(|_| quirks.effort)
        && request.tool_choice != ToolChoice::Required
    {
        think(&mut body, model, effort, request.max_output_tokens);
    }
    body
}

/// The blocks at whose end the cache is to be written: the last one and, where so much came with the last step that the end of
/// the one before would not be found from there, one between them. The next request is without that one, so it stands as
/// late as it can: a mark leaves the bytes before it as they were.
fn places_to_cache(messages: &[Value], runs: Runs) -> Vec<(usize, usize)> {
    let mut users = (0..messages.len()).rev().filter(|index| messages[*index]["role"] == "user");
    let Some(last) = users.next() else { return Vec::new() };
    let before = users.next();
    let blocks = |message: usize| {
        let blocks = messages[message]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        blocks.iter().enumerate().map(move |(index, block)| ((message, index), block))
    };
    let mut new: Vec<((usize, usize), &Value, usize)> = Vec::new();
    for (place, block) in (before.map_or(0, |before| before + 1)..=last).flat_map(blocks) {
        let position = match new.last() {
            Some((_, previous, position)) if runs.go_on(previous, block) => *position,
            Some((_, _, position)) => position + 1,
            None => 1,
        };
        new.push((place, block, position));
    }
    let all = new.last().map_or(0, |(_, _, position)| *position);
    let between = before.filter(|_| all > super::CACHE_REACH).and_then(|before| {
        let takes_mark =
            |block: &Value| !block["type"].as_str().is_some_and(|kind| kind.ends_with("thinking"));
        let late =
            new.iter().rfind(|(_, block, position)| *position <= super::CACHE_REACH && takes_mark(block));
        // Two marks reach no further than this; where that is not enough the end of the step before is marked itself.
        let reaches = |late: &usize| all - late <= super::CACHE_REACH;
        late.filter(|(_, _, position)| reaches(position))
            .map(|(place, _, _)| *place)
            .or_else(|| blocks(before).next_back().map(|(place, _)| place))
    });
    between.into_iter().chain(new.last().map(|(place, _, _)| *place)).collect()
}

/// How a server counts blocks when it looks for what it has in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Calls that follow each other are one position, and so are results. So it is at Anthropic itself, and many calls at
    /// once need no mark of their own.
    One,
    /// Each block is a position. Nothing else is promised for the clouds.
    Each,
}

impl Runs {
    fn of(provider: Provider) -> Self {
        if provider == Provider::Anthropic { Self::One } else { Self::Each }
    }

    /// Whether a block is in the position of the one before it.
    fn go_on(self, before: &Value, block: &Value) -> bool {
        let kind = &block["type"];
        self == Self::One && *kind == before["type"] && (kind == "tool_use" || kind == "tool_result")
    }
}

/// Has the model think, with room for it beside the answer.
fn think(body: &mut Value, model: &Model, effort: Effort, answer: u32) {
    let name = crate::profile::plain(&model.model);
    if !BUDGETED.iter().any(|family| name.starts_with(family)) {
        body["thinking"] = json!({"type": "adaptive"});
        body["output_config"]["effort"] = json!(effort.name());
        body["max_tokens"] = json!(answer.saturating_add(model.thinking(answer)));
        return;
    }
    let Split { limit, budget } = split(model, answer, effort);
    if budget >= LEAST_BUDGET && !goes_on_without_thinking(&body["messages"]) {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
        body["max_tokens"] = json!(limit);
    }
}

/// Whether the steps since somebody last said something began without thinking, as those of another model do. A model that is
/// given a budget refuses to think from there on; later ones do not mind. The first step decides for all of them: such a model
/// thinks before its first call and not between calls, and the cache is lost when the budget comes and goes.
fn goes_on_without_thinking(messages: &Value) -> bool {
    let messages = messages.as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |block: &Value, kinds: &[&str]| block["type"].as_str().is_some_and(|kind| kinds.contains(&kind));
    let said = |message: &Value| {
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        message["role"] == "user" && blocks.iter().any(|block| !is(block, &["tool_result"]))
    };
    let since = messages.iter().rposition(said).map_or(0, |place| place + 1);
    let first = messages[since..].iter().find(|message| message["role"] == "assistant");
    first.is_some_and(|answer| !is(&answer["content"][0], &["thinking", "redacted_thinking"]))
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// The conversation with alternating roles. Tool results and what a person says after them become one message, which
/// has the results first.
fn messages(request: &Request) -> Vec<Value> {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in &request.messages {
        let (role, blocks) = match message {
            Message::User { text, images } => ("user", user_blocks(text, images)),
            Message::Assistant { parts } => ("assistant", parts.iter().filter_map(block).collect()),
            Message::Tools { results } => ("user", results.iter().map(result_block).collect()),
        };
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => messages.push((role, blocks)),
        }
    }
    messages
        .into_iter()
        .map(|(role, mut content)| {
            if role == "user" {
                content.sort_by_key(|block| block["type"] != "tool_result");
            }
            json!({"role": role, "content": content})
        })
        .collect()
}

/// Images stand before the text that is about them.
fn user_blocks(text: &str, images: &[Image]) -> Vec<Value> {
    let mut blocks: Vec<Value> = images.iter().map(image_block).collect();
    match text.trim() {
        // An empty text is refused, and a message must not vanish: a turn has to end with the user.
        "" if blocks.is_empty() => blocks.push(text_block("(empty)")),
        "" => {}
        _ => blocks.push(text_block(text)),
    }
    blocks
}

fn image_block(image: &Image) -> Value {
    let source = json!({"type": "base64", "media_type": image.file.media_type, "data": &*image.data});
    json!({"type": "image", "source": source})
}

fn result_block(result: &protocol::chat::ToolResult) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": word(&result.call_id, 128)});
    let text = (!result.text.is_empty()).then_some(result.text.as_str());
    if !result.images.is_empty() {
        let images = result.images.iter().map(image_block);
        block["content"] = text.map(text_block).into_iter().chain(images).collect();
    } else if let Some(text) = text {
        block["content"] = json!(text);
    }
    if result.is_error {
        block["is_error"] = json!(true);
    }
    block
}

/// A block of an assistant message; none for what cannot be sent back.
fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Text { text } => Some(text_block(text)),
        Part::Reasoning { text, signature } => {
            let signature = signature.as_deref()?;
            if let Some(data) = signature.strip_prefix(REDACTED_MARK) {
                return Some(json!({"type": "redacted_thinking", "data": data}));
            }
            // Another provider's signature has a mark with a colon, which Anthropic's never have.
            if signature.contains(':') {
                return None;
            }
            Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
        }
        Part::Call(call) => Some(json!({
            "type": "tool_use",
            "id": word(&call.id, 128),
            "name": word(&call.tool, 64),
            "input": arguments(&call.arguments),
        })),
    }
}

/// Folds events into a completion.
#[derive(Debug)]
pub(crate) struct Fold {
    parts: Parts,
    /// Our number of the call in each content block that is one, and its arguments if they came with the block's start.
    calls: HashMap<u64, (usize, Option<String>)>,
    stop: Option<Stop>,
    begun: bool,
    usage: Usage,
}

impl Fold {
    /// An empty answer.
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts, calls: HashMap::new(), stop: None, begun: false, usage: Usage::default() }
    }

    fn begin_block(&mut self, index: u64, block: &Value, sink: &mut Sink<'_>) {
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => self.parts.text(text("text"), sink),
            "thinking" => {
                self.parts.reasoning(text("thinking"), sink);
                self.parts.sign(text("signature").to_owned());
            }
            "redacted_thinking" => self.parts.sign(format!("{REDACTED_MARK}{}", text("data"))),
            "tool_use" => {
                let number = self.parts.begin_call(text("id"), text("name"), sink);
                let whole =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                self.calls.insert(index, (number, whole.map(Value::to_string)));
            }
            _ => {}
        }
    }

    fn grow_block(&mut self, index: u64, delta: &Value, sink: &mut Sink<'_>) {
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text_delta" => self.parts.text(text("text"), sink),
            "thinking_delta" => self.parts.reasoning(text("thinking"), sink),
            "signature_delta" => self.parts.sign(text("signature").to_owned()),
            "input_json_delta" => {
                let piece = text("partial_json");
                if let Some((number, whole)) = self.calls.get_mut(&index)
                    && !piece.is_empty()
                {
                    *whole = None;
                    let number = *number;
                    self.parts.grow_call(number, piece, sink);
                }
            }
            _ => {}
        }
    }

    fn end_block(&mut self, index: u64, sink: &mut Sink<'_>) {
        if let Some((number, Some(whole))) = self.calls.remove(&index) {
            self.parts.grow_call(number, &whole, sink);
        }
    }

    /// Takes what is reported; a later report of a kind of token replaces the earlier one. Some servers repeat what was read
    /// as 0 at the end, which does not take back what they said before.
    fn usage(&mut self, reported: Option<&Value>) {
        let Some(reported) = reported else { return };
        let set = |field: &mut u64, pointer: &str| {
            if reported.pointer(pointer).is_some_and(|number| number.is_u64() || number.is_f64()) {
                *field = Some(count(reported, pointer)).filter(|told| *told > 0).unwrap_or(*field);
            }
        };
        set(&mut self.usage.input, "/input_tokens");
        set(&mut self.usage.cache_read, "/cache_read_input_tokens");
        set(&mut self.usage.cache_write, "/cache_creation_input_tokens");
        set(&mut self.usage.output, "/output_tokens");
    }

    fn stop(&mut self, reason: Option<&Value>) {
        match reason.and_then(Value::as_str) {
            None => {}
            Some("max_tokens") => self.stop = Some(Stop::Length),
            Some("model_context_window_exceeded") => self.stop = Some(Stop::Window),
            Some("refusal") => self.stop = Some(Stop::Refusal),
            Some("tool_use") => self.stop = Some(Stop::Tools),
            Some(_) => self.stop = Some(Stop::End),
        }
    }
}

impl super::Fold for Fold {
    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<Progress, Fault> {
        let knows =
            |name: &str| name.starts_with("message") || name.starts_with("content_block") || name == "error";
        // What says nothing changes nothing either.
        let value = super::read(event, knows)?.unwrap_or_default();
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&event.name);
        let index = count(&value, "/index");
        match kind {
            "message_start" => {
                self.begun = true;
                self.usage(value.pointer("/message/usage"));
            }
            "content_block_start" => self.begin_block(index, &value["content_block"], sink),
            "content_block_delta" => self.grow_block(index, &value["delta"], sink),
            "content_block_stop" => self.end_block(index, sink),
            "message_delta" => {
                self.usage(value.get("usage"));
                self.stop(value.pointer("/delta/stop_reason"));
            }
            "message_stop" => return Ok(Progress::Closed),
            // `ping`, and kinds that may be added: the API's rules ask clients to pass over them.
            _ => {}
        }
        Ok(if self.stop.is_some() { Progress::Settled } else { Progress::Open })
    }

    fn whole(&mut self, answer: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let blocks = answer.get("content").and_then(Value::as_array);
        let blocks = blocks.ok_or_else(|| Fault::malformed("has no content, so the model said nothing"))?;
        self.begun = true;
        for (index, block) in (0..).zip(blocks) {
            self.begin_block(index, block, sink);
            self.end_block(index, sink);
        }
        self.usage(answer.get("usage"));
        self.stop(answer.get("stop_reason"));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Completion, Fault> {
        let stop = match self.stop {
            None => return Err(Fault::BrokeOff),
            Some(_) if !self.begun => return Err(Fault::malformed("has no beginning")),
            Some(Stop::End) if self.parts.calls() > 0 => Stop::Tools,
            Some(Stop::Tools) if self.parts.calls() == 0 => Stop::End,
            Some(stop) => stop,
        };
        Ok(Completion { parts: self.parts.finish(), stop, usage: self.usage })
    }

    fn so_far(&mut self) -> (&mut Parts, Usage) {
        (&mut self.parts, self.usage)
    }
}

#[cfg(test)]
mod tests;
