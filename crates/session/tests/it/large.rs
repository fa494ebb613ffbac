//! Workspaces that are too much for git: files that are too large, limits that git itself comes to, and a git that does not
//! come to its end. The work around them is kept, it is told, and the agent gets to put it right.

use protocol::event::LimitKind;
use protocol::{EventBody, ItemKind, Outcome};
use serde_json::json;
use testkit::model::{Reply, Script};

use crate::stop_anywhere::{How, first_turn, stop};
use crate::support::{Follow, World, ann, create};

/// What the model and the people were told by the platform, in order.
fn notices(follow: &Follow) -> Vec<String> {
    let notice = |item: &protocol::Item| match &item.kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().into_iter().filter_map(notice).collect()
}

fn limits(follow: &Follow) -> Vec<LimitKind> {
    let limit = |event: &protocol::Event| match event.body {
        EventBody::LimitExceeded { limit, .. } => Some(limit),
        _ => None,
    };
    follow.events.iter().filter_map(limit).collect()
}

/// A branch's files, but `main`'s.
fn delivered(world: &World) -> Vec<String> {
    let branches = world.repo.branches();
    let branch = branches.iter().find(|branch| *branch != "main").expect("a branch was delivered");
    world.repo.git(&["ls-tree", "-r", "--name-only", branch]).lines().map(str::to_owned).collect()
}

