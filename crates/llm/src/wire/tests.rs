//! What each format writes for what they all can be asked for.

use super::*;
use crate::model::{Effort, sample};
use crate::prepare::prepare;
use crate::provider::Provider;
use crate::quirks::Structured;
use protocol::chat::{AnswerSchema, Image, Message, ToolChoice, ToolSpec};
use serde_json::json;
use std::collections::HashSet;

/// One provider for each format, with a model of its own.
const FORMATS: [(Provider, &str); 4] = [
    (Provider::OpenAi, "gpt-5"),
    (Provider::OpenAiResponses, "gpt-5"),
    (Provider::Anthropic, "claude-sonnet-4-5"),
    (Provider::GeminiNative, "gemini-2.5-pro"),
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

#[test]
fn images_go_where_each_format_has_them() {
    let image = Image { media_type: "image/png".into(), data: "iVBOR".into() };
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
        let body = written(&model, &request());
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
