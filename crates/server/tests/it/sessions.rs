//! Commands and reads.

use hyper::{Request, StatusCode};

use crate::client::{get, post, send};
use crate::world::World;

#[tokio::test]
async fn a_session_is_made_once_for_each_key() {
    let world = World::start().await;
    let body = r#"{"environment":"shop","prompt":"fix the test"}"#;
    let create = || post("/api/v1/sessions").header("idempotency-key", "make-one");
    let first = send(world.address, create(), body).await;
    assert_eq!(first.status, StatusCode::CREATED, "{first:?}");
    let location = first.header("location").unwrap().to_owned();
    assert_eq!(location, format!("/api/v1/sessions/{}", first.json()["id"].as_str().unwrap()));

    let again = send(world.address, create(), body).await;
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("location"), Some(&*location));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));

    let list = send(world.address, get("/api/v1/sessions"), "").await.json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1);
    let shown = send(world.address, get(&location), "").await.json();
    assert_eq!((&shown["id"], &shown["environment"]), (&first.json()["id"], &"shop".into()));

    let more =
        send(world.address, post(&format!("{location}/prompts")), r#"{"prompt":"and the docs"}"#).await;
    assert_eq!(more.status, StatusCode::ACCEPTED, "{more:?}");
    assert!(more.json()["id"].as_str().unwrap().starts_with("prm_"));
    let stopped = send(world.address, post(&format!("{location}/stop")), "").await;
    assert_eq!(stopped.status, StatusCode::ACCEPTED, "{stopped:?}");
}

