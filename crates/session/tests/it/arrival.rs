//! A turn whose sandbox is not there yet: the model is asked at once, and only what needs the sandbox waits for it.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{EventBody, Item, ItemKind, Outcome, SessionId};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::{At, Gate, Reply, Script};

use crate::support::{Follow, World, ann, create};

/// A session whose next sandbox needs the remote: neither it nor a snapshot nor a copy of the repository is there.
async fn without_a_sandbox(world: &World) -> (Sessions, SessionId) {
    let sessions = world.start().await;
    let id = create(&sessions, "Say hello").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    drop(follow);
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    drop(sessions);
    for dir in ["mirrors", "sandbox/snapshots"] {
        let dir = world.dir.path().join(dir);
        if dir.exists() {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
    (world.start().await, id)
}

/// Asks for work and waits until the model has called a tool for it.
async fn until_called(sessions: &Sessions, id: SessionId) -> Follow {
    sessions.prompt(id, ann(), "Correct the answer".into()).await.unwrap();
    let mut follow = Follow::new(sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the first turn");
    let is_call = |item: &Item| matches!(item.kind, ItemKind::ToolCall(_));
    follow.until(|body| matches!(body, EventBody::ItemStarted { item, .. } if is_call(item))).await;
    follow
}

async fn until_asked(world: &World, times: usize) {
    while world.model.requests().len() < times {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_asked_at_once_and_its_command_waits_for_the_sandbox() {
    let script = Script::new()
        .say("Hello.")
        .call("shell", json!({"command": "echo $((6 * 7)) > answer.txt; cat answer.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let (sessions, id) = without_a_sandbox(&world).await;
    let blocked = world.block_repository();
    // Nobody can read the repository yet, so there is no sandbox.
    let mut follow = until_called(&sessions, id).await;
    blocked.release();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("42\n"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_cannot_be_had_gives_the_models_answer_up() {
    let never = Gate::new();
    let script =
        Script::new().say("Hello.").answer(Reply::text("This is never said.").stall(At::Event(0), &never));
    let world = World::new(script).await;
    let (sessions, id) = without_a_sandbox(&world).await;
    let blocked = world.block_repository();
    sessions.prompt(id, ann(), "Correct the answer".into()).await.unwrap();
    until_asked(&world, 2).await;
    std::fs::rename(world.repo.path().join("objects"), world.repo.path().join("gone")).unwrap();
    blocked.release();
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the first turn");
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.unwrap().contains("repository"), "it says what is missing");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_whose_work_is_gone_is_told_before_it_can_call_it_done() {
    let never = Gate::new();
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .answer(Reply::text("Done.").stall(At::Event(0), &never))
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    until_asked(&world, 2).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    for info in world.driver.list().await.unwrap() {
        world.driver.remove(info.id).await.unwrap();
    }
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, finished.receipt.files_changed), (Outcome::Done, 1));
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("The sandbox was lost"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waited_for_its_sandbox_runs_under_the_next_server() {
    let script = Script::new()
        .say("Hello.")
        .call("shell", json!({"command": "echo 42 > answer.txt; echo once >> ran.txt; cat ran.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let (sessions, id) = without_a_sandbox(&world).await;
    let blocked = world.block_repository();
    drop(until_called(&sessions, id).await);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    blocked.release();
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the first turn");
    let finished = follow.finished().await;
    assert_eq!((finished.outcome, finished.receipt.files_changed), (Outcome::Done, 2));
    assert!(follow.last_output().starts_with("once\n("), "{}", follow.last_output());
    let told = world.model.requests()[2].json.to_string();
    assert!(!told.contains("was lost") && !told.contains("interrupted"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_comes_to_its_tip_while_the_model_thinks() {
    let answer = Gate::new();
    let script = Script::new()
        .answer(Reply::new().call("read", json!({"path": "answer.txt"})).stall(At::Response, &answer))
        .say("Seen.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    world.repo.commit("main", &[("answer.txt", "43\n")]);
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Ready, .. })).await;
    answer.open();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().contains("43"), "{}", follow.last_output());
    world.end(sessions).await;
}
