//! Model calls through the front door: a scripted model over real HTTP, in every wire format.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod cassettes;
mod clouds;
mod faults;
mod features;
mod local_model;
mod pictures;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use llm::{Answer, Class, Client, Delta, Error, Key, Model, Provider, Timeouts};
use protocol::Usage;
use protocol::chat::{Call, Completion, Message, Part, Request, Stop, ToolResult, ToolSpec};
use serde_json::{Value, json};
use testkit::model::{At, Gate, Options, Reply, Script, Server};

const KEY: &str = "sk-secret-0123456789";

/// One provider for each wire format.
const FORMATS: [Provider; 4] =
    [Provider::OpenAiCompatible, Provider::OpenAiResponses, Provider::Anthropic, Provider::Gemini];

fn model_at(provider: Provider, base_url: impl Into<String>) -> Model {
    Model {
        name: "main".into(),
        provider,
        model: "scripted".into(),
        base_url: Some(base_url.into()),
        key: Some(Key::new(KEY.into())),
        headers: BTreeMap::new(),
        price: None,
        overrides: llm::Overrides::default(),
    }
}

fn request(messages: Vec<Message>) -> Request {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let tools = vec![ToolSpec { name: "shell".into(), description: "Runs a command.".into(), schema }];
    Request {
        system: "You are careful.".into(),
        messages,
        tools,
        max_output_tokens: 1000,
        ..Request::default()
    }
}

fn user(text: &str) -> Message {
    Message::user(text)
}

async fn complete(model: &Model, request: &Request) -> (Result<Answer, Error>, Vec<Delta>) {
    let timeouts = Timeouts { idle: Duration::from_secs(20), ..Timeouts::default() };
    complete_within(timeouts, model, request).await
}

async fn complete_within(
    timeouts: Timeouts,
    model: &Model,
    request: &Request,
) -> (Result<Answer, Error>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let client = Client::with_timeouts(timeouts).unwrap();
    let answer = client.complete(model, request, &mut |delta| deltas.push(delta)).await;
    (answer, deltas)
}

#[tokio::test]
async fn everything_that_a_model_says_arrives_however_the_bytes_are_split() {
    let usage = Usage { input: 40, cache_read: 60, cache_write: 0, output: 30, reasoning: 20, estimated: 0 };
    for provider in FORMATS {
        for pieces in [None, Some(1), Some(7), Some(4096)] {
            let mut reply = Reply::new()
                .signed_reasoning("Was könnte es sein?", "SIG")
                .say("Ich schaue nach … 🦀\nGleich.")
                .call("shell", json!({"command": "grep -r \"Grüße\" ."}))
                .call("shell", json!({}))
                .usage(usage);
            if let Some(size) = pieces {
                reply = reply.pieces(size);
            }
            let server = Server::start(Script::new().answer(reply)).await;
            let (answer, deltas) =
                complete(&model_at(provider, server.url()), &request(vec![user("Go.")])).await;
            let answer = answer.unwrap();
            assert_eq!(server.violations(), Vec::<String>::new());
            let (reasoning, text, calls) = gathered(&deltas);
            assert_eq!(reasoning, "Was könnte es sein?");
            assert_eq!(text, "Ich schaue nach … 🦀\nGleich.");
            assert_eq!(calls.iter().map(|(tool, _)| tool.as_str()).collect::<Vec<_>>(), ["shell", "shell"]);

            let parts = answer.completion.parts;
            let signature = match provider {
                Provider::Anthropic => Some("SIG"),
                Provider::OpenAiResponses => Some("responses:rs_0_0:SIG"),
                Provider::Gemini => Some("gemini:SIG"),
                _ => None,
            };
            let Part::Reasoning { text: thought, signature: signed } = &parts[0] else { panic!("{parts:?}") };
            assert_eq!(*thought, reasoning);
            // It stands behind who made it.
            let signed = signed.as_ref().map(|signed| signed.split_once(':').unwrap().1);
            assert_eq!(signed, signature);
            assert_eq!(parts[1], Part::Text { text });
            for (part, (_, arguments)) in parts[2..].iter().zip(&calls) {
                assert!(matches!(part, Part::Call(call) if call.arguments == *arguments), "{part:?}");
            }
            assert_eq!(serde_json::from_str::<Value>(&calls[0].1).unwrap()["command"], "grep -r \"Grüße\" .");
            assert_eq!(parts.len(), 4);
            assert_eq!(answer.completion.stop, Stop::Tools);
            let expected = match provider {
                // Anthropic does not say which part of the answer was reasoning.
                Provider::Anthropic => Usage { output: 50, reasoning: 0, ..usage },
                _ => usage,
            };
            assert_eq!(answer.completion.usage, expected);
            assert!(answer.first_token <= answer.duration);
        }
    }
}

