//! Requests as Anthropic wants them, and its events folded.

use super::*;
use crate::provider::Provider;
use crate::wire::Fold as _;
use protocol::chat::{Call, ToolResult, ToolSpec};

fn model() -> Model {
    Model {
        name: "main".into(),
        provider: Provider::Anthropic,
        model: "claude".into(),
        base_url: None,
        key: None,
        headers: Default::default(),
        price: None,
        overrides: Default::default(),
    }
}

fn call(id: &str, tool: &str, arguments: &str) -> Part {
    Part::Call(Call { id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

fn fold(events: Vec<Value>) -> Result<Completion, Fault> {
    let mut fold = Box::new(Fold::new(Parts::default()));
    for event in events {
        fold.event(&Event { name: String::new(), data: event.to_string() }, &mut |_| {})?;
    }
    fold.finish()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 30, "output_tokens": 1}}})
}

fn block(index: u64, content: Value, deltas: Vec<Value>) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": content})];
    events.extend(
        deltas
            .into_iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn end(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 40}}),
        json!({"type": "message_stop"}),
    ]
}

#[test]
fn roles_alternate_and_results_come_first() {
    let marked = |mut block: Value| {
        block["cache_control"] = json!({"type": "ephemeral"});
        block
    };
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        schema: json!({"type": "object"}),
    };
    let request = Request {
        system: "Be brief.".into(),
        tools: vec![tool("shell"), tool("read")],
        max_output_tokens: 100,
        messages: vec![
            Message::user("One."),
            Message::user("Two."),
            Message::Assistant {
                parts: vec![
                    Part::Reasoning { text: "Signed.".into(), signature: Some("SIG".into()) },
                    Part::Reasoning { text: String::new(), signature: Some("redacted:DATA".into()) },
                    Part::Reasoning { text: "Unsigned.".into(), signature: None },
                    Part::Reasoning { text: "Foreign.".into(), signature: Some("gemini:SIG".into()) },
                    Part::Text { text: " \n".into() },
                    Part::Text { text: "Now.".into() },
                    call("functions.shell:0", "shell", r#"{"command":"ls"}"#),
                    call("b", "no such tool", "{broken"),
                ],
            },
            Message::user("Stop that."),
            Message::Tools {
                results: vec![
                    ToolResult {
                        call_id: "functions.shell:0".into(),
                        text: String::new(),
                        is_error: false,
                        images: Vec::new(),
                    },
                    ToolResult {
                        call_id: "b".into(),
                        text: "bad".into(),
                        is_error: true,
                        images: Vec::new(),
                    },
                ],
            },
            Message::Assistant { parts: vec![Part::Reasoning { text: "Lost.".into(), signature: None }] },
            Message::user(""),
            Message::Assistant { parts: vec![Part::Text { text: "Well.".into() }] },
            Message::user("Last."),
        ],
        ..Request::default()
    };
    assert_eq!(
        body(&model(), &request, Quirks::of(&model())),
        json!({
            "model": "claude",
            "max_tokens": 100,
            "stream": true,
            "system": [marked(json!({"type": "text", "text": "Be brief."}))],
            "tools": [
                {"name": "shell", "description": "d", "input_schema": {"type": "object"}},
                marked(json!({"name": "read", "description": "d", "input_schema": {"type": "object"}})),
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Signed.", "signature": "SIG"},
                    {"type": "redacted_thinking", "data": "DATA"},
                    {"type": "text", "text": "Now."},
                    {"type": "tool_use", "id": "functions_shell_0", "name": "shell", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "b", "name": "no_such_tool", "input": {"unparsed": "{broken"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "functions_shell_0"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "bad", "is_error": true},
                    {"type": "text", "text": "Stop that."},
                    {"type": "text", "text": "(empty)"},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "Well."}]},
                {"role": "user", "content": [marked(json!({"type": "text", "text": "Last."}))]},
            ],
        })
    );
}

