//! The disk budget: snapshots keep to it however fast they are taken, and one that has no room is refused and told.

use std::time::Duration;

use protocol::{EventBody, ImageState, Outcome, SetupStep};
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

const MIB: u64 = 1 << 20;

/// Other bytes each time, in a file that git ignores.
const WRITE: &str = "mkdir -p node_modules; head -c 16M /dev/urandom > node_modules/big";

fn is_snapshot_or_error(body: &EventBody) -> bool {
    matches!(body, EventBody::SnapshotTaken { .. } | EventBody::ErrorRaised { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_keep_to_the_budget_however_fast_they_are_taken() {
    const TURNS: usize = 5;
    let turns = 0..TURNS;
    let script =
        turns.fold(Script::new(), |script, _| script.call("shell", json!({"command": WRITE})).say("Done."));
    let budget = 64 * MIB;
    let world = World::new(script).await.budget(budget);
    let sessions = world.start().await;
    let id = create(&sessions, "Fill the disk").await;
    let mut follow = Follow::new(&sessions, id).await;
    for turn in 1..=TURNS {
        assert_eq!(follow.finished().await.outcome, Outcome::Done);
        let told = follow.until(is_snapshot_or_error).await;
        assert!(matches!(told.body, EventBody::SnapshotTaken { .. }), "{told:?}");
        if turn < TURNS {
            sessions.prompt(id, ann(), "Again".into()).await.unwrap();
        }
    }
    let mut used = world.driver.disk_used().await.unwrap();
    for _ in 0..1000 {
        if used <= budget {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        used = world.driver.disk_used().await.unwrap();
    }
    assert!(used <= budget, "{used} of {budget}");
    let kept = sessions.snapshots(id).await.unwrap().snapshots.len();
    assert!((1..TURNS).contains(&kept), "{kept} snapshots are left");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_without_room_is_refused_and_the_session_goes_on() {
    let script = Script::new()
        .call("shell", json!({"command": format!("{WRITE}; echo 42 > answer.txt")}))
        .say("Done.")
        .call("shell", json!({"command": "cat answer.txt; rm node_modules/big"}))
        .say("Removed.");
    let world = World::new(script).await.budget(24 * MIB);
    let sessions = world.start().await;
    let id = create(&sessions, "Fill the disk").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the work itself is kept");
    let told = follow.until(is_snapshot_or_error).await;
    let EventBody::ErrorRaised { message, hint, .. } = &told.body else { panic!("{told:?}") };
    assert!(message.contains("no snapshot was taken") && message.contains("disk budget"), "{message}");
    assert!(hint.as_ref().is_some_and(|hint| hint.contains("disk_budget_gb")), "{hint:?}");
    assert_eq!(sessions.snapshots(id).await.unwrap().snapshots.len(), 0);

    sessions.prompt(id, ann(), "Make room".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("42\n"), "{}", follow.last_output());
    let told = follow.until(is_snapshot_or_error).await;
    assert!(matches!(told.body, EventBody::SnapshotTaken { .. }), "there is room again: {told:?}");
    world.end(sessions).await;
}

/// Two images do not fit beside each other: the new one stays, and what only the old one needed goes.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_was_just_built_is_not_what_makes_room() {
    let budget = 28 * MIB;
    let world = World::new(Script::new()).await.budget(budget).environment(|environment| {
        let inputs = vec!["answer.txt".to_owned()];
        environment.setup = vec![SetupStep { run: WRITE.to_owned(), inputs, ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    for content in ["1\n", "2\n", "3\n"] {
        world.repo.commit("main", &[("answer.txt", content)]);
        sessions.build_and_wait("plain").await.unwrap();
        // What the build itself began to collect is done before this.
        let report = sessions.collect_garbage(false).await.unwrap();
        let image = sessions.image("plain").await.unwrap();
        assert_eq!(image.state, ImageState::Ready, "{report:?}");
        assert_eq!(image.current.unwrap().commit, world.repo.tip("main"));
        let used = world.driver.disk_used().await.unwrap();
        assert!(used <= budget, "{used} of {budget}: {report:?}");
    }
    world.end(sessions).await;
}
