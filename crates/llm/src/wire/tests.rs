//! What each format writes for what they all can be asked for.

use super::*;
use crate::model::{Effort, sample};
use crate::prepare::prepare;
use crate::provider::Provider;
use crate::quirks::{Structured, System};
use protocol::ImageFile;
use protocol::chat::{AnswerSchema, Image, Message, Stop, ToolChoice, ToolSpec};
use serde_json::json;
use std::collections::HashSet;

/// One provider for each format, with a model of its own.
const FORMATS: [(Provider, &str); 4] = [
    (Provider::OpenAi, "gpt-5"),
    (Provider::OpenAiResponses, "gpt-5"),
    (Provider::Anthropic, "claude-sonnet-4-5"),
    (Provider::Gemini, "gemini-2.5-pro"),
];

fn request() -> Request {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    Request {
        system: "Be brief.".into(),
        messages: vec![Message::user("Go.")],
        tools: vec![ToolSpec { name: "shell".into(), description: "d".into(), schema }],
        max_output_tokens: 30_000,
        ..Request::default()
    }
}

fn written(model: &Model, request: &Request) -> Value {
    written_with(model, request, Quirks::of(model))
}

fn written_with(model: &Model, request: &Request, quirks: Quirks) -> Value {
    body(model, &prepare(model, request, quirks, &HashSet::new()).request, quirks)
}

fn answer() -> AnswerSchema {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
        "additionalProperties": false});
    AnswerSchema { name: "number".into(), schema }
}

fn png() -> ImageFile {
    let (name, media_type) = ("img_1.png".to_owned(), "image/png".to_owned());
    ImageFile { name, media_type, bytes: 3000, width: 64, height: 48 }
}

#[test]
fn only_words_of_an_unknown_kind_are_passed_over() {
    let model = |provider| sample(provider, "m");
    for (provider, known) in FORMATS.map(|(provider, _)| provider).into_iter().zip([
        "message",
        "response.created",
        "content_block_delta",
        "message",
    ]) {
        let model = model(provider);
        let mut fold = fold(&model, &request(), Quirks::of(&model));
        let mut take =
            |name: &str, data: &str| fold.event(&Event { name: name.into(), data: data.into() }, &mut |_| {});
        for name in ["keepalive", "ping"] {
            assert_eq!(take(name, "keep-alive"), Ok(Progress::Open), "{provider:?}");
        }
        for name in ["", "error", known] {
            let broken = take(name, "{\"broken");
            assert!(matches!(broken, Err(Fault::Malformed(_))), "{provider:?} {name}: {broken:?}");
        }
        // Whatever it is called, an error is one.
        let told = take("trouble", r#"{"error":{"message":"no"}}"#);
        assert!(matches!(told, Err(Fault::Server(_))), "{provider:?}: {told:?}");
    }
}

#[test]
fn what_a_server_does_not_know_of_responses_is_left_out() {
    let model = sample(Provider::OpenAiResponses, "m");
    let usual = Quirks::of(&model);
    let whole = written_with(&model, &request(), usual);
    let less = |quirks| written_with(&model, &request(), quirks);
    assert_eq!(less(Quirks { store: false, ..usual }).get("store"), None);
    assert_eq!(less(Quirks { encrypted_reasoning: false, ..usual }).get("include"), None);
    let endless = Quirks { answer_limit: false, ..usual };
    assert_eq!(less(endless).get("max_output_tokens"), None);
    assert_eq!(less(Quirks { strict_tools: false, ..usual })["tools"][0].get("strict"), None);
    assert_eq!((&whole["store"], &whole["tools"][0]["strict"]), (&json!(false), &json!(false)));
    let told = less(Quirks { system: System::Message, ..usual });
    assert_eq!(told.get("instructions"), None);
    let system = json!({"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]});
    assert_eq!((&told["input"][0], &told["input"][1]), (&system, &whole["input"][0]));

    // What nobody limited is whole, however long it is.
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": [],
        "usage": {"input_tokens": 1, "output_tokens": 90_000}}});
    let stop = |quirks| {
        let mut fold = fold(&model, &request(), quirks);
        fold.event(&Event { name: String::new(), data: end.to_string() }, &mut |_| {}).unwrap();
        fold.finish().unwrap().stop
    };
    assert_eq!([stop(usual), stop(endless)], [Stop::Length, Stop::End]);
}

