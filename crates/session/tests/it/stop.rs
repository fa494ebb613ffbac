//! Stopping: from any state, exactly one finish, the work kept, and the queue goes on.

use protocol::event::SandboxState;
use protocol::{EventBody, ItemKind, ItemStatus, Outcome, SetupStep, Status};
use serde_json::json;
use testkit::model::{At, Gate, Reply, Script};

use crate::support::{Follow, World, ann, create};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_model_call_and_keeps_what_was_said() {
    let gate = Gate::new();
    let script = Script::new().answer(
        Reply::text(
            "Half of a long and winding sentence that is never finished because somebody is in a hurry",
        )
        .stall(At::Event(3), &gate),
    );
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Talk").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("Half").await;
    let stopped = sessions.stop(id, ann()).await.unwrap();
    assert!(stopped.turn.is_some());
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    world.model.wait_for_abandoned(1).await;
    let last = follow.events.last().unwrap();
    assert_eq!(last.actor, ann());
    let items = follow.items();
    let said = items.iter().find(|item| matches!(item.kind, ItemKind::Message { .. })).unwrap();
    assert_eq!(said.status, ItemStatus::Cancelled);
    assert!(matches!(&said.kind, ItemKind::Message { text } if text.starts_with("Half")), "{said:?}");
    // Once more, with nothing to stop.
    assert_eq!(sessions.stop(id, ann()).await.unwrap().turn, None);
    assert_eq!(sessions.get(id).await.unwrap().status, Status::Cancelled);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_command_keeps_the_work_and_lets_the_queue_go_on() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt; echo new > new.txt; echo begun; sleep 1000"}))
        .call(
            "shell",
            json!({"command": "cat answer.txt new.txt; git status --porcelain; git log --format=%s"}),
        )
        .say("Looked.")
        .call("shell", json!({"command": "echo newer > new.txt; echo on again; sleep 1000"}))
        .call(
            "shell",
            json!({"command": "cat answer.txt new.txt; git status --porcelain; git log --format=%s"}),
        )
        .say("Looked again.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work for ever").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    sessions.prompt(id, ann(), "Look".into()).await.unwrap();
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert_eq!(refused.code, protocol::Code::Conflict, "a turn runs");
    let (first, second) = tokio::join!(sessions.stop(id, ann()), sessions.stop(id, ann()));
    assert_eq!(first.unwrap().turn, second.unwrap().turn);
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    assert_eq!(finished.receipt.files_changed, 2);
    let (item, call) = follow.calls()[0];
    assert_eq!(item.status, ItemStatus::Cancelled);
    assert!(call.output.as_ref().unwrap().text.starts_with("begun"));

    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let before = follow.last_output();
    assert!(before.starts_with("42\nnew\n M answer.txt\n?? new.txt\n"), "{before}");
    let finishes = follow.names().iter().filter(|name| **name == "turn.finished").count();
    assert_eq!(finishes, 2, "each turn finished once");
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "new.txt").as_deref(), Some("new\n"), "it passed its checks");

    // What was kept comes back as uncommitted changes in a new sandbox.
    sessions.prompt(id, ann(), "Work on".into()).await.unwrap();
    follow.text("on again").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    assert_eq!(
        world.repo.file(&branch, "new.txt").as_deref(),
        Some("new\n"),
        "unfinished work is not pushed"
    );
    world.driver.remove(sandbox).await.unwrap();
    sessions.prompt(id, ann(), "Look again".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let after = follow.last_output();
    assert!(after.starts_with("42\nnewer\n M new.txt\nWork for ever\n"), "{after}");
    let diff = sessions.diff(id).await.unwrap();
    assert!(diff.patch.contains("+42") && diff.patch.contains("+newer"), "{}", diff.patch);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_the_sandbox_is_prepared_leaves_none() {
    let world = World::new(Script::new()).await.environment(|environment| {
        environment.setup = vec![SetupStep { run: "sleep 1000".into(), ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Kept").await;
    let mut follow = Follow::new(&sessions, id).await;
    let preparing =
        |body: &EventBody| matches!(body, EventBody::SandboxChanged { state: SandboxState::Preparing, .. });
    follow.until(preparing).await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    let session = sessions.get(id).await.unwrap();
    assert_eq!((session.sandbox, session.reason.as_deref()), (None, Some("a person stopped it")));
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "no sandbox is left");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_one_command_stops_its_turns_and_leaves_nothing() {
    let script =
        Script::new().call("shell", json!({"command": "echo 40 > answer.txt; echo begun; sleep 1000"}));
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Work for ever").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    world.end(sessions.clone()).await;
    let finished = follow.finished().await;
    assert_eq!(
        (finished.outcome, finished.reason.as_deref()),
        (Outcome::Cancelled, Some("the server was shut down"))
    );
    assert!(sessions.prompt(id, ann(), "More".into()).await.is_err(), "it takes no more work");
    drop((sessions, follow));
    let sessions = world.start().await;
    assert!(sessions.diff(id).await.unwrap().patch.contains("+40"), "the work was kept");
    world.end(sessions).await;
}
