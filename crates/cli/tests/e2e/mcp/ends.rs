//! Calls that are cancelled and clients that go: nothing hangs, nothing leaks, and sessions go on.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::model::{Script, Server};
use testkit::repo::Repo;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::client::{Client, VERSION};
use crate::harness::{ENVIRONMENT, World, shell, until};

/// Open TCP connections of a process.
fn connections(pid: i32) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let known: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let socket = |target: std::path::PathBuf| {
        let number = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
        known.contains(&number.as_str()).then_some(())
    };
    targets.filter_map(socket).count()
}

fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_nothing_and_the_session_alone() {
    let model = Server::start(Script::new().answer(shell("echo started; sleep 600"))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let mut client = Client::start(&world, &[]).await;
    let session = client.session(ENVIRONMENT, "Wait").await;
    let pid = client.running.pid();
    until("calls that ended close their connections", || connections(pid) == 0).await;

    let wait = json!({
        "name": "wait_session",
        "arguments": {"session": session, "timeout_s": 600},
        "_meta": {"progressToken": 7},
    });
    let waiting = client.request("tools/call", wait).await;
    let told = |line: &Value| {
        line["params"]["progressToken"] == 7
            && line["params"]["message"].as_str().is_some_and(|m| m.contains("sleep 600"))
    };
    client.running.line(told).await;
    assert!(connections(pid) > 0, "it follows the session");
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting, "reason": "bored"}}))
        .await;
    until("the connection of the cancelled call is closed", || connections(pid) == 0).await;
    let shown = client.data("show_session", json!({"session": session})).await;
    assert_eq!(shown["status"], "working", "{shown}");

    let stopped = client.data("stop_session", json!({"session": session})).await;
    assert!(stopped["turn"].as_str().unwrap().starts_with("trn_"), "{stopped}");
    let over = client.settled(&session).await;
    assert_eq!((&over["state"], &over["outcome"]), (&json!("finished"), &json!("cancelled")), "{over}");
    let output = client.leave().await;
    let answered = output.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(
        answered.into_iter().all(|line| line["id"] != waiting),
        "a cancelled call is not answered: {output}"
    );
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_its_session_to_a_server_in_the_background() {
    let model = Server::start(Script::new().answer(shell("echo started; sleep 600"))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut child = world.command(&["mcp"]).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut say = async |message: Value| input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    let call = |id: u64, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let about =
        json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    say(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})).await;
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    say(call(2, "start_session", json!({"environment": ENVIRONMENT, "prompt": "Wait"}))).await;
    let mut next = async || -> Value {
        let line = tokio::time::timeout(crate::harness::PATIENCE, output.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.expect("it ended")).unwrap()
    };
    let session = loop {
        let line = next().await;
        if line["id"] == 2 {
            break line["result"]["structuredContent"]["session"].as_str().unwrap().to_owned();
        }
    };
    say(call(3, "wait_session", json!({"session": session, "timeout_s": 600}))).await;
    while !next().await["params"]["message"].as_str().is_some_and(|words| words.contains("sleep 600")) {}
    // Both ends at once, in the middle of the call.
    drop((input, output));
    let status =
        tokio::time::timeout(crate::harness::PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));

    let (_, server) = world.background().expect("a server goes on with it");
    assert!(lives(server));
    assert_eq!(world.json(&["show", &session]).await["status"], "working");
    world.ok(&["stop", &session]).await;
    world.run(&["attach", &session]).await.expect_code(1);
    // SAFETY: kill takes two numbers; the process is the server that this test's own command started.
    unsafe { libc::kill(server, libc::SIGTERM) };
    until("the server in the background ends", || !lives(server)).await;
    world.finish().await;
}

#[tokio::test]
async fn it_ends_with_its_input_or_a_signal() {
    let world = World::new();
    let output = world.ok(&["mcp"]).await;
    assert!(output.stdout.is_empty(), "{output}");
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let running = world.start(&["mcp"]);
        let mut client = Client::of(running);
        client.introduce().await;
        client.running.signal(signal);
        client.running.wait().await.expect_code(0);
    }
    let left: Vec<_> =
        std::fs::read_dir(world.data()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "who asked nothing left nothing: {left:?}");
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_was_killed_is_replaced_and_the_work_goes_on() {
    let script = Script::new()
        .answer(shell("until [ -e /tmp/go ]; do sleep 0.05; done; echo went"))
        .say("Nothing to do.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::start(&world, &[]).await;
    let session = client.session(ENVIRONMENT, "Wait").await;
    let (_, first) = world.background().unwrap();
    let wait = json!({
        "name": "wait_session",
        "arguments": {"session": session, "timeout_s": 600},
        "_meta": {"progressToken": "t"},
    });
    let waiting = client.request("tools/call", wait).await;
    client.running.line(|line| line["params"]["message"].as_str().is_some_and(|m| m.contains("until"))).await;
    client
        .send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}),
        )
        .await;
    // SAFETY: kill takes two numbers; the process is the server that this test's own command started.
    unsafe { libc::kill(first, libc::SIGKILL) };
    until("the server is gone", || !lives(first)).await;
    let shown = client.data("show_session", json!({"session": session})).await;
    assert_eq!(shown["status"], "working", "it can be looked at without a server: {shown}");
    world.let_go("/tmp/go");
    let done = client.settled(&session).await;
    assert_eq!((&done["status"], &done["last_words"]), (&json!("done"), &json!("Nothing to do.")), "{done}");
    let (_, second) = world.background().unwrap();
    assert_ne!(first, second);
    client.leave().await;
    assert_eq!(world.background(), None);
    world.finish().await;
}
