//! Anthropic's messages: strict reading of requests, and answers as Anthropic sends them.

use protocol::Usage;
use protocol::chat::{Call, Message, Part, Stop, ToolResult};
use serde_json::{Value, json};

use super::chat::pieces;
use super::picture::{self, Said};
use super::reply::Answer;
use super::request::{Object, Request, Violation, check_name, check_pairs, check_tools, is_word, tool};

const FIELDS: &[&str] = &[
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "output_config",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

/// Cache breakpoints in one request.
const BREAKPOINTS: usize = 4;

/// Reads the body into the request.
pub(super) fn read(request: &mut Request) -> Result<(), Violation> {
    let json = request.json.clone();
    if request.header("anthropic-version") != Some("2023-06-01") {
        return Err("the anthropic-version header must be 2023-06-01".to_owned());
    }
    if request.header("x-api-key").is_some_and(|key| key.trim().is_empty()) {
        return Err("the x-api-key header is empty".to_owned());
    }
    let body = Object::new(&json, "the body")?.only(FIELDS)?;
    body.text("model")?.clone_into(&mut request.model);
    request.stream = body.flag("stream")?;
    request.max_output_tokens = Some(body.limit("max_tokens")?.ok_or("the body lacks max_tokens")?);
    let mut breakpoints = Breakpoints(0);
    for value in body.optional_list("tools")? {
        let entry = Object::new(value, "a tool")?.only(&[
            "name",
            "description",
            "input_schema",
            "cache_control",
            "type",
        ])?;
        breakpoints.count(entry)?;
        let schema = entry.get("input_schema").unwrap_or(&Value::Null);
        request.tools.push(tool(entry.text("name")?, entry.get("description"), schema)?);
    }
    check_tools(&request.tools)?;
    request.system = match body.get("system") {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => {
            let mut system = String::new();
            for value in body.list("system")? {
                system.push_str(text_block(value, &mut breakpoints)?);
            }
            system
        }
    };
    read_messages(request, body.list("messages")?, &mut breakpoints)
}

/// Counts cache breakpoints.
struct Breakpoints(usize);

impl Breakpoints {
    fn count(&mut self, block: Object<'_>) -> Result<(), Violation> {
        let Some(control) = block.get("cache_control") else { return Ok(()) };
        let control = Object::new(control, "cache_control")?.only(&["type", "ttl"])?;
        if control.text("type")? != "ephemeral" {
            return Err("cache_control must have the type \"ephemeral\"".to_owned());
        }
        self.0 += 1;
        if self.0 > BREAKPOINTS {
            return Err(format!("there are more than {BREAKPOINTS} cache breakpoints"));
        }
        Ok(())
    }
}

fn text_block<'a>(value: &'a Value, breakpoints: &mut Breakpoints) -> Result<&'a str, Violation> {
    let block = Object::new(value, "a text block")?.only(&["type", "text", "cache_control"])?;
    breakpoints.count(block)?;
    let text = block.text("text")?;
    if block.text("type")? != "text" || text.trim().is_empty() {
        return Err("a text block must have the type \"text\" and some text".to_owned());
    }
    Ok(text)
}

fn read_messages(
    request: &mut Request,
    messages: &[Value],
    breakpoints: &mut Breakpoints,
) -> Result<(), Violation> {
    let mut open: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, value) in messages.iter().enumerate() {
        let place = format!("message {index}");
        let message = Object::new(value, &place)?.only(&["role", "content"])?;
        let expected = if index % 2 == 0 { "user" } else { "assistant" };
        let role = message.text("role")?;
        if role != expected {
            return Err(format!(
                "{place} has the role {role:?}, but roles alternate and this is the {expected}'s"
            ));
        }
        let shorthand;
        let blocks = match message.get("content") {
            Some(Value::String(text)) => {
                shorthand = [json!({"type": "text", "text": text})];
                &shorthand
            }
            Some(_) | None => message.list("content")?,
        };
        if blocks.is_empty() {
            return Err(format!("{place} has no content"));
        }
        if role == "user" {
            read_user(request, blocks, &open, breakpoints)?;
            open.clear();
        } else {
            let parts = read_assistant(blocks, breakpoints)?;
            for part in &parts {
                let Part::Call(call) = part else { continue };
                if seen.contains(&call.id) {
                    return Err(format!("the call id {:?} is there twice", call.id));
                }
                seen.push(call.id.clone());
                open.push(call.id.clone());
            }
            request.messages.push(Message::Assistant { parts });
        }
    }
    match messages.len() {
        0 => Err("messages is empty".to_owned()),
        length if length % 2 == 0 => Err("the conversation ends with the assistant".to_owned()),
        _ => Ok(()),
    }
}

