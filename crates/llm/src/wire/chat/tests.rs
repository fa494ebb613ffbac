//! Requests as servers want them, and answers as servers bend them.

use super::*;
use crate::client::Delta;
use crate::wire::Fold as _;
use protocol::chat::{Call, ToolResult, ToolSpec};

fn model(provider: Provider) -> Model {
    Model {
        name: "main".into(),
        provider,
        model: "big".into(),
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

fn request(messages: Vec<Message>) -> Request {
    let tools =
        vec![ToolSpec { name: "shell".into(), description: "d".into(), schema: json!({"type": "object"}) }];
    Request { system: "Be brief.".into(), messages, tools, max_output_tokens: 100, ..Request::default() }
}

fn usual() -> Quirks {
    Quirks::of(&model(Provider::OpenAiCompatible))
}

fn fold(chunks: Vec<Value>) -> Result<Completion, Fault> {
    fold_after(&request(vec![]), chunks)
}

fn fold_after(request: &Request, chunks: Vec<Value>) -> Result<Completion, Fault> {
    let mut fold = Box::new(Fold::new(Parts::after(request)));
    for chunk in chunks {
        let data = chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned);
        fold.event(&Event { name: String::new(), data }, &mut |_| {})?;
    }
    fold.finish()
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn calls(calls: Value) -> Value {
    delta(json!({"tool_calls": calls}))
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

#[test]
fn a_conversation_is_written_as_servers_want_it() {
    let request = request(vec![
        Message::user("Go."),
        Message::Assistant {
            parts: vec![
                Part::Reasoning { text: "Hm.".into(), signature: None },
                Part::Text { text: "First".into() },
                call("a", "shell", r#"{"command": "ls"}"#),
                call("b", "fs.read", "{broken"),
            ],
        },
        Message::Tools {
            results: vec![
                ToolResult { call_id: "a".into(), text: "out".into(), is_error: false, images: Vec::new() },
                ToolResult { call_id: "b".into(), text: "no".into(), is_error: true, images: Vec::new() },
            ],
        },
        Message::Assistant { parts: vec![Part::Reasoning { text: "Only this.".into(), signature: None }] },
        Message::user("More."),
    ]);
    let body =
        body(&model(Provider::OpenAiCompatible), &request, Quirks::of(&model(Provider::OpenAiCompatible)));
    assert_eq!(
        body,
        json!({
            "model": "big",
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": 100,
            "tools": [{"type": "function", "function": {"name": "shell", "description": "d", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": "First", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "shell", "arguments": "{\"command\": \"ls\"}"}},
                    {"id": "b", "type": "function", "function": {"name": "fs_read", "arguments": "{\"unparsed\":\"{broken\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "out"},
                {"role": "tool", "tool_call_id": "b", "content": "no"},
                {"role": "user", "content": "More."},
            ],
        })
    );
}

#[test]
fn the_limit_has_the_name_that_the_server_knows() {
    let written = |model: &Model| body(model, &request(vec![]), Quirks::of(model));
    assert_eq!(written(&model(Provider::OpenAi))["max_completion_tokens"], 100);
    let elsewhere = Model { base_url: Some("http://10.0.0.1/v1".into()), ..model(Provider::OpenAi) };
    assert_eq!(written(&elsewhere)["max_tokens"], 100);
    assert_eq!(written(&model(Provider::GeminiChat))["max_tokens"], 100);
}

#[test]
fn gemini_gets_its_signatures_back() {
    let signed = json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "SIG"}}}]);
    let parts = fold(vec![calls(signed), end("tool_calls")]).unwrap().parts;
    let written = assistant(Provider::GeminiChat, &parts, usual()).unwrap();
    assert_eq!(written.pointer("/tool_calls/0/extra_content/google/thought_signature"), Some(&json!("SIG")));
    let written = assistant(Provider::OpenAi, &parts, usual()).unwrap();
    assert_eq!(written.pointer("/tool_calls/0/extra_content"), None);
    let foreign =
        assistant(Provider::GeminiChat, &[call("a", "x", "{}"), call("b", "x", "{}")], usual()).unwrap();
    assert_eq!(
        foreign.pointer("/tool_calls/0/extra_content/google/thought_signature"),
        Some(&json!("skip_thought_signature_validator"))
    );
    assert_eq!(foreign.pointer("/tool_calls/1/extra_content"), None);
}

#[test]
fn calls_are_put_together_however_they_come() {
    let f = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let expected = vec![call("a", "read", r#"{"p":1}"#), call("b", "list", r#"{"q":2}"#)];
    let ways = [
        // As OpenAI sends them, with a gap in the numbers.
        vec![
            calls(json!([{"index": 0, "id": "a", "type": "function", "function": f("read", json!(""))}])),
            calls(json!([{"index": 0, "function": {"arguments": "{\"p\""}}])),
            calls(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
            calls(json!([{"index": 3, "id": "b", "function": f("list", json!("{\"q\":"))}])),
            calls(json!([{"index": 3, "function": {"arguments": "2}"}}])),
        ],
        // Interleaved, with id and name repeated in every piece.
        vec![
            calls(json!([{"index": 0, "id": "a", "function": f("read", json!("{\"p\""))}])),
            calls(json!([{"index": 1, "id": "b", "function": f("list", json!("{\"q\":"))}])),
            calls(json!([{"index": 0, "id": "a", "function": f("read", json!(":1}"))}])),
            calls(json!([{"index": 1, "id": "b", "function": f("list", json!("2}"))}])),
        ],
        // Without numbers.
        vec![
            calls(json!([{"id": "a", "function": f("read", json!("{\"p\""))}])),
            calls(json!([{"function": {"arguments": ":1}"}}])),
            calls(json!([{"id": "b", "function": f("list", json!("{\"q\":2}"))}])),
        ],
        // Every call with the same number.
        vec![
            calls(json!([{"index": 0, "id": "a", "function": f("read", json!("{\"p\":1}"))}])),
            calls(json!([{"index": 0, "id": "b", "function": f("list", json!("{\"q\":2}"))}])),
        ],
        // Whole, with arguments that are objects.
        vec![calls(json!([
            {"index": 0, "id": "a", "function": f("read", json!({"p": 1}))},
            {"index": 1, "id": "b", "function": f("list", json!({"q": 2}))},
        ]))],
    ];
    for mut chunks in ways {
        chunks.push(end("stop"));
        let completion = fold(chunks.clone()).unwrap();
        assert_eq!(completion.parts, expected, "{chunks:?}");
        assert_eq!(completion.stop, Stop::Tools);
    }
}

#[test]
fn calls_without_ids_of_their_own_get_some_that_are_new_in_the_conversation() {
    let earlier = request(vec![Message::Assistant { parts: vec![call("call_2", "x", "{}")] }]);
    let chunks = vec![
        calls(json!([{"function": {"name": "read", "arguments": "{}"}}])),
        calls(json!([{"function": {"name": "list", "arguments": ""}}])),
        calls(json!([{"index": 7, "id": "call_2", "function": {"name": "list"}}])),
        end("tool_calls"),
    ];
    let completion = fold_after(&earlier, chunks).unwrap();
    assert_eq!(
        completion.parts,
        vec![call("call_3", "read", "{}"), call("call_4", "list", "{}"), call("call_5", "list", "{}")]
    );
}

#[test]
fn text_reasoning_and_calls_keep_their_order_and_are_seen_as_they_come() {
    let mut seen = Vec::new();
    let mut fold = Box::new(Fold::new(Parts::default()));
    for chunk in [
        delta(json!({"role": "assistant", "content": "", "reasoning_content": "Let "})),
        delta(json!({"content": null, "reasoning": "me."})),
        delta(json!({"content": "I "})),
        delta(json!({"content": [{"type": "text", "text": "will."}]})),
        calls(json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}])),
        end("tool_calls"),
    ] {
        let event = Event { name: String::new(), data: chunk.to_string() };
        fold.event(&event, &mut |delta| seen.push(delta)).unwrap();
    }
    let completion = fold.finish().unwrap();
    assert_eq!(
        completion.parts,
        vec![
            Part::Reasoning { text: "Let me.".into(), signature: None },
            Part::Text { text: "I will.".into() },
            call("a", "x", "{}"),
        ]
    );
    assert_eq!(
        seen,
        vec![
            Delta::Reasoning("Let ".into()),
            Delta::Reasoning("me.".into()),
            Delta::Text("I ".into()),
            Delta::Text("will.".into()),
            Delta::Call { index: 0, tool: Some("x".into()), arguments: String::new() },
            Delta::Call { index: 0, tool: None, arguments: "{}".into() },
        ]
    );
}

#[test]
fn every_end_has_its_meaning() {
    let stop = |reason: &str| fold(vec![delta(json!({"content": "x"})), end(reason)]).unwrap().stop;
    assert_eq!(stop("stop"), Stop::End);
    assert_eq!(stop("tool_calls"), Stop::End);
    assert_eq!(stop("length"), Stop::Length);
    assert_eq!(stop("content_filter"), Stop::Refusal);
    assert_eq!(stop("eos"), Stop::End);
    for cut in ["model_length", "MAX_TOKENS", "max_tokens"] {
        assert_eq!(stop(cut), Stop::Length, "{cut}");
    }
    for filtered in ["sensitive", "SAFETY", "RECITATION", "content_filter: PROHIBITED_CONTENT"] {
        assert_eq!(stop(filtered), Stop::Refusal, "{filtered}");
    }
    assert_eq!(stop("function_call_filter: MALFORMED_FUNCTION_CALL"), Stop::Tools);
    // What nobody knows is no end of the work, unless there is a call that can be run.
    for odd in ["network_error", "abort", "repetition", "error", "OTHER"] {
        let said = fold(vec![delta(json!({"content": "I fixed the first of the"})), end(odd)]);
        assert_eq!(said, Err(Fault::server(Complaint::stopped(odd))), "{odd}");
    }
    let call = || calls(json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}]));
    assert_eq!(fold(vec![call(), end("repetition")]).unwrap().stop, Stop::Tools);
    assert!(fold(vec![call(), end("network_error")]).is_err());
    let done = fold(vec![delta(json!({"content": "x"})), json!("[DONE]")]).unwrap();
    assert_eq!(done.stop, Stop::End);
    let refused = fold(vec![delta(json!({"refusal": "No."})), end("stop")]).unwrap();
    assert_eq!((refused.stop, refused.parts), (Stop::Refusal, vec![Part::Text { text: "No.".into() }]));
}

