//! Snapshots and forks of a session that has none, which is all that can be seen without a sandbox.

use hyper::StatusCode;
use serde_json::json;

use crate::client::{get, post, send};
use crate::world::World;

#[tokio::test]
async fn a_session_without_a_snapshot_cannot_be_forked() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}");
    let list = send(world.address, get(&format!("{path}/snapshots")), "").await;
    assert_eq!((list.status, list.json()), (StatusCode::OK, json!({"snapshots": []})));
    let fork = format!("{path}/fork");
    for body in [r#"{"prompt":"go on"}"#, r#"{"prompt":"go on","snapshot":"snp_00000000000000000000000001"}"#]
    {
        let answer = send(world.address, post(&fork), body).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (StatusCode::NOT_FOUND, "not_found"),
            "{body}"
        );
        let hint = answer.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("end of each turn"), "{answer:?}");
    }
    for body in
        [r#"{"prompt":" "}"#, r#"{}"#, r#"{"prompt":"x","at":"y"}"#, r#"{"prompt":"x","snapshot":"y"}"#]
    {
        let answer = send(world.address, post(&fork), body).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (StatusCode::BAD_REQUEST, "bad_request"),
            "{body}"
        );
    }
    let answer = send(world.address, post(&fork), r#"{"prompt":"x","model":"oracle"}"#).await;
    assert_eq!(answer.problem(), "model_not_found");
    let sessions = send(world.address, get("/api/v1/sessions"), "").await.json();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "none was begun in vain");
}

#[tokio::test]
async fn a_session_that_is_not_there_has_no_snapshots() {
    let world = World::start().await;
    for id in ["ses_00000000000000000000000001", "rubbish"] {
        let list = send(world.address, get(&format!("/api/v1/sessions/{id}/snapshots")), "").await;
        assert_eq!((list.status, list.problem().as_str()), (StatusCode::NOT_FOUND, "not_found"), "{id}");
        let fork = post(&format!("/api/v1/sessions/{id}/fork"));
        assert_eq!(send(world.address, fork, r#"{"prompt":"go on"}"#).await.problem(), "not_found", "{id}");
    }
}
