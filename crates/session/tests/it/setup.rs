//! Making a workspace ready when that is not easy: steps that fail at first, and limits that are reached on the way.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use protocol::event::{LimitKind, SandboxState};
use protocol::{EventBody, Outcome, Probe, Service, SetupStep};
use serde_json::json;
use session::ShutDown;
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};
use crate::twisted::Twisted;

/// The limits that were told of, with what was said.
fn limits(follow: &Follow) -> Vec<(LimitKind, String)> {
    let told = follow.events.iter().filter_map(|event| match &event.body {
        EventBody::LimitExceeded { limit, message, .. } => Some((*limit, message.clone())),
        _ => None,
    });
    told.collect()
}

/// What the error says that a person should do.
fn hint(follow: &Follow) -> String {
    let told = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { hint, .. } => hint.clone(),
        _ => None,
    });
    told.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_at_first_is_tried_again_and_that_is_told() {
    let script = Script::new().call("shell", json!({"command": "cat /tmp/tries"})).say("Seen.");
    let world = World::new(script).await.environment(|environment| {
        let run = "echo x >> /tmp/tries; test $(wc -l < /tmp/tries) -ge 3".to_owned();
        environment.setup = vec![SetupStep { run, ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().starts_with("x\nx\nx\n"), "{}", follow.last_output());
    let retries: Vec<(u32, u32, &str)> = follow
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::RetryScheduled { attempt, attempts, reason, .. } => {
                Some((*attempt, *attempts, reason.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(retries.iter().map(|retry| (retry.0, retry.1)).collect::<Vec<_>>(), [(2, 3), (3, 3)]);
    assert!(retries[0].2.contains("set-up step") && retries[0].2.contains("exited with 1"), "{retries:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_tried_as_often_as_it_says() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let run = "echo tried >&2; exit 7".to_owned();
        environment.setup = vec![SetupStep { run, attempts: Some(1), ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    assert!(!follow.names().contains(&"retry.scheduled"), "{:?}", follow.names());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_in_a_set_up_step_is_told_with_its_key() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let run = "head -c 64M /dev/zero > big; sync; sleep 600".to_owned();
        environment.setup = vec![SetupStep { run, attempts: Some(1), ..SetupStep::default() }];
        environment.limits.disk_mb = Some(16);
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let told = limits(&follow);
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::DiskBytes], "{told:?}");
    assert!(told[0].1.contains("16 MiB") && told[0].1.contains("disk_mb"), "{told:?}");
    assert_eq!(hint(&follow), told[0].1, "the error says the same");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_reached_once_more_while_a_step_is_given_up_is_told_once() {
    let mut world = World::new(Script::new()).await.environment(|environment| {
        environment.setup =
            vec![SetupStep { run: "exit 1".to_owned(), attempts: Some(1), ..SetupStep::default() }];
    });
    let twisted = Twisted::new(&world.driver);
    twisted.overflows.store(true, Ordering::Relaxed);
    world.driver = twisted;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    let told = limits(&follow);
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::DiskBytes], "{told:?}");
    assert_eq!(hint(&follow), told[0].1, "the error says the same");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_in_a_service_before_the_first_prompt_is_told_with_its_key() {
    let world = World::new(Script::new()).await.environment(|environment| {
        environment.services = vec![Service {
            name: "greedy".into(),
            run: "head -c 64M /dev/zero > /tmp/big; sleep 600".into(),
            ready: Probe { tcp: Some(1), ..Probe::default() },
            ..Service::default()
        }];
        environment.limits.disk_mb = Some(16);
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.as_ref().is_some_and(|why| why.contains("greedy")), "{finished:?}");
    let told = limits(&follow);
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::DiskBytes], "{told:?}");
    assert!(hint(&follow).contains("disk_mb"), "{}", hint(&follow));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_in_a_warm_step_is_named_by_the_build() {
    let world = World::new(Script::new()).await.environment(|environment| {
        let run = "head -c 64M /dev/zero > big; sleep 600".to_owned();
        environment.warm = vec![SetupStep { run, attempts: Some(1), ..SetupStep::default() }];
        environment.limits.disk_mb = Some(16);
    });
    let sessions = world.start().await;
    let error = sessions.build_and_wait("plain").await.unwrap_err();
    assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("disk_mb")), "{error}");
    world.end(sessions).await;
}

/// A base that is no more than what a session needs and two programs; None where they cannot be found.
fn small_base(dir: &Path) -> Option<String> {
    let root = dir.join("root");
    let needed = ["sh", "cat", "cp", "find", "git", "grep", "mkdir", "rm", "stat", "tr", "wc", "xargs"];
    for program in needed.into_iter().chain(["head", "sleep"]) {
        let file = Path::new("/bin").join(program);
        let said = Command::new("ldd").arg(&file).output().ok()?;
        let text = String::from_utf8(said.stdout).ok()?;
        let libraries = text.split_whitespace().filter(|word| word.starts_with('/'));
        for file in libraries.map(Path::new).chain([file.as_path()]) {
            let to = root.join(file.strip_prefix("/").ok()?);
            std::fs::create_dir_all(to.parent()?).ok()?;
            std::fs::copy(file, to).ok()?;
        }
    }
    let tar = dir.join("base.tar");
    let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&tar).arg(".").status().ok()?;
    made.success().then(|| format!("tar:{}", tar.display()))
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr, reason = "what is left out says why")]
async fn a_limit_in_a_build_that_a_session_waits_for_is_told_with_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let Some(base) = small_base(dir.path()) else {
        eprintln!("skipped: no base can be made of this machine's programs");
        return;
    };
    let world = World::new(Script::new()).await.environment(|environment| {
        let run = "head -c 64M /dev/zero > big; sleep 600".to_owned();
        environment.base = base;
        environment.warm = vec![SetupStep { run, attempts: Some(1), ..SetupStep::default() }];
        environment.limits.disk_mb = Some(16);
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.as_ref().is_some_and(|why| why.contains("warm step")), "{finished:?}");
    let told = limits(&follow);
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::DiskBytes], "{told:?}");
    assert!(told[0].1.contains("16 MiB") && told[0].1.contains("disk_mb"), "{told:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_that_was_over_while_no_server_ran_is_told_by_the_next() {
    let look = json!({"command": "echo here"});
    let script = Script::new().call("shell", look.clone()).say("Seen.").call("shell", look).say("Again.");
    let world = World::new(script).await.environment(|environment| environment.limits.wall_clock_s = Some(8));
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    while world.driver.ended(sandbox).await.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, ann(), "Look again".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = limits(&follow);
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::WallClock], "{told:?}");
    assert!(told[0].1.contains("8 s") && told[0].1.contains("wall_clock_s"), "{told:?}");
    let lost = |body: &EventBody| matches!(body, EventBody::SandboxChanged { state: SandboxState::Lost, detail: Some(why), .. } if why.contains("time limit"));
    assert!(follow.events.iter().any(|event| lost(&event.body)), "{:?}", follow.names());
    world.end(sessions).await;
}

