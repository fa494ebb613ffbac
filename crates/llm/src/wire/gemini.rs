//! Gemini's own format: contents made of parts, arguments as objects, and signatures that must come back on the part
//! that they came with.

use std::collections::HashMap;

use protocol::Usage;
use protocol::chat::{Completion, Image, Message, Part, Request, Stop, ToolChoice, ToolResult};
use serde_json::{Value, json};

use super::{Fault, GEMINI_MARK, GEMINI_UNSIGNED, Parts, Progress, Sink, arguments, count, word};
use crate::complaint::Complaint;
use crate::model::Model;
use crate::quirks::{Quirks, Structured};
use crate::sse::Event;
use crate::thinking::{Split, split};

mod schema;

/// Marks a signature that came with a thought itself rather than with the part after it.
const THOUGHT_MARK: &str = "gemini-thought:";

/// Marks a signature that came with a text of nothing, which often ends an answer; it goes back on such a text.
const EMPTY_MARK: &str = "gemini-empty:";

/// The body of a call; the model is named in the address.
pub(crate) fn body(model: &Model, request: &Request, quirks: Quirks) -> Value {
    let mut body = json!({
        "contents": contents(request, nests_images(model), quirks.signatures),
        "generationConfig": {},
    });
    if !quirks.call_ids {
        drop_call_ids(&mut body["contents"]);
    }
    if let Some(temperature) = request.temperature {
        body["generationConfig"]["temperature"] = json!(temperature);
    }
    if !request.system.trim().is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": request.system}]});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut declaration = json!({"name": tool.name, "description": tool.description});
            if let Some(parameters) = schema::parameters(&tool.schema) {
                declaration["parameters"] = parameters;
            }
            declaration
        });
        body["tools"] = json!([{"functionDeclarations": tools.collect::<Vec<_>>()}]);
        let mode = match request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("ANY"),
            ToolChoice::Never => Some("NONE"),
        };
        if let Some(mode) = mode.filter(|_| quirks.tool_choice) {
            body["toolConfig"] = json!({"functionCallingConfig": {"mode": mode}});
        }
    }
    if let Some(answer) = &request.answer {
        let config = &mut body["generationConfig"];
        if matches!(quirks.structured, Structured::Schema | Structured::Told | Structured::Object) {
            config["responseMimeType"] = json!("application/json");
        }
        if matches!(quirks.structured, Structured::Schema | Structured::Told) {
            config["responseSchema"] = schema::reduced(&answer.schema);
        }
    }
    think(&mut body["generationConfig"], model, request.max_output_tokens, quirks);
    body
}

/// How much the model is to think, with room for it beside the answer. Gemini 3 and later take a level, earlier ones a
/// budget.
fn think(config: &mut Value, model: &Model, answer: u32, quirks: Quirks) {
    let thinking = model.thinking_as_told(answer, quirks.effort);
    config["maxOutputTokens"] = json!(answer.saturating_add(thinking));
    let Some(effort) = model.overrides.effort.filter(|_| quirks.effort) else { return };
    if !crate::profile::plain(&model.model).starts_with("gemini-2") {
        config["thinkingConfig"] = json!({"includeThoughts": true, "thinkingLevel": effort.name()});
        return;
    }
    let Split { limit, budget } = split(model, answer, effort);
    config["maxOutputTokens"] = json!(limit);
    config["thinkingConfig"] = json!({"includeThoughts": true, "thinkingBudget": budget});
}