#[test]
fn schemas_lose_what_a_server_does_not_take_in_them() {
    for (provider, name) in FORMATS {
        let model = sample(provider, name);
        let mut closed = Request { answer: Some(answer()), ..request() };
        closed.tools[0].schema["additionalProperties"] = json!(false);
        let written = |closed_schemas| {
            let quirks = Quirks { closed_schemas, ..Quirks::of(&model) };
            written_with(&model, &closed, quirks).to_string().contains("additionalProperties")
        };
        // Gemini never takes them.
        assert_eq!([written(true), written(false)], [provider != Provider::Gemini, false], "{provider:?}");
    }
}

#[test]
fn images_of_results_go_where_each_format_has_them() {
    use protocol::chat::{Call, Part, ToolResult};
    let call = |id: &str| {
        Part::Call(Call { id: id.into(), tool: "read".into(), arguments: "{\"path\":\"a.png\"}".into() })
    };
    let result =
        |id: &str, images| ToolResult { call_id: id.into(), text: id.into(), is_error: false, images };
    let image = Image { file: png(), data: "iVBOR".into() };
    let request = Request {
        messages: vec![
            Message::user("Look."),
            Message::Assistant { parts: vec![call("a"), call("b")] },
            Message::Tools { results: vec![result("a", vec![image]), result("b", Vec::new())] },
        ],
        ..request()
    };
    let url = "data:image/png;base64,iVBOR";
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBOR"});
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "iVBOR"}});
    let function =
        |id: &str| json!({"functionResponse": {"id": id, "name": "read", "response": {"output": id}}});
    let mut nested = function("a");
    nested["functionResponse"]["parts"] = json!([inline]);
    let expected = [
        // After all results, because nothing else may stand between them.
        (
            Provider::OpenAi,
            "gpt-5",
            "/messages/5",
            json!({"role": "user", "content": [
            {"type": "text", "text": "(The images that the calls above gave.)"},
            {"type": "image_url", "image_url": {"url": url}}]}),
        ),
        (Provider::OpenAi, "gpt-5", "/messages/3/content", json!("a")),
        (
            Provider::OpenAiResponses,
            "gpt-5",
            "/input/3/output",
            json!([
            {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]),
        ),
        (Provider::OpenAiResponses, "gpt-5", "/input/4/output", json!("b")),
        (
            Provider::Anthropic,
            "claude-sonnet-4-5",
            "/messages/2/content/0/content",
            json!([
            {"type": "text", "text": "a"}, {"type": "image", "source": source}]),
        ),
        (Provider::Anthropic, "claude-sonnet-4-5", "/messages/2/content/1/content", json!("b")),
        (
            Provider::Gemini,
            "gemini-2.5-pro",
            "/contents/2/parts",
            json!([function("a"), inline, function("b")]),
        ),
        (Provider::Gemini, "gemini-3-pro", "/contents/2/parts", json!([nested, function("b")])),
    ];
    for (provider, name, place, shape) in expected {
        let body = written(&sample(provider, name), &request);
        assert_eq!(body.pointer(place), Some(&shape), "{provider:?}: {body}");
    }
    let body = written(&sample(Provider::OpenRouter, "anthropic/claude-sonnet-4.5"), &request);
    let marked = |part: usize| body["messages"][5]["content"][part].get("cache_control").is_some();
    assert_eq!([marked(0), marked(1)], [true, false], "an image takes no mark: {body}");
}

#[test]
fn images_go_where_each_format_has_them() {
    let image = Image { file: png(), data: "iVBOR".into() };
    let request = Request {
        messages: vec![Message::User { text: "What is it?".into(), images: vec![image] }],
        ..request()
    };
    let url = "data:image/png;base64,iVBOR";
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBOR"});
    let places =
        ["/messages/1/content/1", "/input/0/content/1", "/messages/0/content/0", "/contents/0/parts/0"];
    let shapes = [
        json!({"type": "image_url", "image_url": {"url": url}}),
        json!({"type": "input_image", "image_url": url}),
        json!({"type": "image", "source": source}),
        json!({"inlineData": {"mimeType": "image/png", "data": "iVBOR"}}),
    ];
    for (((provider, name), place), shape) in FORMATS.into_iter().zip(places).zip(shapes) {
        let body = written(&sample(provider, name), &request);
        assert_eq!(body.pointer(place), Some(&shape), "{provider:?}: {body}");
    }
}

