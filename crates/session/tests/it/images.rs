//! Sessions that start from images and from sandboxes that were kept ready, and are brought to the branch's tip.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::{EventBody, ImageState, ItemKind, Outcome, SetupStep};
use serde_json::json;
use session::ShutDown;
use testkit::model::{At, Gate, Reply, Script};

use crate::support::{Follow, World, create};

fn states(follow: &Follow) -> Vec<SandboxState> {
    let state = |event: &protocol::Event| match event.body {
        EventBody::SandboxChanged { state, .. } => Some(state),
        _ => None,
    };
    follow.events.iter().filter_map(state).collect()
}

/// A set-up step that leaves a trace which git ignores, and one which it does not.
fn marked(environment: &mut protocol::Environment) {
    let run = "mkdir -p node_modules 'made [up]'; date +%s%N > node_modules/once; echo x > 'made [up]/a #b'"
        .to_owned();
    environment.setup = vec![SetupStep { run, ..SetupStep::default() }];
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_starts_from_the_image_and_its_work_is_delivered() {
    let script = Script::new()
        .call(
            "shell",
            json!({"command": "cat node_modules/once; git branch --show-current; git log --format=%s -1"}),
        )
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .call("write", json!({"path": "made u", "content": "the agent's own\n"}))
        .say("Done.");
    let world = World::new(script).await.environment(marked);
    let sessions = world.start().await;
    let built = sessions.build_and_wait("plain").await.unwrap();
    assert_eq!(built.state, ImageState::Ready, "{built:?}");
    let current = built.current.unwrap();
    assert_eq!(current.commit, world.repo.tip("main"));
    assert_eq!(world.driver.list().await.unwrap().len(), 0, "a build leaves no sandbox");

    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.events);
    assert_eq!(states(&follow), [SandboxState::Creating, SandboxState::Syncing, SandboxState::Ready]);
    let text = follow.calls()[0].1.output.as_ref().unwrap().text.clone();
    assert!(text.contains("slipway/correct-the-answer-"), "the session's branch: {text}");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(world.repo.log(&branch)[0], "Correct the answer");
    assert_eq!(world.repo.file(&branch, "made u").as_deref(), Some("the agent's own\n"));
    assert_eq!(world.repo.file(&branch, "made [up]/a #b"), None, "what the set-up left there is no work");
    assert_eq!(finished.receipt.files_changed, 2, "what the image has beside the repository is no work");
    world.end(sessions).await;
}

