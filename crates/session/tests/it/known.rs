//! What failed before a session began, known from the run of the checks on the environment's image, is told from what a turn
//! broke.

use std::time::Duration;

use protocol::item::CheckReport;
use protocol::{EventBody, ImageCheck, ImageCheckState, ImageState, ItemKind, KnownCheck, Outcome};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::{At, Gate, Reply, Script};
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

/// A test for each file in `tests`; it fails where its file says so.
const TESTS: &str = r#"#!/bin/sh
failed=0
for file in tests/*; do
  if grep -q bad "$file"; then
    failed=$((failed + 1))
    list="$list
FAILED $file::test_it - it is bad"
  fi
done
echo "=========================== short test summary info ============================$list"
[ $failed = 0 ] && echo '2 passed in 0.01s' && exit 0
echo "$failed failed in 0.01s"
exit 1
"#;

/// A repository in which the test of `a` fails, and that of `b` does not.
async fn world(script: Script) -> World {
    let repo = Repo::bare_with(&[("check.sh", TESTS), ("tests/a", "bad\n"), ("tests/b", "good\n")]);
    World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "sh check.sh".into();
        environment.checks[0].parser = "pytest".into();
    })
}

/// How the checks went on the current image.
async fn on_image(sessions: &Sessions) -> Vec<ImageCheck> {
    sessions.image("plain").await.unwrap().current.unwrap().checks
}

fn known(follow: &Follow) -> Vec<(String, Vec<KnownCheck>)> {
    let known = |body: &EventBody| match body {
        EventBody::ChecksKnown { commit, checks, .. } => Some((commit.clone(), checks.clone())),
        _ => None,
    };
    follow.events.iter().filter_map(|event| known(&event.body)).collect()
}

fn reports(follow: &Follow) -> Vec<CheckReport> {
    let report = |kind: &ItemKind| match kind {
        ItemKind::Report(report) => Some(report.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(|item| report(&item.kind)).collect()
}

fn write(path: &str, content: &str) -> serde_json::Value {
    json!({"path": path, "content": content})
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_on_the_image_is_told_from_what_the_turn_broke() {
    let script = Script::new()
        .call("write", write("tests/b", "bad\n"))
        .say("Done.")
        .call("write", write("tests/b", "better\n"))
        .say("Done.")
        .call("write", write("tests/a", "better\n"))
        .say("Done.");
    let world = world(script).await;
    let sessions = world.start().await;
    let built = sessions.build_and_wait("plain").await.unwrap();
    assert_eq!((built.state, built.error), (ImageState::Ready, None), "it is an image all the same");
    let [check] = on_image(&sessions).await.try_into().unwrap();
    assert_eq!((check.name.as_str(), check.state, check.failures), ("test", ImageCheckState::Failed, 1));

    let id = create(&sessions, "Mend the tests").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let [(commit, checks)] = known(&follow).try_into().unwrap();
    assert_eq!(commit, world.repo.tip("main"));
    assert_eq!((checks.len(), checks[0].passed), (1, false), "{checks:?}");
    let requests = world.model.requests();
    let told = requests[2].last_user().unwrap();
    let before = "1 of these 2 failed before this turn began:\n- tests/a::test_it: tests/a: it is bad";
    let broken = "1 broken by this turn:\n- tests/b::test_it: tests/b: it is bad";
    assert!(told.contains(before) && told.contains(broken), "{told}");
    let told = requests[4].last_user().unwrap();
    assert!(told.contains("All of this failed before this turn began."), "{told}");
    let first = reports(&follow)[0].changes.clone().unwrap();
    assert_eq!((first.new.len(), first.remaining.len()), (1, 1), "people see the same: {first:?}");
    assert!(!first.new[0].before_turn && first.remaining[0].before_turn, "{first:?}");
    assert_eq!(reports(&follow)[2].changes.as_ref().unwrap().fixed.len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_leaves_what_failed_before_is_not_done_and_is_not_blamed() {
    let script = Script::new().call("write", write("README.md", "More.\n")).say("Done.").repeat_last();
    let world = world(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated);
    let reason = finished.reason.unwrap();
    let words = "test (1 failure, known from before the turn); none of it was broken by this turn";
    assert!(reason.contains(words), "{reason}");
    assert_eq!(world.repo.branches(), ["main"]);

    // What the session itself found is known in its next turn; what the image said is not asked again.
    sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    follow.finished().await;
    assert_eq!(known(&follow).len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_what_a_turn_is_measured_by() {
    let gate = Gate::new();
    let script = Script::new()
        .call("write", write("tests/b", "bad\n"))
        .say("Done.")
        .answer(Reply::text("Never heard").stall(At::Response, &gate))
        .say("It is done all the same.")
        .repeat_last();
    let world = world(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Mend the tests").await;
    let follow = Follow::new(&sessions, id).await;
    gate.reached().await;
    drop(follow);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    // Whatever becomes of the image: the log knows.
    std::fs::remove_dir_all(world.dir.path().join("sandbox/images/plain")).unwrap();
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("test (2 failures, 1 of them known from before the turn)"), "{reason}");
    assert_eq!(known(&follow).len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_of_another_commit_is_not_known_of_this_one() {
    let script = Script::new().call("write", write("tests/b", "bad\n")).say("Done.").repeat_last();
    let world = world(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    world.repo.commit("main", &[("tests/a", "good\n")]);
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated);
    assert_eq!(known(&follow), []);
    let requests = world.model.requests();
    let told = requests[2].last_user().unwrap();
    assert!(told.contains("tests/b::test_it") && !told.contains("before this turn began"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_hangs_on_the_image_is_cut_and_nothing_is_known_of_it() {
    let script = Script::new().call("write", write("mended", "\n")).say("Done.");
    let world = world(script).await.command_timeout(Duration::from_secs(2)).environment(|environment| {
        environment.checks[0].run = "test -e mended || sleep 1000".into();
    });
    let sessions = world.start().await;
    let built = sessions.build_and_wait("plain").await.unwrap();
    assert_eq!(built.state, ImageState::Ready);
    let [check] = built.current.unwrap().checks.try_into().unwrap();
    assert_eq!(check.state, ImageCheckState::Unknown);
    assert_eq!(check.why.as_deref(), Some("it was not done after 2 s"));
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "it leaves no sandbox");
    let id = create(&sessions, "Mend it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(known(&follow), []);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_whose_checks_were_broken_off_is_ready_and_the_next_build_runs_them() {
    let world = world(Script::new()).await.prebuild().environment(|environment| {
        environment.checks[0].run = "test -e mended || sleep 1000".into();
    });
    let sessions = world.start().await;
    sessions.build("plain").await.unwrap();
    while !on_running_image(&sessions).await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        sessions.image("plain").await.unwrap().state,
        ImageState::Ready,
        "nobody waits for its checks"
    );
    world.end(sessions).await;

    let commit = world.repo.commit("main", &[("mended", "\n")]);
    let sessions = world.start().await;
    let image = sessions.image("plain").await.unwrap();
    assert_eq!(image.state, ImageState::Ready, "{image:?}");
    let built = sessions.build_and_wait("plain").await.unwrap().current.unwrap();
    assert_eq!((built.commit, built.checks[0].state), (commit, ImageCheckState::Passed));
    world.end(sessions).await;
}

/// Whether there is an image and its check runs.
async fn on_running_image(sessions: &Sessions) -> bool {
    let image = sessions.image("plain").await.unwrap();
    image
        .current
        .is_some_and(|image| image.checks.iter().any(|check| check.state == ImageCheckState::Running))
}