#[test]
fn a_tool_can_be_demanded_and_forbidden() {
    let places =
        ["/tool_choice", "/tool_choice", "/tool_choice/type", "/toolConfig/functionCallingConfig/mode"];
    let words = [["required", "none"], ["required", "none"], ["any", "none"], ["ANY", "NONE"]];
    for (((provider, name), place), words) in FORMATS.into_iter().zip(places).zip(words) {
        let model = sample(provider, name);
        assert_eq!(written(&model, &request()).pointer(place), None, "{provider:?}");
        for (choice, word) in [ToolChoice::Required, ToolChoice::Never].into_iter().zip(words) {
            let body = written(&model, &Request { tool_choice: choice, ..request() });
            assert_eq!(body.pointer(place), Some(&json!(word)), "{provider:?}: {body}");
        }
    }
}

#[test]
fn an_answer_is_held_to_its_schema_as_the_server_can() {
    let request = Request { tools: Vec::new(), answer: Some(answer()), ..request() };
    let schema = answer().schema;
    let places = [
        "/response_format/json_schema/schema",
        "/text/format/schema",
        "/output_config/format/schema",
        "/generationConfig/responseSchema/properties/n/type",
    ];
    let shapes = [schema.clone(), schema.clone(), schema, json!("integer")];
    for (((provider, name), place), shape) in FORMATS.into_iter().zip(places).zip(shapes) {
        let model = sample(provider, name);
        let body = written(&model, &request);
        assert_eq!(body.pointer(place), Some(&shape), "{provider:?}: {body}");
        let asked = Quirks { structured: Structured::Asked, ..Quirks::of(&model) };
        let body = written_with(&model, &request, asked);
        assert_eq!(body.pointer(place), None, "{provider:?}");
        assert!(body.to_string().contains("must fit this JSON schema"), "{provider:?}: {body}");
    }
    let strict = written(&sample(Provider::OpenAi, "gpt-5"), &request);
    assert_eq!(strict["response_format"]["json_schema"]["strict"], true);
    let older = written(&sample(Provider::Anthropic, "claude-3-5-haiku-latest"), &request);
    assert_eq!(
        (&older["tools"][0]["name"], &older["tool_choice"]["type"]),
        (&json!("answer"), &json!("any"))
    );
    // A server elsewhere may take the schema and not hold the model to it, so that it is told as well.
    let elsewhere =
        Model { base_url: Some("http://127.0.0.1:1/v1".into()), ..sample(Provider::OpenAiResponses, "x") };
    let body = written(&elsewhere, &request);
    assert_eq!(body.pointer("/text/format/schema"), Some(&answer().schema));
    assert!(body["instructions"].to_string().contains("must fit this JSON schema"), "{body}");
}

#[test]
fn the_amount_of_thinking_is_said_in_each_format_s_words() {
    let places = [
        "/reasoning_effort",
        "/reasoning/effort",
        "/thinking/budget_tokens",
        "/generationConfig/thinkingConfig/thinkingBudget",
    ];
    let words = [json!("high"), json!("high"), json!(24_576), json!(24_576)];
    for (((provider, name), place), word) in FORMATS.into_iter().zip(places).zip(words) {
        let mut model = sample(provider, name);
        assert_eq!(written(&model, &request()).pointer(place), None, "{provider:?}");
        model.overrides.effort = Some(Effort::High);
        let body = written(&model, &Request { max_output_tokens: 8192, ..request() });
        assert_eq!(body.pointer(place), Some(&word), "{provider:?}: {body}");
    }
    let mut newer = sample(Provider::Anthropic, "claude-opus-5-5");
    newer.overrides.effort = Some(Effort::Low);
    let body = written(&newer, &request());
    assert_eq!(
        (&body["thinking"]["type"], &body["output_config"]["effort"]),
        (&json!("adaptive"), &json!("low"))
    );
}

#[test]
fn what_a_model_thinks_does_not_take_the_room_of_its_answer() {
    let places =
        ["/max_completion_tokens", "/max_output_tokens", "/max_tokens", "/generationConfig/maxOutputTokens"];
    let request = Request { max_output_tokens: 8192, ..request() };
    let limit = |model: &Model, place: &str| written(model, &request).pointer(place).cloned();
    for ((provider, name), place) in FORMATS.into_iter().zip(places) {
        let mut model = sample(provider, name);
        let unasked = if provider == Provider::Anthropic { 8192 } else { 8192 + 24_576 };
        assert_eq!(limit(&model, place), Some(json!(unasked)), "{provider:?}");
        model.overrides.effort = Some(Effort::High);
        assert_eq!(limit(&model, place), Some(json!(8192 + 24_576)), "{provider:?}");
        model.overrides.max_output = Some(8192);
        assert_eq!(limit(&model, place), Some(json!(8192)), "{provider:?} cannot write more");
    }
    let mut newer = sample(Provider::Anthropic, "claude-opus-5-5");
    newer.overrides.effort = Some(Effort::Low);
    assert_eq!(limit(&newer, "/max_tokens"), Some(json!(8192 + 24_576)));
    let forced = Request { tool_choice: ToolChoice::Required, ..request.clone() };
    assert_eq!(written(&newer, &forced)["max_tokens"], 8192, "it does not think then");
    assert_eq!(limit(&sample(Provider::OpenAiCompatible, "gpt-4o"), "/max_tokens"), Some(json!(8192)));
}

