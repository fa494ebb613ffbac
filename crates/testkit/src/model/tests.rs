//! What the scripted model refuses, in each format.

use protocol::chat::Message;
use serde_json::{Value, json};

use super::request::{Format, Request};
use super::{Reply, Script, anthropic, chat, gemini, responses};

fn read(format: Format, body: &Value) -> Result<Request, String> {
    let headers = vec![("anthropic-version".to_owned(), "2023-06-01".to_owned())];
    let mut request = Request::unread(format, headers, body.clone());
    match format {
        Format::Chat => chat::read(&mut request)?,
        Format::Responses => responses::read(&mut request)?,
        Format::Anthropic => anthropic::read(&mut request)?,
        Format::Gemini => gemini::read(&mut request, "/v1/models/m:streamGenerateContent", "alt=sse")?,
    }
    Ok(request)
}

fn with(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => list.insert(name.parse().unwrap(), value),
        object => object[name] = value,
    }
    body
}

fn without(body: &Value, pointer: &str) -> Value {
    let mut body = body.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Array(list) => drop(list.remove(name.parse().unwrap())),
        object => drop(object.as_object_mut().unwrap().remove(name)),
    }
    body
}

#[track_caller]
fn assert_refused(format: Format, body: &Value, because: &str) {
    match read(format, body) {
        Ok(_) => panic!("accepted what should be refused because {because}: {body}"),
        Err(violation) => assert!(violation.contains(because), "{violation}"),
    }
}

#[test]
fn chat_requests_are_read_strictly() {
    let call =
        |id: &str| json!({"id": id, "type": "function", "function": {"name": "shell", "arguments": "{}"}});
    let good = json!({
        "model": "m",
        "stream": true,
        "max_tokens": 10,
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "U"},
            {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
        ],
        "tools": [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}],
    });
    let request = read(Format::Chat, &good).unwrap();
    assert_eq!((request.system.as_str(), request.results().len(), request.last_user()), ("S", 2, Some("U")));
    assert_eq!(request.tool_names(), ["shell"]);

    let refused = |body: Value, because: &str| assert_refused(Format::Chat, &body, because);
    refused(json!([]), "the body must be an object");
    refused(without(&good, "/model"), "lacks model");
    refused(with(&good, "/nonsense", json!(1)), "unknown field \"nonsense\"");
    refused(with(&good, "/max_tokens", json!(0)), "above zero");
    refused(with(&good, "/max_completion_tokens", json!(5)), "exclude each other");
    refused(with(&good, "/messages", json!([])), "nothing to answer");
    refused(with(&good, "/tools", json!([])), "must not be empty");
    refused(with(&good, "/messages/2/role", json!("robot")), "unknown role \"robot\"");
    refused(without(&good, "/messages/4"), "the call \"b\" has no result");
    refused(without(&good, "/messages/2"), "belongs to no call");
    refused(with(&good, "/messages/4/tool_call_id", json!("a")), "two results");
    refused(
        with(&good, "/messages/3", json!({"role": "user", "content": "!"})),
        "the call \"a\" has no result",
    );
    refused(
        with(&good, "/messages/5", json!({"role": "assistant", "content": "x"})),
        "ends with the assistant",
    );
    refused(
        with(&good, "/messages/2/tool_calls/0/function/arguments", json!("{broken")),
        "not a JSON object",
    );
    refused(with(&good, "/tools/0/function/name", json!("fs.read")), "the tool name \"fs.read\"");
}

#[test]
fn anthropic_requests_are_read_strictly() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let good = json!({
        "model": "m",
        "max_tokens": 10,
        "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [text("U")]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "T", "signature": "SIG"},
                {"type": "tool_use", "id": "a", "name": "shell", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": true},
                text("And?"),
            ]},
        ],
        "tools": [{"name": "shell", "input_schema": {"type": "object"}}],
    });
    let request = read(Format::Anthropic, &good).unwrap();
    assert_eq!(request.messages.len(), 4);
    assert!(matches!(&request.messages[2], Message::Tools { results } if results[0].is_error));
    assert_eq!(request.last_user(), Some("And?"));

    let refused = |body: Value, because: &str| assert_refused(Format::Anthropic, &body, because);
    refused(without(&good, "/max_tokens"), "lacks max_tokens");
    refused(with(&good, "/stream_options", json!({})), "unknown field");
    refused(with(&good, "/messages/0/role", json!("assistant")), "roles alternate");
    refused(without(&good, "/messages/2"), "ends with the assistant");
    refused(with(&good, "/messages/0/content/0/text", json!(" ")), "some text");
    refused(with(&good, "/messages/0/content", json!([])), "has no content");
    refused(without(&good, "/messages/1/content/0/signature"), "lacks signature");
    refused(without(&good, "/messages/2/content/0"), "the call \"a\" has no result");
    refused(with(&good, "/messages/2/content/0/tool_use_id", json!("b")), "belongs to no call");
    refused(with(&good, "/messages/2/content/0", text("First!")), "before text");
    refused(with(&good, "/messages/1/content/1/input", json!("{}")), "must be an object");
    refused(with(&good, "/messages/1/content/1/id", json!("a.b")), "the call id \"a.b\"");
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    refused(with(&good, "/system", json!([marked, marked, marked, marked, marked])), "more than 4");
    let mut request = Request::unread(Format::Anthropic, vec![], good);
    assert!(anthropic::read(&mut request).unwrap_err().contains("anthropic-version"));
}

