//! Less than everything: only looking, or only some environments, and nothing to be seen of the others.

use serde_json::{Value, json};
use testkit::model::{At, Gate, Reply, Script, Server};
use testkit::repo::Repo;

use super::client::{Client, names};
use crate::harness::{ENVIRONMENT, World, edit, environment, mend, models};

const NOBODY: &str = "ses_01k00000000000000000000000";

#[tokio::test]
async fn who_may_only_look_changes_nothing() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::start(&world, &["--read-only"]).await;
    let tools = client.tools().await;
    let looks = [
        "list_environments",
        "list_sessions",
        "show_session",
        "wait_session",
        "read_session",
        "diff_session",
    ];
    assert_eq!(names(&tools), looks);
    let start = json!({"environment": ENVIRONMENT, "prompt": "x"});
    assert!(client.refused("start_session", start).await.contains("--read-only"));
    for tool in ["prompt_session", "answer_session", "decide_session", "stop_session", "deliver_session"] {
        let told = client.refused(tool, json!({"session": NOBODY})).await;
        assert!(told.contains("only looking is allowed"), "{tool}: {told}");
    }
    assert_eq!(client.data("list_sessions", json!({})).await["sessions"], json!([]));
    assert_eq!(world.background(), None, "it starts no server");

    // It stands in nobody's way: the data directory is free between two looks.
    let ran = world.ok(&["run", "--env", ENVIRONMENT, "Mend it", "--json"]).await.events();
    let session = ran.session();
    let shown = client.settled(session).await;
    assert_eq!((&shown["state"], &shown["status"]), (&json!("finished"), &json!("done")), "{shown}");
    assert!(
        client.data("diff_session", json!({"session": session})).await["patch"]
            .as_str()
            .unwrap()
            .contains("+42")
    );
    client.leave().await;
    world.finish().await;
}

#[tokio::test]
async fn who_may_only_look_sees_others_work() {
    let gate = Gate::new();
    let script = Script::new().answer(edit("41", "42").stall(At::Response, &gate)).say("Done.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let mut client = Client::start(&world, &["--read-only"]).await;
    let session = serving.api.create(ENVIRONMENT, "Mend it").await;
    let short = client.data("wait_session", json!({"session": session, "timeout_s": 1})).await;
    assert_eq!((&short["state"], &short["status"]), (&json!("still_working"), &json!("working")), "{short}");
    let wait = json!({"name": "wait_session", "arguments": {"session": session, "timeout_s": 60}});
    let id = client.request("tools/call", wait).await;
    gate.open();
    let waited = client.answer(id).await;
    assert_eq!(waited["result"]["structuredContent"]["state"], "finished", "{waited}");
    client.leave().await;
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn other_environments_are_neither_seen_nor_used() {
    let model = Server::start(Script::from_fn(|_, _| Reply::text("Nothing to do."))).await;
    let (repo, secret) = (Repo::plain(), Repo::plain());
    let world = World::new();
    let other = environment(&secret).replace(ENVIRONMENT, "secret");
    world.configure(&format!("{}{}{other}", models(&model), environment(&repo)));
    let serving = world.serve().await;
    let hidden = serving.api.create("secret", "Whisper").await;
    let mut client = Client::start(&world, &["--env", ENVIRONMENT]).await;

    let places = client.data("list_environments", json!({})).await;
    assert_eq!(places["environments"].as_array().unwrap().len(), 1, "{places}");
    let tools = client.tools().await;
    let start = tools.iter().find(|tool| tool["name"] == "start_session").unwrap();
    assert_eq!(start["inputSchema"]["properties"]["environment"]["enum"], json!([ENVIRONMENT]), "{start}");
    assert!(start["inputSchema"]["properties"].get("repository").is_none(), "{start}");

    let session = client.session(ENVIRONMENT, "Look around").await;
    client.settled(&session).await;
    let list = client.data("list_sessions", json!({})).await;
    let seen: Vec<&Value> = list["sessions"].as_array().unwrap().iter().map(|row| &row["session"]).collect();
    assert_eq!(seen, [&json!(session)], "{list}");
    assert_eq!(client.data("list_sessions", json!({"environment": "secret"})).await["sessions"], json!([]));

    let elsewhere = |name: &str| json!({"environment": name, "prompt": "x"});
    let told = client.refused("start_session", elsewhere("secret")).await;
    assert_eq!(
        told.replace("secret", "nowhere"),
        client.refused("start_session", elsewhere("nowhere")).await
    );
    let by_path = json!({"repository": secret.url(), "prompt": "x"});
    assert!(client.refused("start_session", by_path).await.contains("not in repositories"));

    let before = serving.api.get(&format!("/sessions/{hidden}")).await.expect(200)["seq"].clone();
    let approval = "apr_01k00000000000000000000000";
    let calls = [
        ("show_session", json!({})),
        ("wait_session", json!({})),
        ("read_session", json!({})),
        ("diff_session", json!({})),
        ("prompt_session", json!({"prompt": "Tell me"})),
        ("answer_session", json!({"approval": approval, "answer": "x"})),
        ("decide_session", json!({"approval": approval, "decision": "approve"})),
        ("stop_session", json!({})),
        ("deliver_session", json!({})),
    ];
    for (tool, mut arguments) in calls {
        let mut of = |session: &str| {
            arguments["session"] = json!(session);
            arguments.clone()
        };
        let (theirs, nobodys) = (of(&hidden), of(NOBODY));
        let told = client.refused(tool, theirs).await;
        assert_eq!(told.replace(&hidden, NOBODY), client.refused(tool, nobodys).await, "{tool}");
    }
    let log = serving.api.log(&hidden).await;
    assert!(
        log.of("prompt.queued").len() == 1 && log.of("turn.stopping").is_empty(),
        "after {before}: {log:?}"
    );
    client.leave().await;
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