#[test]
fn properties_of_a_schema_are_written_in_the_order_in_which_they_are_required() {
    let inner = json!({"properties": {"command": {}, "tool": {}, "a": {}}, "required": ["tool", "command"]});
    let schema =
        json!({"properties": {"call": {"anyOf": [inner]}, "thought": {}}, "required": ["thought", "call"]});
    let written = text(&schema);
    let places =
        ["thought", "call", "tool", "command", "a"].map(|name| written.find(&format!("\"{name}\":")));
    assert!(places.is_sorted() && places[0].is_some(), "{written}");
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), schema);
}

#[test]
fn the_temperature_is_said_unless_the_model_reasons_or_refuses() {
    let place = ["/temperature", "/temperature", "/temperature", "/generationConfig/temperature"];
    let warm = Request { temperature: Some(0.5), ..request() };
    for ((provider, name), place) in FORMATS.into_iter().zip(place) {
        let mut model = sample(provider, name);
        assert_eq!(written(&model, &request()).pointer(place), None, "{provider:?}");
        assert_eq!(written(&model, &warm).pointer(place), Some(&json!(0.5)), "{provider:?}");
        let refuses = Quirks { temperature: false, ..Quirks::of(&model) };
        assert_eq!(written_with(&model, &warm, refuses).pointer(place), None, "{provider:?}");
        model.overrides.effort = Some(Effort::High);
        assert_eq!(written(&model, &warm).pointer(place), None, "{provider:?}");
    }
}

#[test]
fn caches_are_used_as_each_provider_wants() {
    let request = Request { cache_key: Some("ses_1".into()), ..request() };
    let of = |provider, name: &str| written(&sample(provider, name), &request);
    assert_eq!(of(Provider::OpenAi, "gpt-5")["prompt_cache_key"], "ses_1");
    assert_eq!(of(Provider::OpenAiResponses, "gpt-5")["prompt_cache_key"], "ses_1");
    assert_eq!(of(Provider::OpenAiCompatible, "x").get("prompt_cache_key"), None);
    let marks = |body: Value| body.to_string().matches("cache_control").count();
    assert_eq!(marks(of(Provider::Anthropic, "claude-sonnet-4-5")), 3, "tools, system and the one message");
    assert_eq!(
        marks(of(Provider::OpenRouter, "anthropic/claude-sonnet-4.5")),
        2,
        "system and the one message"
    );
    assert_eq!(marks(of(Provider::OpenRouter, "openai/gpt-5")), 0);
}

#[test]
fn a_model_that_sees_no_images_is_told_of_them_in_every_format() {
    let image = || Image { file: png(), data: "iVBOR".into() };
    let messages = vec![
        Message::User { text: "What is it?".into(), images: vec![image(), image()] },
        Message::User { text: String::new(), images: vec![image()] },
    ];
    let request = Request { messages, ..request() };
    for (provider, name) in FORMATS {
        let model = sample(provider, name);
        let blind = Quirks { images: false, ..Quirks::of(&model) };
        let body = written_with(&model, &request, blind).to_string();
        assert!(!body.contains("iVBOR"), "{provider:?}: {body}");
        assert_eq!(body.matches("Here is an image (image/png").count(), 3, "{provider:?}: {body}");
        assert!(written(&model, &request).to_string().contains("iVBOR"), "{provider:?} sees");
        let notes = prepare(&model, &request, blind, &HashSet::new()).notes;
        assert!(notes[0].starts_with("3 images"), "{notes:?}");
    }
    let known = sample(Provider::OpenAiCompatible, "Qwen2.5-Coder-32B-Instruct");
    assert!(!written(&known, &request).to_string().contains("iVBOR"));
}