/// The conversation. Results must stand directly after their calls, so what a person said in between comes after them.
fn contents(request: &Request, nests: bool, signs: bool) -> Vec<Value> {
    let mut contents: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut tools: HashMap<&str, &str> = HashMap::new();
    for message in &request.messages {
        match message {
            Message::User { text, images } => {
                let mut parts: Vec<Value> = images.iter().map(image_part).collect();
                match text.trim() {
                    // An empty text is refused, and a message must not vanish: a turn has to end with the user.
                    "" if parts.is_empty() => parts.push(json!({"text": "(empty)"})),
                    "" => {}
                    _ => parts.push(json!({"text": text})),
                }
                contents.push(("user", parts));
            }
            Message::Assistant { parts } => {
                let sent = model_parts(parts, signs);
                for part in parts {
                    if let Part::Call(call) = part {
                        tools.insert(&call.id, &call.tool);
                    }
                }
                match contents.last_mut() {
                    _ if sent.is_empty() => {}
                    Some(("model", earlier)) => earlier.extend(sent),
                    _ => contents.push(("model", sent)),
                }
            }
            Message::Tools { results } => {
                let responses =
                    results.iter().flat_map(|result| response_parts(result, &tools, nests)).collect();
                let place = contents.iter().rposition(|(role, _)| *role == "model");
                contents.insert(place.map_or(contents.len(), |place| place + 1), ("user", responses));
            }
        }
    }
    contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

/// Whether a model takes images inside of results; those before it only take them beside results.
fn nests_images(model: &Model) -> bool {
    let name = crate::profile::plain(&model.model);
    name.starts_with("gemini-") && !["gemini-1", "gemini-2"].iter().any(|old| name.starts_with(old))
}

fn image_part(image: &Image) -> Value {
    json!({"inlineData": {"mimeType": image.file.media_type, "data": &*image.data}})
}

/// A result with its images: inside it for a model that `nests` them, and else right after it.
fn response_parts(result: &ToolResult, tools: &HashMap<&str, &str>, nests: bool) -> Vec<Value> {
    let tool = tools.get(result.call_id.as_str()).copied().unwrap_or_default();
    let key = if result.is_error { "error" } else { "output" };
    let mut part = json!({"functionResponse": {"id": word(&result.call_id, 128), "name": word(tool, 64),
        "response": {key: result.text}}});
    let images: Vec<Value> = result.images.iter().map(image_part).collect();
    if nests && !images.is_empty() {
        part["functionResponse"]["parts"] = Value::Array(images);
        return vec![part];
    }
    std::iter::once(part).chain(images).collect()
}

/// Takes the ids of calls away; results belong to their calls by their order then.
fn drop_call_ids(contents: &mut Value) {
    let contents = contents.as_array_mut().into_iter().flatten();
    for part in contents.filter_map(|content| content["parts"].as_array_mut()).flatten() {
        for kind in ["functionCall", "functionResponse"] {
            if let Some(fields) = part.get_mut(kind).and_then(Value::as_object_mut) {
                fields.remove("id");
            }
        }
    }
}

/// What goes back of an assistant message, with its signatures if the server takes them.
fn model_parts(parts: &[Part], signs: bool) -> Vec<Value> {
    let mut sent = Vec::new();
    let mut signed: Option<&str> = None;
    let mut called = false;
    for part in parts {
        let mut value = match part {
            Part::Reasoning { .. } if !signs => continue,
            Part::Reasoning { text, signature } => {
                let signature = signature.as_deref().unwrap_or_default();
                if let Some(signature) = signature.strip_prefix(THOUGHT_MARK) {
                    sent.push(json!({"text": text, "thought": true, "thoughtSignature": signature}));
                } else if let Some(signature) = signature.strip_prefix(EMPTY_MARK) {
                    sent.push(json!({"text": "", "thoughtSignature": signature}));
                } else if let Some(signature) = signature.strip_prefix(GEMINI_MARK) {
                    signed = Some(signature);
                }
                continue;
            }
            Part::Text { text } if text.trim().is_empty() => continue,
            Part::Text { text } => json!({"text": text}),
            Part::Call(call) => {
                // A step whose first call has no signature is refused.
                signed = signed.or((signs && !called).then_some(GEMINI_UNSIGNED));
                called = true;
                json!({"functionCall": {"id": word(&call.id, 128), "name": word(&call.tool, 64),
                    "args": arguments(&call.arguments)}})
            }
        };
        if let Some(signature) = signed.take() {
            value["thoughtSignature"] = json!(signature);
        }
        sent.push(value);
    }
    // In older logs a signature that came with a text of nothing looks like one of the part after it.
    if let Some(signature) = signed.filter(|_| !sent.is_empty()) {
        sent.push(json!({"text": "", "thoughtSignature": signature}));
    }
    sent
}

/// Folds chunks into a completion.
#[derive(Debug)]
pub(crate) struct Fold {
    parts: Parts,
    stop: Option<Stop>,
    usage: Usage,
}

impl Fold {
    /// An empty answer.
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts, stop: None, usage: Usage::default() }
    }

    fn chunk(&mut self, chunk: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if let Some(reported) = chunk.get("usageMetadata").filter(|usage| usage.is_object()) {
            self.usage = usage(reported);
        }
        if let Some(reason) = chunk.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
            self.refuse(reason, sink);
        }
        let Some(candidate) = chunk.pointer("/candidates/0") else { return Ok(()) };
        for part in candidate.pointer("/content/parts").and_then(Value::as_array).into_iter().flatten() {
            self.part(part, sink);
        }
        let said = candidate.get("finishMessage").and_then(Value::as_str).unwrap_or_default();
        match candidate.get("finishReason").and_then(Value::as_str) {
            None => {}
            Some("MAX_TOKENS") => self.stop = Some(Stop::Length),
            Some(
                reason @ ("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
                | "IMAGE_SAFETY" | "MODEL_ARMOR"),
            ) => self.refuse(reason, sink),
            // What the model wrote is its own mistake, so it is shown to it as the call that it was meant to be.
            Some(reason @ "MALFORMED_FUNCTION_CALL") if self.stop.is_none() => {
                self.parts.broken_call(reason, said, sink);
                self.stop = Some(Stop::End);
            }
            Some(reason @ ("UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS"))
                if self.stop.is_none() && self.parts.calls() == 0 =>
            {
                self.parts.broken_call(reason, said, sink);
                self.stop = Some(Stop::End);
            }
            // Calls that are whole can be run all the same; words alone would pass for the end of the work.
            Some(reason) if reason != "STOP" && self.stop.is_none() && self.parts.calls() == 0 => {
                return Err(Fault::server(Complaint::stopped(format!("{reason} {said}").trim())));
            }
            Some(_) => self.stop = Some(Stop::End),
        }
        Ok(())
    }

    fn refuse(&mut self, reason: &str, sink: &mut Sink<'_>) {
        if self.stop != Some(Stop::Refusal) {
            self.parts.declined(reason, sink);
        }
        self.stop = Some(Stop::Refusal);
    }

    fn part(&mut self, part: &Value, sink: &mut Sink<'_>) {
        let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
        let signature = part.get("thoughtSignature").and_then(Value::as_str).filter(|text| !text.is_empty());
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            self.parts.reasoning(text, sink);
            if let Some(signature) = signature {
                self.parts.sign(format!("{THOUGHT_MARK}{signature}"));
            }
            return;
        }
        let call = part.get("functionCall");
        // It is kept before its part, as the chat format keeps it, so that a model can be reached in either.
        if let Some(signature) = signature {
            let mark = if text.is_empty() && call.is_none() { EMPTY_MARK } else { GEMINI_MARK };
            self.parts.sign(format!("{mark}{signature}"));
        }
        self.parts.text(text, sink);
        if let Some(call) = call {
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
            let number = self.parts.begin_call(field("id"), field("name"), sink);
            let arguments = call.get("args").filter(|arguments| !arguments.is_null());
            self.parts.grow_call(number, &arguments.map(Value::to_string).unwrap_or_default(), sink);
        }
    }
}

