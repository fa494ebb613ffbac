//! Requests as OpenAI's responses want them, and their events folded, also as lesser servers send them.

use super::*;
use crate::provider::Provider;
use crate::wire::Fold as _;
use protocol::chat::{Call, ToolResult, ToolSpec};

fn model() -> Model {
    Model {
        name: "main".into(),
        provider: Provider::OpenAiResponses,
        model: "gpt".into(),
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
    let mut fold = Box::new(Fold::new(Parts::default(), 100));
    for event in events {
        let data = event.to_string();
        if fold.event(&Event { name: String::new(), data }, &mut |_| {})? == Progress::Closed {
            break;
        }
    }
    fold.finish()
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "error": null, "output": [],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}}}})
}

#[test]
fn a_conversation_becomes_items() {
    let tool = ToolSpec { name: "shell".into(), description: "d".into(), schema: json!({"type": "object"}) };
    let reasoning = |text: &str, signature: Option<&str>| Part::Reasoning {
        text: text.into(),
        signature: signature.map(Into::into),
    };
    let request = Request {
        system: "Be brief.".into(),
        tools: vec![tool],
        max_output_tokens: 100,
        messages: vec![
            Message::user("One."),
            Message::Assistant {
                parts: vec![
                    reasoning("Mine.", Some("responses:rs_1:DATA")),
                    reasoning("Anthropic's.", Some("SIG")),
                    reasoning("Gemini's.", Some("gemini:SIG")),
                    reasoning("Unsigned.", None),
                    Part::Text { text: " \n".into() },
                    Part::Text { text: "Now.".into() },
                    reasoning("", Some("responses::DATA")),
                    call("a", "shell", r#"{ "x": 1 }"#),
                    call("functions.b", "no such tool", "{broken"),
                    reasoning("It led nowhere.", Some("responses:rs_2:DATA")),
                ],
            },
            Message::Tools {
                results: vec![
                    ToolResult { call_id: "a".into(), text: "1".into(), is_error: false, images: Vec::new() },
                    ToolResult {
                        call_id: "functions.b".into(),
                        text: "bad".into(),
                        is_error: true,
                        images: Vec::new(),
                    },
                ],
            },
        ],
        ..Request::default()
    };
    let written = body(&model(), &request, Quirks::of(&model()));
    assert_eq!(
        written,
        json!({
            "model": "gpt",
            "stream": true,
            "store": false,
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 100,
            "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "shell", "description": "d", "parameters": {"type": "object"},
                "strict": false}],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One."}]},
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Mine."}],
                    "encrypted_content": "DATA"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Now."}]},
                {"type": "reasoning", "summary": [], "encrypted_content": "DATA"},
                {"type": "function_call", "call_id": "a", "name": "shell", "arguments": "{ \"x\": 1 }"},
                {"type": "function_call", "call_id": "functions_b", "name": "no_such_tool",
                    "arguments": "{\"unparsed\":\"{broken\"}"},
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {"type": "function_call_output", "call_id": "functions_b", "output": "bad"},
            ],
        })
    );
}