#[test]
fn what_the_call_before_wrote_to_the_cache_is_found_again() {
    use protocol::chat::{Call, Part, ToolResult};
    let step = |calls: usize| {
        let call =
            |number: usize| Call { id: format!("c{number}"), tool: "shell".into(), arguments: "{}".into() };
        let result = |number: usize| ToolResult {
            call_id: format!("c{number}"),
            text: "x".into(),
            is_error: false,
            images: Vec::new(),
        };
        let parts = (0..calls).map(call).map(Part::Call).collect();
        [Message::Assistant { parts }, Message::Tools { results: (0..calls).map(result).collect() }]
    };
    let conversation = |calls: usize| {
        let messages = [Message::user("Go.")].into_iter().chain(step(calls)).collect();
        Request { messages, ..request() }
    };
    let marked = |provider, name: &str, calls: usize| {
        let body = written(&sample(provider, name), &conversation(calls));
        let messages = body["messages"].as_array().unwrap().clone();
        let has = |message: &Value| message.to_string().contains("cache_control");
        messages
            .iter()
            .enumerate()
            .filter(|(_, message)| has(message))
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
    };
    assert_eq!(marked(Provider::Anthropic, "claude-sonnet-4-5", 2), [2]);
    let blocks = |provider, calls: usize| {
        let body = written(&sample(provider, "claude-sonnet-4-5"), &conversation(calls));
        let marks = |message: &Value| -> Vec<usize> {
            let blocks = message["content"].as_array().unwrap().iter().enumerate();
            blocks.filter(|(_, block)| block.get("cache_control").is_some()).map(|(index, _)| index).collect()
        };
        body["messages"].as_array().unwrap().iter().map(marks).collect::<Vec<_>>()
    };
    // Twelve calls and results are too far; from the sixth result both ends are found.
    assert_eq!(blocks(Provider::BedrockAnthropic, 9), [vec![], vec![], vec![8]]);
    assert_eq!(blocks(Provider::BedrockAnthropic, 12), [vec![], vec![], vec![5, 11]]);
    assert_eq!(blocks(Provider::VertexAnthropic, 18), [vec![], vec![17], vec![17]]);
    assert_eq!(
        blocks(Provider::BedrockAnthropic, 19),
        [vec![0], vec![], vec![18]],
        "too far for one in between"
    );
    // Where calls that follow each other are one position, and results too, it is not far.
    assert_eq!(blocks(Provider::Anthropic, 40), [vec![], vec![], vec![39]]);
    let mut told = conversation(40);
    told.messages.extend((0..20).map(|number| Message::user(format!("Note {number}."))));
    let body = written(&sample(Provider::Anthropic, "claude-sonnet-4-5"), &told);
    let content = body["messages"][2]["content"].as_array().unwrap();
    let marks = content.iter().enumerate().filter(|(_, block)| block.get("cache_control").is_some());
    let marks: Vec<usize> = marks.map(|(index, _)| index).collect();
    assert_eq!(marks, [40 + 15, 40 + 19], "words are a position each");
    assert_eq!(marked(Provider::OpenRouter, "anthropic/claude-sonnet-4.5", 2), [0, 4]);
    assert_eq!(marked(Provider::OpenRouter, "anthropic/claude-sonnet-4.5", 12), [0, 7, 14]);
    assert_eq!(marked(Provider::OpenRouter, "anthropic/claude-sonnet-4.5", 17), [0, 1, 19]);
}

#[test]
fn vertex_names_the_model_in_the_address() {
    let body = written(&sample(Provider::VertexAnthropic, "claude-sonnet-4-5"), &request());
    assert_eq!((body.get("model"), &body["anthropic_version"]), (None, &json!("vertex-2023-10-16")));
}

#[test]
fn openrouter_gets_its_details_of_reasoning_back_and_nobody_else_does() {
    let details = json!([{"type": "reasoning.text", "text": "Hm.", "signature": "SIG", "index": 0}]);
    let reasoning = protocol::chat::Part::Reasoning {
        text: "Hm.".into(),
        signature: Some(format!("{OPENROUTER_MARK}{details}")),
    };
    let said = protocol::chat::Part::Text { text: "So.".into() };
    let request = Request {
        messages: vec![Message::Assistant { parts: vec![reasoning, said] }, Message::user("On.")],
        ..request()
    };
    let body = written(&sample(Provider::OpenRouter, "x"), &request);
    assert_eq!(body["messages"][1]["reasoning_details"], details);
    for (provider, name) in FORMATS {
        let body = written(&sample(provider, name), &request).to_string();
        assert!(!body.contains("SIG"), "{provider:?}: {body}");
    }
    let back = Quirks { reasoning_back: true, ..Quirks::of(&sample(Provider::OpenAiCompatible, "x")) };
    let body = written_with(&sample(Provider::OpenAiCompatible, "x"), &request, back);
    assert_eq!(body["messages"][1]["reasoning_content"], "Hm.");
}

