//! Sessions that nobody uses leave memory and come back as they were.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{EventBody, Outcome};
use serde_json::json;
use session::Sessions;
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

async fn until_awake(sessions: &Sessions, wanted: usize) {
    let waited = async {
        while sessions.awake() != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), waited).await;
    assert!(in_time.is_ok(), "{} sessions are in memory, not {wanted}", sessions.awake());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_leaves_memory_and_the_next_prompt_brings_it_back() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("Done.")
        .call("shell", json!({"command": "cat answer.txt"}))
        .say("Seen.");
    let world = World::new(script).await.idle(Duration::from_millis(50)).sleep(Duration::from_millis(50));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    // Longer than it takes to fall asleep: somebody follows, so it stays.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(sessions.awake(), 1, "a session that somebody follows stays");
    let seen = follow.events.clone();
    drop(follow);
    until_awake(&sessions, 0).await;

    let listed = sessions.list().await.unwrap();
    assert_eq!(sessions.awake(), 0, "a list wakes nobody");
    assert_eq!(listed, [sessions.get(id).await.unwrap()], "the row has everything");
    sessions.prompt(id, ann(), "Look".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("42\n"), "{}", follow.last_output());
    assert_eq!(follow.events[..seen.len()], seen[..], "what was told stays as it was");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_work_stays_awake() {
    let script = Script::new().call("shell", json!({"command": "true"})).say("Done.");
    let world = World::new(script).await.sleep(Duration::from_millis(20));
    let sessions = world.start().await;
    let id = create(&sessions, "Wait").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    drop(follow);
    // Its sandbox is kept for a while, and somebody has to stop it then.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(sessions.awake(), 1);
    world.end(sessions).await;
}
