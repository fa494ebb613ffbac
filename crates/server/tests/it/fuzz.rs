//! Anything may come in: random bytes, random JSON, and messages that are almost right. Nothing of it may be answered with
//! a fault of ours, end the server, or leave a client without an answer.

use std::time::Duration;

use hyper::{Method, Request};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::{get, send};
use crate::wire::connect;
use crate::world::World;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client sends over a WebSocket.
#[derive(Debug, Clone)]
enum Sent {
    Text(String),
    Bytes(Vec<u8>),
}

/// Words that mean something in messages and bodies, so that more than the first field is read.
const WORDS: [&str; 42] = [
    "type",
    "session",
    "after",
    "id",
    "prompt",
    "now",
    "key",
    "pause",
    "paused",
    "approval",
    "approved",
    "comment",
    "terminal",
    "columns",
    "rows",
    "name",
    "subscribe",
    "unsubscribe",
    "typing",
    "ping",
    "stop",
    "approve",
    "terminal.open",
    "terminal.resize",
    "list.subscribe",
    "list.unsubscribe",
    "terminal.close",
    "environment",
    "shop",
    "model",
    "main",
    "repos",
    "url",
    "checks",
    "place",
    "first",
    "before",
    "snapshot",
    "allow",
    "dry_run",
    "ses_00000000000000000000000001",
    "egress",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => proptest::sample::select(&WORDS[..]).prop_map(str::to_owned),
        1 => ".{0,12}",
    ]
}

fn value(session: String) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..100u32).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
        Just(Value::from(session)),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((word(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Messages with the right type and fields that may be right.
fn message(session: String) -> impl Strategy<Value = Value> {
    let kind = proptest::sample::select(&WORDS[16..25]);
    let fields =
        proptest::collection::vec((proptest::sample::select(&WORDS[1..16]), value(session.clone())), 0..6);
    (kind, fields, any::<bool>()).prop_map(move |(kind, fields, right)| {
        let mut message = json!({ "type": kind });
        for (name, value) in fields {
            message[name] = value;
        }
        if right {
            message["session"] = json!(session);
        }
        message
    })
}

fn sent(session: String) -> impl Strategy<Value = Sent> {
    prop_oneof![
        4 => message(session.clone()).prop_map(|message| Sent::Text(message.to_string())),
        2 => value(session).prop_map(|value| Sent::Text(value.to_string())),
        1 => ".{0,200}".prop_map(Sent::Text),
        2 => proptest::collection::vec(any::<u8>(), 0..64).prop_map(Sent::Bytes),
    ]
}

fn run<T: std::fmt::Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    test: impl Fn(T) -> Result<(), TestCaseError>,
) {
    // The longer run sets the number for all.
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { cases };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    TestRunner::new(config).run(strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_socket_takes_anything_and_answers_on() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::start());
    let session = runtime.block_on(world.session()).to_string();
    let strategy = proptest::collection::vec(sent(session), 1..24);
    run(48, &strategy, |messages| {
        runtime.block_on(async {
            let (mut socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
            for message in &messages {
                match message {
                    Sent::Text(text) => socket.say_text(text).await,
                    Sent::Bytes(bytes) => socket.say_bytes(bytes).await,
                }
            }
            socket.say(json!({ "type": "ping", "id": "the last" })).await;
            let pings = 1 + messages.iter().filter(|message| is_ping(message)).count();
            for _ in 0..pings {
                let answer = timeout(PATIENCE, socket.until("ping")).await;
                prop_assert!(answer.is_ok(), "no answer after {messages:?}");
            }
            Ok(())
        })
    });
    runtime.block_on(world.stop());
}

fn is_ping(message: &Sent) -> bool {
    let Sent::Text(text) = message else { return false };
    matches!(serde_json::from_str(text), Ok(protocol::ClientMessage::Ping { .. }))
}

#[test]
fn frames_that_are_none_end_a_socket_and_nothing_else() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::start());
    run(64, &proptest::collection::vec(any::<u8>(), 1..256), |bytes| {
        runtime.block_on(async {
            let (socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
            let mut stream = socket.into_stream();
            // The server may have ended it in the middle.
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
            let mut rest = Vec::new();
            let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
            prop_assert!(ended.is_ok(), "it does not end");
            let health = send(world.address, get("/api/v1/health"), "").await;
            prop_assert_eq!(health.status.as_u16(), 200);
            Ok(())
        })
    });
    runtime.block_on(world.stop());
}

#[test]
fn bodies_of_any_kind_are_refused_or_taken() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::start());
    let session = runtime.block_on(world.session()).to_string();
    let routes = runtime.block_on(routes(&world, &session));
    assert!(routes.len() >= 10, "{routes:?}");
    let body = prop_oneof![
        3 => value(session.clone()).prop_map(|value| value.to_string().into_bytes()),
        2 => shaped(session).prop_map(|value| value.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
    ];
    let key = proptest::option::of("[ -~]{0,20}");
    let strategy = (proptest::sample::select(routes), body, key, any::<bool>());
    run(192, &strategy, |((method, path), body, key, is_json)| {
        runtime.block_on(async {
            let mut request = Request::builder().method(method.clone()).uri(&path);
            if is_json {
                request = request.header("content-type", "application/json");
            }
            if let Some(key) = &key {
                request = request.header("idempotency-key", key);
            }
            let answer = timeout(PATIENCE, send(world.address, request, body)).await;
            let Ok(answer) = answer else { return Err(TestCaseError::fail("no answer")) };
            // This machine has no sandboxes, which is no fault of the request and none of ours.
            let fault = answer.status.is_server_error() && answer.problem() != "sandbox_unavailable";
            prop_assert!(!fault, "{method} {path}: {answer:?}");
            Ok(())
        })
    });
    runtime.block_on(async {
        assert_eq!(send(world.address, get("/api/v1/health"), "").await.status.as_u16(), 200);
        world.stop().await;
    });
}

/// Bodies with the fields of requests and values that may be right.
fn shaped(session: String) -> impl Strategy<Value = Value> {
    let field = (word(), value(session));
    let right = proptest::sample::select(vec![
        json!({ "environment": "shop", "prompt": "x" }),
        json!({ "prompt": "x" }),
        json!({ "paused": true }),
        json!({ "approved": true }),
        json!({ "allow": ["example.com"] }),
        json!({ "repos": [{ "url": "/nowhere" }] }),
        json!({ "place": "first" }),
    ]);
    (right, proptest::collection::vec(field, 0..2)).prop_map(|(mut body, fields)| {
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

/// Everything that takes a body, as the server describes itself.
async fn routes(world: &World, session: &str) -> Vec<(Method, String)> {
    let description = send(world.address, get("/api/v1/openapi.json"), "").await.json();
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        let path = path.replace("{id}", session).replace("{name}", "fuzzed");
        let path = path.replace("{forge}", "fuzzed").replace("{attempt}", "fuzzed");
        let path = path.replace("{approval}", "apr_00000000000000000000000001");
        let path = path.replace("{prompt}", "prm_00000000000000000000000001");
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            if method != Method::GET {
                routes.push((method, path.clone()));
            }
        }
    }
    routes
}