/// The requests of a turn of fifty steps, as they are sent, with so many calls in each.
fn turn_of_fifty_steps(model: &Model, calls: fn(usize) -> usize) -> Vec<String> {
    use protocol::chat::{Call, Part, ToolResult};
    let mut request = Request {
        system: "Be careful, and follow what you find. ".repeat(60),
        tools: ["shell", "read", "write", "edit", "search", "list", "check", "plan"]
            .map(|name| ToolSpec {
                name: name.into(),
                description: "Does what its name says, and says what came of it. ".repeat(4),
                schema: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
            })
            .to_vec(),
        cache_key: Some("ses_1".into()),
        ..request()
    };
    let mut sent = Vec::new();
    for step in 0..50_usize {
        sent.push(text(&written(model, &request)));
        let call = |number: usize| Call {
            id: format!("call_{step}_{number}"),
            tool: "shell".into(),
            arguments: json!({"command": format!("make step-{step}-{number}")}).to_string(),
        };
        let calls: Vec<Call> = (0..calls(step)).map(call).collect();
        let results = calls.iter().map(|call| ToolResult {
            call_id: call.id.clone(),
            text: format!("{step} {}", "some output\n".repeat(step * 37 % 60)),
            is_error: step % 7 == 0,
            images: Vec::new(),
        });
        let results = results.collect();
        let mut parts = vec![Part::Text { text: format!("Now step {step}.") }];
        parts.extend(calls.into_iter().map(Part::Call));
        request.messages.extend([Message::Assistant { parts }, Message::Tools { results }]);
    }
    sent
}

/// How many of the bytes are the beginning of the request before, in hundredths.
fn unchanged(requests: &[String]) -> usize {
    let (mut same, mut all) = (0, 0);
    for pair in requests.windows(2) {
        // In pieces, because letter by letter takes long; what is left of the last piece counts as changed.
        let [before, now] = [&pair[0], &pair[1]].map(|text| text.as_bytes().chunks_exact(64));
        same += 64 * before.zip(now).take_while(|(before, now)| before == now).count();
        all += pair[1].len();
    }
    same * 10_000 / all
}

#[test]
fn most_bytes_of_each_request_are_those_of_the_request_before() {
    let claude = (Provider::OpenRouter, "anthropic/claude-sonnet-4.5");
    let bedrock = (Provider::BedrockAnthropic, "claude-sonnet-4-5");
    for (provider, name) in FORMATS.into_iter().chain([claude, bedrock]) {
        for (kind, calls) in [
            ("some", (|step| if step % 7 == 6 { 10 } else { 1 + step % 3 }) as fn(usize) -> usize),
            ("many", |_| 15),
        ] {
            let requests = turn_of_fifty_steps(&sample(provider, name), calls);
            let mark = r#","cache_control":{"type":"ephemeral"}"#;
            let unmarked: Vec<String> = requests.iter().map(|text| text.replace(mark, "")).collect();
            assert!(!unmarked[1].contains("cache_control"), "{}", unmarked[1]);
            assert!(unchanged(&unmarked) >= 9500, "{provider:?}, {kind}: {}", unchanged(&unmarked));
            // Where each block is a position, a mark has to stand among many calls, and moves on with the next step.
            let moves = kind == "many" && [claude, bedrock].contains(&(provider, name));
            let least = if moves { 9250 } else { 9500 };
            assert!(unchanged(&requests) >= least, "{provider:?}, {kind}: {}", unchanged(&requests));
            let read: Value = serde_json::from_str(&requests[1]).unwrap();
            assert_eq!(text(&read), requests[1], "it is what it was");
            assert_eq!(read.to_string().len(), requests[1].len(), "nothing but the order is different");
        }
    }
}

#[test]
fn counts_may_be_decimal_numbers() {
    let usage = serde_json::json!({"a": 100, "b": 100.0, "c": {"d": 6.6}, "e": -3, "f": "7", "g": null});
    let counts = ["/a", "/b", "/c/d", "/e", "/f", "/g", "/h"].map(|pointer| count(&usage, pointer));
    assert_eq!(counts, [100, 100, 7, 0, 0, 0, 0]);
}
