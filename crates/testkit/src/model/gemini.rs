//! Gemini's `generateContent`: strict reading of requests, and answers as Gemini sends them. Calls have no ids here, as
//! with most of its models, and arguments are objects: a call with broken ones ends the answer.

use protocol::Usage;
use protocol::chat::{Call, Message, Part, Stop, ToolResult};
use serde_json::{Value, json};

use super::chat::pieces;
use super::picture::{self, Said};
use super::reply::Answer;
use super::request::{Object, Request, Violation, check_name, check_pairs, check_tools, tool};

const FIELDS: &[&str] = &[
    "cachedContent",
    "contents",
    "generationConfig",
    "safetySettings",
    "systemInstruction",
    "toolConfig",
    "tools",
];

/// The keywords of a schema; the real server refuses all others by name.
const KEYWORDS: &[&str] = &[
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Stands for a signature that the client does not have.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Reads the body into the request, and the model from the last segment of the path.
pub(super) fn read(request: &mut Request, path: &str, query: &str) -> Result<(), Violation> {
    let json = request.json.clone();
    let call = path.rsplit('/').next().unwrap_or_default();
    let (model, verb) =
        call.rsplit_once(':').ok_or("the path names no method, such as :streamGenerateContent")?;
    model.clone_into(&mut request.model);
    request.stream = match verb {
        "streamGenerateContent" if query.split('&').any(|pair| pair == "alt=sse") => true,
        "streamGenerateContent" => return Err("streamGenerateContent wants alt=sse".to_owned()),
        "generateContent" => false,
        other => return Err(format!("there is no method {other:?}")),
    };
    if request.header("x-goog-api-key").is_some_and(|key| key.trim().is_empty()) {
        return Err("the x-goog-api-key header is empty".to_owned());
    }
    let body = Object::new(&json, "the body")?.only(FIELDS)?;
    if let Some(config) = body.get("generationConfig") {
        let known = [
            "maxOutputTokens",
            "responseMimeType",
            "responseSchema",
            "seed",
            "stopSequences",
            "temperature",
            "thinkingConfig",
            "topK",
            "topP",
        ];
        request.max_output_tokens =
            Object::new(config, "generationConfig")?.only(&known)?.limit("maxOutputTokens")?;
    }
    if let Some(system) = body.get("systemInstruction") {
        for part in Object::new(system, "systemInstruction")?.only(&["role", "parts"])?.list("parts")? {
            request.system.push_str(Object::new(part, "a part")?.only(&["text"])?.text("text")?);
        }
    }
    for value in body.optional_list("tools")? {
        let entry = Object::new(value, "a tool")?.only(&["functionDeclarations"])?;
        for value in entry.list("functionDeclarations")? {
            let known = ["name", "description", "parameters"];
            let declaration = Object::new(value, "a declaration")?.only(&known)?;
            let none = json!({"type": "object"});
            let schema = declaration.get("parameters");
            if let Some(schema) = schema {
                check_schema(schema)?;
            }
            let description = declaration.get("description");
            request.tools.push(tool(declaration.text("name")?, description, schema.unwrap_or(&none))?);
        }
    }
    check_tools(&request.tools)?;
    read_contents(request, body.list("contents")?)
}

fn check_schema(value: &Value) -> Result<(), Violation> {
    let schema = Object::new(value, "a schema")?.only(KEYWORDS)?;
    if schema.get("type").is_some() && schema.text("type")? == "object" && schema.get("properties").is_some()
    {
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.filter(|properties| !properties.is_empty());
        let properties = properties.ok_or("properties of an object must not be empty")?;
        for property in properties.values() {
            check_schema(property)?;
        }
        for name in schema.optional_list("required")? {
            if !name.as_str().is_some_and(|name| properties.contains_key(name)) {
                return Err(format!("required has {name}, which is no property"));
            }
        }
    }
    if let Some(items) = schema.get("items") {
        check_schema(items)?;
    }
    for choice in schema.optional_list("anyOf")? {
        check_schema(choice)?;
    }
    match schema.optional_list("enum")?.iter().find(|value| !value.is_string()) {
        Some(value) => Err(format!("enum has {value}, which is no string")),
        None => Ok(()),
    }
}

fn read_contents(request: &mut Request, contents: &[Value]) -> Result<(), Violation> {
    let mut open: Vec<Call> = Vec::new();
    for (index, value) in contents.iter().enumerate() {
        let place = format!("content {index}");
        let content = Object::new(value, &place)?.only(&["role", "parts"])?;
        let parts = content.list("parts")?;
        if parts.is_empty() {
            return Err(format!("{place} has no parts"));
        }
        match content.text("role")? {
            "user" => {
                read_user(request, parts, &open)?;
                open.clear();
            }
            "model" if index == 0 || !open.is_empty() => {
                return Err(format!("{place} must not be the model's"));
            }
            "model" => {
                let parts = read_model(parts, index)?;
                open.extend(parts.iter().filter_map(|part| match part {
                    Part::Call(call) => Some(call.clone()),
                    Part::Text { .. } | Part::Reasoning { .. } => None,
                }));
                request.messages.push(Message::Assistant { parts });
            }
            other => return Err(format!("{place} has the unknown role {other:?}")),
        }
    }
    match request.messages.last() {
        Some(Message::User { .. } | Message::Tools { .. }) => Ok(()),
        Some(Message::Assistant { .. }) => Err("the conversation ends with the model".to_owned()),
        None => Err("contents has nothing to answer".to_owned()),
    }
}

/// What a person said, or the results of the calls in the content before it.
fn read_user(request: &mut Request, parts: &[Value], open: &[Call]) -> Result<(), Violation> {
    let mut results: Vec<ToolResult> = Vec::new();
    let mut said = Said::default();
    for value in parts {
        let part = Object::new(value, "a part")?.only(&["text", "functionResponse", "inlineData"])?;
        if let Some(inline) = part.get("inlineData") {
            let image = picture::from_inline(inline)?;
            match results.last_mut().filter(|_| said.is_empty()) {
                Some(result) => result.images.push(image),
                None => said.image(image),
            }
            continue;
        }
        let Some(response) = part.get("functionResponse") else {
            let text = part.text("text")?.to_owned();
            if text.is_empty() {
                return Err("a text part is empty".to_owned());
            }
            said.text(text);
            continue;
        };
        let response =
            Object::new(response, "a functionResponse")?.only(&["id", "name", "response", "parts"])?;
        let name = response.text("name")?;
        // Without an id, results belong to the calls in their order.
        let call_id = match response.get("id") {
            Some(_) => response.text("id")?.to_owned(),
            None => open.get(results.len()).map(|call| call.id.clone()).unwrap_or_default(),
        };
        if open.iter().any(|call| call.id == call_id && call.tool != name) {
            return Err(format!("the result {call_id:?} names the tool {name:?}, which was not called"));
        }
        let object = response.get("response").unwrap_or(&Value::Null);
        let object = Object::new(object, "the response of a functionResponse")?;
        let is_error = object.get("error").is_some();
        let text = object.text(if is_error { "error" } else { "output" })?.to_owned();
        let mut images = Vec::new();
        for part in response.optional_list("parts")? {
            let part = Object::new(part, "a part of a functionResponse")?.only(&["inlineData"])?;
            images.push(picture::from_inline(part.get("inlineData").unwrap_or(&Value::Null))?);
        }
        results.push(ToolResult { call_id, text, is_error, images });
    }
    let ids: Vec<String> = open.iter().map(|call| call.id.clone()).collect();
    check_pairs(&ids, &results)?;
    if !results.is_empty() {
        request.messages.push(Message::Tools { results });
    }
    request.messages.extend(said.messages());
    Ok(())
}

fn read_model(parts: &[Value], content: usize) -> Result<Vec<Part>, Violation> {
    let mut read = Vec::new();
    let mut calls = 0;
    for value in parts {
        let part =
            Object::new(value, "a part")?.only(&["text", "thought", "thoughtSignature", "functionCall"])?;
        let signature = match part.get("thoughtSignature") {
            Some(_) => Some(part.text("thoughtSignature")?.to_owned()),
            None => None,
        };
        if part.get("functionCall").is_some() && calls == 0 && signature.is_none() {
            return Err("the first function call of a step is missing a thought_signature".to_owned());
        }
        if part.flag("thought")? {
            read.push(Part::Reasoning { text: part.text("text")?.to_owned(), signature });
            continue;
        }
        if let Some(signature) = signature.filter(|signature| signature != UNSIGNED) {
            read.push(Part::Reasoning { text: String::new(), signature: Some(signature) });
        }
        let Some(call) = part.get("functionCall") else {
            read.push(Part::Text { text: part.text("text")?.to_owned() });
            continue;
        };
        let call = Object::new(call, "a functionCall")?.only(&["id", "name", "args"])?;
        let name = call.text("name")?;
        check_name(name)?;
        let arguments = call.get("args").cloned().unwrap_or_else(|| json!({}));
        if !arguments.is_object() {
            return Err(format!("args of a call of {name:?} must be an object"));
        }
        let id = match call.get("id") {
            Some(_) => call.text("id")?.to_owned(),
            None => format!("{content}_{calls}"),
        };
        calls += 1;
        read.push(Part::Call(Call { id, tool: name.to_owned(), arguments: arguments.to_string() }));
    }
    Ok(read)
}

/// The answer as events: chunks with data only, of which the last says why it ended.
pub(super) fn events(answer: &Answer, request: &Request, number: usize) -> Vec<Vec<u8>> {
    let (parts, malformed) = parts(answer, Texts::Pieces);
    let mut chunks: Vec<Value> = parts.into_iter().map(|part| chunk(&[part], request, number)).collect();
    chunks.push(last(chunk(&[json!({"text": ""})], request, number), answer, request, malformed));
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n").into_bytes()).collect()
}

/// The answer as one object.
pub(super) fn whole(answer: &Answer, request: &Request, number: usize) -> Value {
    let (parts, malformed) = parts(answer, Texts::Whole);
    last(chunk(&parts, request, number), answer, request, malformed)
}

fn chunk(parts: &[Value], request: &Request, number: usize) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": request.model, "responseId": format!("response-{number}")})
}

