//! Commands in the background: followed, written to, waited for and ended, over restarts and stops, and told of plainly when
//! their sandbox is gone.

use std::time::Duration;

use protocol::event::SandboxState;
use protocol::item::{BackgroundProcess, ToolCall};
use protocol::{EventBody, ItemStatus, Outcome, Permission, Policy, PolicyRule};
use serde_json::json;
use session::ShutDown;
use testkit::model::{Reply, Script};

use crate::support::{Follow, World, ann, create};

/// Answers each line that is written to it.
const ECHO: &str = "echo ready; while read line; do echo \"got $line\"; done; echo over";

async fn ends(world: &World, follow: &mut Follow) {
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(world.model.violations(), Vec::<String>::new());
}

fn text(call: &ToolCall) -> &str {
    &call.output.as_ref().unwrap().text
}

fn mark(call: &ToolCall) -> &BackgroundProcess {
    call.process.as_ref().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_left_running_and_followed_written_to_and_ended_by_its_id() {
    let script = Script::new()
        .call("shell", json!({"command": ECHO, "background": true}))
        .call("process", json!({"id": "p1", "stdin": "one\n"}))
        .answer(
            Reply::new()
                .call("process", json!({"id": "p1", "stdin": "two\nthree\n", "wait_ms": 300}))
                .call("process", json!({"id": "p1", "wait_ms": 0}))
                .call("process", json!({})),
        )
        .call("process", json!({"id": "p1", "kill": true}))
        .answer(Reply::new().call("process", json!({"id": "p1"})).call("process", json!({"id": "p2"})))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Serve").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow).await;
    let calls = follow.calls();
    let started = calls[0];
    assert_eq!((started.0.status, started.1.exit_code), (ItemStatus::Completed, None));
    assert!(text(started.1).starts_with("ready\n(it runs in the background as p1"), "{}", text(started.1));
    assert_eq!((mark(started.1).item, mark(started.1).seen), (started.0.id, 6));
    assert!(text(calls[1].1).starts_with("got one\n(p1 still runs"), "{}", text(calls[1].1));
    assert!(
        text(calls[2].1).starts_with("got two\ngot three\n(p1 still"),
        "only what is new: {}",
        text(calls[2].1)
    );
    assert!(text(calls[3].1).starts_with("(nothing new was printed)\n(p1 still"), "{}", text(calls[3].1));
    let listed = text(calls[4].1);
    assert!(listed.starts_with("p1  runs for ") && listed.contains("0 new bytes  echo ready;"), "{listed}");
    let (item, ended) = calls[5];
    assert_eq!(item.status, ItemStatus::Completed, "who ends it gets what was wanted");
    assert!(text(ended).contains("(p1 has ended) (ended by signal 15") && !mark(ended).running, "{ended:?}");
    assert!(text(calls[6].1).contains("has ended, and you have seen how"), "{}", text(calls[6].1));
    assert!(text(calls[7].1).contains("There is no process \"p2\""), "{}", text(calls[7].1));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_at_once_is_like_any_command_and_what_ends_later_says_how() {
    let script = Script::new()
        .call("shell", json!({"command": "echo broken; exit 3", "background": true}))
        .call("shell", json!({"command": "sleep 1.3; echo late; exit 4", "background": true}))
        .call("process", json!({"id": "p1", "wait_ms": 60_000}))
        .call("shell", json!({"command": "sleep 1000", "background": true, "timeout_ms": 1500}))
        .call("process", json!({"id": "p2", "wait_ms": 60_000}))
        .call("shell", json!({"command": "pgrep -fc '[s]leep 1000'"}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Try").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow).await;
    let calls = follow.calls();
    let (item, first) = calls[0];
    assert_eq!((item.status, first.exit_code, first.process.as_ref()), (ItemStatus::Failed, Some(3), None));
    assert_eq!(text(first), "broken\n(exit code 3)");
    let (item, waited) = calls[2];
    assert_eq!((item.status, waited.exit_code), (ItemStatus::Failed, Some(4)));
    assert_eq!(text(waited), "late\n(p1 has ended) (exit code 4)");
    assert!(text(calls[4].1).contains("(p2 has ended) (the time limit ended"), "{}", text(calls[4].1));
    assert!(text(calls[5].1).starts_with("0\n"), "nothing of it is left: {}", text(calls[5].1));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_over_turns_stops_and_restarts_and_another_server_speaks_to_it() {
    let script = Script::new()
        .call("shell", json!({"command": ECHO, "background": true}))
        .call("process", json!({"id": "p1", "wait_ms": 600_000}))
        .call("process", json!({"id": "p1", "stdin": "one\n"}))
        .say("Heard.")
        .call("process", json!({"id": "p1", "stdin": "two\n"}))
        .say("Heard again.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Serve").await;
    let mut follow = Follow::new(&sessions, id).await;
    let is_look = |body: &EventBody| match body {
        EventBody::ItemStarted { item, .. } => {
            matches!(&item.kind, protocol::ItemKind::ToolCall(call) if call.tool == "process")
        }
        _ => false,
    };
    follow.until(is_look).await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    let (item, _) = *follow.calls().last().unwrap();
    assert_eq!(item.status, ItemStatus::Cancelled);

    sessions.prompt(id, ann(), "Speak".into()).await.unwrap();
    ends(&world, &mut follow).await;
    assert!(follow.last_output().starts_with("got one\n(p1 still runs"), "{}", follow.last_output());
    // No farewell: the process is gone.
    drop((sessions, follow));

    let sessions = world.start().await;
    sessions.prompt(id, ann(), "Once more".into()).await.unwrap();
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    follow.finished().await;
    ends(&world, &mut follow).await;
    assert!(follow.last_output().starts_with("got two\n(p1 still runs"), "{}", follow.last_output());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_it_is_waited_for_or_just_started_changes_nothing() {
    let script = Script::new()
        .call("shell", json!({"command": "echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two", "background": true}))
        .call("process", json!({"id": "p1", "wait_ms": 600_000}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Wait").await;
    let mut follow = Follow::new(&sessions, id).await;
    // In the middle of the first look at it.
    follow.text("one").await;
    let sandbox = sessions.get(id).await.unwrap().sandbox.unwrap();
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::UsageRecorded { step: 2, .. })).await;
    assert!(text(follow.calls()[0].1).starts_with("one\n(it runs in the background as p1"));
    // In the middle of the wait.
    drop((sessions, follow));

    let sessions = world.start().await;
    let mut follow = Follow::new(&sessions, id).await;
    let guest = world.driver.adopt(sandbox).await.unwrap();
    guest.guest().write_file("/tmp/go", "".into()).await.unwrap();
    ends(&world, &mut follow).await;
    let calls = follow.calls();
    assert_eq!(calls.len(), 2, "each call once");
    assert_eq!(text(calls[1].1), "two\n(p1 has ended) (exit code 0)");
    assert_eq!(world.model.requests().len(), 3);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_is_told_when_the_sandbox_is_gone_and_with_it_the_process() {
    let script = Script::new()
        .call("shell", json!({"command": "exec sleep 1000", "background": true}))
        .say("Runs.")
        .answer(Reply::new().call("process", json!({})).call("process", json!({"id": "p1"})))
        .call("shell", json!({"command": "exec sleep 1001", "background": true}))
        .say("Runs again.");
    let world = World::new(script).await.idle(Duration::from_millis(100));
    let sessions = world.start().await;
    let id = create(&sessions, "Serve").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow).await;
    follow.until(|body| matches!(body, EventBody::SandboxChanged { state: SandboxState::Stopped, .. })).await;
    sessions.prompt(id, ann(), "Does it run?".into()).await.unwrap();
    ends(&world, &mut follow).await;
    let calls = follow.calls();
    assert_eq!(text(calls[1].1), "p1  is gone  exec sleep 1000");
    let (item, gone) = calls[2];
    assert_eq!(item.status, ItemStatus::Failed);
    assert!(text(gone).contains("does not run any more: the sandbox that it ran in is gone"), "{gone:?}");
    assert_eq!(mark(calls[3].1).id, "p2", "names are not used twice");
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("are gone: start again what you need"), "{told}");
    sessions.shut_down(ShutDown::KeepSandboxes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_nobody_took_is_cut_and_the_rest_can_be_read() {
    let script = Script::new()
        .call("shell", json!({"command": "read go; seq 1 60000; sleep 1000", "background": true}))
        .call("process", json!({"id": "p1", "stdin": "go\n", "wait_ms": 5000}))
        .call("process", json!({"id": "p1", "wait_ms": 0}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Print").await;
    let mut follow = Follow::new(&sessions, id).await;
    ends(&world, &mut follow).await;
    let calls = follow.calls();
    let output = calls[1].1.output.as_ref().unwrap();
    assert!(output.text.starts_with("1\n2\n") && output.text.contains("\n60000\n"), "{}", output.text);
    assert!(output.text.contains("[the whole output has 348894 bytes"), "{}", output.text);
    assert!(output.text.len() < 40_000 && output.blob.is_some() && output.text.contains("read tool"));
    assert_eq!((output.bytes, mark(calls[1].1).seen), (348_894, 348_894));
    assert!(text(calls[2].1).starts_with("(nothing new was printed)"), "{}", text(calls[2].1));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_to_it_needs_the_permission_that_a_command_needs() {
    let script = Script::new()
        .call("shell", json!({"command": "cat", "background": true}))
        .answer(
            Reply::new()
                .call("process", json!({"id": "p1", "wait_ms": 0}))
                .call("process", json!({"id": "p1", "stdin": "git push\n"})),
        )
        .say("Done.");
    let rule =
        PolicyRule { command: Some("git push *".into()), ..PolicyRule::tool(Permission::Deny, "shell") };
    let world = World::new(script)
        .await
        .environment(|environment| environment.policy = Policy { rules: vec![rule], after_every: None });
    let sessions = world.start().await;
    let id = create(&sessions, "Serve").await;
    let mut follow = Follow::new(&sessions, id).await;
    let asked = follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await;
    let EventBody::ApprovalRequested { approval, call: Some(call), .. } = asked.body else { panic!() };
    assert_eq!((call.tool.as_str(), call.input["stdin"].as_str()), ("process", Some("git push\n")));
    let reject = protocol::Decide { approved: false, ..Default::default() };
    sessions.decide(id, ann(), approval, reject).await.unwrap();
    ends(&world, &mut follow).await;
    assert!(follow.last_output().contains("ann did not approve"), "{}", follow.last_output());
    world.end(sessions).await;
}
