//! Servers that others wrote, from npm. The slow tier runs these; `scripts/mcp-servers.sh` puts them where they are looked for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp::{Auth, Connection, Http, Program};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::shop::{Drawer, arguments};

const LIMIT: Duration = Duration::from_secs(60);

fn program(name: &str, more: &[&str]) -> Program {
    let dir = std::env::var_os("SLIPWAY_MCP_SERVERS").map(PathBuf::from);
    let dir = dir.expect("SLIPWAY_MCP_SERVERS names the directory that scripts/mcp-servers.sh filled");
    let program = dir.join("node_modules/.bin").join(name).display().to_string();
    let command = std::iter::once(program).chain(more.iter().map(|word| (*word).to_owned())).collect();
    Program { command, env: BTreeMap::new() }
}

async fn names(connection: &Connection) -> Vec<String> {
    connection.tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

async fn everything(connection: Connection) {
    let tools = names(&connection).await;
    assert!(tools.contains(&"echo".to_owned()) && tools.len() > 5, "{tools:?}");
    let echo = connection.call("echo", arguments(json!({"message": "hello"}))).await.unwrap();
    assert!(echo.text.contains("hello") && !echo.is_error, "{echo:?}");
    let sum = connection.call("get-sum", arguments(json!({"a": 2, "b": 3}))).await.unwrap();
    assert!(sum.text.contains('5'), "{sum:?}");
    let image = connection.call("get-tiny-image", arguments(json!({}))).await.unwrap();
    assert_eq!(image.images.len(), 1);
    assert!(image.images[0].starts_with(b"\x89PNG"), "an image of real bytes");
    let wrong = connection.call("get-sum", arguments(json!({"a": "x"}))).await;
    assert!(wrong.as_ref().map_or(true, |called| called.is_error), "{wrong:?}");
    connection.close().await;
}

#[tokio::test]
#[ignore = "slow tier: needs servers from npm"]
async fn everything_as_a_program() {
    everything(
        Connection::host(&program("mcp-server-everything", &["stdio"]), &Drawer::default(), LIMIT)
            .await
            .unwrap(),
    )
    .await;
}

#[tokio::test]
#[ignore = "slow tier: needs servers from npm"]
async fn everything_behind_an_address() {
    let Program { command, .. } = program("mcp-server-everything", &["streamableHttp"]);
    let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut server = tokio::process::Command::new(&command[0])
        .args(&command[1..])
        .env("PORT", free.to_string())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It says where it listens.
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(&free.to_string()) {
                return;
            }
        }
        panic!("it ended");
    };
    tokio::time::timeout(LIMIT, ready).await.unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let http =
        Http { url: format!("http://127.0.0.1:{free}/mcp"), headers: BTreeMap::new(), auth: Auth::None };
    everything(Connection::http("everything", &http, Arc::new(Drawer::default()), LIMIT).await.unwrap())
        .await;
}

#[tokio::test]
#[ignore = "slow tier: needs servers from npm"]
async fn files_and_memory() {
    let dir = std::env::temp_dir().join(format!("slipway-mcp-files-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("a.txt"), "from a file").unwrap();
    let path = dir.display().to_string();
    let files = Connection::host(&program("mcp-server-filesystem", &[&path]), &Drawer::default(), LIMIT)
        .await
        .unwrap();
    assert!(names(&files).await.contains(&"list_directory".to_owned()));
    let read =
        files.call("read_text_file", arguments(json!({"path": format!("{path}/a.txt")}))).await.unwrap();
    assert!(read.text.contains("from a file") && !read.is_error, "{read:?}");
    let outside = files.call("read_text_file", arguments(json!({"path": "/etc/passwd"}))).await.unwrap();
    assert!(outside.is_error, "{outside:?}");
    files.close().await;

    let mut program = program("mcp-server-memory", &[]);
    let store = mcp::Value::Text(dir.join("memory.jsonl").display().to_string());
    program.env.insert("MEMORY_FILE_PATH".into(), store);
    let memory = Connection::host(&program, &Drawer::default(), LIMIT).await.unwrap();
    let entity = json!({"entities": [{"name": "price", "entityType": "rule", "observations": ["in cents"]}]});
    let made = memory.call("create_entities", arguments(entity)).await.unwrap();
    assert!(!made.is_error, "{made:?}");
    let found = memory.call("search_nodes", arguments(json!({"query": "price"}))).await.unwrap();
    assert!(found.text.contains("in cents"), "{found:?}");
    memory.close().await;
    std::fs::remove_dir_all(&dir).unwrap();
}
