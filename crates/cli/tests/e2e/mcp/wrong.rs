//! What is wrong is told, as an error of the tool where a model can mend it, and nothing happens.

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::client::Client;
use crate::harness::{ENVIRONMENT, World};

const NOBODY: &str = "ses_01k00000000000000000000000";

#[tokio::test]
async fn wrong_calls_are_told_and_do_nothing() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::start(&world, &[]).await;
    let wrong = [
        ("start_session", json!({"environment": ENVIRONMENT}), "missing field `prompt`"),
        ("start_session", json!({"prompt": "x"}), "neither an environment nor a repository"),
        ("start_session", json!({"prompt": " ", "environment": ENVIRONMENT}), "the prompt is empty"),
        (
            "start_session",
            json!({"prompt": "x", "environment": "a", "repository": "b"}),
            "leave one of them out",
        ),
        (
            "start_session",
            json!({"prompt": "x", "environment": "a", "branch": "b"}),
            "branch belongs to repository",
        ),
        ("start_session", json!({"prompt": 5, "environment": ENVIRONMENT}), "expected a string"),
        (
            "start_session",
            json!({"prompt": "x", "environment": ENVIRONMENT, "images": []}),
            "unknown field `images`",
        ),
        ("list_sessions", json!({"limit": 0}), "limit is between 1 and 100, and not 0"),
        ("list_sessions", json!({"status": "tired"}), "unknown variant `tired`"),
        ("list_environments", json!({"name": "x"}), "unknown field `name`"),
        ("wait_session", json!({"session": NOBODY, "timeout_s": 601}), "timeout_s is between 1 and 600"),
        ("show_session", json!({"session": "mine"}), "\"mine\" is not a valid id"),
        ("show_session", json!({"session": NOBODY}), "there is no session ses_01k"),
        ("wait_session", json!({"session": NOBODY}), "there is no session ses_01k"),
        ("read_session", json!({"session": NOBODY}), "list_sessions lists them"),
        ("diff_session", json!({"session": NOBODY}), "there is no session ses_01k"),
        (
            "answer_session",
            json!({"session": NOBODY, "approval": "yes", "answer": "x"}),
            "\"yes\" is not a valid id",
        ),
        ("decide_session", json!({"session": NOBODY, "approval": NOBODY, "decision": "x"}), "apr_"),
    ];
    for (tool, arguments, expected) in wrong {
        let told = client.refused(tool, arguments.clone()).await;
        assert!(told.contains(expected), "{tool} {arguments}: {told}");
    }
    assert_eq!(world.background(), None, "no server was started for any of it");
    assert_eq!(client.data("list_sessions", json!({})).await["sessions"], json!([]));

    // Only now does one have to ask a server that works.
    let unknown = [
        ("start_session", json!({"environment": "nowhere", "prompt": "x"}), "nowhere"),
        ("start_session", json!({"environment": ENVIRONMENT, "prompt": "x", "model": "oracle"}), "oracle"),
        ("start_session", json!({"repository": "/nowhere/at/all", "prompt": "x"}), "no such directory"),
        ("prompt_session", json!({"session": NOBODY, "prompt": "x"}), "there is no session ses_01k"),
        ("stop_session", json!({"session": NOBODY}), "there is no session ses_01k"),
        ("deliver_session", json!({"session": NOBODY}), "there is no session ses_01k"),
    ];
    for (tool, arguments, expected) in unknown {
        let told = client.refused(tool, arguments.clone()).await;
        assert!(told.contains(expected), "{tool} {arguments}: {told}");
    }
    assert_eq!(client.data("list_sessions", json!({})).await["sessions"], json!([]));
    client.leave().await;
    assert_eq!(model.requests().len(), 0);
    world.finish().await;
}

#[tokio::test]
async fn what_is_no_call_is_an_error_of_the_protocol() {
    let world = World::new();
    let mut client = Client::start(&world, &[]).await;
    let unknown = client.ask("tools/call", json!({"name": "fly", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("fly"), "{unknown}");
    let method = client.ask("sessions/list", json!({})).await;
    assert_eq!(method["error"]["code"], -32601, "{method}");
    let shape = client.ask("tools/call", json!({"name": "list_sessions", "arguments": [1]})).await;
    assert!(shape["error"].is_object(), "{shape}");
    let nameless = client.ask("tools/call", json!({})).await;
    assert!(nameless["error"].is_object(), "{nameless}");
    let alive = client.ask("ping", json!({})).await;
    assert_eq!(alive["result"], json!({}), "{alive}");
    client.leave().await;
    world.finish().await;
}

#[tokio::test]
async fn rubbish_on_standard_input_is_survived() {
    let world = World::new();
    let mut running = world.start(&["mcp"]);
    let long = "a".repeat(5 * 1024 * 1024);
    for rubbish in [
        &b"hello\n"[..],
        b"\n",
        b"[]\n",
        b"{}\n",
        b"\xff\xfe\x00\n",
        b"{\"jsonrpc\":\"2.0\"\n",
        long.as_bytes(),
        b"\n",
    ] {
        running.write(rubbish).await;
    }
    let mut client = Client::of(running);
    client.introduce().await;
    for rubbish in [
        &b"nonsense\n"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}\n",
        b"null\n",
        b"7\n",
    ] {
        client.running.write(rubbish).await;
    }
    assert_eq!(client.tools().await.len(), 12);
    // The last line has no end.
    client.running.write(b"{\"jsonrpc\":\"2.0\",\"id\":9,").await;
    client.leave().await;
    world.finish().await;
}
