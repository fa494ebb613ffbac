//! Images, sandboxes that are kept ready, the network and garbage: what is asked for and what is answered.

use hyper::{Request, StatusCode};
use serde_json::json;

use crate::client::{get, post, send};
use crate::world::World;

#[tokio::test]
async fn a_build_is_begun_and_looked_at() {
    let world = World::start().await;
    let shown = send(world.address, get("/api/v1/environments/shop/image"), "").await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    let status = shown.json();
    assert_eq!(
        (&status["state"], &status["steps"], &status["warm"]),
        (&json!("none"), &json!([]), &json!(0))
    );
    assert!(status.get("current").is_none() && status.get("error").is_none(), "{status}");
    let build = || post("/api/v1/environments/shop/build").header("idempotency-key", "build-it");
    let begun = send(world.address, build(), "").await;
    assert_eq!(begun.status, StatusCode::ACCEPTED, "{begun:?}");
    assert_eq!(begun.json()["state"], "building", "{begun:?}");
    let again = send(world.address, build(), "").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (StatusCode::ACCEPTED, Some("true")));
    let shown = send(world.address, get("/api/v1/environments/shop"), "").await.json();
    assert_eq!(shown["image"]["state"], "building", "it is shown with its environment: {shown}");
}

#[tokio::test]
async fn a_sandbox_is_made_ready_when_there_is_an_image() {
    let world = World::start().await;
    let warm = send(world.address, post("/api/v1/environments/shop/warm"), "").await;
    assert_eq!((warm.status, warm.json()), (StatusCode::ACCEPTED, json!({"ready": 0, "starting": 0})));
    let shown = send(world.address, get("/api/v1/environments/shop/image"), "").await.json();
    assert_eq!(shown["state"], "building", "until then the image is built: {shown}");
}

#[tokio::test]
async fn an_environment_that_is_not_there_has_nothing() {
    let world = World::start().await;
    for request in [
        get("/api/v1/environments/nowhere/image"),
        post("/api/v1/environments/nowhere/build"),
        post("/api/v1/environments/nowhere/warm"),
        get("/api/v1/environments/nowhere/egress"),
    ] {
        let uri = request.uri_ref().unwrap().clone();
        let answer = send(world.address, request, "").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{uri}: {answer:?}");
        assert_eq!(answer.problem(), "environment_not_found", "{uri}");
    }
    let allow = post("/api/v1/environments/nowhere/egress");
    let answer = send(world.address, allow, r#"{"allow":["a.example"]}"#).await;
    assert_eq!(answer.problem(), "environment_not_found");
}

#[tokio::test]
async fn what_may_be_reached_is_shown_and_added_to() {
    let world = World::start().await;
    let nothing = json!({"egress": [], "refused": []});
    assert_eq!(send(world.address, get("/api/v1/environments/shop/egress"), "").await.json(), nothing);
    // What stands in the configuration file is changed there.
    let body = r#"{"allow":["a.example"]}"#;
    let answer = send(world.address, post("/api/v1/environments/shop/egress"), body).await;
    assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::CONFLICT, "conflict"));

    let recipe = json!({"repos": [{"url": world.repository}]}).to_string();
    let put = Request::put("/api/v1/environments/second").header("content-type", "application/json");
    assert_eq!(send(world.address, put, recipe).await.status, StatusCode::OK);
    let path = "/api/v1/environments/second/egress";
    let answer = send(world.address, post(path), body).await;
    assert_eq!((answer.status, &answer.json()["egress"]), (StatusCode::OK, &json!(["a.example"])));
    send(world.address, post(path), r#"{"allow":["a.example", "*.b.example:8443"]}"#).await;
    let shown = send(world.address, get(path), "").await.json();
    assert_eq!(shown["egress"], json!(["a.example", "*.b.example:8443"]), "each once");
    for body in [
        r#"{"allow":[]}"#,
        r#"{"allow":["https://a.example"]}"#,
        r#"{"allow":["10.0.0.1"]}"#,
        r#"{"allow":["a.example"],"deny":[]}"#,
        r#"{"allow":"a.example"}"#,
        "",
    ] {
        let answer = send(world.address, post(path), body).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (StatusCode::BAD_REQUEST, "bad_request"),
            "{body}"
        );
    }
    assert_eq!(send(world.address, get(path), "").await.json(), shown, "what is wrong changes nothing");
}

#[tokio::test]
async fn garbage_is_reported() {
    let world = World::start().await;
    for dry_run in [true, false] {
        let body = json!({"dry_run": dry_run}).to_string();
        let answer = send(world.address, post("/api/v1/gc"), body).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let report = answer.json();
        assert_eq!((&report["dry_run"], &report["entries"]), (&json!(dry_run), &json!([])), "{report}");
        assert_eq!(report["budget_bytes"], 50u64 << 30, "{report}");
    }
    let answer = send(world.address, post("/api/v1/gc"), r#"{"dry_rum":true}"#).await;
    assert_eq!(answer.problem(), "bad_request");
}

#[tokio::test]
async fn nothing_of_it_is_there_without_the_token() {
    let world = World::start_with_token("a-token-that-is-long-enough").await;
    let session = world.session().await;
    for request in [
        get("/api/v1/environments/shop/image"),
        post("/api/v1/environments/shop/build"),
        post("/api/v1/environments/shop/warm"),
        get("/api/v1/environments/shop/egress"),
        post("/api/v1/environments/shop/egress"),
        post("/api/v1/gc"),
        get(&format!("/api/v1/sessions/{session}/snapshots")),
        post(&format!("/api/v1/sessions/{session}/fork")),
    ] {
        let uri = request.uri_ref().unwrap().clone();
        let answer = send(world.address, request, r#"{"dry_run":false}"#).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (StatusCode::UNAUTHORIZED, "unauthorized"),
            "{uri}"
        );
    }
}
