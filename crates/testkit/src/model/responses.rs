//! OpenAI's responses: strict reading of requests, and answers as OpenAI sends them.

use protocol::Usage;
use protocol::chat::{Call, Image, Message, Part, Stop, ToolResult};
use serde_json::{Value, json};

use super::chat::{bearer, pieces};
use super::picture;
use super::reply::Answer;
use super::request::{Object, Request, Violation, check_name, check_pairs, check_tools, tool};

const FIELDS: &[&str] = &[
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "metadata",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "reasoning",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// What can be asked for in addition, as far as it is known here.
const INCLUDES: &[&str] = &["reasoning.encrypted_content", "message.output_text.logprobs"];

/// Reads the body into the request.
pub(super) fn read(request: &mut Request) -> Result<(), Violation> {
    let json = request.json.clone();
    if request.header("authorization").is_some_and(|value| bearer(value).is_none()) {
        return Err("the authorization header must be \"Bearer\" and a key".to_owned());
    }
    let body = Object::new(&json, "the body")?.only(FIELDS)?;
    body.text("model")?.clone_into(&mut request.model);
    request.stream = body.flag("stream")?;
    request.max_output_tokens = body.limit("max_output_tokens")?;
    if body.get("instructions").is_some() {
        body.text("instructions")?.clone_into(&mut request.system);
    }
    for value in body.optional_list("include")? {
        if !value.as_str().is_some_and(|name| INCLUDES.contains(&name)) {
            return Err(format!("include cannot have {value}"));
        }
    }
    for value in body.optional_list("tools")? {
        let known = ["type", "name", "description", "parameters", "strict"];
        let entry = Object::new(value, "a tool")?.only(&known)?;
        if entry.text("type")? != "function" {
            return Err("a tool must have the type \"function\"".to_owned());
        }
        if entry.get("strict").and_then(Value::as_bool) != Some(false) {
            return Err("a tool must have strict set to false, or a schema for strict mode".to_owned());
        }
        let schema = entry.get("parameters").unwrap_or(&Value::Null);
        request.tools.push(tool(entry.text("name")?, entry.get("description"), schema)?);
    }
    check_tools(&request.tools)?;
    if body.get("store") != Some(&Value::Bool(false)) {
        return Err("store must be false: nothing is kept here".to_owned());
    }
    match body.get("input") {
        Some(Value::String(text)) => {
            request.messages.push(Message::user(text.clone()));
            Ok(())
        }
        Some(_) | None => read_items(request, body.list("input")?),
    }
}

/// Reads the items; those of the model that stand together become one message, and so do results.
fn read_items(request: &mut Request, items: &[Value]) -> Result<(), Violation> {
    let mut open: Vec<String> = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    let mut results: Vec<ToolResult> = Vec::new();
    let mut reasoned = false;
    for (index, value) in items.iter().enumerate() {
        let place = format!("item {index}");
        let item = Object::new(value, &place)?;
        let kind = if item.get("type").is_some() { item.text("type")? } else { "message" };
        let from_user = kind == "message" && item.text("role")? != "assistant";
        if reasoned && (from_user || kind == "function_call_output") {
            return Err(format!("{place} follows a reasoning item, which needs the item that it led to"));
        }
        reasoned = kind == "reasoning";
        if kind == "function_call_output" {
            let item = item.only(&["type", "id", "call_id", "output", "status"])?;
            let call_id = item.text("call_id")?.to_owned();
            let (text, images) = shown(item, "output")?;
            results.push(ToolResult { call_id, text, is_error: false, images });
            continue;
        }
        if !results.is_empty() || from_user {
            check_pairs(&open, &results)?;
            open.clear();
        }
        if !results.is_empty() {
            request.messages.push(Message::Tools { results: std::mem::take(&mut results) });
        }
        let part = match kind {
            "message" if from_user => {
                read_message(request, item, &place)?;
                continue;
            }
            "message" => {
                let item = item.only(&["type", "id", "role", "content", "status", "phase"])?;
                Part::Text { text: content(item, &["output_text"])? }
            }
            "reasoning" => read_reasoning(item)?,
            "function_call" => {
                let call = read_call(item)?;
                if seen.contains(&call.id) {
                    return Err(format!("the call id {:?} is there twice", call.id));
                }
                seen.push(call.id.clone());
                open.push(call.id.clone());
                Part::Call(call)
            }
            other => return Err(format!("{place} has the unknown type {other:?}")),
        };
        match request.messages.last_mut() {
            Some(Message::Assistant { parts }) => parts.push(part),
            _ => request.messages.push(Message::Assistant { parts: vec![part] }),
        }
    }
    check_pairs(&open, &results)?;
    if !results.is_empty() {
        request.messages.push(Message::Tools { results });
    }
    match request.messages.last() {
        Some(Message::User { .. } | Message::Tools { .. }) => Ok(()),
        Some(Message::Assistant { .. }) => Err("the conversation ends with the assistant".to_owned()),
        None => Err("input has nothing to answer".to_owned()),
    }
}

fn read_message(request: &mut Request, item: Object<'_>, place: &str) -> Result<(), Violation> {
    let item = item.only(&["type", "id", "role", "content", "status"])?;
    let (text, images) = shown(item, "content")?;
    match item.text("role")? {
        "user" => request.messages.push(Message::User { text, images }),
        "system" | "developer" => request.system.push_str(&text),
        other => return Err(format!("{place} has the unknown role {other:?}")),
    }
    Ok(())
}

fn read_reasoning(item: Object<'_>) -> Result<Part, Violation> {
    let item = item.only(&["type", "id", "summary", "content", "encrypted_content", "status"])?;
    let mut text = String::new();
    for block in item.list("summary")? {
        text.push_str(Object::new(block, "a summary")?.only(&["type", "text"])?.text("text")?);
    }
    let signature = item.text("encrypted_content")?;
    if item.get("id").is_some() && !item.text("id")?.starts_with("rs_") {
        return Err("the id of a reasoning item must begin with \"rs_\"".to_owned());
    }
    if signature.is_empty() {
        return Err("a reasoning item has an empty encrypted_content".to_owned());
    }
    Ok(Part::Reasoning { text, signature: Some(signature.to_owned()) })
}

fn read_call(item: Object<'_>) -> Result<Call, Violation> {
    let item = item.only(&["type", "id", "call_id", "name", "arguments", "status"])?;
    let (id, tool, arguments) = (item.text("call_id")?, item.text("name")?, item.text("arguments")?);
    check_name(tool)?;
    if id.is_empty() || id.len() > 64 {
        return Err(format!("the call id {id:?} must have 1 to 64 characters"));
    }
    if !matches!(serde_json::from_str(arguments), Ok(Value::Object(_))) {
        return Err(format!("the arguments of the call {id:?} are not a JSON object"));
    }
    Ok(Call { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() })
}

/// What a person said or a call gave: a string, or parts with images.
fn shown(item: Object<'_>, field: &str) -> Result<(String, Vec<Image>), Violation> {
    if let Some(Value::String(text)) = item.get(field) {
        return Ok((text.clone(), Vec::new()));
    }
    let (mut text, mut images) = (String::new(), Vec::new());
    for part in item.list(field)? {
        let part = Object::new(part, "a content part")?;
        match part.text("type")? {
            "input_text" => text.push_str(part.only(&["type", "text"])?.text("text")?),
            "input_image" => {
                let part = part.only(&["type", "image_url", "detail"])?;
                images.push(picture::from_url(part.text("image_url")?)?);
            }
            other => return Err(format!("a content part of this role cannot have the type {other:?}")),
        }
    }
    Ok((text, images))
}

/// The text of a message: a string, or blocks of the types that its role may have.
fn content(item: Object<'_>, types: &[&str]) -> Result<String, Violation> {
    if let Some(Value::String(text)) = item.get("content") {
        return Ok(text.clone());
    }
    let mut text = String::new();
    for block in item.list("content")? {
        let block = Object::new(block, "a content part")?.only(&["type", "text", "annotations"])?;
        let kind = block.text("type")?;
        if !types.contains(&kind) {
            return Err(format!("a content part of this role cannot have the type {kind:?}"));
        }
        text.push_str(block.text("text")?);
    }
    Ok(text)
}

/// The answer as named events.
pub(super) fn events(answer: &Answer, request: &Request, number: usize) -> Vec<Vec<u8>> {
    let mut opening = whole(answer, request, number);
    opening["status"] = json!("in_progress");
    opening["output"] = json!([]);
    opening["usage"] = Value::Null;
    opening["incomplete_details"] = Value::Null;
    let mut events = vec![
        json!({"type": "response.created", "response": opening}),
        json!({"type": "response.in_progress", "response": opening}),
    ];
    for (index, item) in items(answer, number).iter().enumerate() {
        let mut begun = item.clone();
        begun["status"] = json!("in_progress");
        let id = &item["id"];
        let event = |kind: &str, name: &str, value: Value| json!({"type": format!("response.{kind}"), "output_index": index, "item_id": id, name: value});
        let mut inner = Vec::new();
        match item["type"].as_str() {
            Some("message") => {
                begun["content"] = json!([]);
                let block = &item["content"][0];
                let name = if block["type"] == "refusal" { "refusal" } else { "output_text" };
                let text = block["text"].as_str().or(block["refusal"].as_str()).unwrap_or_default();
                inner.push(event("content_part.added", "content_index", json!(0)));
                inner
                    .extend(pieces(text).map(|piece| event(&format!("{name}.delta"), "delta", json!(piece))));
                inner.push(event(&format!("{name}.done"), "text", json!(text)));
                inner.push(event("content_part.done", "content_index", json!(0)));
            }
            Some("reasoning") => {
                begun["summary"] = json!([]);
                if let Some(text) = item["summary"][0]["text"].as_str() {
                    inner.push(event("reasoning_summary_part.added", "summary_index", json!(0)));
                    inner.extend(
                        pieces(text)
                            .map(|piece| event("reasoning_summary_text.delta", "delta", json!(piece))),
                    );
                    inner.push(event("reasoning_summary_text.done", "text", json!(text)));
                }
            }
            _ => {
                begun["arguments"] = json!("");
                let text = item["arguments"].as_str().unwrap_or_default();
                let kind = "function_call_arguments";
                inner
                    .extend(pieces(text).map(|piece| event(&format!("{kind}.delta"), "delta", json!(piece))));
                inner.push(event(&format!("{kind}.done"), "arguments", json!(text)));
            }
        }
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        events.append(&mut inner);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let last = whole(answer, request, number);
    let kind = last["status"].as_str().unwrap_or_default();
    events.push(json!({"type": format!("response.{kind}"), "response": last}));
    let numbered = events.iter_mut().enumerate().map(|(number, event)| {
        event["sequence_number"] = json!(number);
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}\n\n").into_bytes()
    });
    numbered.collect()
}

/// The parts as output items.
fn items(answer: &Answer, number: usize) -> Vec<Value> {
    let mut items = Vec::new();
    for (index, part) in answer.parts.iter().enumerate() {
        items.push(match part {
            Part::Text { text } => {
                let block = if answer.stop() == Stop::Refusal {
                    json!({"type": "refusal", "refusal": text})
                } else {
                    json!({"type": "output_text", "text": text, "annotations": []})
                };
                json!({"type": "message", "id": format!("msg_{number}_{index}"), "role": "assistant",
                    "status": "completed", "content": [block]})
            }
            Part::Reasoning { text, signature } => {
                json!({"type": "reasoning", "id": format!("rs_{number}_{index}"),
                    "summary": [{"type": "summary_text", "text": text}], "encrypted_content": signature})
            }
            Part::Call(call) => {
                json!({"type": "function_call", "id": format!("fc_{number}_{index}"), "status": "completed",
                    "call_id": format!("call_{number}_{index}"), "name": call.tool, "arguments": call.arguments})
            }
        });
    }
    items
}

/// The answer as one object.
pub(super) fn whole(answer: &Answer, request: &Request, number: usize) -> Value {
    let (status, details) = match answer.stop() {
        Stop::Length | Stop::Window => ("incomplete", json!({"reason": "max_output_tokens"})),
        Stop::End | Stop::Tools | Stop::Refusal => ("completed", Value::Null),
    };
    json!({"id": format!("resp_{number}"), "object": "response", "created_at": 0, "model": request.model,
        "status": status, "error": null, "incomplete_details": details, "output": items(answer, number),
        "usage": answer.usage(&request.json).map(usage_json)})
}

fn usage_json(usage: Usage) -> Value {
    let (input, output) = (usage.prompt(), usage.output + usage.reasoning);
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": input + output,
    })
}
