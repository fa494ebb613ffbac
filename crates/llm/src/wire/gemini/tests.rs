//! Requests as Gemini wants them, and its chunks folded.

use super::*;
use crate::model::sample;
use crate::provider::Provider;
use crate::wire::Fold as _;
use protocol::chat::{Call, ToolSpec};

fn model() -> Model {
    sample(Provider::Gemini, "gemini-2.5-pro")
}

fn call(id: &str, tool: &str, arguments: &str) -> Part {
    Part::Call(Call { id: id.into(), tool: tool.into(), arguments: arguments.into() })
}

fn reasoning(text: &str, signature: Option<&str>) -> Part {
    Part::Reasoning { text: text.into(), signature: signature.map(Into::into) }
}

fn fold(chunks: Vec<Value>) -> Result<Completion, Fault> {
    let mut fold = Box::new(Fold::new(Parts::default()));
    for chunk in chunks {
        fold.event(&Event { name: String::new(), data: chunk.to_string() }, &mut |_| {})?;
    }
    fold.finish()
}

fn chunk(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": reason}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 30,
            "thoughtsTokenCount": 20, "totalTokenCount": 150}})
}

#[test]
fn signatures_go_back_on_their_parts_and_results_follow_their_calls() {
    let tool = |name: &str, schema: Value| ToolSpec { name: name.into(), description: "d".into(), schema };
    let result = |id: &str, text: &str, is_error: bool| ToolResult {
        call_id: id.into(),
        text: text.into(),
        is_error,
        images: Vec::new(),
    };
    let object =
        json!({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": false});
    let request = Request {
        system: "Be brief.".into(),
        tools: vec![tool("shell", object), tool("list", json!({"type": "object", "properties": {}}))],
        max_output_tokens: 100,
        messages: vec![
            Message::user("One."),
            Message::user(" "),
            Message::Assistant {
                parts: vec![
                    reasoning("Thought.", Some("gemini-thought:OWN")),
                    reasoning("Anthropic's.", Some("SIG")),
                    reasoning("OpenAI's.", Some("responses:rs_1:DATA")),
                    Part::Text { text: "Now.".into() },
                    reasoning("Hidden.", Some("gemini:NEXT")),
                    call("a", "shell", r#"{"x":1}"#),
                    call("b", "no such tool", "{broken"),
                ],
            },
            Message::user("Stop that."),
            Message::Tools { results: vec![result("a", "1", false), result("b", "bad", true)] },
            Message::Assistant { parts: vec![call("c", "list", "")] },
            Message::Tools { results: vec![result("c", "2", false)] },
            Message::Assistant {
                parts: vec![Part::Text { text: "Well.".into() }, reasoning("", Some("gemini:LAST"))],
            },
            Message::Assistant { parts: vec![reasoning("Lost.", None)] },
            Message::user("Last."),
        ],
        ..Request::default()
    };
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    assert_eq!(
        body(&model(), &request, Quirks::of(&model())),
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 100 + crate::thinking::MOST},
            "tools": [{"functionDeclarations": [
                {"name": "shell", "description": "d",
                    "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}},
                {"name": "list", "description": "d"},
            ]}],
            "contents": [
                user("One."),
                user("(empty)"),
                {"role": "model", "parts": [
                    {"text": "Thought.", "thought": true, "thoughtSignature": "OWN"},
                    {"text": "Now."},
                    {"functionCall": {"id": "a", "name": "shell", "args": {"x": 1}}, "thoughtSignature": "NEXT"},
                    {"functionCall": {"id": "b", "name": "no_such_tool", "args": {"unparsed": "{broken"}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "a", "name": "shell", "response": {"output": "1"}}},
                    {"functionResponse": {"id": "b", "name": "no_such_tool", "response": {"error": "bad"}}},
                ]},
                user("Stop that."),
                {"role": "model", "parts": [
                    {"functionCall": {"id": "c", "name": "list", "args": {}},
                        "thoughtSignature": "skip_thought_signature_validator"},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"id": "c", "name": "list", "response": {"output": "2"}}},
                ]},
                {"role": "model", "parts": [{"text": "Well."}, {"text": "", "thoughtSignature": "LAST"}]},
                user("Last."),
            ],
        })
    );
}

