//! Restarts: the log and the sandbox are all that is left, and that is enough.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use protocol::chat::Message;
use protocol::event::{DeliveryState, SandboxState};
use protocol::{Code, EventBody, ItemStatus, Outcome, SandboxId, SessionId};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::{At, Gate, Reply, Script};

use crate::support::{Follow, World, ann, create};

/// A server with a session whose command has printed "one" and waits.
async fn waiting(world: &World) -> (Sessions, SessionId, Follow, SandboxId) {
    let sessions = world.start().await;
    let id = create(&sessions, "Wait, then correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("one").await;
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    (sessions, id, follow, sandbox)
}

/// A sandbox that no session has.
async fn stranger(world: &World) -> SandboxId {
    let owner = sandbox::Owner::Build("gone".to_owned());
    let stranger = sandbox::Spec::new(sandbox::Stack::host(), sandbox::Life::Own, owner);
    drop(world.driver.create(&stranger).await.unwrap());
    stranger.id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_outlives_the_server_completes_normally() {
    let script = Script::new()
        .call("shell", json!({"command": "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo 42 > answer.txt; echo two"}))
        .say("Done.");
    let world = World::new(script).await;
    let (sessions, id, follow, sandbox) = waiting(&world).await;
    let ran = Duration::from_millis(700);
    tokio::time::sleep(ran).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let (item, call) = follow.calls()[0];
    assert_eq!(item.status, ItemStatus::Completed);
    assert_eq!(call.output.as_ref().unwrap().text, "one\ntwo\n(exit code 0)");
    let took = u128::from(call.duration_ms.unwrap());
    assert!(took >= ran.as_millis(), "{took} ms is only since the restart");
    assert_eq!(follow.names().iter().filter(|name| **name == "turn.started").count(), 1);
    assert_eq!(sessions.get(id).await.unwrap().sandbox, Some(sandbox), "the same sandbox");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_is_made_again_and_the_queue_survives() {
    let gate = Gate::new();
    let script = Script::new()
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .answer(Reply::text("Never heard").stall(At::Response, &gate))
        .say("Done.")
        .say("Nothing to do.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    gate.reached().await;
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    // No farewell: the process is gone.
    drop(sessions);

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(
        (finished.receipt.steps, finished.receipt.files_changed),
        (2, 1),
        "steps before the restart count"
    );
    assert_eq!(follow.deliveries().last().unwrap().state, DeliveryState::Pushed);
    assert_eq!(follow.finished().await.outcome, Outcome::Done, "the queued prompt had its turn");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_sandbox_is_gone_is_interrupted_and_strangers_are_removed() {
    let script = Script::new().call("shell", json!({"command": "echo one; sleep 1000"})).say("So be it.");
    let world = World::new(script).await;
    let (sessions, id, follow, sandbox) = waiting(&world).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    world.driver.remove(sandbox).await.unwrap();
    let stranger = stranger(&world).await;

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(follow.calls()[0].0.status, ItemStatus::Interrupted);
    let told = world.model.requests().last().unwrap().json.to_string();
    assert!(told.contains("interrupted") && told.contains("changes made since then are gone"), "{told}");
    assert!(
        follow
            .events
            .iter()
            .any(|event| matches!(event.body, EventBody::SandboxChanged { state: SandboxState::Lost, .. }))
    );
    world.until_gone(stranger).await;
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_a_restart_broke_off_is_made_once() {
    let script =
        Script::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"})).say("Done.");
    let world = World::new(script).await;
    let hook = world.repo.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::DeliveryUpdated(_))).await;
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    std::fs::remove_file(&hook).unwrap();

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(finished.receipt.files_changed, 1);
    let delivery = (*follow.deliveries().last().unwrap()).clone();
    assert_eq!(delivery.state, DeliveryState::Pushed);
    assert_eq!(world.repo.log(&delivery.branch), ["Correct the answer", "Change 4 files"]);
    assert_eq!(world.model.requests().len(), 2, "the model was not asked again");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_is_removed_and_one_damaged_log_harms_nobody_else() {
    let script = Script::new().say("One.").say("Two.");
    let world = World::new(script).await.idle(Duration::from_millis(1));
    let sessions = world.start().await;
    let damaged = create(&sessions, "First").await;
    let sound = create(&sessions, "Second").await;
    for id in [damaged, sound] {
        let mut follow = Follow::new(&sessions, id).await;
        follow
            .until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. }))
            .await;
    }
    assert_eq!(world.driver.list().await.unwrap().len(), 0);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    let log = sessions.store().session_dir(damaged).join("log.db");
    drop(sessions);
    std::fs::write(log, vec![b'x'; 8192]).unwrap();

    let sessions = world.start().await;
    let shown = sessions.get(damaged).await.unwrap();
    assert_eq!(shown.status, protocol::Status::Failed, "it is shown, with what is wrong");
    assert!(shown.reason.as_deref().is_some_and(|reason| reason.contains("damaged")), "{shown:?}");
    let error = sessions.prompt(damaged, ann(), "Go on".into()).await.unwrap_err();
    assert_eq!(error.code, Code::StorageDamaged, "{error}");
    assert_eq!(sessions.get(sound).await.unwrap().id, sound);
    assert_eq!(sessions.list().await.unwrap().len(), 2);
    world.end(sessions).await;
}

/// What a session that cannot be read has is not known, and its work may be nowhere else.
#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_of_a_session_that_cannot_be_read_is_left_alone() {
    let script = Script::new()
        .call(
            "shell",
            json!({"command": "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo 42 > answer.txt"}),
        )
        .say("Done.");
    let world = World::new(script).await;
    let (sessions, id, follow, sandbox) = waiting(&world).await;
    let (log, data) = (sessions.store().session_dir(id).join("log.db"), sessions.store().dir().to_owned());
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    // The files are closed when the last of those who use them is gone.
    while matches!(store::Store::open(&data), Err(store::Error::Locked(_))) {
        tokio::task::yield_now().await;
    }
    let sound = std::fs::read(&log).unwrap();
    for broken in [None, Some(vec![b'x'; 8192])] {
        match broken {
            Some(bytes) => std::fs::write(&log, bytes).unwrap(),
            None => std::fs::remove_file(&log).unwrap(),
        }
        let stranger = stranger(&world).await;
        let sessions = world.start().await;
        world.until_gone(stranger).await;
        sessions.shut_down(ShutDown::KeepSandboxes).await;
        let left: Vec<_> = world.driver.list().await.unwrap().into_iter().map(|info| info.id).collect();
        assert_eq!(left, [sandbox]);
    }
    std::fs::write(&log, sound).unwrap();
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(sessions.get(id).await.unwrap().sandbox, Some(sandbox), "the same sandbox");
    world.end(sessions).await;
}

/// A server that is restarted twice after every kind of event still takes the turn to its one finish. Twice and not
/// always, because what a restart makes anew (a sandbox half made, a half-heard answer) would go on for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_after_any_event_does_not_lose_or_repeat_the_turn() {
    // It works until two commands have succeeded; an interrupted one is made again.
    let script = Script::from_fn(|request, _| {
        let results = request.messages.iter().filter_map(|message| match message {
            Message::Tools { results } => Some(results),
            Message::User { .. } | Message::Assistant { .. } => None,
        });
        match results.flatten().filter(|result| result.text.contains("exit code 0")).count() {
            0 => Reply::text("First.").call("shell", json!({"command": "echo 42 > answer.txt"})),
            1 => Reply::new().call("shell", json!({"command": "cat answer.txt"})),
            _ => Reply::text("Done."),
        }
    });
    let world = World::new(script).await;
    let mut sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut restarts: BTreeMap<String, u32> = BTreeMap::new();
    let mut seen = 2;
    let events = 'turn: loop {
        let mut follow = Follow::new(&sessions, id).await;
        loop {
            let event = follow.next().await;
            if matches!(event.body, EventBody::TurnFinished { .. }) {
                break 'turn follow.events;
            }
            let times = restarts.entry(kind(&event.body)).or_default();
            if event.seq > seen && *times < 2 {
                *times += 1;
                seen = event.seq;
                break;
            }
        }
        sessions.shut_down(ShutDown::KeepSandboxes).await;
        drop((sessions, follow));
        sessions = world.start().await;
    };
    let count = |name: &str| events.iter().filter(|event| event.body.name() == name).count();
    assert_eq!((count("turn.started"), count("turn.finished")), (1, 1));
    assert!(restarts.values().sum::<u32>() > 20, "{restarts:?}");
    let session = sessions.get(id).await.unwrap();
    assert_eq!(session.status, protocol::Status::Done, "{:?}", session.reason);
    let branch = session.delivery.unwrap().branch;
    assert_eq!(world.repo.log(&branch), ["Correct the answer", "Change 4 files"]);
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

