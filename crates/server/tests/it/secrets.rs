//! Secrets over the API: names go in and come out, values only go in.

use std::path::Path;

use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::client::{Answer, get, send};
use crate::world::World;

const VALUE: &str = "canary-of-the-api-77";

fn put(name: &str) -> Builder {
    Request::put(format!("/api/v1/secrets/{name}")).header(header::CONTENT_TYPE, "application/json")
}

fn delete(name: &str) -> Builder {
    Request::delete(format!("/api/v1/secrets/{name}"))
}

async fn set(world: &World, name: &str, value: &str) -> Answer {
    send(world.address, put(name), json!({ "value": value }).to_string()).await
}

async fn list(world: &World) -> Vec<Value> {
    let answer = send(world.address, get("/api/v1/secrets"), "").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()["secrets"].as_array().unwrap().clone()
}

/// Whether any file below a directory has these bytes. What is removed meanwhile has nothing.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
        entries => entries.unwrap(),
    };
    entries.flatten().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => holds(&entry.path(), bytes),
        Ok(kind) if kind.is_file() => {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            content.windows(bytes.len()).any(|window| window == bytes)
        }
        _ => false,
    })
}

#[tokio::test]
async fn a_secret_is_set_listed_replaced_and_removed_and_its_value_never_shown() {
    let world = World::start().await;
    assert_eq!(list(&world).await, Vec::<Value>::new());
    let set_first = set(&world, "MAIN-key.1", VALUE).await;
    assert_eq!(set_first.status, StatusCode::OK, "{set_first:?}");
    assert_eq!(set_first.json()["name"], "MAIN-key.1");
    let listed = list(&world).await;
    assert_eq!(listed, [set_first.json()]);
    assert!(listed[0]["set_at"].is_string() && listed[0].get("problem").is_none(), "{listed:?}");
    let secrets = world.sessions.store().secrets();
    assert_eq!(*secrets.get("MAIN-key.1").unwrap(), VALUE);

    // The same key with another value is another value, and nothing of either is kept with the key.
    let keyed = |value: &str| (put("OTHER").header("idempotency-key", "once"), json!({ "value": value }));
    for value in ["first-other-value", "second-other-value"] {
        let (request, body) = keyed(value);
        assert_eq!(send(world.address, request, body.to_string()).await.status, StatusCode::OK);
        assert_eq!(*secrets.get("OTHER").unwrap(), value);
    }
    for path in ["/api/v1/secrets", "/api/v1/secrets/MAIN-key.1", "/api/v1/models", "/api/v1/environments"] {
        let shown = send(world.address, get(path), "").await;
        assert!(!String::from_utf8_lossy(&shown.body).contains(VALUE), "{path}: {shown:?}");
    }
    let one = send(world.address, get("/api/v1/secrets/OTHER"), "").await;
    assert_eq!(one.status, StatusCode::METHOD_NOT_ALLOWED, "{one:?}");
    let backup = send(world.address, get("/api/v1/backup"), "").await.body;
    assert!(backup.windows(12).any(|window| window == b"secrets.json"), "they are in backups");
    let key = std::fs::read_to_string(secrets.key_file()).unwrap();
    let dir = world.sessions.store().dir().to_owned();
    for words in [VALUE, "second-other-value"] {
        assert!(!holds(&dir, words.as_bytes()), "{words} is on the disk");
        assert!(!backup.windows(words.len()).any(|window| window == words.as_bytes()));
    }
    assert!(!backup.windows(64).any(|window| window == key.trim().as_bytes()), "the key is in no backup");

    let remove = || delete("OTHER").header("idempotency-key", "gone");
    for _ in 0..2 {
        assert_eq!(send(world.address, remove(), "").await.status, StatusCode::NO_CONTENT);
    }
    let missing = send(world.address, delete("OTHER"), "").await;
    assert_eq!(missing.problem(), "not_found");
    assert_eq!(list(&world).await.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_without_being_repeated() {
    let world = World::start().await;
    let refused = async |request: Builder, body: String, said: &str| {
        let answer = send(world.address, request, body).await;
        assert_eq!(answer.problem(), "bad_request");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(text.contains(said) && !text.contains("canary"), "{said}: {text}");
    };
    let whole = json!({ "value": VALUE }).to_string();
    for name in [".x", "a%20b", "a%2Fb", "%2E%2E", "-a", &"n".repeat(65)] {
        refused(put(name), whole.clone(), "1 to 64 letters").await;
        refused(delete(name), String::new(), "1 to 64 letters").await;
    }
    for body in [
        json!(VALUE),
        json!({ "valeu": VALUE }),
        json!({ "value": [VALUE] }),
        json!({ "value": VALUE, "canary": 1 }),
        json!({ "value": null }),
    ] {
        refused(put("A"), body.to_string(), "TEXT").await;
    }
    refused(put("A"), VALUE.to_owned(), "not what this route takes").await;
    for value in [String::new(), format!("{VALUE}\0"), VALUE.repeat(65_536 / VALUE.len() + 1)] {
        refused(put("A"), json!({ "value": value }).to_string(), "1 to 65536 bytes").await;
    }
    assert!(list(&world).await.is_empty());
    let dir = world.sessions.store().dir().to_owned();
    assert!(!dir.join("secret.key").exists() && !dir.join("secrets").exists(), "nothing was made");
    world.stop().await;
}

#[tokio::test]
async fn a_key_that_is_gone_is_told_with_what_to_do() {
    let world = World::start().await;
    set(&world, "A", VALUE).await;
    let key = world.sessions.store().secrets().key_file().to_owned();
    std::fs::remove_file(&key).unwrap();
    let refused = set(&world, "B", VALUE).await;
    assert_eq!((refused.status, refused.problem()), (StatusCode::CONFLICT, "conflict".to_owned()));
    assert!(refused.json()["hint"].as_str().unwrap().contains("put it back"), "{refused:?}");
    let listed = list(&world).await;
    assert!(listed[0]["problem"].as_str().unwrap().contains("secret.key is missing"), "{listed:?}");
    assert_eq!(send(world.address, delete("A"), "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(set(&world, "B", VALUE).await.status, StatusCode::OK, "nothing is sealed with the old one");
    world.stop().await;
}

#[tokio::test]
async fn secrets_are_for_those_who_may_come_in() {
    let world = World::start_with_token("let-me-in").await;
    let body = json!({ "value": VALUE }).to_string();
    for (request, body) in
        [(get("/api/v1/secrets"), String::new()), (put("A"), body.clone()), (delete("A"), String::new())]
    {
        let answer = send(world.address, request, body).await;
        assert_eq!((answer.status, answer.problem()), (StatusCode::UNAUTHORIZED, "unauthorized".to_owned()));
    }
    let known = put("A").header(header::AUTHORIZATION, "Bearer let-me-in");
    assert_eq!(send(world.address, known, body).await.status, StatusCode::OK);
    world.stop().await;
}