#[test]
fn thoughts_come_in_blocks_too_and_usage_within_the_choice() {
    let blocks = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Hi."}]);
    let mut last = end("stop");
    last["choices"][0]["usage"] = json!({"prompt_tokens": 7, "completion_tokens": 2});
    let completion = fold(vec![delta(json!({"content": blocks})), last]).unwrap();
    let thought = Part::Reasoning { text: "Hm.".into(), signature: None };
    assert_eq!(completion.parts, [thought, Part::Text { text: "Hi.".into() }]);
    assert_eq!((completion.usage.input, completion.usage.output), (7, 2));
}

#[test]
fn what_is_no_answer_is_refused() {
    assert_eq!(fold(vec![delta(json!({"content": "x"}))]), Err(Fault::BrokeOff));
    assert_eq!(
        fold(vec![json!({"choices": []}), json!("[DONE]")]),
        Err(Fault::malformed("has no choices, so the model said nothing"))
    );
    assert!(matches!(fold(vec![json!("{\"choices\"")]), Err(Fault::Malformed(_))));
    assert!(matches!(fold(vec![json!({"error": {"message": "oh", "code": 500}})]), Err(Fault::Server(_))));
    let nameless = calls(json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]));
    let nameless = fold(vec![nameless, end("tool_calls")]).unwrap();
    assert_eq!(nameless.stop, Stop::Tools, "the model is told that there is no such tool");
    assert!(matches!(&nameless.parts[..], [Part::Call(call)] if call.tool == "unnamed"));
    let filtered = fold(vec![delta(json!({"content": "I can"})), end("content_filter")]).unwrap();
    let told = "I can [broken off by the model server: content_filter]";
    assert_eq!(filtered.parts, [Part::Text { text: told.into() }]);
}

