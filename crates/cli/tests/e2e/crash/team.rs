//! A server that is killed while a hook decides, while a hook looks at what was done, and while a tool of an MCP server in the
//! sandbox works.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use super::{finished, world};
use crate::harness::{ENVIRONMENT, shell, until};

/// Waits for a file that somebody makes, and writes down that it was there.
const WAIT: &str = "echo asked >> /tmp/asked; until [ -e /tmp/go ]; do sleep 0.02; done";

fn text(call: &Value) -> &str {
    call["output"]["text"].as_str().unwrap()
}

/// Kills the server while a hook on this side of the call waits; gives the calls of the shell.
async fn killed_in_a_hook(on: &str) -> Vec<Value> {
    let script = Script::new()
        .answer(shell("echo ran >> /tmp/ran; wc -l < /tmp/ran"))
        .answer(Reply::new().call("read", json!({"path": "answer.txt"})))
        .answer(shell("cat /tmp/asked"))
        .say("Done.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let hook = format!("hooks = [{{ on = \"{on}\", tool = \"shell\", run = \"{WAIT}\", timeout_s = 60 }}]");
    let world = world(&model, &repo, &hook);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Try it").await;
    until("the hook to be asked", || world.is_inside("/tmp/asked")).await;
    serving.crash().await;
    let serving = world.serve().await;
    world.let_go("/tmp/go");
    let events = finished(&serving.api, &session).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done", "{events:?}");
    assert_eq!(model.violations(), Vec::<String>::new());
    let calls = events.calls("shell").into_iter().cloned().collect();
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
    calls
}

#[tokio::test]
async fn while_a_hook_decides_on_a_call() {
    let calls = killed_in_a_hook("before").await;
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(text(&calls[0]).starts_with("1\n"), "it ran once: {calls:?}");
    assert!(text(&calls[1]).starts_with("asked\nasked\n(exit"), "each was asked for once: {calls:?}");
    assert_eq!(calls[0]["hooks"][0]["did"], "passed", "{calls:?}");
}

#[tokio::test]
async fn while_a_hook_looks_at_what_a_call_did() {
    let calls = killed_in_a_hook("after").await;
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(text(&calls[0]).starts_with("1\n"), "it ran once: {calls:?}");
    assert_eq!(text(&calls[1]), "asked\n(exit code 0)", "the first was shown once: {calls:?}");
    assert_eq!(calls[0]["hooks"][0]["did"], "passed", "{calls:?}");
}

/// A server in a few lines, which writes down when it starts and what it is asked.
const PROGRAM: &str = r#"
import json, sys, time
def note(words):
    with open("/tmp/seen", "a") as file:
        file.write(words + "\n")
note("start")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "house", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("wait", "seen")]}
    else:
        name = asked["params"]["name"]
        note(name)
        if name == "wait":
            open("/tmp/waiting", "w").close()
            time.sleep(600)
        result = {"content": [{"type": "text", "text": open("/tmp/seen").read()}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn while_a_tool_of_an_mcp_server_in_the_sandbox_works() {
    let script = Script::new()
        .answer(Reply::new().call("house__wait", json!({})))
        .answer(Reply::new().call("house__seen", json!({})))
        .say("Done.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    repo.commit("main", &[("house.py", PROGRAM)]);
    let program = "mcp = [{ name = \"house\", command = [\"python3\", \"/workspace/house.py\"] }]";
    let world = world(&model, &repo, program);
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Wait").await;
    until("the tool to be called", || world.is_inside("/tmp/waiting")).await;
    serving.crash().await;
    let serving = world.serve().await;
    let events = finished(&serving.api, &session).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done", "{events:?}");
    let open = events.calls("house__wait");
    assert_eq!((open.len(), &open[0]["status"]), (1, &json!("interrupted")), "{events:?}");
    // The program was started anew, and the call was not made again.
    assert!(text(events.calls("house__seen")[0]).ends_with("start\nwait\nstart\nseen"), "{events:?}");
    assert_eq!(events.of("tools.listed").len(), 1, "the turn has the tools that it had");
    assert_eq!(model.violations(), Vec::<String>::new());
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
