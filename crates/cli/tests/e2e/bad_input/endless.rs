//! Commands that never end, do not want to end, or leave something that does not end.

use serde_json::json;
use testkit::model::{Reply, Script};

use super::{says, turn};
use crate::harness::{World, shell};

/// A number of seconds that nobody else sleeps, so that its process can be found.
const SLEEP: &str = "sleep 86399";
/// How many such processes are in the sandbox.
const COUNT: &str = "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c '^86399$'";

fn limited(command: &str) -> Reply {
    Reply::new().call("shell", json!({"command": command, "timeout_ms": 500}))
}

#[tokio::test]
async fn a_command_that_does_not_end_in_time_is_ended_with_all_it_started() {
    let stubborn = format!("trap '' TERM INT HUP; echo begun; {SLEEP} & while :; do {SLEEP}; done");
    let script = Script::new()
        .answer(limited(&format!("echo begun; {SLEEP} & {SLEEP}")))
        .answer(limited(&stubborn))
        .answer(shell(&format!("{COUNT} || echo none is left")))
        .say("It takes too long.");
    let (events, model) = turn(script, 0).await;
    let calls = events.calls("shell");
    for call in &calls[..2] {
        let text = call["output"]["text"].as_str().unwrap();
        assert!(text.contains("begun"), "what it said is kept: {text}");
        assert!(text.contains("time limit"), "the model is told why it ended: {text}");
        assert_ne!(call["exit_code"], 0, "{call}");
    }
    let text = calls[2]["output"]["text"].as_str().unwrap();
    assert!(text.contains("none is left"), "{text}");
    assert_eq!(model.violations(), [""; 0]);
}

#[tokio::test]
async fn what_runs_in_the_background_holds_nobody_up_and_goes_with_the_sandbox() {
    let script = Script::new()
        .answer(shell(&format!("{SLEEP} & setsid {SLEEP} & echo started")))
        .answer(shell(COUNT))
        .say("They run.");
    let (events, _model) = turn(script, 0).await;
    let calls = events.calls("shell");
    assert!(calls[0]["output"]["text"].as_str().unwrap().contains("started"), "{}", calls[0]);
    assert!(calls[1]["output"]["text"].as_str().unwrap().starts_with('2'), "{}", calls[1]);
}

#[tokio::test]
async fn a_single_command_has_a_limit_too() {
    let world = World::new();
    let stubborn = format!("trap '' TERM INT HUP; echo begun; while :; do {SLEEP}; done");
    let output = world.run(&["sandbox", "run", "--timeout", "0.3", "--", "sh", "-c", &stubborn]).await;
    let output = output.expect_code(124);
    assert_eq!(output.stdout, "begun\n", "{output}");
    says(&output, &["ended after 0.3 s"]);
    let leaves = format!("{SLEEP} & setsid {SLEEP} & echo begun");
    let output = world.ok(&["sandbox", "run", "--", "sh", "-c", &leaves]).await;
    assert_eq!(output.stdout, "begun\n", "{output}");
    let output = world.run(&["sandbox", "run", "--timeout=-1", "--", "true"]).await.expect_code(2);
    says(&output, &["--timeout", "number of seconds"]);
    world.finish().await;
}
