//! Chat completions: strict reading of requests, and answers as OpenAI sends them.

use protocol::Usage;
use protocol::chat::{Call, Image, Message, Part, Stop, ToolResult};
use serde_json::{Value, json};

use super::picture;
use super::reply::Answer;
use super::request::{Object, Request, Violation, check_name, check_pairs, check_tools, tool};

const FIELDS: &[&str] = &[
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "n",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_p",
    "user",
];

/// Reads the body into the request.
pub(super) fn read(request: &mut Request) -> Result<(), Violation> {
    let json = request.json.clone();
    if request.header("authorization").is_some_and(|value| bearer(value).is_none()) {
        return Err("the authorization header must be \"Bearer\" and a key".to_owned());
    }
    let body = Object::new(&json, "the body")?.only(FIELDS)?;
    body.text("model")?.clone_into(&mut request.model);
    request.stream = body.flag("stream")?;
    if let Some(options) = body.get("stream_options") {
        if !request.stream {
            return Err("stream_options is only allowed with stream".to_owned());
        }
        let options = Object::new(options, "stream_options")?.only(&["include_usage"])?;
        request.stream_usage = options.flag("include_usage")?;
    }
    request.max_output_tokens = match (body.limit("max_tokens")?, body.limit("max_completion_tokens")?) {
        (Some(_), Some(_)) => {
            return Err("max_tokens and max_completion_tokens exclude each other".to_owned());
        }
        (old, new) => old.or(new),
    };
    for value in body.optional_list("tools")? {
        let entry = Object::new(value, "a tool")?.only(&["type", "function"])?;
        if entry.text("type")? != "function" {
            return Err("a tool must have the type \"function\"".to_owned());
        }
        let function = Object::new(entry.get("function").unwrap_or(&Value::Null), "the function of a tool")?;
        let function = function.only(&["name", "description", "parameters", "strict"])?;
        let schema = function.get("parameters").unwrap_or(&Value::Null);
        request.tools.push(tool(function.text("name")?, function.get("description"), schema)?);
    }
    if body.get("tools").is_some() && request.tools.is_empty() {
        return Err("tools must not be empty".to_owned());
    }
    check_tools(&request.tools)?;
    read_messages(request, body.list("messages")?)
}

/// The key in an authorization header.
pub(super) fn bearer(value: &str) -> Option<&str> {
    value.strip_prefix("Bearer ").filter(|key| !key.trim().is_empty())
}

fn read_messages(request: &mut Request, messages: &[Value]) -> Result<(), Violation> {
    let mut open: Vec<String> = Vec::new();
    let mut results: Vec<ToolResult> = Vec::new();
    for (index, value) in messages.iter().enumerate() {
        let place = format!("message {index}");
        let message = Object::new(value, &place)?;
        let role = message.text("role")?;
        if role == "tool" {
            let message = message.only(&["role", "tool_call_id", "content"])?;
            let text = content(message, &place)?.ok_or_else(|| format!("{place} lacks content"))?;
            let call_id = message.text("tool_call_id")?.to_owned();
            results.push(ToolResult { call_id, text, is_error: false, images: Vec::new() });
            continue;
        }
        close(request, &mut open, &mut results)?;
        match role {
            "system" | "developer" => {
                let message = message.only(&["role", "content", "name"])?;
                let text = content(message, &place)?.ok_or_else(|| format!("{place} lacks content"))?;
                if !request.messages.is_empty() {
                    return Err(format!("{place} is a {role} message after the conversation began"));
                }
                request.system.push_str(&text);
            }
            "user" => {
                let message = message.only(&["role", "content", "name"])?;
                let (text, images) = shown(message, &place)?;
                request.messages.push(Message::User { text, images });
            }
            "assistant" => {
                let message = message.only(&[
                    "role",
                    "content",
                    "name",
                    "refusal",
                    "tool_calls",
                    "reasoning_content",
                ])?;
                let mut parts = Vec::new();
                if let Some(text) = content(message, &place)?.filter(|text| !text.is_empty()) {
                    parts.push(Part::Text { text });
                }
                for value in message.optional_list("tool_calls")? {
                    let call = read_call(value)?;
                    if open.contains(&call.id) {
                        return Err(format!("{place} has two calls with the id {:?}", call.id));
                    }
                    open.push(call.id.clone());
                    parts.push(Part::Call(call));
                }
                if parts.is_empty() {
                    return Err(format!("{place} has neither content nor tool calls"));
                }
                request.messages.push(Message::Assistant { parts });
            }
            other => return Err(format!("{place} has the unknown role {other:?}")),
        }
    }
    close(request, &mut open, &mut results)?;
    match request.messages.last() {
        Some(Message::User { .. } | Message::Tools { .. }) => Ok(()),
        Some(Message::Assistant { .. }) => Err("the conversation ends with the assistant".to_owned()),
        None => Err("messages has nothing to answer".to_owned()),
    }
}

/// Ends a run of tool messages: each call before it must have its result.
fn close(
    request: &mut Request,
    open: &mut Vec<String>,
    results: &mut Vec<ToolResult>,
) -> Result<(), Violation> {
    check_pairs(open, results)?;
    open.clear();
    if !results.is_empty() {
        request.messages.push(Message::Tools { results: std::mem::take(results) });
    }
    Ok(())
}