#[test]
fn items_become_parts_even_if_they_are_mixed() {
    let item = |kind: &str, index: u64, item: Value| json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": item});
    let piece = |kind: &str, index: u64, delta: &str| json!({"type": format!("response.{kind}.delta"), "output_index": index, "delta": delta});
    let function = |id: &str, arguments: &str| {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "shell",
            "arguments": arguments})
    };
    let completion = fold(vec![
        json!({"type": "response.created", "response": {"error": null}}),
        item("added", 0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        piece("reasoning_summary_text", 0, "One."),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1}),
        piece("reasoning_summary_text", 0, "Two."),
        item(
            "done",
            0,
            json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "DATA",
            "summary": [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]}),
        ),
        item(
            "done",
            1,
            json!({"type": "reasoning", "id": "rs_2", "encrypted_content": "MORE", "summary": []}),
        ),
        json!({"type": "response.invented_later"}),
        item("added", 2, json!({"type": "message", "id": "m", "content": []})),
        piece("output_text", 2, "Hel"),
        piece("output_text", 2, "lo"),
        item(
            "done",
            2,
            json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hello"}]}),
        ),
        item("added", 3, function("a", "")),
        item("added", 4, function("b", "")),
        piece("function_call_arguments", 4, "{\"y\""),
        piece("function_call_arguments", 3, "{\"x\":1}"),
        piece("function_call_arguments", 4, ":2}"),
        json!({"type": "response.function_call_arguments.done", "output_index": 4, "arguments": "{\"y\":2}"}),
        item("done", 3, function("a", "{\"x\":1}")),
        item("done", 4, function("b", "{\"y\":2}")),
        item("done", 5, function("c", "{\"z\":3}")),
        completed(),
    ])
    .unwrap();
    assert_eq!(
        completion.parts,
        vec![
            Part::Reasoning { text: "One.\n\nTwo.".into(), signature: Some("responses:rs_1:DATA".into()) },
            Part::Reasoning { text: String::new(), signature: Some("responses:rs_2:MORE".into()) },
            Part::Text { text: "Hello".into() },
            call("a", "shell", r#"{"x":1}"#),
            call("b", "shell", r#"{"y":2}"#),
            call("c", "shell", r#"{"z":3}"#),
        ]
    );
    assert_eq!(completion.stop, Stop::Tools);
    assert_eq!(
        completion.usage,
        Usage { input: 40, cache_read: 60, cache_write: 0, output: 30, reasoning: 20, estimated: 0 }
    );
}

#[test]
fn servers_that_number_nothing_are_understood() {
    let function = json!({"type": "function_call", "call_id": "fc_1", "name": "shell", "arguments": "{}"});
    let completion = fold(vec![
        json!({"type": "response.output_item.added", "item": {"type": "message", "id": "m"}}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": "Hi."}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "id": "m",
            "content": [{"type": "output_text", "text": "Hi."}]}}),
        json!({"type": "response.output_item.added", "item": function}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": "{}"}),
        json!({"type": "response.output_item.done", "item": function}),
        completed(),
    ]);
    assert_eq!(completion.unwrap().parts, [Part::Text { text: "Hi.".into() }, call("fc_1", "shell", "{}")]);
    // One that gives neither beginnings nor names.
    let said = |text: &str| {
        json!({"type": "response.output_item.done", "item": {"type": "message",
            "content": [{"type": "output_text", "text": text}]}})
    };
    let piece = |text: &str| json!({"type": "response.output_text.delta", "delta": text});
    let completion = fold(vec![
        piece("One."),
        said("One."),
        said(" Two."),
        piece(" Three."),
        said(" Three."),
        completed(),
    ]);
    assert_eq!(completion.unwrap().parts, [Part::Text { text: "One. Two. Three.".into() }]);
    // One that has the output in its last event only.
    let mut last = completed();
    last["response"]["output"] =
        json!([{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}]);
    assert_eq!(fold(vec![last]).unwrap().parts, [Part::Text { text: "Hi.".into() }]);
}

#[test]
fn the_phase_of_a_message_goes_back_with_it() {
    let message = |kind: &str, index: u64, phase: &str, text: &str| {
        json!({"type": format!("response.output_item.{kind}"), "output_index": index, "item": {"type": "message",
            "id": format!("msg_{index}"), "phase": phase, "content": [{"type": "output_text", "text": text}]}})
    };
    let delta = |index: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": index, "delta": text});
    let completion = fold(vec![
        message("added", 0, "commentary", ""),
        delta(0, "I will look."),
        message("done", 0, "commentary", "I will look."),
        message("done", 1, "final_answer", "Done."),
        completed(),
    ])
    .unwrap();
    let texts = completion.parts.iter().filter(|part| matches!(part, Part::Text { .. }));
    assert_eq!(texts.count(), 2, "{:?}", completion.parts);
    let later = Message::Assistant { parts: vec![Part::Text { text: "More.".into() }] };
    let messages = vec![Message::Assistant { parts: completion.parts }, later];
    let sent = body(&model(), &Request { messages, ..Request::default() }, Quirks::of(&model()));
    let phases: Vec<&Value> = sent["input"].as_array().unwrap().iter().map(|item| &item["phase"]).collect();
    assert_eq!(phases, [&json!("commentary"), &json!("final_answer"), &Value::Null]);
}

#[test]
fn every_end_has_its_meaning() {
    let stop = |kind: &str, reason: Value| {
        fold(vec![json!({"type": format!("response.{kind}"), "response": {"status": kind,
            "incomplete_details": reason, "output": []}})])
        .map(|completion| completion.stop)
    };
    assert_eq!(stop("completed", Value::Null), Ok(Stop::End));
    // An answer that took all the room there was, from a server that calls each one complete.
    let taken = |tokens: u64| {
        fold(vec![json!({"type": "response.completed", "response": {"status": "completed", "output": [],
            "usage": {"input_tokens": 7, "output_tokens": tokens}}})])
        .map(|completion| completion.stop)
    };
    assert_eq!((taken(99), taken(100)), (Ok(Stop::End), Ok(Stop::Length)));
    assert_eq!(stop("incomplete", json!({"reason": "max_output_tokens"})), Ok(Stop::Length));
    assert_eq!(stop("incomplete", json!({"reason": "content_filter"})), Ok(Stop::Refusal));
    let added = Fault::server(Complaint::stopped("added_later"));
    assert_eq!(stop("incomplete", json!({"reason": "added_later"})), Err(added));
    assert!(matches!(stop("failed", Value::Null), Err(Fault::Malformed(_))));
    let refusal = json!({"type": "response.refusal.delta", "delta": "I will not."});
    let completion = fold(vec![refusal, completed()]).unwrap();
    assert_eq!(completion.stop, Stop::Refusal);
    assert_eq!(completion.parts, [Part::Text { text: "I will not.".into() }]);
    assert_eq!(fold(vec![json!({"type": "response.output_text.delta", "delta": "x"})]), Err(Fault::BrokeOff));
}

#[test]
fn items_that_come_mixed_are_put_in_their_order_and_reasoning_stays_before_what_it_led_to() {
    let event = |kind: &str, index: u64, rest: Value| {
        let mut event = json!({"type": format!("response.{kind}"), "output_index": index});
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event
    };
    let items = [
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}),
        json!({"type": "message", "id": "msg_1", "content": []}),
        json!({"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": "{}"}),
        json!({"type": "function_call", "id": "fc_2", "call_id": "b", "name": "shell", "arguments": "{\"n\":1}"}),
    ];
    let mut announced = items.clone();
    announced[0]["encrypted_content"] = Value::Null;
    let added =
        (0..).zip(&announced).map(|(index, item)| event("output_item.added", index, json!({"item": item})));
    let mut events: Vec<Value> = added.collect();
    events.extend([
        event("function_call_arguments.delta", 3, json!({"delta": "{\"n\""})),
        event("output_text.delta", 1, json!({"delta": "Both "})),
        event("reasoning_summary_text.delta", 0, json!({"delta": "I look"})),
        event("function_call_arguments.delta", 2, json!({"delta": "{}"})),
        event("output_text.delta", 1, json!({"delta": "at once."})),
        event("reasoning_summary_text.delta", 0, json!({"delta": " around."})),
        event("function_call_arguments.delta", 3, json!({"delta": ":1}"})),
    ]);
    events.extend(
        (0..).zip(&items).map(|(index, item)| event("output_item.done", index, json!({"item": item}))),
    );
    events.push(completed());
    let completion = fold(events).unwrap();
    assert_eq!(completion.stop, Stop::Tools);
    assert_eq!(
        completion.parts,
        [
            Part::Reasoning { text: "I look around.".into(), signature: Some("responses:rs_1:ENC".into()) },
            Part::Text { text: "Both at once.".into() },
            call("a", "read", "{}"),
            call("b", "shell", "{\"n\":1}"),
        ]
    );
}