/// What the model was told of the gate.
fn told(world: &World) -> String {
    world.model.requests().last().unwrap().json.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_too_large_are_left_out_and_named_once() {
    let make =
        "echo 42 > answer.txt; truncate -s 300M big; mkdir d; truncate -s 10G \"d/a *\"; echo x > d/small";
    let look = "git count-objects -v | grep size; ls -d /tmp/slipway-* 2>/dev/null; echo 1 > more.txt";
    let script = Script::new()
        .call("shell", json!({"command": make}))
        .say("Done.")
        .call("shell", json!({"command": look}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Make much").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let files = delivered(&world);
    assert!(files.contains(&"d/small".to_owned()), "{files:?}");
    assert!(!files.iter().any(|file| file == "big" || file == "d/a *"), "{files:?}");
    let said = notices(&follow);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("big (300 MiB)") && said[0].contains("d/a * (10240 MiB)"), "{said:?}");

    sessions.prompt(id, ann(), "Next".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(notices(&follow).len(), 1, "it is not said again");
    assert!(told(&world).contains("big (300 MiB)"), "the model reads it too");
    assert!(!follow.last_output().contains("slipway-"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_too_much_together_is_the_agents_to_put_right() {
    let make = "echo 42 > answer.txt; for i in 1 2 3 4 5; do truncate -s 250M part$i; done";
    let script = Script::new()
        .call("shell", json!({"command": make}))
        .say("Done.")
        .call("shell", json!({"command": "rm part*"}))
        .say("Now.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Make much").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(told(&world).contains("bytes together, and no more than"), "{}", told(&world));
    assert!(!delivered(&world).iter().any(|file| file.starts_with("part")));
    world.end(sessions).await;
}

/// A filter that people configured. One of the agent's own would not be used.
fn filter(clean: &str) -> protocol::SetupStep {
    let run = format!("git config filter.x.clean '{clean}'; git config filter.x.required true");
    protocol::SetupStep { run, ..protocol::SetupStep::default() }
}

/// Git cannot read the workspace: not at the gate, and not when the next turn begins. That turn must be able to mend it.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_git_cannot_read_is_saved_and_the_next_turn_mends_it() {
    let wrong = "echo '* filter=x' > .gitattributes; truncate -s 10G sparse; echo mine > mine.txt";
    let mend = "rm .gitattributes sparse; echo 42 > answer.txt";
    let script = Script::from_fn(move |request, _| {
        let text = request.json.to_string();
        match (
            text.contains("Mend it"),
            text.contains(wrong.get(..20).unwrap_or_default()),
            text.contains(mend),
        ) {
            (false, false, _) => Reply::new().call("shell", json!({"command": wrong})),
            (true, _, false) => Reply::new().call("shell", json!({"command": mend})),
            _ => Reply::text("Done."),
        }
    });
    let world = World::new(script).await.environment(|environment| environment.setup.push(filter("false")));
    let sessions = world.start().await;
    let id = create(&sessions, "Break it").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Escalated);
    let hint = follow.events.iter().find_map(|event| match &event.body {
        EventBody::ErrorRaised { message, hint, .. } if message.contains("git in the workspace failed") => {
            hint.clone()
        }
        _ => None,
    });
    let hint = hint.expect("it is told that git cannot keep the work");
    let saved = world.dir.path().join("data/sessions").join(id.to_string()).join("rescued.tar");
    assert!(hint.contains(&saved.display().to_string()), "{hint}");
    let listed = std::process::Command::new("tar").arg("-tf").arg(&saved).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("./mine.txt") && !listed.contains("sparse"), "{listed}");

    sessions.prompt(id, ann(), "Mend it".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(told(&world).contains("cannot be kept or delivered as it is"), "{}", told(&world));
    assert!(delivered(&world).contains(&"mine.txt".to_owned()));
    world.end(sessions).await;
}

/// The disk is filled while the gate's own git runs, so it is ended for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_the_gates_git_comes_to_is_told_then_and_can_be_put_right() {
    let fill = "sh -c \"head -c 120M /dev/zero > /tmp/fill; sleep 60; exit 1\"";
    let make = "echo '* filter=x' > .gitattributes; head -c 3M /dev/urandom > blob";
    let mend = "rm -f /tmp/fill .gitattributes blob; echo 42 > answer.txt; \
        ls -d /tmp/slipway-* .git/objects/*/tmp_* .git/refs/heads/slipway-* 2>/dev/null; echo end";
    let script = Script::new()
        .call("shell", json!({"command": make}))
        .say("Done.")
        .call("shell", json!({"command": mend}))
        .say("Now.");
    let world = World::new(script).await.environment(|environment| {
        environment.limits.disk_mb = Some(60);
        environment.setup.push(filter(fill));
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Fill it").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(limits(&follow), [LimitKind::DiskBytes]);
    let text = told(&world);
    assert!(text.contains("git in the workspace failed") && text.contains("disk limit of 60 MiB"), "{text}");
    assert!(text.contains("disk_mb") && !text.contains("gave no reason"), "{text}");
    assert_eq!(follow.last_output(), "end\n(exit code 0)", "nothing is left, and it is not to blame");
    world.end(sessions).await;
}

/// Processes that a command leaves and that end soon keep git from starting for a while only.
#[tokio::test(flavor = "multi_thread")]
async fn git_waits_for_processes_that_end_soon() {
    let crowd = "python3 - <<'E'\nimport os, time\ntry:\n  for _ in range(300):\n    if os.fork() == 0:\n      os.closerange(0, 3)\n      \
        time.sleep(2)\n      os._exit(0)\nexcept OSError as error:\n  print('fork:', error, flush=True)\nos._exit(0)\nE\necho 42 > answer.txt";
    let script = Script::new().call("shell", json!({"command": crowd})).say("Done.").repeat_last();
    let world = World::new(script).await.environment(|environment| environment.limits.processes = Some(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Make many").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(limits(&follow).contains(&LimitKind::Processes), "{:?}", follow.last_output());
    assert!(follow.last_output().contains("limit of 100 processes"), "{}", follow.last_output());
    world.end(sessions).await;
}

/// A filter that hangs when it is first used.
const HANG_ONCE: &str = "test -e /tmp/hung && exec cat; touch /tmp/hung; exec sleep 98765";

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_a_git_that_hangs_at_the_gate_and_the_work_is_kept() {
    hangs(HANG_ONCE, true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for the time that git has after a stop; `make test-slow` runs it"]
async fn a_git_that_hangs_for_ever_does_not_keep_a_stopped_turn_from_ending() {
    hangs("touch /tmp/hung; exec sleep 98765", false).await;
}

async fn hangs(clean: &str, kept: bool) {
    let make = "echo '*.txt filter=x' > .gitattributes; echo 42 > answer.txt";
    let world = World::new(first_turn(move |request| match request.results().len() {
        0 => Reply::new().call("shell", json!({"command": make})),
        _ => Reply::text("Done."),
    }))
    .await
    .environment(|environment| environment.setup.push(filter(clean)));
    let sessions = world.start().await;
    let id = create(&sessions, "Begin").await;
    let mut follow = Follow::new(&sessions, id).await;
    let of_a_call = |item: &protocol::Item| matches!(item.kind, ItemKind::ToolCall(_));
    follow.until(|body| matches!(body, EventBody::ItemCompleted { item, .. } if of_a_call(item))).await;
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    let guest = world.driver.adopt(sandbox).await.unwrap();
    while guest.guest().stat("/tmp/hung").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let (sessions, mut follow) = stop(&world, sessions, id, How::Often).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Cancelled);
    assert_eq!(finished.receipt.files_changed > 0, kept, "{:?}", finished.receipt);
    let diff = world.dir.path().join("data/sessions").join(id.to_string()).join("rescued.tar");
    assert_eq!(diff.exists(), !kept, "what git cannot keep is saved as an archive");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_told_of_commands_that_end_well() {
    let files = "ulimit -n 16; python3 -c 'x = [open(\"/dev/null\") for _ in range(99)]'; echo rc $?";
    let shared = "dd if=/dev/zero of=/dev/shm/x bs=1M count=400; rm -f /dev/shm/x";
    let script = Script::new()
        .call("shell", json!({"command": files}))
        .call("shell", json!({"command": shared}))
        .call("shell", json!({"command": "echo 'EMFILE means Too many open files'"}))
        .say("Fine.");
    let world = World::new(script).await.environment(|environment| environment.limits.memory_mb = Some(256));
    let sessions = world.start().await;
    let id = create(&sessions, "Use too much").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let codes: Vec<Option<i32>> = follow.calls().iter().map(|(_, call)| call.exit_code).collect();
    assert_eq!(codes, [Some(0); 3]);
    assert_eq!(limits(&follow), [LimitKind::OpenFiles, LimitKind::SharedMemory]);
    world.end(sessions).await;
}

/// Commits of the agent's own are its to undo: what is in them is named.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes half a gigabyte; `make test-slow` runs it"]
async fn a_commit_that_is_too_large_is_refused_with_the_names_of_its_files() {
    let make = "head -c 270M /dev/urandom > big; echo 42 > answer.txt; git add -A";
    let script = Script::new()
        .call("shell", json!({"command": make}))
        .say("Done.")
        .call("shell", json!({"command": "git add big; git commit -qm big"}))
        .say("Done.")
        .call("shell", json!({"command": "git reset -q HEAD^; rm big"}))
        .say("Now.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Make much").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(!delivered(&world).contains(&"big".to_owned()), "it is only staged");

    sessions.prompt(id, ann(), "Next".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(told(&world).contains("the largest files: big (270 MiB)"), "{}", told(&world));
    assert!(!delivered(&world).contains(&"big".to_owned()));
    world.end(sessions).await;
}
