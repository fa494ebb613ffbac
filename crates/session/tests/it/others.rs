//! MCP servers that others wrote, in a real sandbox. The slow tier runs this; `scripts/mcp-servers.sh` fetches them.

use std::path::PathBuf;

use protocol::{ItemStatus, McpProgram, McpUse, Outcome, SetupStep};
use serde_json::json;
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, create};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow tier: needs servers from npm"]
async fn everything_and_files_in_the_sandbox() {
    let cache = std::env::var_os("SLIPWAY_MCP_SERVERS").map(PathBuf::from);
    let cache = cache.expect("SLIPWAY_MCP_SERVERS names the directory that scripts/mcp-servers.sh filled");
    let packages = std::fs::read(cache.join("servers.tgz")).unwrap();
    let repo = Repo::bare_with(&[(".gitignore", "node_modules\n"), ("answer.txt", "41\n")]);
    let work = tempfile::tempdir().unwrap();
    testkit::repo::git_in(work.path(), &["clone", "--quiet", &repo.url(), "."]);
    std::fs::write(work.path().join("servers.tgz"), packages).unwrap();
    testkit::repo::git_in(work.path(), &["add", "."]);
    testkit::repo::git_in(work.path(), &["commit", "--quiet", "--message", "servers"]);
    testkit::repo::git_in(work.path(), &["push", "--quiet", "origin", "HEAD:main"]);
    let program = |name: &str, words: &[&str]| {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        McpUse::Program(McpProgram { name: name.into(), command, ..McpProgram::default() })
    };
    let script = Script::new()
        .call("mcp_tools", json!({"query": "echo"}))
        .call("mcp_call", json!({"tool": "everything__echo", "arguments": {"message": "hello"}}))
        .call("mcp_call", json!({"tool": "everything__get-tiny-image", "arguments": {}}))
        .call("mcp_call", json!({"tool": "files__read_text_file", "arguments": {"path": "/workspace/answer.txt"}}))
        .call("mcp_call", json!({"tool": "files__write_file", "arguments": {"path": "/workspace/answer.txt", "content": "42\n"}}))
        .say("Done.");
    let world = World::with(repo, script).await.environment(|environment| {
        environment.setup = vec![SetupStep { run: "tar xzf servers.tgz".into(), ..SetupStep::default() }];
        environment.checks[0].run = "grep -q 42 answer.txt".into();
        environment.mcp = vec![
            program("everything", &["node_modules/.bin/mcp-server-everything", "stdio"]),
            program("files", &["node_modules/.bin/mcp-server-filesystem", "/workspace"]),
        ];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.calls());
    let calls = follow.calls();
    let text = |index: usize| calls[index].1.output.as_ref().unwrap().text.clone();
    assert!(calls.iter().all(|(item, _)| item.status == ItemStatus::Completed), "{calls:#?}");
    assert!(text(0).contains("everything__echo") && text(1).contains("hello"), "{} {}", text(0), text(1));
    assert_eq!(calls[2].1.output.as_ref().unwrap().images.len(), 1);
    assert!(text(3).ends_with("41"), "{}", text(3));
    assert_eq!(
        world.repo.file(&follow.deliveries().last().unwrap().branch, "answer.txt").unwrap().trim(),
        "42"
    );
    world.end(sessions).await;
}