/// Reasoning, text, and each call's tool and arguments.
fn gathered(deltas: &[Delta]) -> (String, String, Vec<(String, String)>) {
    let (mut reasoning, mut text, mut calls) = (String::new(), String::new(), Vec::new());
    for delta in deltas {
        match delta {
            Delta::Text(piece) => text.push_str(piece),
            Delta::Reasoning(piece) => reasoning.push_str(piece),
            Delta::Call { index, tool, arguments } => {
                if *index == calls.len() {
                    calls.push((tool.clone().unwrap(), String::new()));
                }
                calls[*index].1.push_str(arguments);
            }
            Delta::Usage(_) | Delta::Accepted { .. } => {}
        }
    }
    (reasoning, text, calls)
}

#[tokio::test]
async fn a_conversation_goes_back_whole_with_the_right_headers() {
    for provider in FORMATS {
        // Gemini's arguments are objects, so that they cannot be broken.
        let odd = if provider == Provider::Gemini { "{\"command\":7}" } else { "{\"command\": broken" };
        let script = Script::new()
            .answer(
                Reply::new()
                    .signed_reasoning("Hm.", "SIG")
                    .say("Both.")
                    .call("shell", json!({"command": "ls"}))
                    .raw_call("shell", odd),
            )
            .say("Done.");
        let options = Options { key: Some(KEY.into()), ..Options::default() };
        let server = Server::start_with(script, options).await.unwrap();
        let mut model = model_at(provider, format!("{}/", server.url()));
        model.headers = BTreeMap::from([("X-Team".into(), "shipyard".into())]);
        let mut messages = vec![user("Go."), user("Really.")];
        let first = complete(&model, &request(messages.clone())).await.0.unwrap().completion;
        let calls: Vec<&Call> = first
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Call(call) => Some(call),
                Part::Text { .. } | Part::Reasoning { .. } => None,
            })
            .collect();
        assert_eq!(calls[1].arguments, odd, "the agent sees what the model wrote");
        let results = vec![
            ToolResult {
                call_id: calls[0].id.clone(),
                text: "a.rs".into(),
                is_error: false,
                images: Vec::new(),
            },
            ToolResult {
                call_id: calls[1].id.clone(),
                text: "broken JSON".into(),
                is_error: true,
                images: Vec::new(),
            },
        ];
        messages.push(Message::Assistant { parts: first.parts.clone() });
        messages.push(Message::Tools { results: results.clone() });
        messages.push(user("And hurry."));
        let second = complete(&model, &request(messages)).await.0.unwrap().completion;
        assert_eq!((second.parts, second.stop), (vec![Part::Text { text: "Done.".into() }], Stop::End));
        assert_eq!(server.violations(), Vec::<String>::new());

        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let seen = &requests[1];
        assert_eq!(seen.system, "You are careful.");
        assert_eq!(seen.model, "scripted");
        assert_eq!(seen.max_output_tokens, Some(1000));
        assert_eq!(seen.tools, request(vec![]).tools);
        assert_eq!(seen.header("x-team"), Some("shipyard"));
        assert_eq!(seen.messages[..2], [user("Go."), user("Really.")]);
        assert_eq!(seen.messages[4..], [user("And hurry.")]);
        let Message::Tools { results: seen_results } = &seen.messages[3] else {
            panic!("{:?}", seen.messages)
        };
        assert_eq!(seen_results[0], results[0]);
        let has_errors = matches!(provider, Provider::Anthropic | Provider::Gemini);
        assert_eq!(seen_results[1], ToolResult { is_error: has_errors, ..results[1].clone() });
        let Message::Assistant { parts } = &seen.messages[2] else { panic!("{:?}", seen.messages) };
        // Gemini wants the signature alone, on the part that it came with; chat has no place for it.
        let shown = if provider == Provider::Gemini { "" } else { "Hm." };
        let reasoning = Part::Reasoning { text: shown.into(), signature: Some("SIG".into()) };
        let signed = provider != Provider::OpenAiCompatible;
        assert_eq!(parts.iter().position(|part| *part == reasoning), signed.then_some(0));
        assert_eq!(parts.len(), if signed { 4 } else { 3 });
        if provider == Provider::Anthropic {
            let marks = seen.json.to_string().matches("cache_control").count();
            assert_eq!(marks, 3, "tools, system and the last message are cached");
        }
    }
}

