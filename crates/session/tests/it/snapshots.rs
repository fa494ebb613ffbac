//! Snapshots at the end of turns: what an idle sandbox had comes back, and sessions are forked from them.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{Code, EventBody, ForkSession, Outcome};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};
use crate::twisted::Twisted;

fn snapshot_taken(body: &EventBody) -> bool {
    matches!(body, EventBody::SnapshotTaken { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_is_stopped_and_comes_back_with_every_file() {
    let leave = "echo 42 > answer.txt; mkdir node_modules; echo kept > node_modules/ignored; \
                 echo home > /home/dev/note; nohup sleep 1000 >/dev/null 2>&1 & ";
    let script = Script::new()
        .call("shell", json!({"command": leave}))
        .say("Done.")
        .call(
            "shell",
            json!({"command": "cat answer.txt node_modules/ignored /home/dev/note; git log --format=%s -1"}),
        )
        .say("Seen.");
    let world = World::new(script).await.idle(Duration::from_millis(300));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let taken = follow.until(snapshot_taken).await;
    assert!(matches!(taken.body, EventBody::SnapshotTaken { bytes, .. } if bytes > 0), "{taken:?}");
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "no sandbox while nobody asks");

    sessions.prompt(id, ann(), "Look".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let text = follow.last_output();
    assert!(text.starts_with("42\nkept\nhome\nCorrect the answer\n"), "{text}");
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("Processes that ran in it") && told.contains("sleep"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_dies_in_a_turn_comes_back_as_the_turn_found_it() {
    let script = Script::new()
        .call("shell", json!({"command": "mkdir node_modules; echo kept > node_modules/ignored"}))
        .say("Done.")
        .call("shell", json!({"command": "echo lost > node_modules/ignored; echo begun; sleep 1000"}))
        .call("shell", json!({"command": "cat node_modules/ignored"}))
        .say("Seen.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Leave something").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(snapshot_taken).await;
    sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    follow.text("begun").await;
    world.driver.remove(sessions.get(id).await.unwrap().sandbox.unwrap()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().starts_with("kept\n"), "{}", follow.last_output());
    world.end(sessions).await;
}

async fn fork(sessions: &Sessions, id: protocol::SessionId, prompt: &str, index: usize) -> Follow {
    let list = sessions.snapshots(id).await.unwrap().snapshots;
    let request = ForkSession {
        prompt: prompt.into(),
        images: Vec::new(),
        snapshot: Some(list[index].id),
        model: None,
    };
    let forked = sessions.fork(id, ann(), request).await.unwrap();
    let from = forked.forked_from.unwrap();
    assert_eq!((from.session, from.snapshot), (id, list[index].id));
    Follow::new(sessions, forked.id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_goes_on_from_any_snapshot_and_the_other_is_untouched() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt; seq 1 20000"}))
        .say("First.")
        .call("shell", json!({"command": "echo two > two.txt"}))
        .say("Second.")
        .call(
            "shell",
            json!({"command": "ls; cat answer.txt; git branch --show-current; echo fork > fork.txt"}),
        )
        .say("Forked.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(snapshot_taken).await;
    sessions.prompt(id, ann(), "Add another".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(snapshot_taken).await;
    let spent = sessions.get(id).await.unwrap();

    let mut forked = fork(&sessions, id, "Another way", 0).await;
    for _ in 0..2 {
        let finished = forked.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    }
    let text = forked.last_output();
    assert!(text.contains("42\n") && !text.contains("two.txt"), "the first snapshot: {text}");
    assert!(text.contains("slipway/another-way-"), "a branch of its own: {text}");
    assert_eq!(forked.names()[0], "session.created");
    let fork_id = forked.events[0].session;
    let session = sessions.get(fork_id).await.unwrap();
    assert!(session.spend.calls < spent.spend.calls, "what was spent before is on the other's account");
    let branch = session.delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "fork.txt").as_deref(), Some("fork\n"));
    assert_eq!(world.repo.log(&branch)[..2], ["Another way", "Correct the answer"]);
    assert_eq!(sessions.get(id).await.unwrap().seq, spent.seq, "nothing happened to the other");
    // The model knows what was said before the snapshot, and nothing of what came after.
    let told = world.model.requests().last().unwrap().json.to_string();
    assert!(told.contains("First.") && !told.contains("Second."), "{told}");
    let (_, call) = forked.calls()[0];
    let blob = call.output.as_ref().unwrap().blob.clone().unwrap();
    assert!(sessions.blob(fork_id, &blob).await.unwrap().is_file(), "long outputs came along");

    let request = ForkSession {
        prompt: "x".into(),
        images: Vec::new(),
        snapshot: Some(protocol::SnapshotId::new()),
        model: None,
    };
    let refused = sessions.fork(id, ann(), request).await.unwrap_err();
    assert_eq!(refused.code, Code::NotFound);
    assert!(refused.hint.unwrap().contains("snp_"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_one_command_leaves_a_snapshot_for_the_next() {
    let script = Script::new()
        .call("shell", json!({"command": "mkdir node_modules; echo kept > node_modules/ignored"}))
        .say("Done.")
        .call("shell", json!({"command": "cat node_modules/ignored"}))
        .say("Seen.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Leave something").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    assert_eq!(world.driver.list().await.unwrap().len(), 0);
    drop((sessions, follow));
    let sessions = world.start().await;
    sessions.prompt(id, ann(), "Look".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("kept\n"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_may_not_be_of_one_moment_says_so_and_so_does_what_goes_on_from_it() {
    let look = json!({"command": "cat answer.txt"});
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("Done.")
        .call("shell", look.clone())
        .say("Seen.")
        .call("shell", look)
        .say("Seen again.");
    let mut world = World::new(script).await.idle(Duration::from_millis(300));
    let driver = Twisted::new(&world.driver);
    world.driver = std::sync::Arc::clone(&driver) as _;
    driver.blurs.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped =
        |body: &EventBody| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. });
    let blurred = |follow: &Follow| {
        let taken = follow.events.iter().filter_map(|event| match event.body {
            EventBody::SnapshotTaken { blurred, .. } => Some(blurred),
            _ => None,
        });
        taken.collect::<Vec<bool>>()
    };
    let notices = |follow: &Follow| {
        let of = |item: &&protocol::Item| matches!(&item.kind, protocol::ItemKind::Notice { text, .. } if text.contains("different moments"));
        follow.items().into_iter().filter(of).count()
    };
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(stopped).await;
    assert_eq!(blurred(&follow), [true, true], "at the end of the turn, and when it was stopped");
    assert!(sessions.snapshots(id).await.unwrap().snapshots.iter().all(|one| one.blurred));
    driver.blurs.store(false, std::sync::atomic::Ordering::Relaxed);

    sessions.prompt(id, ann(), "Look".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(notices(&follow), 1, "what goes on from it is told once");
    follow.until(stopped).await;
    assert_eq!(blurred(&follow), [true, true, false, false]);
    sessions.prompt(id, ann(), "Look again".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(notices(&follow), 1, "the last one is of one moment");
    world.end(sessions).await;
}