impl super::Fold for Fold {
    fn event(&mut self, event: &Event, sink: &mut Sink<'_>) -> Result<Progress, Fault> {
        if let Some(chunk) = super::read(event, super::is_plain_name)? {
            self.chunk(&chunk, sink)?;
        }
        Ok(if self.stop.is_some() { Progress::Settled } else { Progress::Open })
    }

    fn whole(&mut self, answer: &Value, sink: &mut Sink<'_>) -> Result<(), Fault> {
        // A proxy that drops the query makes the stream one array of chunks.
        let chunks = answer.as_array().map_or(std::slice::from_ref(answer), Vec::as_slice);
        for chunk in chunks {
            self.chunk(chunk, sink)?;
        }
        match self.stop {
            Some(_) => Ok(()),
            None if chunks.iter().any(|chunk| chunk.get("candidates").is_some()) => Err(Fault::BrokeOff),
            None => Err(Fault::malformed("has no candidates, so the model said nothing")),
        }
    }

    fn finish(self: Box<Self>) -> Result<Completion, Fault> {
        let stop = match self.stop {
            None => return Err(Fault::BrokeOff),
            Some(Stop::End) if self.parts.calls() > 0 => Stop::Tools,
            Some(stop) => stop,
        };
        Ok(Completion { parts: self.parts.finish(), stop, usage: self.usage })
    }

    fn so_far(&mut self) -> (&mut Parts, Usage) {
        (&mut self.parts, self.usage)
    }
}

/// Usage in parts that do not overlap: thoughts are counted apart from the answer, cached tokens within the prompt.
fn usage(reported: &Value) -> Usage {
    let prompt =
        count(reported, "/promptTokenCount").saturating_add(count(reported, "/toolUsePromptTokenCount"));
    let cache_read = count(reported, "/cachedContentTokenCount").min(prompt);
    Usage {
        input: prompt - cache_read,
        cache_read,
        cache_write: 0,
        output: count(reported, "/candidatesTokenCount"),
        reasoning: count(reported, "/thoughtsTokenCount"),
        estimated: 0,
    }
}

#[cfg(test)]
mod tests;