/// Which kind of event it is, with the kind of its item or the state of what changed.
fn kind(body: &EventBody) -> String {
    let json = serde_json::to_value(body).unwrap();
    let data = &json["data"];
    format!("{} {} {}", body.name(), data["item"]["kind"], data["state"])
}

/// More output than the guest holds, some of it seen before the restart and some made while nobody listened.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_across_a_restart_is_whole_and_nothing_is_in_it_twice() {
    // Before the restart 2.5 MB, which is more than is held for a follower; after it as much again.
    let command = "seq 1 400000; echo half; until [ -e /tmp/go ]; do sleep 0.02; done; seq 400001 800000; \
                   touch /tmp/gone; until [ -e /tmp/end ]; do sleep 0.02; done; echo last";
    let script = Script::new().call("shell", json!({"command": command})).say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Count").await;
    let mut follow = Follow::new(&sessions, id).await;
    let call = follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    let EventBody::ItemStarted { item, .. } = call.body else { unreachable!() };
    let file = sessions.store().session_dir(id).join(format!("{}.out", item.id));
    let mut whole: Vec<u8> = (1..=400_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    whole.extend_from_slice(b"half\n");
    while std::fs::metadata(&file).map_or(0, |file| file.len()) < whole.len() as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    // No farewell: the process is gone.
    drop((sessions, follow));
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    while guest.guest().stat("/tmp/gone").await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(guest);

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/end", "".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    whole.extend((400_001..=800_000).flat_map(|n| format!("{n}\n").into_bytes()));
    whole.extend_from_slice(b"last\n");
    let (_, call) = follow.calls()[0];
    let output = call.output.as_ref().unwrap();
    assert_eq!(output.bytes, whole.len() as u64);
    assert!(output.text.starts_with("1\n2\n") && output.text.contains("800000\nlast\n"), "{}", output.text);
    let blob = sessions.blob(id, output.blob.as_ref().unwrap()).await.unwrap();
    assert!(std::fs::read(blob).unwrap() == whole, "the file has every byte once");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_went_with_the_server_comes_back_from_its_last_snapshot() {
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
    follow.until(|body| matches!(body, EventBody::SnapshotTaken { .. })).await;
    sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    follow.text("begun").await;
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    drop((sessions, follow));
    world.driver.remove(sandbox).await.unwrap();

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert!(follow.last_output().starts_with("kept\n"), "{}", follow.last_output());
    let told = world.model.requests()[3].json.to_string();
    assert!(told.contains("interrupted") && told.contains("changes made since then are gone"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_left_on_the_way_to_a_sandbox_is_removed() {
    let world = World::new(Script::new().say("Nothing to do.")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Look").await;
    Follow::new(&sessions, id).await.finished().await;
    let dir = sessions.store().session_dir(id);
    world.end(sessions).await;
    let left = dir.join("tmp-abcdef");
    std::fs::create_dir(&left).unwrap();
    std::fs::write(left.join("in.bundle"), "the whole repository").unwrap();

    // Nobody asks for the session, and it has nothing to do.
    let sessions = world.start().await;
    let gone = async {
        while left.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
    assert!(dir.join("log.db").exists());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_sandbox_never_saw_runs_once_after_a_restart() {
    let waits = "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two";
    let answer = Reply::new()
        .call("shell", json!({"command": waits}))
        .call("shell", json!({"command": "echo ran >> answer.txt; cat answer.txt"}));
    let world = World::new(Script::new().answer(answer).say("Done.").repeat_last()).await;
    let (sessions, id, follow, sandbox) = waiting(&world).await;
    // Both calls are in the log, and the second has not begun.
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    follow.finished().await;
    let text = |place: usize| follow.calls()[place].1.output.as_ref().unwrap().text.clone();
    assert_eq!(text(0), "one\ntwo\n(exit code 0)");
    assert_eq!(text(1), "41\nran\n(exit code 0)", "it is not called interrupted, and ran once");
    assert_eq!(world.model.violations(), Vec::<String>::new());
    world.end(sessions).await;
}
