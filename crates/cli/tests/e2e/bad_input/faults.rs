//! Sandboxes that are killed from outside in the middle of a command.

use std::path::PathBuf;

use serde_json::Value;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, edit, shell};

/// The one sandbox of a world: its directory and what its monitor wrote of it.
fn only_sandbox(world: &World) -> (PathBuf, Value) {
    let mut found = std::fs::read_dir(world.data().join("native/sandboxes")).unwrap();
    let dir = found.next().expect("a sandbox").unwrap().path();
    assert!(found.next().is_none(), "there is one sandbox");
    let state = serde_json::from_slice(&std::fs::read(dir.join("state.json")).unwrap()).unwrap();
    (dir, state)
}

async fn a_sandbox_whose_process_is_killed(who: &str) {
    let script = Script::new()
        .answer(edit("41", "43"))
        .answer(shell("echo begun; sleep 86399"))
        .answer(edit("41", "42"))
        .say("Done again.");
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::with(&model, &repo);
    let running = world.start(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]);
    running.line(|line| line["type"] == "delta" && line["data"]["text"] == "begun\n").await;
    let (_, state) = only_sandbox(&world);
    // SAFETY: kill takes two numbers; the process is one of this test's own sandbox.
    unsafe { libc::kill(i32::try_from(state[who].as_i64().unwrap()).unwrap(), libc::SIGKILL) };
    let events = running.wait().await.expect_code(0).events();
    events.assert_gap_free(0);
    let states: Vec<&str> =
        events.of("sandbox.changed").iter().map(|changed| changed["state"].as_str().unwrap()).collect();
    assert_eq!(states[..7], ["creating", "preparing", "ready", "lost", "creating", "preparing", "ready"]);
    let call = events.calls("shell")[0];
    assert_eq!(call["status"], "interrupted", "{call}");
    let requests = model.requests();
    let told = &requests[2].results()[0].text;
    assert!(told.contains("The sandbox died") && told.contains("changes made since then are gone"), "{told}");
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    let branch = events.of("delivery.updated").last().unwrap()["branch"].as_str().unwrap().to_owned();
    assert_eq!(repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(model.violations(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_sandbox_whose_first_process_is_killed_is_replaced() {
    a_sandbox_whose_process_is_killed("init").await;
}

#[tokio::test]
async fn a_sandbox_whose_monitor_is_killed_is_replaced() {
    a_sandbox_whose_process_is_killed("monitor").await;
}

#[tokio::test]
async fn a_command_whose_sandbox_is_killed_is_told_so() {
    let world = World::new();
    let running = world.start(&["sandbox", "run", "--", "sh", "-c", "echo begun; sleep 86399"]);
    running.stdout_has("begun").await;
    let dir =
        std::fs::read_dir(world.data().join("one-off/sandboxes")).unwrap().next().unwrap().unwrap().path();
    let state: Value = serde_json::from_slice(&std::fs::read(dir.join("state.json")).unwrap()).unwrap();
    // SAFETY: kill takes two numbers; the process is one of this test's own sandbox.
    unsafe { libc::kill(i32::try_from(state["init"].as_i64().unwrap()).unwrap(), libc::SIGKILL) };
    let output = running.wait().await.expect_code(1);
    super::says(&output, &["sandbox"]);
    world.finish().await;
}
