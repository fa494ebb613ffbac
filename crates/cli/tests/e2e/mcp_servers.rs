//! MCP servers from the command line: listing them, trying one out, and a turn that calls one on this machine, whose secret is
//! nowhere and which goes with the server that is killed.

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models, until};

/// The value of a token, which is not written in any file but this.
const CANARY: &str = "canary-77ab01c2";

/// A server in a few lines; it writes down which process it is.
const PROGRAM: &str = r#"
import json, os, sys
open(os.environ["PIDS"], "a").write("%d\n" % os.getpid())
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "house", "version": "7"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}, {"name": "burn", "inputSchema": {"type": "object"}}]}
    else:
        result = {"content": [{"type": "text", "text": "a token of %d letters" % len(os.environ["TOKEN"])}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

/// A world with a server on this machine, whose token is a canary.
fn world(model: &Server, repo: &Repo) -> World {
    let mut world = World::new();
    world.set("HOUSE_TOKEN", CANARY);
    let program = world.home().join("house.py");
    std::fs::write(&program, PROGRAM).unwrap();
    let servers = format!(
        "[mcp.house]\ncommand = [\"/usr/bin/python3\", \"{}\"]\nwhere = \"host\"\ntools = [\"look\"]\n\
         env = {{ TOKEN = {{ env = \"HOUSE_TOKEN\" }}, PIDS = \"{}\" }}\n\
         [mcp.sentry]\npreset = \"sentry\"\n[mcp.inside]\ncommand = [\"mcp-inside\"]\n",
        program.display(),
        world.home().join("pids").display()
    );
    world.configure(&format!("{servers}{}{}mcp = [\"house\"]\n", models(model), environment(repo)));
    world
}

fn pids(world: &World) -> Vec<u32> {
    let text = std::fs::read_to_string(world.home().join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

#[tokio::test]
async fn servers_are_listed_and_tried_out() {
    let model = Server::start(Script::new().say("Hello.")).await;
    let world = world(&model, &Repo::plain());
    let listed = world.json(&["mcp", "ls"]).await;
    let servers: Vec<(&str, &str)> = listed["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| (server["name"].as_str().unwrap(), server["where"].as_str().unwrap()))
        .collect();
    assert_eq!(servers, [("house", "host"), ("inside", "sandbox"), ("sentry", "address")]);
    assert_eq!(listed["servers"][2]["access"], "not signed in: slipway mcp login sentry");
    assert_eq!(listed["presets"].as_array().unwrap().len(), 7);
    let tried = world.json(&["mcp", "test", "house"]).await;
    assert_eq!(tried["about"], "house 7");
    let tools: Vec<&str> =
        tried["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["house__look"], "what is filtered is not offered");
    assert!(pids(&world).into_iter().all(|pid| !is_alive(pid)), "it is gone with the command");
    for (arguments, words) in [
        (&["mcp", "test", "nobody"][..], "the servers are: house, inside, sentry"),
        (&["mcp", "test", "inside"], "slipway sandbox run --env ENV -- mcp-inside"),
        (&["mcp", "login", "house"], "has no oauth = true"),
    ] {
        let output = world.run(arguments).await;
        assert!(output.code() == 2 && output.stderr.contains(words), "{arguments:?}: {output}");
    }
    let output = world.run(&["mcp", "test", "sentry"]).await;
    assert!(output.code() == 1 && output.stderr.contains("slipway mcp login sentry"), "{output}");
    world.finish().await;
}

#[tokio::test]
async fn a_turn_calls_a_server_of_this_machine_that_dies_with_ours() {
    let script = Script::new().call("house__look", json!({})).say("It has one.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = world(&model, &repo);
    let serving = world.serve().await;
    let output = world.run(&["run", "--env", ENVIRONMENT, "--json", "Look at the house"]).await;
    let said = &output.stdout;
    assert!(said.contains("tools.listed") && said.contains("a token of 15 letters"), "{said}");
    assert!(!said.contains(CANARY), "a token is in an event");
    let requests: String = model.requests().iter().map(|request| request.json.to_string()).collect();
    assert!(
        requests.contains("house__look") && !requests.contains("house__burn") && !requests.contains(CANARY)
    );
    let pid = *pids(&world).last().unwrap();
    assert!(is_alive(pid), "it stays for the next turn");
    serving.crash().await;
    until("the program to be gone with the server that was killed", || !is_alive(pid)).await;
    world.remove_sandboxes().await;
    world.finish().await;
}
