//! Chat completions, as OpenAI defined them and as many servers bend them: the fold accepts gaps, missing ids and whole
//! arguments, because a small local server is as welcome as the original.

use protocol::chat::{Completion, Image, Message, Part, Request, Stop, ToolChoice};
use protocol::{Usage, Usd};
use serde_json::{Value, json};

use super::{
    Fault, GEMINI_MARK, GEMINI_UNSIGNED, OPENROUTER_MARK, Parts, Progress, Sink, arguments_text, count, word,
};
use crate::complaint::Complaint;
use crate::model::Model;
use crate::prepare::is_strict;
use crate::provider::Provider;
use crate::quirks::{Quirks, Structured};
use crate::sse::Event;

mod details;
mod tags;

/// The body of a call.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        match message {
            Message::User { text, images } => {
                messages.push(json!({"role": "user", "content": content(text, images)}));
            }
            Message::Assistant { parts } => messages.extend(assistant(model.provider, parts, quirks)),
            Message::Tools { results } => messages.extend(results.iter().map(
                |result| json!({"role": "tool", "tool_call_id": result.call_id, "content": result.text}),
            )),
        }
    }
    if quirks.cache_marks {
        mark(&mut messages);
    }
    let mut body = json!({"model": model.model, "messages": messages, "stream": true});
    if quirks.stream_options {
        body["stream_options"] = json!({"include_usage": true});
    }
    let limit = if quirks.completion_limit { "max_completion_tokens" } else { "max_tokens" };
    let thinking = model.thinking_as_told(request.max_output_tokens, quirks.effort);
    body[limit] = json!(request.max_output_tokens.saturating_add(thinking));
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(effort) = model.overrides.effort.filter(|_| quirks.effort) {
        match model.provider {
            Provider::OpenRouter => body["reasoning"] = json!({"effort": effort.name()}),
            _ => body["reasoning_effort"] = json!(effort.name()),
        }
    }
    if let Some(key) = request.cache_key.as_deref().filter(|_| quirks.cache_key) {
        body["prompt_cache_key"] = json!(key);
    }
    if let Some(answer) = &request.answer {
        match quirks.structured {
            Structured::Schema | Structured::Told => {
                let schema = json!({"name": word(&answer.name, 64), "schema": answer.schema,
                    "strict": is_strict(&answer.schema)});
                body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
            }
            Structured::Object => body["response_format"] = json!({"type": "json_object"}),
            Structured::Tool | Structured::Asked => {}
        }
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
            json!({"type": "function", "function": function})
        });
        body["tools"] = tools.collect();
        let choice = match request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("required"),
            ToolChoice::Never => Some("none"),
        };
        if let Some(choice) = choice.filter(|_| quirks.tool_choice) {
            body["tool_choice"] = json!(choice);
        }
    }
    body
}

