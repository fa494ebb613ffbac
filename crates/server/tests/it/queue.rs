//! The queue and decisions over HTTP: every command has its answer, and happens once for each key.

use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::client::{Answer, get, post, send};
use crate::world::World;

fn command(method: &str, path: &str) -> Builder {
    Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json")
}

fn texts(queue: &Value) -> Vec<&str> {
    queue["prompts"].as_array().unwrap().iter().map(|prompt| prompt["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn waiting_prompts_are_changed_over_http() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}");
    let ask = async |request: Builder, body: Value| -> Answer {
        send(world.address, request, body.to_string()).await
    };
    let stopped = ask(post(&format!("{path}/stop")), json!({"pause": true})).await;
    assert_eq!(stopped.status, StatusCode::ACCEPTED, "{stopped:?}");
    let queue = send(world.address, get(&format!("{path}/queue")), "").await.json();
    assert_eq!(queue["paused"], true);

    let mut ids = Vec::new();
    for (text, now) in [("one", false), ("two", false), ("three", true)] {
        let made = ask(post(&format!("{path}/prompts")), json!({"prompt": text, "now": now})).await;
        assert_eq!(made.status, StatusCode::ACCEPTED, "{made:?}");
        ids.push(made.json()["id"].as_str().unwrap().to_owned());
    }
    let queue = send(world.address, get(&format!("{path}/queue")), "").await.json();
    assert_eq!(texts(&queue), ["three", "one", "two"]);

    let prompt = |n: usize| format!("{path}/prompts/{}", ids[n]);
    let edited = ask(command("PATCH", &prompt(1)), json!({"prompt": "2", "place": "first"})).await;
    assert_eq!((edited.status, texts(&edited.json())), (StatusCode::OK, vec!["2", "three", "one"]));
    let moved = ask(command("PATCH", &prompt(1)), json!({"place": {"before": ids[0]}})).await;
    assert_eq!(texts(&moved.json()), ["three", "2", "one"]);
    for wrong in [json!({}), json!({"place": "nowhere"}), json!({"prompt": " "}), json!({"txet": "x"})] {
        let refused = ask(command("PATCH", &prompt(1)), wrong).await;
        assert_eq!((refused.status, refused.problem().as_str()), (StatusCode::BAD_REQUEST, "bad_request"));
    }

    // The same command again has the same answer, also when much has happened since.
    let remove = || command("DELETE", &prompt(0)).header("idempotency-key", "away-with-it");
    let removed = send(world.address, remove(), "").await;
    assert_eq!((removed.status, texts(&removed.json())), (StatusCode::OK, vec!["three", "2"]));
    ask(command("DELETE", &prompt(2)), json!({})).await;
    let again = send(world.address, remove(), "").await;
    assert_eq!(again.json(), removed.json());
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let nobody = command("DELETE", &format!("{path}/prompts/prm_00000000000000000000000001"));
    assert_eq!(send(world.address, nobody, "").await.problem(), "not_found");

    let edit = || command("PATCH", &prompt(1)).header("idempotency-key", "edit-it");
    let first = ask(edit(), json!({"prompt": "zwei"})).await;
    assert_eq!(texts(&first.json()), ["zwei"]);
    ask(command("PATCH", &prompt(1)), json!({"prompt": "deux"})).await;
    assert_eq!(ask(edit(), json!({"prompt": "zwei"})).await.json(), first.json());
    assert_eq!(ask(edit(), json!({"prompt": "tre"})).await.problem(), "idempotency_mismatch");
    let queue = send(world.address, get(&format!("{path}/queue")), "").await.json();
    assert_eq!(texts(&queue), ["deux"], "it was not done twice");

    let resumed = ask(command("PUT", &format!("{path}/queue")), json!({"paused": false})).await;
    assert_eq!((resumed.status, &resumed.json()["paused"]), (StatusCode::OK, &json!(false)));
}

#[tokio::test]
async fn a_decision_needs_an_approval_that_is_asked_for() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/approvals");
    for name in ["apr_00000000000000000000000001", "rubbish"] {
        let answer = send(world.address, post(&format!("{path}/{name}")), r#"{"approved":true}"#).await;
        assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::NOT_FOUND, "not_found"));
    }
    let known = format!("{path}/apr_00000000000000000000000001");
    for wrong in ["", "{}", r#"{"approved":"yes"}"#] {
        assert_eq!(send(world.address, post(&known), wrong).await.problem(), "bad_request", "{wrong}");
    }
}
