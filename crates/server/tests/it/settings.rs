//! What the configuration says, whether its models work, and whether a recipe could be written.

use hyper::StatusCode;
use serde_json::json;
use server::Secret;

use crate::client::{get, post, send};
use crate::world::World;

#[tokio::test]
async fn settings_name_people_and_budgets_and_nothing_secret() {
    let world = World::start_with(|options| {
        options.people = vec![("ann".to_owned(), Secret::new("a-token-of-ann-0123456789").unwrap())];
    })
    .await;
    let answer = send(world.address, get("/api/v1/settings"), "").await;
    let settings = answer.json();
    assert_eq!(settings["needs_token"], false);
    assert!(settings["budgets"]["session"].is_object(), "{settings}");
    let ann = settings["people"].as_array().unwrap().iter().find(|one| one["name"] == "ann").unwrap();
    assert_eq!(ann["token"], true);
    assert!(ann["author"].as_str().unwrap().starts_with("ann <"), "{ann}");
    assert!(!String::from_utf8_lossy(&answer.body).contains("a-token-of-ann"));
}

#[tokio::test]
async fn a_model_that_cannot_be_reached_says_so() {
    let world = World::start().await;
    let test = send(world.address, post("/api/v1/models/main/test"), "").await;
    assert_eq!(test.status, StatusCode::OK, "{test:?}");
    let test = test.json();
    assert_eq!((&test["model"], &test["works"]), (&json!("main"), &json!(false)));
    assert!(!test["reason"].as_str().unwrap().is_empty(), "{test}");
    let other = send(world.address, post("/api/v1/models/other/test"), "").await;
    assert_eq!(other.problem(), "not_found");
}

#[tokio::test]
async fn a_recipe_is_checked_and_not_written() {
    let world = World::start().await;
    let check = async |recipe: serde_json::Value| {
        send(world.address, post("/api/v1/environments/fresh/check"), recipe.to_string()).await
    };
    let repos = json!([{ "url": world.repository }]);
    assert_eq!(check(json!({ "repos": repos })).await.status, StatusCode::NO_CONTENT);
    let listed = send(world.address, get("/api/v1/environments"), "").await.json();
    assert_eq!(listed["environments"].as_array().unwrap().len(), 1, "nothing was written: {listed}");
    assert_eq!(check(json!({ "repos": [] })).await.problem(), "bad_request");
    assert_eq!(check(json!({ "repos": repos, "colour": "red" })).await.problem(), "bad_request");
    let twice = json!([{ "name": "a", "run": "true" }, { "name": "a", "run": "true" }]);
    assert_eq!(check(json!({ "repos": repos, "checks": twice })).await.problem(), "bad_request");
    let nowhere = json!({ "repos": [{ "url": "/nowhere/at/all" }] });
    assert!(check(nowhere).await.status.is_client_error());
}