/// Does one thing in a shell of a session with these limits; gives what was told of limits and what the model read.
async fn limits_of(
    change: impl FnOnce(&mut protocol::Environment),
    command: &str,
) -> (Vec<(LimitKind, String)>, String) {
    let script = Script::new().call("shell", json!({"command": command})).say("Seen.");
    let world = World::new(script).await.environment(change);
    let sessions = world.start().await;
    let id = create(&sessions, "Do it").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    world.end(sessions).await;
    (limits(&follow), follow.last_output())
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_memory_that_is_full_is_told_with_the_key_that_makes_it_larger() {
    // What is written fails without a word of why, and the command does not.
    let fill = "head -c 64M /dev/zero > /dev/shm/big 2>/dev/null; echo went on";
    let (told, text) = limits_of(|environment| environment.limits.memory_mb = Some(64), fill).await;
    assert_eq!(
        told.iter().map(|hit| hit.0).collect::<Vec<_>>(),
        [LimitKind::SharedMemory],
        "{told:?} {text}"
    );
    assert!(told[0].1.contains("/dev/shm has 16 MiB") && told[0].1.contains("memory_mb"), "{told:?}");
    assert!(text.starts_with("went on\n") && text.contains(&told[0].1), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_every_file_open_that_it_may_is_told_of_though_it_says_nothing() {
    // A directory can be made without opening anything.
    let leak = "import os, time\ntry:\n while True: os.open('/dev/null', 0)\nexcept OSError:\n os.mkdir('/tmp/all'); time.sleep(600)";
    let leak = format!(
        "python3 -c \"{leak}\" >/dev/null 2>&1 & until [ -d /tmp/all ]; do sleep 0.05; done; echo went on"
    );
    let (told, text) = limits_of(|environment| environment.limits.open_files = Some(64), &leak).await;
    assert_eq!(told.iter().map(|hit| hit.0).collect::<Vec<_>>(), [LimitKind::OpenFiles], "{told:?} {text}");
    assert!(told[0].1.contains(" 64 open files") && told[0].1.contains("open_files"), "{told:?}");
}
