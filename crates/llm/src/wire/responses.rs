//! OpenAI's responses: a flat list of items rather than messages. Nothing is stored at the server, so reasoning comes
//! encrypted and goes back with the item that followed it.

use protocol::Usage;
use protocol::chat::{Completion, Image, Message, Part, Request, Stop, ToolChoice, ToolResult};
use serde_json::{Value, json};

use super::{Fault, Parts, Progress, Sink, arguments_text, count, word};
use crate::complaint::Complaint;
use crate::model::Model;
use crate::prepare::is_strict;
use crate::quirks::{Quirks, Structured, System};
use crate::sse::Event;

/// Marks a signature as the id and the encrypted content of a reasoning item, so that it is never sent to anyone else.
const MARK: &str = "responses:";

/// Marks the phase of the message that comes next: models that give one want it back with their words.
const PHASE_MARK: &str = "responses-phase:";

/// The most tokens of an answer, with what the model thinks; none where the server cannot be told.
pub(crate) fn most(model: &Model, request: &Request, quirks: Quirks) -> Option<u32> {
    let thinking = model.thinking_as_told(request.max_output_tokens, quirks.effort);
    quirks.answer_limit.then_some(request.max_output_tokens.saturating_add(thinking))
}

/// The body of a call.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    let mut input = Vec::new();
    let has_system = !request.system.is_empty();
    if has_system && quirks.system != System::Apart {
        // Every server knows this role, and not all know that of a developer.
        input.push(message_item("system", "input_text", &request.system));
    }
    for message in &request.messages {
        match message {
            Message::User { text, images } => input.push(user_item(text, images)),
            Message::Assistant { parts } => assistant(parts, &mut input),
            Message::Tools { results } => input.extend(results.iter().map(|result| {
                json!({"type": "function_call_output", "call_id": word(&result.call_id, 64),
                    "output": output(result)})
            })),
        }
    }
    let mut body = json!({
        "model": model.model,
        "input": input,
        "stream": true,
    });
    if let Some(most) = most(model, request, quirks) {
        body["max_output_tokens"] = json!(most);
    }
    if quirks.store {
        body["store"] = json!(false);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(temperature);
    }
    if quirks.encrypted_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if has_system && quirks.system == System::Apart {
        body["instructions"] = json!(request.system);
    }
    if let Some(effort) = model.overrides.effort.filter(|_| quirks.effort) {
        body["reasoning"] = json!({"effort": effort.name(), "summary": "auto"});
    }
    if let Some(key) = request.cache_key.as_deref().filter(|_| quirks.cache_key) {
        body["prompt_cache_key"] = json!(key);
    }
    if let Some(answer) = &request.answer {
        let format = match quirks.structured {
            Structured::Schema | Structured::Told => {
                Some(json!({"type": "json_schema", "name": word(&answer.name, 64),
                "schema": answer.schema, "strict": is_strict(&answer.schema)}))
            }
            Structured::Object => Some(json!({"type": "json_object"})),
            Structured::Tool | Structured::Asked => None,
        };
        if let Some(format) = format {
            body["text"] = json!({"format": format});
        }
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut tool = json!({"type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema});
            // Strict is the default here, and refuses most schemas that other formats accept.
            if quirks.strict_tools {
                tool["strict"] = json!(false);
            }
            tool
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

/// What a person said, with images.
fn user_item(text: &str, images: &[Image]) -> Value {
    let mut item = message_item("user", "input_text", text);
    if let Some(content) = item["content"].as_array_mut() {
        content.extend(images.iter().map(image_part));
    }
    item
}

fn image_part(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.file.media_type, image.data);
    json!({"type": "input_image", "image_url": url})
}

/// What a call gave: a text, or parts when there are images.
fn output(result: &ToolResult) -> Value {
    if result.images.is_empty() {
        return json!(result.text);
    }
    let text = json!({"type": "input_text", "text": result.text});
    std::iter::once(text).chain(result.images.iter().map(image_part)).collect()
}

fn message_item(role: &str, kind: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

/// The items of an assistant message. Reasoning is refused without the item that it led to, so it waits for one.
fn assistant(parts: &[Part], input: &mut Vec<Value>) {
    let mut reasoning = Vec::new();
    let mut phase = None;
    for part in parts {
        let item = match part {
            Part::Reasoning { text, signature } => {
                let signature = signature.as_deref().unwrap_or_default();
                phase = signature.strip_prefix(PHASE_MARK).or(phase);
                let signature = signature.strip_prefix(MARK);
                let Some((id, content)) = signature.and_then(|signature| signature.split_once(':')) else {
                    continue;
                };
                let summary = (!text.is_empty()).then(|| json!({"type": "summary_text", "text": text}));
                let mut item = json!({"type": "reasoning", "summary": summary.into_iter().collect::<Vec<_>>(),
                    "encrypted_content": content});
                if !id.is_empty() {
                    item["id"] = json!(id);
                }
                reasoning.push(item);
                continue;
            }
            Part::Text { text } if text.trim().is_empty() => continue,
            Part::Text { text } => {
                let mut item = message_item("assistant", "output_text", text);
                if let Some(phase) = phase.take() {
                    item["phase"] = json!(phase);
                }
                item
            }
            Part::Call(call) => json!({"type": "function_call", "call_id": word(&call.id, 64),
                "name": word(&call.tool, 64), "arguments": arguments_text(&call.arguments)}),
        };
        input.append(&mut reasoning);
        input.push(item);
    }
}

/// An item of the answer that is being written.
#[derive(Debug)]
struct Item {
    index: Option<u64>,
    /// Its own id and, for a call, the call's: servers use either to say where a piece belongs.
    ids: [String; 2],
    /// Our number of the call, when it is one.
    call: Option<usize>,
    /// Whether pieces of it came, so that its whole is not needed at its end.
    grown: bool,
    /// Whether its end came.
    done: bool,
    /// What it said.
    said: String,
    /// What it thought, and the signature of that.
    thought: String,
    signature: String,
    /// The phase of a message, as a signature.
    phase: String,
}

impl Item {
    fn new(index: Option<u64>, ids: [String; 2], call: Option<usize>) -> Self {
        let (said, thought, signature, phase) = Default::default();
        Self { index, ids, call, grown: false, done: false, said, thought, signature, phase }
    }
}

/// Folds events into a completion.
#[derive(Debug)]
pub(crate) struct Fold {
    parts: Parts,
    items: Vec<Item>,
    stop: Option<Stop>,
    refused: bool,
    /// Why the server broke the answer off.
    declined: Option<String>,
    usage: Usage,
    /// The most tokens that the answer could have; 0 where nobody told.
    most: u32,
}

impl Fold {
    /// An empty answer of at most so many tokens, or of any number where it is 0.
    pub(crate) fn new(parts: Parts, most: u32) -> Self {
        let usage = Usage::default();
        Self { parts, items: Vec::new(), stop: None, refused: false, declined: None, usage, most }
    }

    /// The item that an event is about; some servers give numbers, some ids, some neither.
    fn find(&mut self, index: Option<u64>, id: &str) -> Option<&mut Item> {
        let position = match index {
            Some(_) => self.items.iter().rposition(|item| item.index == index),
            None if !id.is_empty() => {
                self.items.iter().rposition(|item| item.ids.iter().any(|own| own == id))
            }
            None => self.items.iter().rposition(|item| !item.done),
        };
        self.items.get_mut(position?)
    }

    fn begin(&mut self, index: Option<u64>, item: &Value, sink: &mut Sink<'_>) {
        let ids = [field(item, "id"), field(item, "call_id")].map(str::to_owned);
        let call = (field(item, "type") == "function_call")
            .then(|| self.parts.begin_call(&ids[1], field(item, "name"), sink));
        if let ("message", phase @ ("commentary" | "final_answer")) =
            (field(item, "type"), field(item, "phase"))
        {
            let phase = format!("{PHASE_MARK}{phase}");
            self.parts.sign(phase.clone());
            return self.items.push(Item { phase, ..Item::new(index, ids, call) });
        }
        self.items.push(Item::new(index, ids, call));
    }

    /// The item of a piece, which grows; some servers do not tell that it begins.
    fn grow(&mut self, event: &Value) -> Option<&mut Item> {
        let (index, id) = (number(event), field(event, "item_id"));
        if self.find(index, id).is_none() {
            self.items.push(Item::new(index, [id.to_owned(), String::new()], None));
        }
        let item = self.find(index, id)?;
        item.grown = true;
        Some(item)
    }

    fn say(&mut self, event: &Value, piece: &str, sink: &mut Sink<'_>) {
        if let Some(item) = self.grow(event) {
            item.said.push_str(piece);
        }
        self.parts.text(piece, sink);
    }

    fn think(&mut self, event: &Value, piece: &str, sink: &mut Sink<'_>) {
        if let Some(item) = self.grow(event) {
            item.thought.push_str(piece);
        }
        self.parts.reasoning(piece, sink);
    }

    /// The parts in the order of the items, which may have come mixed: a signature belongs to what it stands before.
    fn ordered(mut self) -> Parts {
        let mut parts = self.parts.anew();
        let sink: &mut Sink<'_> = &mut |_| {};
        // Those without a number stay where they came.
        if self.items.iter().all(|item| item.index.is_some()) {
            self.items.sort_by_key(|item| item.index);
        }
        for item in &self.items {
            parts.reasoning(&item.thought, sink);
            parts.sign(item.signature.clone());
            parts.sign(item.phase.clone());
            parts.text(&item.said, sink);
            if let Some(call) = item.call.and_then(|number| self.parts.call(number)) {
                let number = parts.begin_call(&call.id, &call.tool, sink);
                parts.grow_call(number, &call.arguments, sink);
            }
        }
        if let Some(reason) = &self.declined {
            parts.declined(reason, sink);
        }
        parts
    }

    /// A piece of a call's arguments, or all of them when no piece came before.
    fn arguments(&mut self, event: &Value, piece: &str, whole: &str, sink: &mut Sink<'_>) {
        let Some(item) = self.find(number(event), field(event, "item_id")) else { return };
        let Some(call) = item.call else { return };
        let text = if piece.is_empty() && !item.grown { whole } else { piece };
        item.grown |= !text.is_empty();
        self.parts.grow_call(call, text, sink);
    }

    /// The end of an item, which has the whole of it.
    fn end(&mut self, index: Option<u64>, item: &Value, sink: &mut Sink<'_>) {
        let id = [field(item, "id"), field(item, "call_id")].into_iter().find(|id| !id.is_empty());
        if self.find(index, id.unwrap_or_default()).is_none() {
            self.begin(index, item, sink);
        }
        let Some(state) = self.find(index, id.unwrap_or_default()) else { return };
        state.done = true;
        let (call, grown) = (state.call, state.grown);
        match field(item, "type") {
            "message" if !grown => {
                for block in list(item, "content") {
                    state.said.push_str(field(block, "text"));
                    state.said.push_str(field(block, "refusal"));
                }
                for block in list(item, "content") {
                    self.refused |= field(block, "type") == "refusal";
                    self.parts.text(field(block, "text"), sink);
                    self.parts.text(field(block, "refusal"), sink);
                }
            }
            "function_call" if !grown => {
                if let Some(call) = call {
                    self.parts.grow_call(call, field(item, "arguments"), sink);
                }
            }
            "reasoning" => {
                let content = field(item, "encrypted_content");
                if !content.is_empty() {
                    state.signature = format!("{MARK}{}:{content}", field(item, "id"));
                }
                let signature = state.signature.clone();
                if !grown {
                    let kind = if list(item, "summary").is_empty() { "content" } else { "summary" };
                    let texts: Vec<&str> =
                        list(item, kind).iter().map(|block| field(block, "text")).collect();
                    state.thought = texts.join("\n\n");
                    let thought = state.thought.clone();
                    self.parts.reasoning(&thought, sink);
                }
                self.parts.sign(signature);
            }
            _ => {}
        }
    }

    /// The end of the answer; servers that send no items before it have them in it.
    fn close(&mut self, response: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.items.is_empty() {
            for (index, item) in (0..).zip(list(response, "output")) {
                self.end(Some(index), item, sink);
            }
        }
        if let Some(reported) = response.get("usage").filter(|usage| usage.is_object()) {
            self.usage = usage(reported);
        }
        if let Some(complaint) = Complaint::from_json(response) {
            return Err(Fault::server(complaint));
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.stop = Some(match (reason, field(response, "status")) {
            (Some(reason @ "content_filter"), _) => {
                self.declined = Some(reason.to_owned());
                self.parts.declined(reason, sink);
                Stop::Refusal
            }
            (Some("max_output_tokens"), _) | (None, "incomplete") => Stop::Length,
            // Calls that are whole can be run all the same.
            (Some(_), _) if self.parts.calls() > 0 => Stop::Tools,
            (Some(reason), _) => return Err(Fault::server(Complaint::stopped(reason))),
            (None, "failed" | "cancelled") => {
                return Err(Fault::malformed("ends as failed or cancelled and does not say why"));
            }
            // Some servers call every answer complete, also one that had no more room.
            (None, _)
                if self.most > 0 && self.usage.output + self.usage.reasoning >= u64::from(self.most) =>
            {
                Stop::Length
            }
            (None, _) => Stop::End,
        });
        Ok(())
    }
}

impl super::Fold for Fold {
    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<Progress, Fault> {
        if event.data.trim() == "[DONE]" {
            return Ok(Progress::Closed);
        }
        let knows = |name: &str| name.starts_with("response.") || matches!(name, "error" | "message");
        let Some(value) = super::read(event, knows)? else { return Ok(Progress::Open) };
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(&event.name);
        let delta = field(&value, "delta");
        match kind {
            "response.output_item.added" => self.begin(number(&value), &value["item"], sink),
            "response.output_item.done" => self.end(number(&value), &value["item"], sink),
            "response.output_text.delta" => self.say(&value, delta, sink),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(&value, delta, sink);
            }
            "response.reasoning_summary_part.added" if count(&value, "/summary_index") > 0 => {
                // Its words are still to come, in pieces or as a whole.
                if let Some(item) = self.find(number(&value), field(&value, "item_id")) {
                    item.thought.push_str("\n\n");
                }
                self.parts.reasoning("\n\n", sink);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(&value, delta, sink);
            }
            "response.function_call_arguments.delta" => self.arguments(&value, delta, "", sink),
            "response.function_call_arguments.done" => {
                self.arguments(&value, "", field(&value, "arguments"), sink);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.close(&value["response"], sink)?;
                return Ok(Progress::Closed);
            }
            // This event is the error itself, while all other servers' have one in them.
            "error" => {
                let wrapped = json!({"error": value});
                let complaint = Complaint::from_json(&wrapped);
                return Err(complaint.map_or(Fault::BrokeOff, Fault::server));
            }
            // Beginnings and ends that say nothing new, and kinds that may be added.
            _ => {}
        }
        Ok(Progress::Open)
    }

    fn whole(&mut self, answer: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if !answer.get("output").is_some_and(Value::is_array) {
            return Err(Fault::malformed("has no output, so the model said nothing"));
        }
        self.close(answer, sink)
    }

    fn finish(self: Box<Self>) -> Result<Completion, Fault> {
        let stop = match self.stop {
            None => return Err(Fault::BrokeOff),
            Some(_) if self.refused => Stop::Refusal,
            Some(Stop::End) if self.parts.calls() > 0 => Stop::Tools,
            Some(stop) => stop,
        };
        let usage = self.usage;
        Ok(Completion { parts: self.ordered().finish(), stop, usage })
    }

    fn so_far(&mut self) -> (&mut Parts, Usage) {
        (&mut self.parts, self.usage)
    }
}

/// The number of the item that an event is about.
fn number(event: &Value) -> Option<u64> {
    event.get("output_index").and_then(Value::as_u64)
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Usage in parts that do not overlap.
fn usage(reported: &Value) -> Usage {
    let (input, output) = (count(reported, "/input_tokens"), count(reported, "/output_tokens"));
    let cache_read = count(reported, "/input_tokens_details/cached_tokens").min(input);
    let cache_write = count(reported, "/input_tokens_details/cache_write_tokens").min(input - cache_read);
    let reasoning = count(reported, "/output_tokens_details/reasoning_tokens").min(output);
    Usage {
        input: input - cache_read - cache_write,
        cache_read,
        cache_write,
        output: output - reasoning,
        reasoning,
        estimated: 0,
    }
}

#[cfg(test)]
mod tests;