/// What a person said: a text, or blocks when there are images.
fn content(text: &str, images: &[Image]) -> Value {
    if images.is_empty() {
        return json!(text);
    }
    let shown = images.iter().map(|image| {
        let url = format!("data:{};base64,{}", image.file.media_type, image.data);
        json!({"type": "image_url", "image_url": {"url": url}})
    });
    let said = (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    said.into_iter().chain(shown).collect()
}

/// Marks what stands still, and the last message, which is what the next call will read; also a result between them where so
/// much came with the last step that the cache would not be found. All that can be marked is written as blocks, so that a
/// mark which moves on leaves the bytes before it as they were.
fn mark(messages: &mut [Value]) {
    for message in messages.iter_mut().filter(|message| message["role"] != "assistant") {
        let content = &mut message["content"];
        if let Value::String(text) = content
            && !text.trim().is_empty()
        {
            *content = json!([{"type": "text", "text": text}]);
        }
    }
    let system = messages.iter().position(|message| message["role"] == "system");
    let last = messages.iter().rposition(|message| message["role"] != "assistant");
    let step = messages.iter().rposition(|message| message["role"] == "assistant");
    let calls = step.and_then(|step| messages[step]["tool_calls"].as_array()).map_or(0, Vec::len);
    let between = step.filter(|_| 2 * calls > super::CACHE_REACH).and_then(|step| {
        // As late as it is found, and not so early that it is not found from the end: else the end of the step before.
        let late = step + super::CACHE_REACH.saturating_sub(calls + 1);
        let reaches = |late: &usize| *late > step && messages.len() - late - 1 <= super::CACHE_REACH;
        Some(late).filter(reaches).or_else(|| step.checked_sub(1))
    });
    let places: Vec<usize> = system.into_iter().chain(between).chain(last).collect();
    for place in places {
        // Images take no mark.
        let mut blocks = messages[place]["content"].as_array_mut().into_iter().flatten();
        if let Some(block) = blocks.rfind(|block| block["type"] == "text") {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
    }
}

/// An assistant message; none when nothing of it can be sent back.
fn assistant(provider: Provider, parts: &[Part], quirks: Quirks) -> Option<Value> {
    let mut text = String::new();
    let mut reasoning = String::new();
    let mut details = None;
    let mut calls: Vec<Value> = Vec::new();
    let mut signed = None;
    for part in parts {
        match part {
            Part::Text { text: piece } => text.push_str(piece),
            Part::Reasoning { text: piece, signature } => {
                reasoning.push_str(piece);
                let signature = signature.as_deref().unwrap_or_default();
                signed = signature.strip_prefix(GEMINI_MARK);
                let kept = signature.strip_prefix(OPENROUTER_MARK);
                details = details.or(kept.and_then(|kept| serde_json::from_str::<Value>(kept).ok()));
            }
            Part::Call(call) => {
                let arguments = arguments_text(&call.arguments);
                let function = json!({"name": word(&call.tool, 64), "arguments": arguments});
                let mut value = json!({"id": call.id, "type": "function", "function": function});
                // Gemini refuses a step whose first call has no signature, and wants no more than it gave.
                let signature = signed.take().or(calls.is_empty().then_some(GEMINI_UNSIGNED));
                if let (Provider::GeminiChat | Provider::Vertex, Some(signature)) = (provider, signature) {
                    value["extra_content"] = json!({"google": {"thought_signature": signature}});
                }
                calls.push(value);
            }
        }
    }
    if text.trim().is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.trim().is_empty() { Value::Null } else { Value::String(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if let (Provider::OpenRouter, Some(details)) = (provider, details) {
        message["reasoning_details"] = details;
    }
    if quirks.reasoning_back && (!reasoning.is_empty() || !calls.is_empty()) {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    Some(message)
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The model was done.
    End,
    /// There was no more room.
    Length,
    /// The server does not like what is said.
    Refusal,
    /// The model wrote a call that its server could not read.
    BrokenCall,
    /// The server could not go on, whatever is there already.
    Failure,
    /// Nobody knows.
    Other,
}

impl Reason {
    /// What a server means. Gateways pass on the words of the model's own server, Gemini's in capitals.
    fn of(said: &str) -> Self {
        let said = said.to_lowercase();
        let begins = |words: &[&str]| words.iter().any(|word| said.starts_with(word));
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if begins(&["error", "insufficient_system_resource", "network_error"]) {
            Self::Failure
        } else if has(&["malformed_function_call", "unexpected_tool_call"]) {
            Self::BrokenCall
        } else if begins(REFUSALS) {
            Self::Refusal
        } else if has(&["length", "max_tokens"]) {
            Self::Length
        } else if begins(&["stop", "eos", "end", "tool_", "function_call", "complete", "finish"]) {
            Self::End
        } else {
            Self::Other
        }
    }
}

/// Words with which the reasons of filters begin.
const REFUSALS: &[&str] = &[
    "content_filter",
    "refusal",
    "sensitive",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "image_safety",
    "language",
    "model_armor",
];

/// Folds chunks into a completion.
#[derive(Debug)]
pub(crate) struct Fold {
    parts: Parts,
    /// The server's own number of each call, by our number.
    indices: Vec<Option<u64>>,
    /// OpenRouter's details of reasoning.
    details: details::Details,
    /// What the model thinks within its text.
    tags: tags::Tags,
    stop: Option<Stop>,
    refused: bool,
    done: bool,
    answered: bool,
    usage: Usage,
    cost_usd: Option<f64>,
}

impl Fold {
    /// An empty answer.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            parts,
            indices: Vec::new(),
            details: details::Details::default(),
            tags: tags::Tags::default(),
            stop: None,
            refused: false,
            done: false,
            answered: false,
            usage: Usage::default(),
            cost_usd: None,
        }
    }

    /// Takes a chunk of the stream (`delta`) or a whole answer (`message`).
    fn chunk(&mut self, chunk: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        // Some servers tell it within the choice.
        let reported = [chunk.get("usage"), chunk.pointer("/choices/0/usage")];
        if let Some(reported) = reported.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = usage(reported);
            self.cost_usd = cost_usd(reported).or(self.cost_usd);
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(()) };
        if let Some(complaint) = Complaint::from_json(choice) {
            return Err(Fault::server(complaint));
        }
        self.answered = true;
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|name| delta.get(name)?.as_str());
        let detailed = delta.get("reasoning_details").and_then(Value::as_array);
        let detailed = detailed.map(|pieces| self.details.push(pieces)).unwrap_or_default();
        // The details repeat the text where there is one.
        self.parts.reasoning(reasoning.filter(|text| !text.is_empty()).unwrap_or(&detailed), sink);
        match delta.get("content") {
            Some(Value::String(text)) => self.tags.push(text, &mut self.parts, sink),
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    self.block(block, sink);
                }
            }
            _ => {}
        }
        if let Some(text) = delta.get("refusal").and_then(Value::as_str) {
            if !text.is_empty() {
                self.refused = true;
                self.tags.flush(&mut self.parts, sink);
            }
            self.parts.text(text, sink);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, sink);
        }
        // Where a call stood before there could be several in one answer; old servers still write it.
        if let Some(call) = delta.get("function_call").filter(|call| call.is_object()) {
            self.call(&json!({"function": call}), sink);
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            None | Some("" | "null") => Ok(()),
            Some(reason) => self.end(reason, sink),
        }
    }

    /// A block of a text that comes in blocks. Mistral's models think in some of them.
    fn block(&mut self, block: &Value, sink: &mut Sink<'_>) {
        let text = |block: &Value| block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        match block.get("thinking") {
            Some(Value::Array(thoughts)) => {
                for thought in thoughts {
                    self.parts.reasoning(&text(thought), sink);
                }
            }
            Some(Value::String(thought)) => self.parts.reasoning(thought, sink),
            Some(_) | None => self.tags.push(&text(block), &mut self.parts, sink),
        }
    }

    /// The end of the answer, for a reason that each server names in its own way.
    fn end(&mut self, reason: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let said = Reason::of(reason);
        // What waits stands before what is said of it.
        if matches!(said, Reason::Refusal | Reason::BrokenCall) {
            self.tags.flush(&mut self.parts, sink);
        }
        match said {
            // Whether there are calls says more than `stop` or `tool_calls`, which servers mix up.
            Reason::End => self.stop = Some(Stop::End),
            Reason::Length => self.stop = Some(Stop::Length),
            Reason::Refusal => {
                if !self.refused && self.stop != Some(Stop::Refusal) {
                    self.parts.declined(reason, sink);
                }
                self.stop = Some(Stop::Refusal);
            }
            // What the model wrote is its own mistake, so it is shown to it as the call that it was meant to be.
            Reason::BrokenCall if self.parts.calls() == 0 => {
                self.parts.broken_call(reason, "", sink);
                self.stop = Some(Stop::End);
            }
            // Calls that are whole can be run all the same; words alone would pass for the end of the work.
            Reason::BrokenCall | Reason::Other if self.parts.calls() > 0 => self.stop = Some(Stop::End),
            Reason::Failure | Reason::BrokenCall | Reason::Other => {
                return Err(Fault::server(Complaint::stopped(reason)));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, sink: &mut Sink<'_>) {
        self.tags.flush(&mut self.parts, sink);
        let text = |pointer: &str| call.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, tool) = (text("/id"), text("/function/name"));
        let index = call.get("index").and_then(Value::as_u64);
        let number = match self.find(index, id, tool) {
            Some(number) => {
                self.parts.name_call(number, id, tool, sink);
                number
            }
            None => {
                if let Some(signature) =
                    call.pointer("/extra_content/google/thought_signature").and_then(Value::as_str)
                {
                    self.parts.sign(format!("{GEMINI_MARK}{signature}"));
                }
                self.indices.push(index);
                self.parts.begin_call(id, tool, sink)
            }
        };
        match call.pointer("/function/arguments") {
            None | Some(Value::Null) => {}
            Some(Value::String(piece)) => self.parts.grow_call(number, piece, sink),
            Some(whole) => self.parts.grow_call(number, &whole.to_string(), sink),
        }
    }

    /// Which call a piece belongs to; `None` when it begins a new one.
    fn find(&self, index: Option<u64>, id: &str, tool: &str) -> Option<usize> {
        let named = |number: usize| self.parts.call(number).filter(|call| !call.id.is_empty());
        if let Some(index) = index {
            let number = self.indices.iter().rposition(|known| *known == Some(index))?;
            // Some servers give every call the same number; a new id with a name tells them apart.
            let other = !id.is_empty() && !tool.is_empty() && named(number).is_some_and(|call| call.id != id);
            return if other { None } else { Some(number) };
        }
        if !id.is_empty() {
            return (0..self.parts.calls()).find(|number| named(*number).is_some_and(|call| call.id == id));
        }
        let last = self.parts.calls().checked_sub(1)?;
        let whole = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let begins = !tool.is_empty() && self.parts.call(last).is_some_and(|call| whole(&call.arguments));
        if begins { None } else { Some(last) }
    }
}