#[tokio::test]
async fn a_conversation_can_be_taken_to_another_format() {
    for before in FORMATS {
        let reply = Reply::new()
            .signed_reasoning("Hm.", "SIG")
            .say("Both.")
            .call("shell", json!({"command": "ls"}))
            .call("shell", json!({"command": "pwd"}));
        let server = Server::start(Script::new().answer(reply).say("Done.").repeat_last()).await;
        let model = model_at(before, server.url());
        let parts = complete(&model, &request(vec![user("Go.")])).await.0.unwrap().completion.parts;
        let results = parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(ToolResult {
                call_id: call.id.clone(),
                text: call.arguments.clone(),
                is_error: false,
                images: Vec::new(),
            }),
            Part::Text { .. } | Part::Reasoning { .. } => None,
        });
        let results = results.collect::<Vec<_>>();
        let messages =
            vec![user("Go."), Message::Assistant { parts }, Message::Tools { results: results.clone() }];
        for after in FORMATS {
            complete(&model_at(after, server.url()), &request(messages.clone())).await.0.unwrap();
            assert_eq!(server.violations(), Vec::<String>::new(), "{before:?} to {after:?}");
            let seen = server.requests().pop().unwrap();
            assert_eq!(seen.results(), results, "{before:?} to {after:?}");
            let signed = seen.json.to_string().contains("SIG");
            let native = before == after && before != Provider::OpenAiCompatible;
            assert_eq!(signed, native, "{before:?} to {after:?}: {}", seen.json);
        }
    }
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_not_asked_for_encrypted_reasoning_again() {
    let refusal = "Encrypted content is not supported with this model.";
    let server = Server::start(Script::new().answer(Reply::status(400, refusal)).say("Hi.").say("Hi.")).await;
    let model = model_at(Provider::OpenAiResponses, server.url());
    let client = Client::new().unwrap();
    for _ in 0..2 {
        client.complete(&model, &request(vec![user("Go.")]), &mut |_| {}).await.unwrap();
    }
    let asked: Vec<bool> =
        server.requests().iter().map(|request| request.json.get("include").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_whole_object_in_place_of_a_stream_is_an_answer_too() {
    for provider in FORMATS {
        let reply = Reply::new().say("Hello.").call("shell", json!({"command": "ls"})).whole();
        let reply = reply.usage(Usage { input: 5, output: 3, ..Usage::default() });
        let server = Server::start(Script::new().answer(reply)).await;
        let (answer, deltas) = complete(&model_at(provider, server.url()), &request(vec![user("Go.")])).await;
        let completion = answer.unwrap().completion;
        assert_eq!(completion.parts[0], Part::Text { text: "Hello.".into() });
        assert!(matches!(&completion.parts[1], Part::Call(call) if call.arguments == r#"{"command":"ls"}"#));
        assert_eq!(completion.stop, Stop::Tools);
        assert_eq!(completion.usage, Usage { input: 5, output: 3, ..Usage::default() });
        assert_eq!(gathered(&deltas).1, "Hello.");
    }
}

#[tokio::test]
async fn an_answer_may_lack_usage_or_be_cut_by_its_limit_or_refused() {
    for provider in FORMATS {
        let script = Script::new()
            .answer(Reply::text("Hi.").without_usage())
            .answer(Reply::text("On and").stop(Stop::Length))
            .answer(Reply::refusal("I will not."));
        let server = Server::start(script).await;
        let model = model_at(provider, server.url());
        let mut stops = Vec::new();
        for _ in 0..3 {
            let completion = complete(&model, &request(vec![user("Go.")])).await.0.unwrap().completion;
            assert!(completion.usage.prompt() > 1 && completion.usage.output > 0, "{:?}", completion.usage);
            stops.push(completion.stop);
        }
        assert_eq!(stops, [Stop::End, Stop::Length, Stop::Refusal]);
    }
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    for provider in FORMATS {
        for at in [At::Response, At::Event(3)] {
            let gate = Gate::new();
            let reply = Reply::text("A text of some length.").stall(at, &gate);
            let server = Server::start(Script::new().answer(reply)).await;
            let model = model_at(provider, server.url());
            let request = request(vec![user("Go.")]);
            tokio::select! {
                (answer, _) = complete(&model, &request) => panic!("{answer:?}"),
                () = gate.reached() => {}
            }
            server.wait_for_abandoned(1).await;
        }
    }
}

#[tokio::test]
async fn a_server_without_stream_options_is_asked_once_more_and_remembered() {
    let refusal = || Reply::status(400, "Unrecognized request argument supplied: stream_options");
    let server = Server::start(Script::new().answer(refusal()).say("One.").say("Two.")).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    let client = Client::new().unwrap();
    for text in ["One.", "Two."] {
        let answer = client.complete(&model, &request(vec![user("Go.")]), &mut |_| {}).await.unwrap();
        assert_eq!(answer.completion.parts, [Part::Text { text: text.into() }]);
        // What is not told is estimated, and that is said.
        let (sent, usage) =
            (server.requests().last().unwrap().json.to_string().len() as u64, answer.completion.usage);
        assert!((sent / 4..sent / 2).contains(&usage.input) && usage.output == 2, "{sent}: {usage:?}");
        assert!(!answer.usage_told && answer.notes.iter().any(|note| note.contains("estimated")));
    }
    let asked: Vec<bool> = server.requests().iter().map(|request| request.stream_usage).collect();
    assert_eq!(asked, [true, false, false]);

    let stubborn = Server::start(Script::new().answer(refusal()).repeat_last()).await;
    let model = model_at(Provider::OpenAiCompatible, stubborn.url());
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert_eq!(error.class, Class::BadRequest);
    assert_eq!(stubborn.requests().len(), 2);
}

#[tokio::test]
async fn a_server_that_wants_the_other_name_of_the_limit_gets_it() {
    let refusal = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let server = Server::start(Script::new().answer(Reply::status(400, refusal)).say("Hi.")).await;
    let model = model_at(Provider::OpenAiCompatible, server.url());
    complete(&model, &request(vec![user("Go.")])).await.0.unwrap();
    assert_eq!(server.requests()[1].json["max_completion_tokens"], 1000);
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_script_reacts_to_results_and_tells_when_it_is_over() {
    for provider in FORMATS {
        let script = Script::from_fn(|request, number| match request.results() {
            [] => Reply::new().call("shell", json!({"command": "make test"})),
            [result, ..] if result.text.contains("1 failed") => {
                Reply::text(format!("Failed at step {number}."))
            }
            [..] => Reply::text("All well."),
        });
        let server = Server::start(script).await;
        let model = model_at(provider, server.url());
        let parts = complete(&model, &request(vec![user("Test.")])).await.0.unwrap().completion.parts;
        let Part::Call(call) = &parts[0] else { panic!("{parts:?}") };
        let result = ToolResult {
            call_id: call.id.clone(),
            text: "1 failed".into(),
            is_error: false,
            images: Vec::new(),
        };
        let messages =
            vec![user("Test."), Message::Assistant { parts }, Message::Tools { results: vec![result] }];
        let parts = complete(&model, &request(messages)).await.0.unwrap().completion.parts;
        assert_eq!(parts, [Part::Text { text: "Failed at step 1.".into() }]);

        let empty = Server::start(Script::new()).await;
        let error =
            complete(&model_at(provider, empty.url()), &request(vec![user("Go.")])).await.0.unwrap_err();
        assert_eq!(error.class, Class::Overloaded);
        assert_eq!(empty.violations(), ["script exhausted: there was a request after the last reply"]);
    }
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    for provider in FORMATS {
        let server = Server::start(Script::new().say("Hi.").repeat_last()).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (target, accepted) = (server.address(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&accepted);
        let relay = tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut outer = tokio::net::TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut inner, &mut outer).await
                });
            }
        });
        let client = Client::new().unwrap();
        for _ in 0..5 {
            client
                .complete(&model_at(provider, &url), &request(vec![user("Go.")]), &mut |_| {})
                .await
                .unwrap();
        }
        assert_eq!(accepted.load(Ordering::SeqCst), 1);
        relay.abort();
    }
}

