//! A stop while a push does not come to its end: it is soon over, nothing of git is left, and what is told of the push is
//! what the remote says.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use protocol::event::DeliveryState;
use protocol::{EventBody, Outcome, Stopped};
use serde_json::json;
use testkit::model::{At, Gate, Reply};

use crate::stop_anywhere::{both, calls, first_turn, holds, stop};
use crate::support::{Follow, World, ann, create};

/// A hook of the remote that says that it was reached, and waits for ever.
struct Hook {
    path: PathBuf,
    reached: PathBuf,
}

impl Hook {
    fn new(world: &World, name: &str) -> Self {
        let path = world.repo.path().join("hooks").join(name);
        let reached = world.dir.path().join("reached");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\necho $$ > {0}.new\nmv {0}.new {0}\nwhile :; do sleep 0.1; done\n",
            reached.display()
        );
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { path, reached }
    }

    async fn reached(&self) {
        while !self.reached.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sees that it does not run, and takes it away.
    fn gone(self) {
        let pid = std::fs::read_to_string(&self.reached).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z"), "the hook still runs: {stat}");
        std::fs::remove_file(self.path).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_the_remote_does_not_take_is_broken_off_and_cancelled() {
    both(async |how| {
        let world = World::new(calls("echo 42 > answer.txt")).await;
        let hook = Hook::new(&world, "pre-receive");
        let sessions = world.start().await;
        let id = create(&sessions, "Begin").await;
        hook.reached().await;
        let (sessions, follow) = stop(&world, sessions, id, how).await;
        holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
        hook.gone();
        let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
        assert_eq!(delivery.state, DeliveryState::Failed);
        let error = delivery.error.unwrap();
        assert!(error.contains("it was stopped, and") && error.contains("does not have it"), "{error}");

        let delivery = sessions.deliver(id, ann()).await.unwrap();
        assert_eq!(delivery.state, DeliveryState::Pushed);
        assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
        world.end(sessions).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_was_taken_and_never_answered_is_told_as_done() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let hook = Hook::new(&world, "post-receive");
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    hook.reached().await;
    sessions.stop(id, ann()).await.unwrap();
    let follow = Follow::new(&sessions, id).await;
    holds(&world, &sessions, id, follow, Outcome::Done).await;
    hook.gone();
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    assert_eq!((delivery.state, delivery.error), (DeliveryState::Pushed, None));
    assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_of_which_nobody_knows_is_told_so_and_found_out_later() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let hook = Hook::new(&world, "post-receive");
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    hook.reached().await;
    let blocked = world.block_repository();
    sessions.stop(id, ann()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed, "it may be out, so it was not cancelled");
    let reason = finished.reason.unwrap();
    assert!(reason.contains("may have the branch or not: it does not answer"), "{reason}");
    assert!(reason.contains("slipway deliver"), "{reason}");
    assert_eq!(follow.deliveries().last().unwrap().state, DeliveryState::Unknown);
    assert_eq!(follow.names().iter().filter(|name| **name == "turn.finished").count(), 1);
    blocked.release();
    hook.gone();

    // The remote has it, so it is not pushed again: a hook would object.
    let again = Hook::new(&world, "pre-receive");
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_eq!(delivery.state, DeliveryState::Pushed);
    assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
    std::fs::remove_file(again.path).unwrap();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_never_answers_was_sent_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(first_turn(move |request| match request.results().len() {
        0 => Reply::new().call("shell", json!({"command": "echo 42 > answer.txt"})),
        _ => Reply::text("Done.").stall(At::Response, &held),
    }))
    .await;
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    gate.reached().await;
    let blocked = world.block_repository();
    gate.open();
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::DeliveryUpdated(_))).await;
    sessions.stop(id, ann()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled, "{:?}", finished.reason);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("before anything was sent"), "{reason}");
    assert_eq!(follow.deliveries().last().unwrap().state, DeliveryState::Failed);

    // A delivery that somebody asked for is stopped in the same way, and whoever asked is told.
    let asking = sessions.clone();
    let asked = tokio::spawn(async move { asking.deliver(id, ann()).await });
    let begun = |body: &EventBody| matches!(body, EventBody::DeliveryUpdated(it) if it.state.is_pending());
    follow.until(begun).await;
    let stopped = sessions.stop(id, ann()).await.unwrap();
    assert_eq!(stopped, Stopped { turn: None, delivery: true });
    let refused = asked.await.unwrap().unwrap_err();
    assert_eq!(refused.code, protocol::Code::DeliveryFailed);
    assert!(refused.title.contains("before anything was sent"), "{refused:?}");
    assert_eq!(sessions.stop(id, ann()).await.unwrap(), Stopped::default(), "there is nothing to stop");

    blocked.release();
    assert_eq!(sessions.deliver(id, ann()).await.unwrap().state, DeliveryState::Pushed);
    let session = sessions.get(id).await.unwrap();
    assert!(world.repo.branches().contains(&session.delivery.unwrap().branch));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_a_delivery_that_is_under_way_gets_its_result() {
    let world = World::new(calls("echo 42 > answer.txt")).await;
    let hook = Hook::new(&world, "pre-receive");
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    hook.reached().await;
    let (sessions, follow) = stop(&world, sessions, id, crate::stop_anywhere::How::Often).await;
    holds(&world, &sessions, id, follow, Outcome::Cancelled).await;
    std::fs::remove_file(&hook.reached).unwrap();

    let asked = |name: &str| {
        let (sessions, who) = (sessions.clone(), protocol::Actor::user(name));
        tokio::spawn(async move { sessions.deliver(id, who).await })
    };
    let first = asked("ann");
    hook.reached().await;
    let others = [asked("bob"), asked("cid")];
    // They have asked before the hook is let go.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let pid = std::fs::read_to_string(&hook.reached).unwrap();
    std::fs::write(&hook.path, "#!/bin/sh\n").unwrap();
    assert!(std::process::Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap().success());
    assert!(first.await.unwrap().is_err(), "the hook was killed, so the remote refused it");
    let [bob, cid] = others.map(|other| async move { other.await.unwrap().unwrap() });
    let (bob, cid) = tokio::join!(bob, cid);
    assert_eq!((bob.state, &bob), (DeliveryState::Pushed, &cid));
    world.end(sessions).await;
}