#[test]
fn responses_requests_are_read_strictly() {
    let said = |role: &str, kind: &str| json!({"role": role, "content": [{"type": kind, "text": "U"}]});
    let good = json!({
        "model": "m",
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "instructions": "S",
        "max_output_tokens": 10,
        "input": [
            said("user", "input_text"),
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SIG"},
            {"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
        ],
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": false}],
    });
    let request = read(Format::Responses, &good).unwrap();
    assert_eq!((request.system.as_str(), request.results().len(), request.last_user()), ("S", 1, Some("U")));
    assert!(matches!(&request.messages[1], Message::Assistant { parts } if parts.len() == 2));

    let refused = |body: Value, because: &str| assert_refused(Format::Responses, &body, because);
    refused(with(&good, "/messages", json!([])), "unknown field \"messages\"");
    refused(without(&good, "/store"), "store must be false");
    refused(with(&good, "/include/0", json!("everything")), "include cannot have");
    refused(without(&good, "/tools/0/strict"), "strict");
    refused(with(&good, "/input/0/content/0/type", json!("text")), "cannot have the type \"text\"");
    refused(without(&good, "/input/1/encrypted_content"), "lacks encrypted_content");
    refused(without(&good, "/input/2"), "follows a reasoning item");
    refused(without(&good, "/input/3"), "the call \"a\" has no result");
    refused(with(&good, "/input/3", said("user", "input_text")), "the call \"a\" has no result");
    refused(with(&good, "/input/3/call_id", json!("b")), "belongs to no call");
    refused(with(&good, "/input/2/arguments", json!("{broken")), "not a JSON object");
    refused(with(&good, "/input/4", said("assistant", "output_text")), "ends with the assistant");
}

#[test]
fn gemini_requests_are_read_strictly() {
    let good = json!({
        "systemInstruction": {"parts": [{"text": "S"}]},
        "generationConfig": {"maxOutputTokens": 10},
        "contents": [
            {"role": "user", "parts": [{"text": "U"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "shell", "args": {}}, "thoughtSignature": "SIG"},
                {"functionCall": {"name": "shell", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "shell", "response": {"output": "1"}}},
                {"functionResponse": {"name": "shell", "response": {"error": "2"}}},
            ]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "shell", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}},
        ]}],
    });
    let request = read(Format::Gemini, &good).unwrap();
    assert_eq!((request.model.as_str(), request.system.as_str(), request.stream), ("m", "S", true));
    assert_eq!(request.results().iter().map(|result| result.is_error).collect::<Vec<_>>(), [false, true]);

    let refused = |body: Value, because: &str| assert_refused(Format::Gemini, &body, because);
    let parameters = "/tools/0/functionDeclarations/0/parameters";
    refused(with(&good, "/model", json!("m")), "unknown field \"model\"");
    refused(
        with(&good, &format!("{parameters}/additionalProperties"), json!(false)),
        "unknown field \"additionalProperties\"",
    );
    refused(with(&good, &format!("{parameters}/properties"), json!({})), "must not be empty");
    refused(without(&good, "/contents/1/parts/0/thoughtSignature"), "missing a thought_signature");
    refused(without(&good, "/contents/2/parts/1"), "has no result");
    refused(without(&good, "/contents/2"), "ends with the model");
    refused(without(&good, "/contents/0"), "must not be the model's");
    refused(with(&good, "/contents/2", json!({"role": "user", "parts": [{"text": "!"}]})), "has no result");
    refused(with(&good, "/contents/2/parts/0/functionResponse/name", json!("read")), "was not called");
    let mut request = Request::unread(Format::Gemini, vec![], good);
    let path = "/v1/models/m:streamGenerateContent";
    assert!(gemini::read(&mut request, path, "").unwrap_err().contains("alt=sse"));
}

#[test]
fn a_script_goes_from_replies_to_its_end() {
    let request = Request::unread(Format::Chat, vec![], json!({}));
    let numbers = |mut script: Script| -> Vec<usize> {
        (0..4).map_while(|_| script.next(&request)).map(|(number, _)| number).collect()
    };
    assert_eq!(numbers(Script::new().say("a").say("b")), [0, 1]);
    assert_eq!(numbers(Script::new().say("a").repeat_last()), [0, 1, 2, 3]);
    assert_eq!(numbers(Script::new().repeat_last()), [0; 0]);
    assert_eq!(
        numbers(Script::new().say("a").then(|_, number| Reply::text(number.to_string()))),
        [0, 1, 2, 3]
    );
}