/// The text of a message: a string, or text blocks.
fn content(message: Object<'_>, place: &str) -> Result<Option<String>, Violation> {
    match message.get("content") {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(blocks)) => {
            let mut text = String::new();
            for block in blocks {
                text.push_str(Object::new(block, "a content part")?.only(&["type", "text"])?.text("text")?);
            }
            Ok(Some(text))
        }
        Some(_) => Err(format!("content of {place} must be a string or an array")),
    }
}

/// What a person said, with images.
fn shown(message: Object<'_>, place: &str) -> Result<(String, Vec<Image>), Violation> {
    let Some(Value::Array(blocks)) = message.get("content") else {
        let text = content(message, place)?.ok_or_else(|| format!("{place} lacks content"))?;
        return Ok((text, Vec::new()));
    };
    let (mut text, mut images) = (String::new(), Vec::new());
    for block in blocks {
        let block = Object::new(block, "a content part")?;
        match block.text("type")? {
            "image_url" => {
                let url = block.only(&["type", "image_url"])?.get("image_url").unwrap_or(&Value::Null);
                let url = Object::new(url, "an image_url")?.only(&["url", "detail"])?;
                images.push(picture::from_url(url.text("url")?)?);
            }
            _ => text.push_str(block.only(&["type", "text"])?.text("text")?),
        }
    }
    Ok((text, images))
}

fn read_call(value: &Value) -> Result<Call, Violation> {
    let call = Object::new(value, "a tool call")?.only(&["id", "type", "function", "extra_content"])?;
    if call.text("type")? != "function" {
        return Err("a tool call must have the type \"function\"".to_owned());
    }
    let function = Object::new(call.get("function").unwrap_or(&Value::Null), "the function of a tool call")?;
    let function = function.only(&["name", "arguments"])?;
    let (id, tool, arguments) = (call.text("id")?, function.text("name")?, function.text("arguments")?);
    check_name(tool)?;
    if id.is_empty() {
        return Err("a tool call has an empty id".to_owned());
    }
    if !matches!(serde_json::from_str(arguments), Ok(Value::Object(_))) {
        return Err(format!("the arguments of the call {id:?} are not a JSON object"));
    }
    Ok(Call { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() })
}

/// The answer as events: data only, ended by `[DONE]`.
pub(super) fn events(answer: &Answer, request: &Request, number: usize) -> Vec<Vec<u8>> {
    let head = |choices: Value| {
        json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk", "created": 0,
            "model": request.model, "choices": choices})
    };
    let chunk = |delta: Value, reason: Option<&str>| {
        head(json!([{"index": 0, "delta": delta, "finish_reason": reason}]))
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    let mut index = 0;
    for part in &answer.parts {
        match part {
            Part::Text { text } => {
                chunks.extend(pieces(text).map(|piece| chunk(json!({"content": piece}), None)));
            }
            Part::Reasoning { text, .. } => {
                chunks.extend(pieces(text).map(|piece| chunk(json!({"reasoning_content": piece}), None)));
            }
            Part::Call(call) => {
                let grow = |value: Value| chunk(json!({"tool_calls": [value]}), None);
                chunks.push(grow(json!({"index": index, "id": call_id(number, index), "type": "function",
                    "function": {"name": call.tool, "arguments": ""}})));
                chunks.extend(
                    pieces(&call.arguments)
                        .map(|piece| grow(json!({"index": index, "function": {"arguments": piece}}))),
                );
                index += 1;
            }
        }
    }
    chunks.push(chunk(json!({}), Some(reason(answer.stop()))));
    if let Some(usage) = answer.usage(&request.json).filter(|_| request.stream_usage) {
        let mut last = head(json!([]));
        last["usage"] = usage_json(usage);
        chunks.push(last);
    }
    let mut events: Vec<Vec<u8>> =
        chunks.iter().map(|chunk| format!("data: {chunk}\n\n").into_bytes()).collect();
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

/// The answer as one object.
pub(super) fn whole(answer: &Answer, request: &Request, number: usize) -> Value {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &answer.parts {
        match part {
            Part::Text { text: piece } => text.push_str(piece),
            Part::Reasoning { text: piece, .. } => reasoning.push_str(piece),
            Part::Call(call) => calls.push(json!({"id": call_id(number, calls.len()), "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments}})),
        }
    }
    let mut message = json!({"role": "assistant", "content": text});
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let mut whole = json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion", "created": 0,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason(answer.stop())}]});
    if let Some(usage) = answer.usage(&request.json) {
        whole["usage"] = usage_json(usage);
    }
    whole
}

/// An error as OpenAI words it.
pub(super) fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        429 => "rate_limit_exceeded",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

fn call_id(number: usize, index: usize) -> String {
    format!("call_{number}_{index}")
}

fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::Tools => "tool_calls",
        Stop::Length | Stop::Window => "length",
        Stop::Refusal => "content_filter",
    }
}

fn usage_json(usage: Usage) -> Value {
    let (prompt, completion) = (usage.prompt(), usage.output + usage.reasoning);
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

/// A text in pieces of about a word, as models send it.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = letters.chunks(7).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}
