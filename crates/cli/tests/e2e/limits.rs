//! Limits: coming to one is told with its key, to the model and to people, and the session goes on.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Events, World, edit, environment, models, shell};

/// Commands of the model, each in a step of its own, and then the work.
fn script(commands: &[&str]) -> Script {
    let script = commands.iter().fold(Script::new(), |script, command| script.answer(shell(command)));
    script.answer(edit("41", "42")).answer(Reply::text("The answer is 42 now."))
}

/// Whether sandboxes on this machine have control groups for processes and memory; says so when not.
#[allow(clippy::print_stdout, reason = "whoever runs the tests should know that one did not look")]
async fn limited(world: &World) -> bool {
    let output = world.ok(&["sandbox", "run", "--", "true"]).await;
    let missing = output.stderr.contains("no control groups");
    if missing {
        println!("skipped: {}", output.stderr.trim());
    }
    !missing
}

/// What can be seen of a turn with these limits, in its log and in the terminal.
async fn turn(limits: &str, commands: &[&str], grouped: bool) -> Option<(Events, String)> {
    let model = Server::start(script(commands)).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}limits = {limits}\n", models(&model), environment(&repo)));
    if grouped && !limited(&world).await {
        world.finish().await;
        return None;
    }
    let output = world.ok(&["run", "--env", ENVIRONMENT, "Make the answer right"]).await;
    let list = world.json(&["ls"]).await;
    let session = list["sessions"][0]["id"].as_str().unwrap();
    let events = world.ok(&["attach", session, "--json"]).await.events();
    world.finish().await;
    Some((events, output.stderr))
}

/// Looks at what is said of the one limit that was reached.
#[track_caller]
fn assert_told(events: &Events, shown: &str, limit: &str, key: &str) {
    let exceeded = events.only("limit.exceeded");
    let message = exceeded["message"].as_str().unwrap();
    assert_eq!(exceeded["limit"], limit, "{exceeded}");
    assert!(message.contains(key) && message.contains("limits"), "{exceeded}");
    let outputs: Vec<&Value> =
        events.calls("shell").into_iter().map(|call| &call["output"]["text"]).collect();
    assert!(outputs[0].as_str().unwrap().contains(message), "the model is told: {outputs:?}");
    assert!(shown.contains(message), "people are told: {shown}");
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    let changes = events.of("sandbox.changed");
    assert!(changes.iter().all(|changed| changed["sandbox"] == changes[0]["sandbox"]), "{changes:?}");
}

#[tokio::test]
async fn a_command_that_takes_all_memory_is_ended_and_told() {
    let bomb = "python3 -c 'x = b\"x\" * (512 << 20)'; echo code $?; false";
    let Some((events, shown)) = turn("{ memory_mb = 96 }", &[bomb, "echo fine"], true).await else { return };
    assert_told(&events, &shown, "memory", "memory_mb");
    assert_eq!(events.calls("shell")[1]["exit_code"], 0, "the session goes on");
}

#[tokio::test]
async fn a_disk_that_is_full_is_told() {
    let bomb = "head -c 64M /dev/zero > big";
    let Some((events, shown)) = turn("{ disk_mb = 16 }", &[bomb, "rm big; echo fine > small"], false).await
    else {
        return;
    };
    assert_told(&events, &shown, "disk_bytes", "disk_mb");
    assert_eq!(events.calls("shell")[1]["exit_code"], 0, "{:?}", events.calls("shell"));
}

#[tokio::test]
async fn too_many_processes_are_told() {
    let bomb = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 2 & done; wait; false";
    let Some((events, shown)) = turn("{ processes = 16 }", &[bomb, "echo fine"], true).await else { return };
    assert_told(&events, &shown, "processes", "processes");
    assert_eq!(events.calls("shell")[1]["exit_code"], json!(0));
}
