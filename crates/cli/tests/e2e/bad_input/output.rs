//! Commands that print a gigabyte: bounded in memory, in the log, on disk and for the model, and whole in a pipe.

use std::path::Path;

use serde_json::json;
use testkit::model::{At, Gate, Reply, Script, Server};
use testkit::repo::Repo;

use super::{program, says};
use crate::harness::{ENVIRONMENT, Events, World, shell};

const GIGABYTE: u64 = 1 << 30;

/// One line without an end, and many lines on the other stream.
const ONE_LINE: &str = "head -c 1G /dev/zero | tr '\\0' x; echo; echo the end";
const MANY_LINES: &str = "yes 'a warning' | head -c 1G >&2; echo >&2; echo the end >&2";

/// Most memory that a process had, in MiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[tokio::test]
async fn a_gigabyte_in_a_turn_is_bounded_everywhere() {
    let gate = Gate::new();
    let script = Script::new()
        .answer(shell(ONE_LINE))
        .answer(shell(MANY_LINES))
        .answer(Reply::text("That was much.").stall(At::Response, &gate));
    let (model, repo) = (Server::start(script).await, Repo::plain());
    let world = World::with(&model, &repo);
    let running = world.start(&["run", "--env", ENVIRONMENT, "--json", "Print a lot"]);
    gate.reached().await;
    let peak = peak(running.pid());
    assert!(peak < 200, "the command needed {peak} MiB");
    gate.open();
    let output = running.wait().await.expect_code(0);
    says(&output, &[]);
    assert!(output.stdout.len() < 64 << 20, "a reader is not flooded: {} bytes", output.stdout.len());

    let events = Events::parse(&output.stdout);
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    let directory = world.data().join("sessions").join(events.session());
    let calls = events.calls("shell");
    for (call, begins) in calls.iter().zip(["xxxxxxxx", "a warning\n"]) {
        let (kept, text) = (&call["output"], call["output"]["text"].as_str().unwrap());
        assert_eq!((&call["exit_code"], &call["status"]), (&json!(0), &json!("completed")), "{text}");
        assert!(kept["bytes"].as_u64().unwrap() > GIGABYTE, "{}", kept["bytes"]);
        assert!(text.starts_with(begins) && text.contains("the end"), "head and tail are kept: {text}");
        assert!(text.contains("left out") && text.contains(&kept["bytes"].to_string()), "{text}");
        assert!(text.len() < 64 << 10, "{} bytes for the model", text.len());
        let blob = std::fs::metadata(directory.join(kept["blob"].as_str().unwrap())).unwrap();
        assert!((1 << 20..=17 << 20).contains(&blob.len()), "{} bytes in the file", blob.len());
    }
    let requests = model.requests();
    assert_eq!(requests[1].results()[0].text, calls[0]["output"]["text"].as_str().unwrap());
    assert!(size(&directory.join("log.db")) < 1 << 20, "the log stays small");
    world.finish().await;
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[tokio::test]
async fn a_gigabyte_in_a_pipe_is_whole() {
    let mut world = World::new();
    world.wrap(&["sh", "-c", "{ \"$@\"; echo \"exit $?\" >&2; } | wc -c", "sh"], program());
    let output = world.run(&["sandbox", "run", "--", "head", "-c", "1G", "/dev/zero"]).await.expect_code(0);
    assert_eq!(output.stdout.trim(), GIGABYTE.to_string(), "{output}");
    says(&output, &["exit 0"]);
    world.finish().await;
}