#[test]
fn blocks_become_parts() {
    let mut events = vec![start(), json!({"type": "ping"}), json!({"type": "invented_later"})];
    events.extend(block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        vec![
            json!({"type": "thinking_delta", "thinking": "Let me "}),
            json!({"type": "thinking_delta", "thinking": "see."}),
            json!({"type": "signature_delta", "signature": "SIG"}),
        ],
    ));
    events.extend(block(1, json!({"type": "redacted_thinking", "data": "DATA"}), vec![]));
    events.extend(block(
        2,
        json!({"type": "text", "text": ""}),
        vec![json!({"type": "text_delta", "text": "Hello"})],
    ));
    events.extend(block(
        3,
        json!({"type": "tool_use", "id": "a", "name": "shell", "input": {}}),
        vec![
            json!({"type": "input_json_delta", "partial_json": ""}),
            json!({"type": "input_json_delta", "partial_json": "{\"x\""}),
            json!({"type": "input_json_delta", "partial_json": ":1}"}),
        ],
    ));
    events.extend(block(4, json!({"type": "tool_use", "id": "b", "name": "list", "input": {}}), vec![]));
    events.extend(block(
        5,
        json!({"type": "tool_use", "id": "c", "name": "list", "input": {"y": 2}}),
        vec![],
    ));
    events.extend(end("tool_use"));
    let completion = fold(events).unwrap();
    assert_eq!(
        completion.parts,
        vec![
            Part::Reasoning { text: "Let me see.".into(), signature: Some("SIG".into()) },
            Part::Reasoning { text: String::new(), signature: Some("redacted:DATA".into()) },
            Part::Text { text: "Hello".into() },
            call("a", "shell", r#"{"x":1}"#),
            call("b", "list", "{}"),
            call("c", "list", r#"{"y":2}"#),
        ]
    );
    assert_eq!(completion.stop, Stop::Tools);
    assert_eq!(
        completion.usage,
        Usage { input: 10, cache_read: 30, cache_write: 20, output: 40, reasoning: 0, estimated: 0 }
    );
}

#[test]
fn what_was_read_is_not_taken_back_with_the_end() {
    let mut events = vec![start()];
    events.extend(block(0, json!({"type": "text", "text": "x"}), vec![]));
    let usage = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 25, "output_tokens": 40});
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}));
    events.push(json!({"type": "message_stop"}));
    let usage = Usage { input: 10, cache_read: 30, cache_write: 25, output: 40, reasoning: 0, estimated: 0 };
    assert_eq!(fold(events).unwrap().usage, usage);
}

#[test]
fn every_end_has_its_meaning() {
    let stop = |reason: &str| {
        let mut events = vec![start()];
        events.extend(block(0, json!({"type": "text", "text": "x"}), vec![]));
        events.extend(end(reason));
        fold(events).unwrap().stop
    };
    assert_eq!(stop("end_turn"), Stop::End);
    assert_eq!(stop("stop_sequence"), Stop::End);
    assert_eq!(stop("max_tokens"), Stop::Length);
    assert_eq!(stop("refusal"), Stop::Refusal);
    assert_eq!(stop("tool_use"), Stop::End);
}

#[test]
fn what_is_no_answer_is_refused() {
    let text = block(0, json!({"type": "text", "text": "x"}), vec![]);
    let cut: Vec<Value> = [vec![start()], text].concat();
    assert_eq!(fold(cut), Err(Fault::BrokeOff));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert!(matches!(fold(vec![start(), error]), Err(Fault::Server(_))));
    let mut sink = |_| {};
    let whole = Fold::new(Parts::default()).whole(&json!({"hello": 1}), &mut sink);
    assert!(matches!(whole, Err(Fault::Malformed(_))));
}

#[test]
fn a_budget_for_thinking_waits_until_the_calls_of_another_model_are_over() {
    let mut thinker = model();
    thinker.model = "claude-sonnet-4-5".into();
    thinker.overrides.effort = Some(Effort::Medium);
    let thinks = |model: &Model, parts: Vec<Part>, after: Option<&str>| {
        let results =
            vec![ToolResult { call_id: "a".into(), text: "ok".into(), is_error: false, images: Vec::new() }];
        let mut messages =
            vec![Message::user("Go."), Message::Assistant { parts }, Message::Tools { results }];
        if let Some(text) = after {
            messages.push(Message::Assistant { parts: vec![Part::Text { text: "Done.".into() }] });
            messages.push(Message::user(text));
        }
        let request = Request { messages, max_output_tokens: 32_000, ..Request::default() };
        body(model, &request, Quirks::of(model)).get("thinking").is_some()
    };
    let foreign = || vec![call("a", "shell", "{}")];
    let thought = Part::Reasoning { text: "Hm.".into(), signature: Some("SIG".into()) };
    assert!(!thinks(&thinker, foreign(), None));
    assert!(thinks(&thinker, vec![thought.clone(), call("a", "shell", "{}")], None));
    assert!(thinks(&thinker, foreign(), Some("Next.")));
    // It does not think between calls, which is no reason to stop.
    let step = |id: &str, thought: Option<&Part>| {
        let results =
            vec![ToolResult { call_id: id.into(), text: "ok".into(), is_error: false, images: Vec::new() }];
        let parts = thought.cloned().into_iter().chain([call(id, "shell", "{}")]).collect();
        [Message::Assistant { parts }, Message::Tools { results }]
    };
    let sent = |steps: Vec<[Message; 2]>| {
        let messages = [Message::user("Go.")].into_iter().chain(steps.into_iter().flatten()).collect();
        let request = Request { messages, max_output_tokens: 32_000, ..Request::default() };
        let body = body(&thinker, &request, Quirks::of(&thinker));
        (body["thinking"].clone(), body["max_tokens"].clone())
    };
    let one = sent(vec![step("a", Some(&thought))]);
    assert!(one.0.is_object());
    assert_eq!(sent(vec![step("a", Some(&thought)), step("b", None), step("c", None)]), one);
    assert!(sent(vec![step("a", None), step("b", Some(&thought))]).0.is_null());
    thinker.model = "claude-opus-4-7".into();
    assert!(thinks(&thinker, foreign(), None), "later ones do not mind");
}
