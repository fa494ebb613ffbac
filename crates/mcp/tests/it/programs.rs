//! Programs on this machine: what they get of it, and that nothing of them is left.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp::{Connection, Error, Key, Program, Value};
use serde_json::json;

use crate::shop::{Drawer, PATIENCE, arguments};

/// A server in a few lines: it tells its variables, and the process that it is.
const SCRIPT: &str = r#"
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "small", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    elif asked["params"]["name"] == "die":
        print("this is the end", file=sys.stderr, flush=True)
        os._exit(3)
    else:
        said = {"env": dict(os.environ), "pid": os.getpid(), "child": child.pid, "cwd": os.getcwd()}
        result = {"content": [{"type": "text", "text": json.dumps(said)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

fn program(script: &str) -> Program {
    let command = ["python3", "-c", script].map(str::to_owned).to_vec();
    let env = BTreeMap::from([
        ("PLAIN".to_owned(), Value::Text("yes".to_owned())),
        ("TOKEN".to_owned(), Value::Key(Key::Secret("small".to_owned()))),
    ]);
    Program { command, env }
}

fn vault() -> Drawer {
    let drawer = Drawer::default();
    drawer.0.lock().unwrap().insert("small".to_owned(), "tok".to_owned());
    drawer
}

fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

async fn until_gone(pid: u64) {
    let began = std::time::Instant::now();
    while is_alive(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid} is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_program_has_what_it_is_given_and_goes_with_all_that_it_started() {
    let connection = Connection::host(&program(SCRIPT), &vault(), PATIENCE).await.unwrap();
    assert_eq!(connection.about().as_deref(), Some("small 1"));
    let said = connection.call("look", arguments(json!({}))).await.unwrap().text;
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let variables: Vec<&str> = said["env"].as_object().unwrap().keys().map(String::as_str).collect();
    for given in ["PLAIN", "TOKEN", "PATH"] {
        assert!(variables.contains(&given), "{given}: {variables:?}");
    }
    let not_ours = variables.iter().all(|name| !name.starts_with("CARGO") && !name.starts_with("NEXTEST"));
    assert!(
        not_ours && std::env::var_os("CARGO_MANIFEST_DIR").is_some(),
        "nothing else of ours: {variables:?}"
    );
    assert_eq!((&said["env"]["TOKEN"], &said["cwd"]), (&json!("tok"), &json!("/")));
    let (pid, child) = (said["pid"].as_u64().unwrap(), said["child"].as_u64().unwrap());
    assert!(is_alive(pid) && is_alive(child));
    drop(connection);
    until_gone(pid).await;
    until_gone(child).await;
}

#[tokio::test]
async fn one_that_dies_in_a_call_is_told_with_its_last_words() {
    let connection = Connection::host(&program(SCRIPT), &vault(), PATIENCE).await.unwrap();
    let error = connection.call("die", arguments(json!({}))).await.unwrap_err();
    assert!(matches!(&error, Error::Gone(said) if said.contains("this is the end")), "{error}");
    connection.close().await;
}

#[tokio::test]
async fn one_that_does_not_start_says_why() {
    let vault = vault();
    let failed = |program: Program| {
        let vault = &vault;
        async move { Connection::host(&program, vault, PATIENCE).await.unwrap_err().to_string() }
    };
    let missing = Program { command: vec!["/no/such/program".into()], env: BTreeMap::new() };
    let said = failed(missing).await;
    assert!(said.contains("/no/such/program cannot be started"), "{said}");
    let said = failed(program("import no_such_module")).await;
    assert!(said.contains("it exited with 1") && said.contains("No module named 'no_such_module'"), "{said}");
    let mut keyless = program(SCRIPT);
    keyless.env.insert("X".into(), Value::Key(Key::Secret("nobody".into())));
    assert!(failed(keyless).await.contains("the secret \"nobody\" is not set"));
    assert!(failed(Program::default()).await.contains("has no command"));
}

/// A program that is killed without a chance to tidy up takes its servers with it.
#[tokio::test]
async fn the_kernel_ends_a_program_whose_parent_was_killed() {
    if std::env::var_os("SLIPWAY_MCP_PARENT").is_some() {
        let connection = Connection::host(&program(SCRIPT), &vault(), PATIENCE).await.unwrap();
        let said = connection.call("look", arguments(json!({}))).await.unwrap().text;
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        std::fs::write(std::env::var_os("SLIPWAY_MCP_PARENT").unwrap(), said["pid"].to_string()).unwrap();
        std::future::pending::<()>().await;
    }
    let file = std::env::temp_dir().join(format!("slipway-mcp-{}", std::process::id()));
    let own = std::env::current_exe().unwrap();
    let name = "programs::the_kernel_ends_a_program_whose_parent_was_killed";
    let mut parent = tokio::process::Command::new(own)
        .args(["--exact", name, "--nocapture"])
        .env("SLIPWAY_MCP_PARENT", &file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    let pid: u64 = loop {
        match std::fs::read_to_string(&file).ok().and_then(|text| text.parse().ok()) {
            Some(pid) => break pid,
            None => assert!(began.elapsed() < PATIENCE, "the parent did not start its server"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(is_alive(pid));
    parent.kill().await.unwrap();
    until_gone(pid).await;
    std::fs::remove_file(&file).unwrap();
}