#[tokio::test]
async fn a_part_of_the_spend_that_is_not_said_is_all_of_it() {
    let world = World::start().await;
    for (query, status) in [
        ("", StatusCode::OK),
        ("?from=&to=&session=&model=", StatusCode::OK),
        ("?from=2026-01-01&to=9999-12-31&model=", StatusCode::OK),
        ("?from=yesterday", StatusCode::BAD_REQUEST),
        ("?session=rubbish", StatusCode::NOT_FOUND),
    ] {
        let answer = send(world.address, get(&format!("/api/v1/spend{query}")), "").await;
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}");
    for (request, body, code) in [
        (post("/api/v1/sessions"), r#"{"environment":"nowhere","prompt":"x"}"#, "environment_not_found"),
        (
            post("/api/v1/sessions"),
            r#"{"environment":"shop","prompt":"x","model":"none"}"#,
            "model_not_found",
        ),
        (get("/api/v1/sessions/ses_00000000000000000000000001"), "", "not_found"),
        (get("/api/v1/sessions/rubbish"), "", "not_found"),
        (get("/api/v1/sessions/ses_00000000000000000000000001/events"), "", "not_found"),
        (
            post(&format!("{path}/approvals/apr_00000000000000000000000001")),
            r#"{"approved":true}"#,
            "not_found",
        ),
        (get(&format!("{path}/outputs/nothing.txt")), "", "not_found"),
        (get(&format!("{path}/outputs/..%2Flog.db")), "", "not_found"),
        (get("/api/v1/environments/nowhere"), "", "environment_not_found"),
    ] {
        let uri = request.uri_ref().unwrap().clone();
        let answer = send(world.address, request, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (StatusCode::NOT_FOUND, code), "{uri}");
    }
}

#[tokio::test]
async fn a_kept_output_comes_as_it_was_printed() {
    let world = World::start().await;
    let session = world.session().await;
    let name = format!("{}.out", protocol::ItemId::new());
    let printed = [b"<script>\xff\n".as_slice(), &vec![b'x'; 200_000]].concat();
    std::fs::write(world.sessions.store().session_dir(session).join(&name), &printed).unwrap();
    let answer = send(world.address, get(&format!("/api/v1/sessions/{session}/outputs/{name}")), "").await;
    assert_eq!(answer.body, printed);
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

#[tokio::test]
async fn a_prompt_has_images_and_each_mistake_has_its_problem() {
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}", world.session().await);
    let queue = Request::put(format!("{path}/queue")).header("content-type", "application/json");
    send(world.address, queue, r#"{"paused":true}"#).await;
    let prompt = |data: &[&str]| {
        let images: Vec<_> =
            data.iter().map(|data| serde_json::json!({"media_type": "x", "data": data})).collect();
        let body = serde_json::json!({"prompt": "Look", "images": images}).to_string();
        send(world.address, post(&format!("{path}/prompts")), body)
    };
    // More than a body without images may have.
    let large = format!("{}{}", PNG.trim_end_matches('=').get(..92).unwrap(), "A".repeat(4 * 1024 * 1024));
    let taken = prompt(&[PNG, &large]).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED, "{taken:?}");
    let shown = send(world.address, get(&path), "").await.json();
    let images = &shown["queued"].as_array().unwrap().last().unwrap()["images"];
    assert_eq!([&images[0]["width"], &images[0]["bytes"]], [1, 70], "{images}");
    let name = images[0]["name"].as_str().unwrap();
    let image = send(world.address, get(&format!("{path}/outputs/{name}")), "").await;
    assert_eq!((image.header("content-type"), image.body.len()), (Some("image/png"), 70));
    assert_eq!(image.header("x-content-type-options"), Some("nosniff"));

    let huge = "A".repeat(7 * 1024 * 1024);
    for (data, status, code) in [
        (vec!["bm8gaW1hZ2U="], 400, "bad_request"),
        (vec!["?"], 400, "bad_request"),
        (vec![PNG; 9], 400, "bad_request"),
        (vec![&huge], 413, "too_large"),
        (vec![&huge; 9], 413, "too_large"),
    ] {
        let refused = prompt(&data).await;
        assert_eq!((refused.status.as_u16(), refused.problem().as_str()), (status, code));
    }
    let edit = Request::patch(&path).header("content-type", "application/json");
    let other = send(world.address, edit, format!("{}{{}}", " ".repeat(2 * 1024 * 1024))).await;
    assert_eq!(other.problem(), "too_large", "only prompts have room for images");
}

#[tokio::test]
async fn a_session_is_edited_once_for_each_key() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}", world.session().await);
    let patch = |key: &str| {
        let request = Request::patch(&path).header("content-type", "application/json");
        request.header("idempotency-key", key)
    };
    let edited = send(world.address, patch("one"), r#"{"title":"A better title"}"#).await;
    assert_eq!((edited.status, &edited.json()["title"]), (StatusCode::OK, &"A better title".into()));
    let other = send(world.address, patch("two"), r#"{"title":"Another"}"#).await;
    assert_eq!(other.json()["title"], "Another");
    let again = send(world.address, patch("one"), r#"{"title":"A better title"}"#).await;
    assert_eq!(again.json(), edited.json());
    assert_eq!(send(world.address, get(&path), "").await.json()["title"], "Another");
    for (body, code) in [
        (r#"{"model":"none"}"#, "model_not_found"),
        ("{}", "bad_request"),
        (r#"{"title":" "}"#, "bad_request"),
        (r#"{"name":"x"}"#, "bad_request"),
    ] {
        assert_eq!(send(world.address, patch(body), body).await.problem(), code, "{body}");
    }
}

#[tokio::test]
async fn an_unknown_key_of_a_body_is_named() {
    let world = World::start().await;
    let body = r#"{"environment":"shop","prompt":"x","modle":"main"}"#;
    let answer = send(world.address, post("/api/v1/sessions"), body).await;
    assert_eq!(answer.problem(), "bad_request");
    assert!(answer.json()["title"].as_str().unwrap().contains("unknown field `modle`"), "{answer:?}");
}

#[tokio::test]
async fn environments_are_written_shown_and_removed() {
    let world = World::start().await;
    let path = "/api/v1/environments/second";
    let recipe = serde_json::json!({ "repos": [{ "url": world.repository, "branch": "main" }] }).to_string();
    let put = Request::put(path).header("content-type", "application/json");
    let written = send(world.address, put, recipe).await;
    assert_eq!(written.status, StatusCode::OK, "{written:?}");
    assert_eq!(written.json()["source"], "catalogue");
    let mut shown = send(world.address, get(path), "").await.json();
    assert_eq!(shown["image"]["state"], "none", "{shown}");
    shown.as_object_mut().unwrap().remove("image");
    assert_eq!(shown, written.json());
    let list = send(world.address, get("/api/v1/environments"), "").await.json();
    let names: Vec<_> = list["environments"].as_array().unwrap().iter().map(|each| &each["name"]).collect();
    assert_eq!(names, ["second", "shop"]);
    assert_eq!(send(world.address, Request::delete(path), "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(world.address, get(path), "").await.problem(), "environment_not_found");

    let missing = r#"{"repos":[{"url":"/nowhere/at/all.git"}]}"#;
    let put = Request::put(path).header("content-type", "application/json");
    assert_eq!(send(world.address, put, missing).await.problem(), "repository_unavailable");
    let models = send(world.address, get("/api/v1/models"), "").await.json();
    assert_eq!(models["models"][0]["name"], "main");
}