#[tokio::test]
async fn an_address_without_a_version_is_as_good_as_one_with_it() {
    for provider in FORMATS {
        let script = Script::new().say("Hi.").say("Hi again.").answer(Reply::status(404, "model: gone"));
        let server = Server::start(script).await;
        let address = format!("http://{}", server.address());
        let (client, model) = (Client::new().unwrap(), model_at(provider, address));
        for text in ["Hi.", "Hi again."] {
            let answer = client.complete(&model, &request(vec![user("Go.")]), &mut |_| {}).await.unwrap();
            assert_eq!(answer.completion.parts, [Part::Text { text: text.into() }], "{provider:?}");
        }
        let refused = server.violations();
        assert!(
            matches!(&refused[..], [one] if one.starts_with("there is no POST /")),
            "{provider:?}: {refused:?}"
        );
        let error = client.complete(&model, &request(vec![user("Go.")]), &mut |_| {}).await.unwrap_err();
        assert_eq!(error.class, Class::UnknownModel, "{provider:?}: {}", error.message);
        assert_eq!(
            server.requests().len(),
            3,
            "{provider:?}: who knows the place and not the model is asked once"
        );
    }
    let server = Server::start(Script::new()).await;
    let model = model_at(Provider::OpenAiCompatible, format!("http://{}/elsewhere", server.address()));
    let error = complete(&model, &request(vec![user("Go.")])).await.0.unwrap_err();
    assert!(error.message.contains("has no model API there"), "{}", error.message);
    assert!(error.message.contains("there is no POST /elsewhere/chat/completions"), "{}", error.message);
    assert_eq!(server.violations().len(), 2, "{:?}", server.violations());
}