#[test]
fn a_call_in_its_old_place_is_a_call() {
    let called = fold(vec![
        delta(json!({"content": null, "function_call": {"name": "shell", "arguments": "{\"command\":"}})),
        delta(json!({"function_call": {"arguments": "\"ls\"}"}})),
        delta(json!({"function_call": null})),
        end("function_call"),
    ]);
    let called = called.unwrap();
    assert_eq!(called.stop, Stop::Tools);
    let [Part::Call(call)] = &called.parts[..] else { panic!("{called:?}") };
    assert_eq!((call.tool.as_str(), call.arguments.as_str()), ("shell", r#"{"command":"ls"}"#));
}

#[test]
fn usage_does_not_overlap() {
    let read = |value: Value| usage(&value);
    let full = json!({"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 20}});
    assert_eq!(
        read(full),
        Usage { input: 40, cache_read: 60, cache_write: 0, output: 30, reasoning: 20, estimated: 0 }
    );
    for (told, cache_read, cache_write) in [
        (json!({"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}), 60, 0),
        (json!({"cached_tokens": 60}), 60, 0),
        (json!({"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}), 60, 30),
        (json!({"prompt_tokens_details": {"cached_tokens": 60, "cache_creation_input_tokens": 30}}), 60, 30),
        (json!({"cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}), 60, 30),
    ] {
        let mut reported = json!({"prompt_tokens": 100, "completion_tokens": 50});
        reported.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
        let input = 100 - cache_read - cache_write;
        let expected = Usage { input, cache_read, cache_write, output: 50, reasoning: 0, estimated: 0 };
        assert_eq!(read(reported), expected, "{told}");
    }
    let outside = json!({"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 150});
    assert_eq!(read(outside), Usage { input: 100, output: 30, reasoning: 20, ..Usage::default() });
    let absurd = json!({"prompt_tokens": 10, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 20}});
    assert_eq!(read(absurd), Usage { cache_read: 10, reasoning: 5, ..Usage::default() });
    let chunks = vec![delta(json!({"content": "x"})), end("stop"), json!({"choices": [], "usage": null})];
    assert_eq!(fold(chunks).unwrap().usage, Usage::default());
}

#[test]
fn what_a_call_cost_is_read_where_it_is_told() {
    let cost = |usage: Value| {
        let mut fold = Fold::new(Parts::default());
        let data = json!({"choices": [], "usage": usage}).to_string();
        fold.event(&Event { name: String::new(), data }, &mut |_| {}).unwrap();
        super::super::Fold::cost_usd(&fold)
    };
    assert_eq!(cost(json!({"prompt_tokens": 5, "cost": 0.0123})), Some(0.0123));
    assert_eq!(cost(json!({"prompt_tokens": 5, "cost": 0})), Some(0.0));
    let details = json!({"upstream_inference_cost": 0.2});
    assert_eq!(
        cost(json!({"cost": 0.1, "cost_details": details})),
        Some(0.1),
        "that is what the router pays"
    );
    assert_eq!(cost(json!({"cost": 0.1, "is_byok": true, "cost_details": details})), Some(0.3));
    assert_eq!((cost(json!({"prompt_tokens": 5})), cost(json!({"cost": -1}))), (None, None));
}

#[test]
fn thoughts_in_tags_are_reasoning_only_at_the_beginning() {
    let thought = |text: &str| Part::Reasoning { text: text.into(), signature: None };
    let text = |text: &str| Part::Text { text: text.into() };
    for (said, parts) in [
        ("<think>Hm.</think>\n\nHello.", vec![thought("Hm."), text("Hello.")]),
        (" \n<thinking>\nHm.\n</thinking>Hello.", vec![thought("Hm.\n"), text("Hello.")]),
        ("<think>\n\n</think>\n\nHello.", vec![text("Hello.")]),
        ("<think>Hm.</think>\n", vec![thought("Hm.")]),
        ("<think>Hm </thi", vec![thought("Hm </thi")]),
        ("<think>Hm.</think> <think>Ha.</think>", vec![thought("Hm."), text("<think>Ha.</think>")]),
        ("Say <think>Hm.</think>", vec![text("Say <think>Hm.</think>")]),
        ("<thin ice>", vec![text("<thin ice>")]),
        ("\n <thi", vec![text("\n <thi")]),
        (" \n", vec![text(" \n")]),
    ] {
        let letters: Vec<Value> = said.chars().map(|letter| delta(json!({"content": letter}))).collect();
        for mut chunks in [vec![delta(json!({"content": said}))], letters] {
            chunks.push(end("stop"));
            let completion = fold(chunks).unwrap();
            assert_eq!((completion.parts, completion.stop), (parts.clone(), Stop::End), "{said}");
        }
        let mut whole = Box::new(Fold::new(Parts::default()));
        let answer = json!({"choices": [{"message": {"content": said}, "finish_reason": "stop"}]});
        whole.whole(&answer, &mut |_| {}).unwrap();
        assert_eq!(whole.finish().unwrap().parts, parts, "{said}");
    }
    // A call and a refusal come after what waited for its rest.
    let piece = calls(json!([{"index": 0, "id": "a", "function": {"name": "shell", "arguments": "{}"}}]));
    let parts = fold(vec![delta(json!({"content": "<think>Hm </"})), piece, end("stop")]).unwrap().parts;
    assert_eq!(parts, [thought("Hm </"), call("a", "shell", "{}")]);
    let parts = fold(vec![delta(json!({"content": "<th"})), end("content_filter")]).unwrap().parts;
    assert_eq!(parts, [text("<th [broken off by the model server: content_filter]")]);
    // White space without end is not waited for.
    let spaces = vec![delta(json!({"content": " ".repeat(40)})); 2];
    let mut endless = Fold::new(Parts::default());
    spaces.iter().for_each(|chunk| endless.chunk(chunk, &mut |_| {}).unwrap());
    assert_eq!(endless.parts.bytes(), 80);
}

#[test]
fn thoughts_in_tags_go_back_as_other_reasoning_does() {
    let mut streamed = String::new();
    let mut fold = Box::new(Fold::new(Parts::default()));
    for chunk in ["<think>Hm", ".</think>Hi."].map(|piece| delta(json!({"content": piece}))) {
        let mut sink = |delta| streamed.push_str(&format!("{delta:?} "));
        fold.chunk(&chunk, &mut sink).unwrap();
    }
    fold.done = true;
    assert_eq!(streamed, "Reasoning(\"Hm\") Reasoning(\".\") Text(\"Hi.\") ");
    let parts = fold.finish().unwrap().parts;
    let sent =
        |reasoning_back| assistant(Provider::Ollama, &parts, Quirks { reasoning_back, ..usual() }).unwrap();
    assert_eq!(sent(false), json!({"role": "assistant", "content": "Hi."}));
    assert_eq!(sent(true), json!({"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}));
}
