//! The same with a client that others wrote: the SDK of the protocol's own authors, from npm.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::model::Server;
use testkit::repo::Repo;
use tokio::process::Command;

use crate::harness::{ENVIRONMENT, World, mend};

const PACKAGE: &str = "@modelcontextprotocol/sdk@1";

/// Starts a session, waits for it with progress, and prints what came of it.
const SCRIPT: &str = r#"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const [program, environment] = process.argv.slice(2);
const client = new Client({ name: "sdk", version: "1" });
await client.connect(new StdioClientTransport({ command: program, args: ["mcp"], env: process.env }));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const started = await call("start_session", { environment, prompt: "Make the answer right" });
const session = started.structuredContent.session;
const progress = [];
const waited = await call("wait_session", { session }, { onprogress: (told) => progress.push(told.message) });
const wrong = await call("show_session", { session: "mine" });
const diff = await call("diff_session", { session });
await client.close();
console.log(JSON.stringify({ server: client.getServerVersion(), tools, progress, waited, wrong, diff }));
"#;

#[tokio::test]
#[ignore = "fetches a client from npm"]
async fn a_client_that_others_wrote_drives_a_session() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let place = world.root().join("client");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("client.mjs"), SCRIPT).unwrap();
    // With the user's own settings, which say where packages come from.
    let install = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--prefix"])
        .args([place.as_os_str(), PACKAGE.as_ref()])
        .stdin(Stdio::null())
        .output()
        .await
        .expect("npm is needed");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let node = Command::new("node")
        .arg(place.join("client.mjs"))
        .args([env!("CARGO_BIN_EXE_slipway"), ENVIRONMENT])
        .env("HOME", world.home())
        .env("SLIPWAY_DATA_DIR", world.data())
        .env("USER", "ana")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let node = tokio::time::timeout(crate::harness::PATIENCE * 2, node).await.unwrap().unwrap();
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    let told: Value = serde_json::from_slice(&node.stdout).unwrap();
    assert_eq!(told["server"]["name"], "slipway", "{told}");
    assert_eq!(told["tools"].as_array().unwrap().len(), 12, "{told}");
    assert_eq!(told["waited"]["structuredContent"]["status"], "done", "{told}");
    let progress = told["progress"].as_array().unwrap();
    assert!(progress.iter().any(|words| words == "check answer"), "{told}");
    assert_eq!(told["wrong"]["isError"], json!(true), "{told}");
    assert!(told["diff"]["structuredContent"]["patch"].as_str().unwrap().contains("+42"), "{told}");
    std::fs::remove_dir_all(place).unwrap();
    world.finish().await;
}