#[test]
fn chunks_become_parts_and_calls_get_ids() {
    let completion = fold(vec![
        chunk(json!([{"text": "Let me ", "thought": true}])),
        chunk(json!([{"text": "see.", "thought": true, "thoughtSignature": "OWN"}])),
        chunk(json!([{"text": "Hel"}, {"text": "lo"}])),
        chunk(json!([
            {"functionCall": {"name": "shell", "args": {"x": 1}}, "thoughtSignature": "NEXT"},
            {"functionCall": {"name": "list"}},
            {"functionCall": {"id": "own", "name": "list", "args": {}}},
        ])),
        json!({"inventedLater": 1}),
        end("STOP"),
    ])
    .unwrap();
    assert_eq!(
        completion.parts,
        vec![
            reasoning("Let me see.", Some("gemini-thought:OWN")),
            Part::Text { text: "Hello".into() },
            reasoning("", Some("gemini:NEXT")),
            call("call_1", "shell", r#"{"x":1}"#),
            call("call_2", "list", "{}"),
            call("own", "list", "{}"),
        ]
    );
    assert_eq!(completion.stop, Stop::Tools);
    assert_eq!(
        completion.usage,
        Usage { input: 40, cache_read: 60, cache_write: 0, output: 30, reasoning: 20, estimated: 0 }
    );
}

#[test]
fn every_end_has_its_meaning() {
    let stop =
        |reason: &str| fold(vec![chunk(json!([{"text": "x"}])), end(reason)]).map(|answer| answer.stop);
    assert_eq!(stop("STOP"), Ok(Stop::End));
    assert_eq!(stop("MAX_TOKENS"), Ok(Stop::Length));
    assert_eq!(stop("SAFETY"), Ok(Stop::Refusal));
    assert_eq!(stop("PROHIBITED_CONTENT"), Ok(Stop::Refusal));
    // Words before an end that is none would pass for the end of the work; calls that are whole can be run.
    assert_eq!(stop("OTHER"), Err(Fault::server(Complaint::stopped("OTHER"))));
    assert_eq!(stop("UNEXPECTED_TOOL_CALL"), Ok(Stop::Tools));
    let call = json!([{"text": "x"}, {"functionCall": {"name": "read", "args": {}}}]);
    for reason in ["OTHER", "TOO_MANY_TOOL_CALLS"] {
        let completion = fold(vec![chunk(call.clone()), end(reason)]).unwrap();
        assert_eq!((completion.stop, completion.parts.len()), (Stop::Tools, 2), "{reason}");
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}});
    let completion = fold(vec![blocked]).unwrap();
    assert_eq!((completion.stop, completion.usage.input), (Stop::Refusal, 5));
    assert_eq!(
        completion.parts,
        [Part::Text { text: "[broken off by the model server: SAFETY]".into() }],
        "people are told why"
    );
    for reason in ["OTHER", "MISSING_THOUGHT_SIGNATURE", "ADDED_LATER"] {
        let stopped = Fault::server(Complaint::stopped(reason));
        assert_eq!(fold(vec![end(reason)]), Err(stopped), "an answer with nothing in it says why");
    }
    assert_eq!(fold(vec![end("STOP")]).unwrap().stop, Stop::End);
    assert_eq!(fold(vec![chunk(json!([{"text": "x"}]))]), Err(Fault::BrokeOff));
}

#[test]
fn a_call_that_the_server_cannot_read_is_a_call_that_the_model_got_wrong() {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        schema: json!({"type": "object"}),
    };
    let request = Request { tools: vec![tool("read"), tool("shell")], ..Request::default() };
    let ended = |reason: &str, said: &str| {
        let mut fold = Box::new(Fold::new(Parts::after(&request)));
        let mut last = end(reason);
        last["candidates"][0]["finishMessage"] = json!(said);
        fold.event(&Event { name: String::new(), data: last.to_string() }, &mut |_| {}).unwrap();
        let completion = fold.finish().unwrap();
        assert_eq!((completion.stop, completion.usage.output), (Stop::Tools, 30), "{reason}");
        completion.parts
    };
    let said = "Malformed function call: print(default_api.shell(command='read it'";
    let arguments = format!("MALFORMED_FUNCTION_CALL: {said}");
    assert_eq!(ended("MALFORMED_FUNCTION_CALL", said), [call("call_1", "shell", &arguments)]);
    let long = ended("MALFORMED_FUNCTION_CALL", &"é".repeat(100_000));
    let [Part::Call(long)] = long.as_slice() else { panic!("{long:?}") };
    assert_eq!((long.tool.as_str(), long.arguments.chars().count()), ("unreadable_call", 2000));
    for reason in ["UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"] {
        assert_eq!(ended(reason, ""), [call("call_1", "unreadable_call", &format!("{reason}: "))]);
    }
}

#[test]
fn an_array_of_chunks_is_an_answer() {
    let mut fold = Box::new(Fold::new(Parts::default()));
    fold.whole(&json!([chunk(json!([{"text": "Hi."}])), end("STOP")]), &mut |_| {}).unwrap();
    assert_eq!(fold.finish().unwrap().parts, [Part::Text { text: "Hi.".into() }]);
}

#[test]
fn a_signature_goes_back_on_the_very_part_that_it_came_with() {
    let answer = fold(vec![
        chunk(json!([{"text": "Hm.", "thought": true}])),
        chunk(json!([{"text": "", "thoughtSignature": "FIRST"}])),
        chunk(json!([{"text": "Well, "}, {"text": "I look.", "thoughtSignature": "SAID"}])),
        chunk(json!([{"functionCall": {"name": "list", "args": {}}, "thoughtSignature": "CALL"}])),
        chunk(json!([{"text": "", "thoughtSignature": "LAST"}])),
        end("STOP"),
    ])
    .unwrap();
    assert_eq!(answer.stop, Stop::Tools);
    let parts = [
        json!({"text": "", "thoughtSignature": "FIRST"}),
        json!({"text": "Well, "}),
        json!({"text": "I look.", "thoughtSignature": "SAID"}),
        json!({"functionCall": {"id": "call_1", "name": "list", "args": {}}, "thoughtSignature": "CALL"}),
        json!({"text": "", "thoughtSignature": "LAST"}),
    ];
    assert_eq!(model_parts(&answer.parts, true), parts);
    let silent = fold(vec![chunk(json!([{"text": "", "thoughtSignature": "ONLY"}])), end("STOP")]).unwrap();
    assert_eq!(model_parts(&silent.parts, true), [json!({"text": "", "thoughtSignature": "ONLY"})]);
}

#[test]
fn a_server_that_takes_no_signatures_gets_none() {
    let parts = vec![
        reasoning("Thought.", Some("gemini-thought:OWN")),
        reasoning("", Some("gemini:NEXT")),
        Part::Text { text: "Now.".into() },
        call("a", "shell", "{}"),
        reasoning("", Some("gemini-empty:LAST")),
    ];
    let called = json!({"functionCall": {"id": "a", "name": "shell", "args": {}}});
    assert_eq!(model_parts(&parts, false), [json!({"text": "Now."}), called]);
}