impl super::Fold for Fold {
    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<Progress, Fault> {
        if event.data.trim() == "[DONE]" {
            self.tags.flush(&mut self.parts, sink);
            self.done = true;
            return Ok(Progress::Closed);
        }
        if let Some(chunk) = super::read(event, super::is_plain_name)? {
            self.chunk(&chunk, sink)?;
        }
        Ok(if self.stop.is_some() { Progress::Settled } else { Progress::Open })
    }

    fn whole(&mut self, answer: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        self.chunk(answer, sink)?;
        self.tags.flush(&mut self.parts, sink);
        self.done = true;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Completion, Fault> {
        // Nobody listens any more, but it was said.
        self.tags.flush(&mut self.parts, &mut |_| {});
        if let Some(details) = std::mem::take(&mut self.details).finish() {
            self.parts.sign_whole(format!("{OPENROUTER_MARK}{details}"));
        }
        if !self.answered && (self.done || self.stop.is_some()) {
            return Err(Fault::malformed("has no choices, so the model said nothing"));
        }
        let stop = match self.stop {
            _ if self.refused => Stop::Refusal,
            Some(Stop::End) | None if self.parts.calls() > 0 => Stop::Tools,
            Some(stop) => stop,
            None => Stop::End,
        };
        if self.stop.is_none() && !self.done {
            return Err(Fault::BrokeOff);
        }
        Ok(Completion { parts: self.parts.finish(), stop, usage: self.usage })
    }

    fn cost_usd(&self) -> Option<f64> {
        self.cost_usd
    }

    fn so_far(&mut self) -> (&mut Parts, Usage) {
        (&mut self.parts, self.usage)
    }
}

/// What OpenRouter says that the call cost. With a key of one's own for the maker of the model, that one's bill comes on top.
fn cost_usd(reported: &Value) -> Option<f64> {
    let dollars = |pointer: &str| {
        let told = reported.pointer(pointer).and_then(Value::as_f64);
        told.filter(|dollars| dollars.is_finite() && *dollars >= 0.0).map(Usd::from)
    };
    let mut cost = dollars("/cost")?;
    if reported.get("is_byok").and_then(Value::as_bool) == Some(true) {
        cost += dollars("/cost_details/upstream_inference_cost").unwrap_or_default();
    }
    Some(cost.dollars())
}

/// Where servers and gateways tell what of the prompt came from the cache, and what was written to it.
const CACHE_READ: &[&str] = &[
    "/prompt_tokens_details/cached_tokens",
    "/prompt_cache_hit_tokens",
    "/cached_tokens",
    "/cache_read_input_tokens",
];
const CACHE_WRITE: &[&str] = &[
    "/prompt_tokens_details/cache_write_tokens",
    "/prompt_tokens_details/cache_creation_tokens",
    "/prompt_tokens_details/cache_creation_input_tokens",
    "/cache_creation_input_tokens",
];

/// Usage in parts that do not overlap.
fn usage(reported: &Value) -> Usage {
    let prompt = count(reported, "/prompt_tokens");
    let completion = count(reported, "/completion_tokens");
    let most = |pointers: &[&str]| pointers.iter().map(|pointer| count(reported, pointer)).max().unwrap_or(0);
    let cached = most(CACHE_READ).min(prompt);
    let cache_write = most(CACHE_WRITE).min(prompt - cached);
    let told = count(reported, "/completion_tokens_details/reasoning_tokens");
    // OpenAI counts reasoning within the completion; others leave it out, which shows in the total.
    let outside = count(reported, "/total_tokens").saturating_sub(prompt.saturating_add(completion));
    let (output, reasoning) = if outside > 0 && (told == 0 || outside >= told) {
        (completion, outside)
    } else {
        let reasoning = told.min(completion);
        (completion - reasoning, reasoning)
    };
    let input = prompt - cached - cache_write;
    Usage { input, cache_read: cached, cache_write, output, reasoning, estimated: 0 }
}

#[cfg(test)]
mod tests;