/// Adds the end to a chunk.
fn last(mut chunk: Value, answer: &Answer, request: &Request, malformed: Option<String>) -> Value {
    let reason = match answer.stop() {
        Stop::End | Stop::Tools => "STOP",
        Stop::Length | Stop::Window => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    chunk["candidates"][0]["finishReason"] = json!(reason);
    if let Some(call) = malformed {
        chunk["candidates"][0]["finishReason"] = json!("MALFORMED_FUNCTION_CALL");
        chunk["candidates"][0]["finishMessage"] = json!(format!("Malformed function call: {call}"));
    }
    if let Some(usage) = answer.usage(&request.json) {
        chunk["usageMetadata"] = usage_json(usage);
    }
    chunk
}

/// How texts are sent.
#[derive(Clone, Copy)]
enum Texts {
    Pieces,
    Whole,
}

/// The answer's parts, up to a call that this format cannot express. A signature
/// comes with the part after the reasoning that it signs.
fn parts(answer: &Answer, texts: Texts) -> (Vec<Value>, Option<String>) {
    let cut = |text: &str| match texts {
        Texts::Pieces => pieces(text).collect(),
        Texts::Whole => vec![text.to_owned()],
    };
    let mut parts = Vec::new();
    let mut signed: Option<&String> = None;
    for part in &answer.parts {
        let begin = parts.len();
        match part {
            Part::Reasoning { text, signature } => {
                parts.extend(cut(text).into_iter().map(|piece| json!({"text": piece, "thought": true})));
                signed = signature.as_ref().or(signed);
                continue;
            }
            Part::Text { text } => parts.extend(cut(text).into_iter().map(|piece| json!({"text": piece}))),
            Part::Call(call) => match serde_json::from_str::<Value>(&call.arguments) {
                Ok(arguments) if arguments.is_object() => {
                    parts.push(json!({"functionCall": {"name": call.tool, "args": arguments}}));
                }
                Ok(_) | Err(_) => return (parts, Some(format!("{}({})", call.tool, call.arguments))),
            },
        }
        if let (Some(first), Some(signature)) = (parts.get_mut(begin), signed.take()) {
            first["thoughtSignature"] = json!(signature);
        }
    }
    if let Some(signature) = signed {
        parts.push(json!({"text": "", "thoughtSignature": signature}));
    }
    (parts, None)
}

/// An error as Google words it.
pub(super) fn error(status: u16, message: &str) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "promptTokenCount": usage.prompt(),
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.prompt() + usage.output + usage.reasoning,
    })
}