/// A user message: the results of the calls before it, then what was said.
fn read_user(
    request: &mut Request,
    blocks: &[Value],
    open: &[String],
    breakpoints: &mut Breakpoints,
) -> Result<(), Violation> {
    let mut results = Vec::new();
    let mut said = Said::default();
    for value in blocks {
        let block = Object::new(value, "a content block")?;
        match block.text("type")? {
            "text" => said.text(text_block(value, breakpoints)?.to_owned()),
            "image" => {
                breakpoints.count(block)?;
                said.image(picture::from_block(block)?);
            }
            "tool_result" if !said.is_empty() => {
                return Err("tool results must come before text in a user message".to_owned());
            }
            "tool_result" => {
                let block = block.only(&["type", "tool_use_id", "content", "is_error", "cache_control"])?;
                breakpoints.count(block)?;
                let (mut text, mut images) = (String::new(), Vec::new());
                match block.get("content") {
                    None => {}
                    Some(Value::String(whole)) => text.clone_from(whole),
                    Some(_) => {
                        for value in block.list("content")? {
                            let part = Object::new(value, "a part of a tool result")?;
                            match part.text("type")? {
                                "image" => images.push(picture::from_block(part)?),
                                _ => text.push_str(text_block(value, breakpoints)?),
                            }
                        }
                    }
                }
                let call_id = block.text("tool_use_id")?.to_owned();
                results.push(ToolResult { call_id, text, is_error: block.flag("is_error")?, images });
            }
            other => return Err(format!("a user message cannot have a block of type {other:?}")),
        }
    }
    check_pairs(open, &results)?;
    if !results.is_empty() {
        request.messages.push(Message::Tools { results });
    }
    request.messages.extend(said.messages());
    Ok(())
}

fn read_assistant(blocks: &[Value], breakpoints: &mut Breakpoints) -> Result<Vec<Part>, Violation> {
    let mut parts = Vec::new();
    for value in blocks {
        let block = Object::new(value, "a content block")?;
        parts.push(match block.text("type")? {
            "text" => Part::Text { text: text_block(value, breakpoints)?.to_owned() },
            "thinking" => {
                let block = block.only(&["type", "thinking", "signature"])?;
                let signature = block.text("signature")?.to_owned();
                if signature.is_empty() {
                    return Err("a thinking block has an empty signature".to_owned());
                }
                Part::Reasoning { text: block.text("thinking")?.to_owned(), signature: Some(signature) }
            }
            "redacted_thinking" => {
                let block = block.only(&["type", "data"])?;
                Part::Reasoning { text: String::new(), signature: Some(block.text("data")?.to_owned()) }
            }
            "tool_use" => {
                let block = block.only(&["type", "id", "name", "input", "cache_control"])?;
                breakpoints.count(block)?;
                let (id, tool) = (block.text("id")?, block.text("name")?);
                check_name(tool)?;
                if !is_word(id) {
                    return Err(format!(
                        "the call id {id:?} must be letters, digits, underscores or hyphens"
                    ));
                }
                let input = block.get("input").filter(|input| input.is_object());
                let input = input.ok_or_else(|| format!("the input of the call {id:?} must be an object"))?;
                Part::Call(Call { id: id.to_owned(), tool: tool.to_owned(), arguments: input.to_string() })
            }
            other => return Err(format!("an assistant message cannot have a block of type {other:?}")),
        });
    }
    Ok(parts)
}

/// The answer as named events.
pub(super) fn events(answer: &Answer, request: &Request, number: usize) -> Vec<Vec<u8>> {
    let usage = answer.usage(&request.json).unwrap_or_default();
    let mut start = usage_json(usage);
    start["output_tokens"] = json!(1);
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "content": [],
        "model": request.model, "stop_reason": null, "stop_sequence": null, "usage": start});
    let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    let mut calls = 0;
    for (index, part) in answer.parts.iter().enumerate() {
        let (block, deltas) = match part {
            Part::Text { text } => {
                let deltas = pieces(text).map(|piece| json!({"type": "text_delta", "text": piece}));
                (json!({"type": "text", "text": ""}), deltas.collect::<Vec<_>>())
            }
            Part::Reasoning { text, signature } => {
                let deltas = pieces(text).map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
                let signature =
                    signature.iter().map(|text| json!({"type": "signature_delta", "signature": text}));
                (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas.chain(signature).collect(),
                )
            }
            Part::Call(call) => {
                let deltas = pieces(&call.arguments)
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
                let id = call_id(number, calls);
                calls += 1;
                (json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}}), deltas.collect())
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            deltas
                .into_iter()
                .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason(answer.stop()), "stop_sequence": null},
        "usage": {"output_tokens": usage.output + usage.reasoning},
    }));
    events.push(json!({"type": "message_stop"}));
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", name(event)).into_bytes()).collect()
}

/// The answer as one object.
pub(super) fn whole(answer: &Answer, request: &Request, number: usize) -> Value {
    let mut calls = 0;
    let content = answer.parts.iter().map(|part| match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        Part::Reasoning { text, signature } => {
            json!({"type": "thinking", "thinking": text, "signature": signature.as_deref().unwrap_or_default()})
        }
        Part::Call(call) => {
            let id = call_id(number, calls);
            calls += 1;
            // This format has no place for broken JSON.
            let input = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            json!({"type": "tool_use", "id": id, "name": call.tool, "input": input})
        }
    });
    let content: Vec<Value> = content.collect();
    json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "content": content,
        "model": request.model, "stop_reason": reason(answer.stop()), "stop_sequence": null,
        "usage": usage_json(answer.usage(&request.json).unwrap_or_default())})
}

/// An error as Anthropic words it.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

fn call_id(number: usize, index: usize) -> String {
    format!("toolu_{number}_{index}")
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "end_turn",
        Stop::Tools => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Window => "model_context_window_exceeded",
        Stop::Refusal => "refusal",
    }
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output + usage.reasoning,
    })
}
