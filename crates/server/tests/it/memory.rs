//! Memory over the API: what people remember, find, change and remove; and that a backup has it.

use hyper::http::request::Builder;
use hyper::{Request, StatusCode, header};
use serde_json::{Value, json};

use crate::client::{Answer, get, send};
use crate::world::World;

const PNPM: &str = "The storefront is installed with pnpm; npm breaks the lockfile.";

fn with_json(request: Builder) -> Builder {
    request.header(header::CONTENT_TYPE, "application/json")
}

async fn remember(world: &World, text: &str) -> Answer {
    let body = json!({
        "scope": { "kind": "environment", "name": "shop" },
        "kind": "fact",
        "text": text,
    });
    send(world.address, with_json(Request::post("/api/v1/memory")), body.to_string()).await
}

async fn notes(world: &World, query: &str) -> Vec<Value> {
    let answer = send(world.address, get(&format!("/api/v1/memory{query}")), "").await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()["notes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn notes_are_remembered_found_changed_and_removed() {
    let world = World::start().await;
    assert_eq!(notes(&world, "").await, Vec::<Value>::new());
    let new = remember(&world, PNPM).await;
    assert_eq!((new.status, &new.json()["how"]), (StatusCode::OK, &json!("new")), "{new:?}");
    let id = new.json()["id"].as_str().unwrap().to_owned();
    let again = remember(&world, &PNPM.replace("The storefront", "storefront")).await.json();
    assert_eq!(again, json!({ "how": "merged", "id": id }));

    let path = format!("/api/v1/memory/{id}");
    let shown = send(world.address, get(&path), "").await.json();
    assert_eq!(shown["source"]["author"]["kind"], "user", "{shown}");
    assert_eq!(notes(&world, "?scope=environment:shop").await, [shown]);
    assert_eq!(notes(&world, "?scope=environment:other").await, Vec::<Value>::new());
    let found = send(world.address, get("/api/v1/memory/search?text=install%20a%20package"), "").await.json();
    assert_eq!(found["found"][0]["note"]["id"], json!(id), "{found}");
    assert!(found["found"][0]["why"].is_string(), "{found}");

    let edit = json!({ "text": "storefront is installed with yarn", "subject": "package manager" });
    let edited = send(world.address, with_json(Request::patch(&path)), edit.to_string()).await;
    assert_eq!(edited.json()["text"], "storefront is installed with yarn", "{edited:?}");

    let remove = || Request::delete(&path).header("idempotency-key", "gone");
    assert_eq!(send(world.address, remove(), "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(world.address, remove(), "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(world.address, Request::delete(&path), "").await.status, StatusCode::NOT_FOUND);
    assert_eq!(send(world.address, get(&path), "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_no_note_or_no_scope_is_refused() {
    let world = World::start().await;
    let empty = remember(&world, " ").await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST, "{empty:?}");
    let long = remember(&world, &"word ".repeat(1000)).await;
    assert!(String::from_utf8_lossy(&long.body).contains("a sentence or two"), "{long:?}");
    let scope = send(world.address, get("/api/v1/memory?scope=team"), "").await;
    assert_eq!(scope.status, StatusCode::BAD_REQUEST, "{scope:?}");
    let id = send(world.address, get("/api/v1/memory/nonsense"), "").await;
    assert_eq!(id.status, StatusCode::NOT_FOUND, "{id:?}");
}

#[tokio::test]
async fn a_backup_has_the_notes_and_a_restore_adds_them() {
    let world = World::start().await;
    let without = send(world.address, get("/api/v1/backup"), "").await.body;
    assert!(!without.windows(10).any(|window| window == b"notes.json"));
    assert!(!world.sessions.store().dir().join("memory.db").exists(), "a backup makes no memory");
    remember(&world, PNPM).await;
    let kept = notes(&world, "").await;
    let backup = send(world.address, get("/api/v1/backup"), "").await.body;

    let other = World::start().await;
    let put = || Request::put("/api/v1/backup").header(header::CONTENT_TYPE, "application/x-tar");
    let report = send(other.address, put(), backup.clone()).await;
    assert_eq!(report.json()["notes"], 1, "{report:?}");
    assert_eq!(notes(&other, "").await, kept);
    let report = send(other.address, put(), backup).await;
    assert_eq!(report.json().get("notes"), None, "{report:?}");
    let found = send(other.address, get("/api/v1/memory/search?text=pnpm"), "").await.json();
    assert_eq!(found["found"].as_array().unwrap().len(), 1, "{found}");
}
