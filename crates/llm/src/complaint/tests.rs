//! What servers say, and what we make of it.

use super::*;
use crate::key::Key;
use crate::model::sample;
use crate::provider::Provider;

fn model() -> Model {
    Model {
        base_url: Some("http://127.0.0.1:1/v1".into()),
        key: Some(Key::new("sk-secret".into())),
        ..sample(Provider::OpenAiCompatible, "big")
    }
}

fn complaint(status: u16, body: &str) -> Complaint {
    Complaint::from_response(status, Hints::default(), body)
}

#[test]
fn status_and_words_give_the_class() {
    let class = |status, body: &str| complaint(status, body).class();
    assert_eq!(class(401, ""), Class::Auth);
    assert_eq!(class(403, "<html>"), Class::Auth);
    assert_eq!(class(404, "{}"), Class::UnknownModel);
    assert_eq!(class(408, ""), Class::TimedOut);
    assert_eq!(class(429, r#"{"error":{"message":"too many input tokens per minute"}}"#), Class::RateLimited);
    for status in [500, 502, 503, 504, 529] {
        assert_eq!(class(status, "oops"), Class::Overloaded);
    }
    assert_eq!(class(409, "conflict"), Class::Overloaded);
    assert_eq!(class(413, ""), Class::ContextOverflow);
    assert_eq!(class(400, r#"{"error":{"message":"no such parameter"}}"#), Class::BadRequest);
    for said in [
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000"}}"#,
        r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
    ] {
        assert_eq!(class(400, said), Class::ContextOverflow, "{said}");
    }
    for said in [
        "The decoder prompt (length 36001) is longer than the maximum model length of 6000.",
        "Your request exceeded model token limit: 262144 (requested: 269030)",
        "model max length exceeded, max length:8192",
        "total message size 2200000 exceeds limit 2097152",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000",
        "Prompt exceeds max length",
        "prompt token count of 140000 exceeds the limit of 128000",
        "too many tokens: size limit exceeded by 11326 tokens",
        "Request payload size exceeds the limit: 20971520 bytes.",
    ] {
        assert_eq!(class(400, said), Class::ContextOverflow, "{said}");
    }
    assert_eq!(
        class(500, r#"{"detail":"The decoder prompt is longer than the maximum model length"}"#),
        Class::ContextOverflow
    );
    assert_eq!(
        class(400, r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]"#),
        Class::Auth
    );
}

#[test]
fn a_request_that_a_key_may_never_send_is_an_overflow_and_one_that_waits_is_not() {
    let said = |message: &str| {
        let error = serde_json::json!({"message": message, "type": "tokens", "param": null,
            "code": "rate_limit_exceeded"});
        serde_json::json!({"error": error}).to_string()
    };
    let large = "Request too large for gpt-4.1 (for limit gpt-4.1) in organization org-1 on tokens per min (TPM): \
                 Limit 30000, Requested 37313. The input or output tokens must be reduced in order to run successfully.";
    let small = "Request too large for model `gpt-oss` on tokens per minute (TPM): Limit 8000, Requested 12328, please \
                 reduce your message size and try again. Upgrade at https://example.com/settings/billing";
    for (status, message, limit) in [(429, large, 30_000), (413, small, 8000)] {
        let complaint = complaint(status, &said(message));
        assert_eq!((complaint.takes(), complaint.allowed_at_once()), (Some(limit), Some(limit)), "{message}");
        let error = complaint.into_error(&model());
        assert_eq!((error.class, crate::retry_delay(&error, 1)), (Class::ContextOverflow, None), "{message}");
        let words =
            format!("\"main\" may not send more tokens in a minute than {limit}, and this request alone");
        assert!(error.message.contains(&words), "{}", error.message);
        assert!(error.message.contains("have the provider raise the limit"), "{}", error.message);
    }
    let unnumbered = complaint(429, &said("Request too large for m on tokens per min."));
    assert_eq!((unnumbered.class(), unnumbered.takes()), (Class::ContextOverflow, None));
    let streamed = serde_json::from_str(&said(large)).unwrap();
    assert_eq!(Complaint::from_json(&streamed).unwrap().class(), Class::ContextOverflow);
    for waits in [
        "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms.",
        "Rate limit reached for m on requests per min (RPM): Limit 3, Used 3, Requested 1.",
        "Rate limit reached for m on tokens per min (TPM): Limit 0, Requested 385.",
    ] {
        assert_eq!(complaint(429, &said(waits)).class(), Class::RateLimited, "{waits}");
    }
    let window =
        complaint(400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#);
    assert_eq!((window.takes(), window.allowed_at_once()), (Some(200_000), None));
    assert_eq!(complaint(400, "maximum context length is unknown to this parameter").takes(), None);
}

#[test]
fn what_no_waiting_cures_is_told_at_once() {
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let credit = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#;
    let tools = r#"{"error":{"message":"registry.ollama.ai/library/tiny:latest does not support tools"}}"#;
    let parser = r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","code":400}"#;
    let image = r#"{"error":{"message":"image input is not supported - hint: you may need the mmproj"}}"#;
    let jinja =
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#;
    let memory = r#"{"error":{"message":"model requires more system memory (5.6 GiB) than is available"}}"#;
    let flagged = r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged",
        "metadata":{"reasons":["violence"]}}}"#;
    let limits = r#"{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01."}}"#;
    let long = r#"{"error":{"message":"max_tokens is too large: 8192"}}"#;
    for (status, body, class, advice) in [
        (429, quota, Class::Unpaid, "billing"),
        (402, "", Class::Unpaid, "billing"),
        (400, credit, Class::Unpaid, "billing"),
        (400, tools, Class::Unsupported, "tool_mode = \"json_step\" or \"fenced\" in [models.main]"),
        (400, parser, Class::Unsupported, "--tool-call-parser"),
        (400, image, Class::Unsupported, "Leave images out"),
        (500, jinja, Class::Unsupported, "Start llama-server with --jinja, or set tool_mode"),
        (501, "{}", Class::Unsupported, "Check [models.main]"),
        (500, r#"{"error":{"message":"Unsupported param: tools"}}"#, Class::Unsupported, "tool_mode"),
        (500, memory, Class::Unsupported, "choose a smaller model"),
        (403, flagged, Class::BadRequest, "content filter"),
        (400, limits, Class::Unpaid, "billing"),
        (400, long, Class::BadRequest, "Set max_output of [models.main]"),
        (404, r#"{"error":{"code":"model_not_found","message":"gone"}}"#, Class::UnknownModel, "\"big\""),
        (400, r#"{"error":{"message":"big is not a valid model ID"}}"#, Class::UnknownModel, "\"big\""),
        (400, r#"{"error":{"code":"content_filter","message":"no"}}"#, Class::BadRequest, "content filter"),
    ] {
        let error = complaint(status, body).into_error(&model());
        assert_eq!(error.class, class, "{}", error.message);
        assert!(error.message.contains(advice), "{}", error.message);
        assert!(!error.class.may_pass() && error.retry_after.is_none(), "{}", error.message);
    }
}

#[test]
fn errors_inside_a_stream_are_classed_by_their_words() {
    let class = |json: Value| Complaint::from_json(&json).unwrap().class();
    let error = |kind: &str| serde_json::json!({"type": "error", "error": {"type": kind, "message": "m"}});
    assert_eq!(class(error("overloaded_error")), Class::Overloaded);
    assert_eq!(class(error("rate_limit_error")), Class::RateLimited);
    assert_eq!(class(error("invalid_request_error")), Class::BadRequest);
    assert_eq!(class(error("api_error")), Class::Overloaded);
    assert_eq!(class(serde_json::json!({"error": {"code": 429, "message": "slow"}})), Class::RateLimited);
    assert_eq!(class(serde_json::json!({"error": "out of memory"})), Class::Overloaded);
    assert_eq!(Complaint::from_json(&serde_json::json!({"error": null, "choices": []})), None);
}

#[test]
fn the_wait_is_taken_from_wherever_it_is() {
    let body = r#"{"error":{"code":429,"message":"Please retry in 46.5s.","status":"RESOURCE_EXHAUSTED"}}"#;
    let error = complaint(429, body).into_error(&model());
    assert_eq!(error.retry_after, Some(Duration::from_millis(46_500)));
    assert!(error.message.contains("Wait 47 s"), "{}", error.message);
    let hints = Hints { wait: Some(Duration::from_secs(3)), retry: None };
    let error = Complaint::from_response(429, hints, body).into_error(&model());
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)), "a header says it more exactly");
    for (seconds, told) in [(100, "Wait 100 s"), (301, "Wait 6 min"), (86_400, "Wait 24 h")] {
        let hints = Hints { wait: Some(Duration::from_secs(seconds)), retry: None };
        let error = Complaint::from_response(429, hints, body).into_error(&model());
        assert!(error.message.contains(told), "{}", error.message);
    }
    let hints = Hints { wait: None, retry: Some(false) };
    let error = Complaint::from_response(529, hints, "").into_error(&model());
    assert_eq!((error.class, crate::retry_delay(&error, 1)), (Class::Overloaded, None), "the server says so");
    assert!(error.message.contains("too much to do"), "{}", error.message);
    let hints = Hints { wait: None, retry: Some(true) };
    let error = Complaint::from_response(400, hints, "").into_error(&model());
    assert!(crate::retry_delay(&error, 1).is_some(), "the server says so");
    let error = Complaint::from_response(401, hints, "").into_error(&model());
    assert_eq!((error.class, crate::retry_delay(&error, 1)), (Class::Auth, None));
}

#[test]
fn a_call_that_a_server_could_not_read_is_the_models_mistake() {
    let groq = r#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error",
        "code":"tool_use_failed","failed_generation":"<function=shell{\"command\""}}"#;
    let ollama =
        r#"{"error":{"message":"error parsing tool call: raw='{\"command\":\"ls' err=unexpected end"}}"#;
    for (status, body, said) in [
        (400, groq, "Failed to call a function. <function=shell{\"command\""),
        (500, ollama, "error parsing tool call: raw='{\"command\":\"ls' err=unexpected end"),
    ] {
        let complaint = complaint(status, body);
        assert_eq!(complaint.broken_call().as_deref(), Some(said));
        let error = complaint.into_error(&model());
        assert_eq!(error.class, Class::BadResponse, "another attempt is another answer");
        assert!(error.message.contains("could not read"), "{}", error.message);
    }
    assert_eq!(complaint(400, "no such tool").broken_call(), None);
}

#[test]
fn messages_say_what_to_do_and_hide_the_key() {
    let body = r#"{"error":{"message":"Incorrect API key provided: sk-secret."}}"#;
    let mut named = model();
    named.overrides.key_place = Some(crate::KeyPlace::Variable("MY_KEY".into()));
    let error = complaint(401, body).into_error(&named).redact(&named.secrets());
    assert_eq!(
        error.message,
        "The model server refused the key of model \"main\" (401): Incorrect API key provided: …. Check MY_KEY, which \
         api_key_env of [models.main] in slipway.toml names; a server that runs has it as it was when it was started."
    );
    let error = complaint(404, r#"{"error":"no such model"}"#).into_error(&model());
    assert_eq!(
        error.message,
        "The server at http://127.0.0.1:1/v1 does not know the model \"big\" (404): no such model. Check model and base_url \
         of [models.main] in slipway.toml."
    );
    let error = complaint(404, "").into_error(&model());
    assert_eq!(
        error.message,
        "The server at http://127.0.0.1:1/v1 has no model API there, or does not know the model \"big\" (404). Check base_url \
         and model of [models.main] in slipway.toml."
    );
}