fn read_done(body: &EventBody) -> bool {
    matches!(body, EventBody::ItemCompleted { item, .. } if matches!(item.kind, ItemKind::ToolCall(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_served_at_once_and_writes_wait_for_the_tip() {
    let script = Script::new()
        .call("read", json!({"path": "answer.txt"}))
        .call("shell", json!({"command": "cat answer.txt more.txt"}))
        .say("Seen.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let before = world.repo.tip("main");
    let moved = world.repo.commit("main", &[("answer.txt", "43\n"), ("more.txt", "more\n")]);
    let blocked = world.block_repository();
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(read_done).await;
    assert!(follow.last_output().contains("41"), "{}", follow.last_output());
    assert_eq!(states(&follow).last(), Some(&SandboxState::Syncing), "it was read before the tip was there");
    blocked.release();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let wrote = follow.calls()[1].1.output.as_ref().unwrap().text.clone();
    assert!(wrote.contains("43\nmore\n"), "{wrote}");
    assert!(wrote.contains(&before[..12]) && wrote.contains(&moved[..12]), "the range is told: {wrote}");
    assert!(wrote.contains("answer.txt, more.txt"), "{wrote}");
    assert_eq!(sessions.diff(id).await.unwrap().base, moved);
    assert_eq!(sessions.diff(id).await.unwrap().patch, "");
    world.end(sessions).await;
}

/// What the sandbox has when the server ends in the middle of its sync.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    Nothing,
    /// A lock of a git that was broken off.
    Lock,
    /// A set-up step that still runs.
    Step,
}

/// Ends the server while a sandbox waits for the tip of its branch; whether the next one goes on in that sandbox.
async fn restart_in_a_sync(left: Left) -> bool {
    let gate = Gate::new();
    let script = Script::new()
        .call("read", json!({"path": "answer.txt"}))
        .answer(Reply::text("Never heard").stall(At::Response, &gate))
        .call("shell", json!({"command": "cat answer.txt; git branch --show-current; echo 42 > answer.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let moved = world.repo.commit("main", &[("answer.txt", "43\n")]);
    let blocked = world.block_repository();
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(read_done).await;
    gate.reached().await;
    let first = sessions.get(id).await.unwrap().sandbox.unwrap();
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let sandbox = world.driver.adopt(first).await.unwrap();
    let guest = sandbox.guest();
    match left {
        Left::Nothing => {}
        Left::Lock => guest.write_file("/workspace/.git/index.lock", Vec::new().into()).await.unwrap(),
        Left::Step => {
            let step = sandbox::shell::command("sleep 1000", None);
            drop(guest.start("a-step", &step).await.unwrap());
        }
    }
    drop(sandbox);
    blocked.release();

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let text = follow.calls()[1].1.output.as_ref().unwrap().text.clone();
    assert!(text.contains("43\nslipway/correct-the-answer-"), "it is at the tip, on its branch: {text}");
    assert!(text.contains(&moved[..12]), "what came is told: {text}");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    let same = sessions.get(id).await.unwrap().sandbox == Some(first);
    let stopped = states(&follow).contains(&SandboxState::Stopped);
    assert_ne!(same, stopped, "it is told when it is made again");
    world.end(sessions).await;
    same
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_the_middle_of_a_sync_goes_on_in_the_same_sandbox() {
    assert!(restart_in_a_sync(Left::Nothing).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_sync_left_something_half_done_is_made_again() {
    for left in [Left::Lock, Left::Step] {
        assert!(!restart_in_a_sync(left).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_follows_its_branch_without_being_asked() {
    let world = World::new(Script::new()).await.prebuild().rebuild(Duration::from_secs(1));
    let sessions = world.start().await;
    for _ in 0..2 {
        let tip = world.repo.tip("main");
        while sessions.image("plain").await.unwrap().current.is_none_or(|image| image.commit != tip) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        world.repo.commit("main", &[("more.txt", "more\n")]);
    }
    let listed = sessions.environments().await.unwrap();
    assert!(listed[0].image.as_ref().unwrap().current.is_some());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_up_before_the_first_prompt_and_run_again_in_the_next_sandbox() {
    let look = json!({"command": "cat /tmp/up; pgrep -f 'sleep 4321' >/dev/null && echo runs"});
    let script =
        Script::new().call("shell", look.clone()).say("Seen.").call("shell", look).say("Seen again.");
    let world = World::new(script).await.idle(Duration::from_millis(200)).environment(|environment| {
        environment.services = vec![protocol::Service {
            name: "db".into(),
            run: "echo up >> /tmp/up; exec sleep 4321".into(),
            ready: protocol::Probe { run: Some("test -s /tmp/up".into()), ..Default::default() },
            ..Default::default()
        }];
    });
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().starts_with("up\nruns\n"), "{}", follow.last_output());
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    sessions.prompt(id, crate::support::ann(), "Look again".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.last_output().contains("up\nruns\n"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_needs_is_no_garbage() {
    let world = World::new(Script::new()).await.environment(marked);
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let layers = world.driver.layers().await.unwrap().len();
    let told = sessions.collect_garbage(true).await.unwrap();
    assert!(told.dry_run && told.entries.iter().any(|entry| entry.kind == "image"), "{told:?}");
    sessions.collect_garbage(false).await.unwrap();
    assert_eq!(world.driver.layers().await.unwrap().len(), layers);
    assert_eq!(sessions.image("plain").await.unwrap().state, ImageState::Ready);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_that_is_gone_does_not_keep_a_session_from_starting() {
    let script = Script::new().call("shell", json!({"command": "cat answer.txt"})).say("Seen.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let away = world.repo.path().with_extension("away");
    std::fs::rename(world.repo.path(), &away).unwrap();
    let id = create(&sessions, "Look").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    std::fs::rename(&away, world.repo.path()).unwrap();
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let text = follow.last_output();
    assert!(text.contains("could not be fetched") && text.contains("41\n"), "{text}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_sandbox_is_claimed() {
    let script = Script::new().call("shell", json!({"command": "echo 42 > answer.txt"})).say("Done.");
    let world = World::new(script).await.prebuild();
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    while sessions.warm("plain").await.unwrap().ready == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let warm: Vec<_> = world.driver.list().await.unwrap().into_iter().map(|info| info.id).collect();
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(states(&follow), [SandboxState::Syncing, SandboxState::Ready], "nothing was created");
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    assert!(warm.contains(&sandbox), "{sandbox} was one of {warm:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_fails_tells_why_and_the_plain_way_still_works() {
    let script = Script::new().call("shell", json!({"command": "echo 42 > answer.txt"})).say("Done.");
    let world = World::new(script).await.environment(|environment| {
        let run = "echo no such package >&2; exit 7".to_owned();
        environment.warm = vec![SetupStep { run, attempts: Some(1), ..SetupStep::default() }];
    });
    let sessions = world.start().await;
    let error = sessions.build_and_wait("plain").await.unwrap_err();
    assert!(error.title.contains("no such package"), "{error}");
    let status = sessions.image("plain").await.unwrap();
    assert_eq!((status.state, status.current), (ImageState::Failed, None));
    assert!(status.error.unwrap().contains("no such package"));
    let id = create(&sessions, "Correct the answer").await;
    assert_eq!(Follow::new(&sessions, id).await.finished().await.outcome, Outcome::Done);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_failed_is_tried_again_when_more_is_allowed() {
    let world = World::new(Script::new()).await.prebuild();
    let sessions = world.start().await;
    let repos = vec![protocol::Repo { url: world.repo.url(), branch: None, path: None }];
    let setup = vec![SetupStep { run: "exit 3".into(), attempts: Some(1), ..SetupStep::default() }];
    let recipe = protocol::Environment { repos, setup, ..protocol::Environment::default() };
    sessions.put_environment("added", recipe).await.unwrap();
    let log = world.dir.path().join("sandbox/images/added/build.log");
    let begun = || std::fs::read_to_string(&log).ok().and_then(|log| log.lines().next().map(str::to_owned));
    let failed = async || {
        while sessions.image("added").await.unwrap().state != ImageState::Failed {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begun().unwrap()
    };
    let first = failed().await;
    sessions.allow("added", vec!["registry.example.com".to_owned()]).await.unwrap();
    while begun().is_none_or(|now| now == first) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(failed().await, first, "it was built again, and not only when it was due");
    world.end(sessions).await;
}
