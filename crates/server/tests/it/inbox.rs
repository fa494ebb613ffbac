//! The inbox: parts, words, pages, what was put away, where sessions came from; and what came of them.

use hyper::{Request, StatusCode};
use serde_json::{Value, json};

use crate::client::{get, post, send};
use crate::world::World;

/// A session with this prompt, whose one turn has failed, because this machine has no sandboxes.
async fn failed(world: &World, prompt: &str) -> String {
    let request = post("/api/v1/sessions").header("slipway-client", "web");
    let body = json!({ "environment": "shop", "prompt": prompt }).to_string();
    let made = send(world.address, request, body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    world.settled(id.parse().unwrap()).await;
    id
}

async fn list(world: &World, query: &str) -> Value {
    let answer = send(world.address, get(&format!("/api/v1/sessions{query}")), "").await;
    assert_eq!(answer.status, StatusCode::OK, "{query}: {answer:?}");
    answer.json()
}

/// The list once it has this many sessions: a row of the index may be a moment behind.
async fn list_of(world: &World, query: &str, count: usize) -> Value {
    loop {
        let found = list(world, query).await;
        if ids(&found).len() == count {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

fn ids(list: &Value) -> Vec<String> {
    let sessions = list["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

async fn edit(world: &World, id: &str, body: &str) -> Value {
    let request = Request::patch(format!("/api/v1/sessions/{id}")).header("content-type", "application/json");
    let answer = send(world.address, request, body.to_owned()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn the_inbox_tells_who_asked_from_where_and_what_needs_a_person() {
    let world = World::start().await;
    let id = failed(&world, "Round the CART total").await;
    let inbox = list_of(&world, "?group=needs_you", 1).await;
    let session = &inbox["sessions"][0];
    assert_eq!((&session["id"], &session["status"]), (&json!(id), &json!("failed")));
    assert_eq!((&session["group"], &session["origin"]), (&json!("needs_you"), &json!("web")));
    assert_eq!(session["authors"][0]["name"], "local");
    assert_eq!(session["authors"][0]["prompts"], 1);
    assert!(session["finished_at"].is_string() && session["turn_started_at"].is_null(), "{session}");
    assert!(session["turn_ms"].is_u64(), "{session}");
    assert_eq!(inbox["counts"], json!({ "needs_you": 1, "working": 0, "finished": 0 }));

    let shown = send(world.address, get(&format!("/api/v1/sessions/{id}")), "").await.json();
    assert_eq!((&shown["group"], &shown["origin"]), (&json!("needs_you"), &json!("web")));
    let hosts = send(world.address, get(&format!("/api/v1/sessions/{id}/egress")), "").await.json();
    assert_eq!(hosts, json!({ "hosts": [] }));
    let preview = send(world.address, get(&format!("/api/v1/sessions/{id}/delivery")), "").await.json();
    assert_eq!(preview["title"], "Round the CART total");
    assert!(preview["body"].as_str().unwrap().contains(&id), "{preview}");
    assert_eq!(preview["problem"]["code"], "conflict", "nothing was done: {preview}");
    let turn = "trn_00000000000000000000000001";
    let diff = send(world.address, get(&format!("/api/v1/sessions/{id}/diff?turn={turn}")), "").await;
    assert_eq!(diff.problem(), "not_found");
}

#[tokio::test]
async fn sessions_are_found_by_words_and_parts_and_come_in_pages() {
    let world = World::start().await;
    let cart = failed(&world, "Round the CART total").await;
    let docs = failed(&world, "Write docs\n\nabout 100% of the_cart").await;
    list_of(&world, "?group=needs_you", 2).await;
    for (query, expected) in [
        ("?q=cart", vec![&docs, &cart]),
        ("?q=Cart+total", vec![&cart]),
        ("?q=100%25", vec![&docs]),
        ("?q=the_cart", vec![&docs]),
        ("?q=&group=&limit=&cursor=", vec![&docs, &cart]),
        ("?group=working", vec![]),
        ("?status=failed&environment=shop&model=main&author=local&origin=web", vec![&docs, &cart]),
        ("?environment=other", vec![]),
        ("?author=somebody", vec![]),
        ("?origin=cli", vec![]),
        ("?archived=true", vec![]),
    ] {
        assert_eq!(
            ids(&list(&world, query).await),
            expected.into_iter().cloned().collect::<Vec<_>>(),
            "{query}"
        );
    }
    let first = list(&world, "?limit=1").await;
    assert_eq!(ids(&first), [docs.as_str()]);
    assert_eq!(first["counts"]["needs_you"], 2, "of all pages");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = list(&world, &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!(ids(&second), [cart.as_str()]);
    assert!(second["next_cursor"].is_null());
    for wrong in ["?group=some", "?limit=0", "?limit=many", "?cursor=x", "?archived=1", "?colour=red"] {
        let answer = send(world.address, get(&format!("/api/v1/sessions{wrong}")), "").await;
        assert_eq!(answer.problem(), "bad_request", "{wrong}");
    }
}

#[tokio::test]
async fn what_was_put_away_is_shown_when_asked_for_and_comes_back_with_a_prompt() {
    let world = World::start().await;
    let id = failed(&world, "Round the cart total").await;
    assert_eq!(edit(&world, &id, r#"{"archived":true}"#).await["archived"], true);
    let seq = edit(&world, &id, r#"{"archived":true}"#).await["seq"].clone();
    list_of(&world, "", 0).await;
    assert_eq!(ids(&list(&world, "?archived=true").await), [id.as_str()]);
    assert_eq!(ids(&list(&world, "?archived=all").await), [id.as_str()]);
    assert_eq!(edit(&world, &id, r#"{"archived":false}"#).await["archived"], Value::Null);
    list_of(&world, "", 1).await;
    assert_ne!(edit(&world, &id, r#"{"archived":true}"#).await["seq"], seq, "saying it twice said nothing");

    let more = post(&format!("/api/v1/sessions/{id}/prompts"));
    let more = send(world.address, more, r#"{"prompt":"once more"}"#).await;
    assert_eq!(more.status, StatusCode::ACCEPTED);
    list_of(&world, "?q=once", 1).await;
}

#[tokio::test]
async fn statistics_count_sessions_and_who_prompts_now() {
    let world = World::start().await;
    failed(&world, "Round the cart total").await;
    list_of(&world, "?group=needs_you", 1).await;
    let sums = send(world.address, get("/api/v1/statistics?bucket=day&environment=shop"), "").await.json();
    assert_eq!((&sums["funnel"]["sessions"], &sums["funnel"]["merged"]), (&json!(1), &json!(0)));
    assert_eq!(sums["buckets"].as_array().unwrap().len(), 30);
    assert_eq!(sums["prompting"], json!({ "people": ["local"], "window_s": 300 }));
    assert_eq!(sums["by_person"][0]["name"], "local");
    assert!(sums["cost_per_merged_usd"].is_null());
    let none = send(world.address, get("/api/v1/statistics?environment=other"), "").await.json();
    assert_eq!(none["funnel"]["sessions"], 0);
    for wrong in ["?from=yesterday", "?from=2026-02-01&to=2026-01-01", "?bucket=hour"] {
        let answer = send(world.address, get(&format!("/api/v1/statistics{wrong}")), "").await;
        assert_eq!(answer.problem(), "bad_request", "{wrong}");
    }
}

#[tokio::test]
async fn everybody_is_told_who_they_are() {
    let world = World::start_with_token("tell-nobody").await;
    assert_eq!(send(world.address, get("/api/v1/me"), "").await.problem(), "unauthorized");
    let known = get("/api/v1/me").header("authorization", "Bearer tell-nobody");
    let me = send(world.address, known, "").await.json();
    assert_eq!((&me["name"], &me["source"]), (&json!("local"), &json!("local")));
    assert_eq!(me["needs_token"], true);
}
