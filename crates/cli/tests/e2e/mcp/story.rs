//! A whole story through tools: started, waited for, asked, answered, looked at and delivered.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use super::client::{Client, VERSION, names, text};
use crate::harness::{ENVIRONMENT, World, edit, environment, mend, models, shell};

fn question() -> Reply {
    Reply::new().call("ask", json!({"question": "Which answer?", "options": ["41", "42"]}))
}

/// What was told of the progress under a token: numbers and words.
fn progress(stdout: &[Value], token: &str) -> Vec<(f64, String)> {
    let told = stdout.iter().filter(|line| line["method"] == "notifications/progress");
    told.filter(|line| line["params"]["progressToken"] == token)
        .map(|line| {
            let params = &line["params"];
            (params["progress"].as_f64().unwrap(), params["message"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

#[tokio::test]
async fn a_session_is_driven_by_tools_alone() {
    let script = Script::new()
        .answer(question())
        .answer(edit("41", "42"))
        .say("The answer is 42 now.")
        .say("There is nothing more to do.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::of(world.start(&["mcp"]));
    let server = client.introduce().await;
    assert_eq!(
        (&server["serverInfo"]["name"], &server["protocolVersion"]),
        (&json!("slipway"), &json!(VERSION))
    );
    assert!(server["capabilities"]["tools"].is_object() && server["instructions"].is_string(), "{server}");

    let tools = client.tools().await;
    let expected = [
        "list_environments",
        "start_session",
        "list_sessions",
        "show_session",
        "wait_session",
        "read_session",
        "prompt_session",
        "answer_session",
        "decide_session",
        "stop_session",
        "diff_session",
        "deliver_session",
    ];
    assert_eq!(names(&tools), expected);
    for tool in &tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        let looks = tool["annotations"]["readOnlyHint"] == true;
        let name = tool["name"].as_str().unwrap();
        let reads = ["list_", "show_", "wait_", "read_", "diff_"];
        assert_eq!(looks, reads.iter().any(|word| name.starts_with(word)), "{tool}");
    }

    let places = client.data("list_environments", json!({})).await;
    assert_eq!(places["environments"][0]["name"], ENVIRONMENT, "{places}");
    assert_eq!(places["environments"][0]["checks"], json!(["answer"]), "{places}");
    assert_eq!(places["models"][0], json!({"name": "chat", "default": true, "key": true}), "{places}");
    assert_eq!(world.background(), None, "to look starts no server");

    let session = client.session(ENVIRONMENT, "Make the answer right").await;
    let wait = json!({
        "name": "wait_session",
        "arguments": {"session": session, "timeout_s": 60},
        "_meta": {"progressToken": "first"},
    });
    let id = client.request("tools/call", wait).await;
    let waited = client.answer(id).await["result"].clone();
    let data = &waited["structuredContent"];
    assert_eq!((&data["state"], &data["status"]), (&json!("needs_somebody"), &json!("waiting")), "{waited}");
    assert_eq!(data["needs"]["gate"], "question", "{waited}");
    assert_eq!(data["needs"]["options"], json!(["41", "42"]), "{waited}");
    assert!(text(&waited).contains("Which answer?") && text(&waited).contains("2. 42"), "{waited}");
    let approval = data["needs"]["approval"].as_str().unwrap().to_owned();

    let again = client.settled(&session).await;
    assert_eq!(
        again["needs"]["approval"], approval,
        "what waits is told at once, as often as it is asked for"
    );
    let asked = client.data("read_session", json!({"session": session})).await;
    let kinds: Vec<&str> =
        asked["entries"].as_array().unwrap().iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert!(kinds.starts_with(&["prompt", "turn"]) && kinds.contains(&"asks"), "{asked}");
    assert_eq!(asked["more"], false, "{asked}");
    // The workspace may have been kept meanwhile.
    let read = asked["next_after"].as_u64().unwrap();
    assert!(read >= again["seq"].as_u64().unwrap(), "{asked}");
    let approved = client
        .refused("decide_session", json!({"session": session, "approval": approval, "decision": "approve"}));
    assert!(approved.await.contains("answer_session"));

    let answer = json!({"session": session, "approval": approval, "answer": "2"});
    assert_eq!(client.data("answer_session", answer.clone()).await["answer"], "42");
    let done = client.settled(&session).await;
    assert_eq!((&done["state"], &done["status"]), (&json!("finished"), &json!("done")), "{done}");
    assert_eq!(
        (&done["outcome"], &done["last_words"]),
        (&json!("done"), &json!("The answer is 42 now.")),
        "{done}"
    );
    assert_eq!(done["checks"], json!([{"name": "answer", "passed": true}]), "{done}");
    assert_eq!(done["changes"]["files"], 1, "{done}");
    assert_eq!(done["spend"]["calls"], 3, "{done}");
    let results = model.requests()[1].results().to_vec();
    assert!(results.iter().any(|result| result.text.contains("42")), "the model has the answer: {results:?}");
    assert!(client.refused("answer_session", answer).await.contains("it is done"));

    let branch = done["delivery"]["branch"].as_str().unwrap().to_owned();
    assert_eq!(done["delivery"]["state"], "pushed", "{done}");
    assert_eq!(repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    let after = client.data("read_session", json!({"session": session, "after": asked["next_after"]})).await;
    let text_of = |entry: &Value| entry["text"].as_str().unwrap().to_owned();
    let said: Vec<String> = after["entries"].as_array().unwrap().iter().map(text_of).collect();
    assert!(said.iter().any(|text| text == "The answer is 42 now."), "{said:?}");
    assert!(said.iter().any(|text| text.starts_with("answer passed")), "{said:?}");
    let first = after["entries"][0]["seq"].as_u64().unwrap();
    assert!(first > read, "what was read is not read again: {after}");
    let page = client.data("read_session", json!({"session": session, "limit": 1})).await;
    assert_eq!((page["entries"].as_array().unwrap().len(), &page["more"]), (1, &json!(true)), "{page}");

    let diff = client.data("diff_session", json!({"session": session})).await;
    assert_eq!(diff["files"], json!([{"path": "answer.txt", "insertions": 1, "deletions": 1}]), "{diff}");
    assert!(diff["patch"].as_str().unwrap().contains("-41\n+42\n"), "{diff}");
    let one = client.data("diff_session", json!({"session": session, "path": "answer.txt"})).await;
    assert_eq!(one["patch"], diff["patch"]);
    let none = client.refused("diff_session", json!({"session": session, "path": "README.md"})).await;
    assert!(none.contains("did not change README.md"), "{none}");

    let tip = repo.tip(&branch);
    let delivered = client.data("deliver_session", json!({"session": session})).await;
    assert_eq!(
        (&delivered["state"], &delivered["branch"]),
        (&json!("pushed"), &json!(branch)),
        "{delivered}"
    );
    assert_eq!(repo.tip(&branch), tip, "twice is the same as once");

    let queued = client.data("prompt_session", json!({"session": session, "prompt": "Is that all?"})).await;
    assert!(queued["prompt"].as_str().unwrap().starts_with("prm_"), "{queued}");
    let more = client.settled(&session).await;
    assert_eq!(more["last_words"], "There is nothing more to do.", "{more}");
    let list = client.data("list_sessions", json!({"status": "done"})).await;
    assert_eq!(list["sessions"][0]["session"], session.as_str(), "{list}");
    let none = client.data("list_sessions", json!({"status": "working"})).await;
    assert_eq!(none["sessions"], json!([]), "{none}");
    let shown = client.data("show_session", json!({"session": session})).await;
    assert_eq!((&shown["status"], &shown["delivery"]["branch"]), (&json!("done"), &json!(branch)), "{shown}");

    let output = client.leave().await;
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = lines.iter().position(|line| line["id"] == id).unwrap();
    let told = progress(&lines[..answered], "first");
    assert_eq!(told, progress(&lines, "first"), "none after the answer");
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0), "{told:?}");
    assert!(told.iter().any(|(_, words)| words == "ask Which answer?"), "{told:?}");
    assert_eq!(world.background(), None, "with nothing to do the server in the background ends too");
    assert_eq!(model.violations(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn approvals_are_decided_and_only_the_one_that_was_seen() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}approve = [\"delivery\"]\n", models(&model), environment(&repo)));
    let serving = world.serve().await;
    let mut client = Client::start(&world, &[]).await;
    let session = client.session(ENVIRONMENT, "Make the answer right").await;
    let waits = client.settled(&session).await;
    assert_eq!(
        (&waits["state"], &waits["needs"]["gate"]),
        (&json!("needs_somebody"), &json!("delivery")),
        "{waits}"
    );
    let approval = waits["needs"]["approval"].as_str().unwrap();
    let with = |approval: &str, decision: &str| json!({"session": session, "approval": approval, "decision": decision});

    let other = protocol_like_id(approval);
    let refused = client.refused("decide_session", with(&other, "approve")).await;
    assert!(refused.contains(&other), "{refused}");
    let answered =
        client.refused("answer_session", json!({"session": session, "approval": approval, "answer": "yes"}));
    assert!(answered.await.contains("decide_session"));
    assert_eq!(repo.branches(), ["main"], "nothing was pushed");

    let decided = client.data("decide_session", with(approval, "approve")).await;
    assert_eq!((&decided["approved"], &decided["by"]), (&json!(true), &json!("ana")), "{decided}");
    let again = client.data("decide_session", with(approval, "approve")).await;
    assert_eq!(again, decided, "the same again is the same");
    let contradicted = client.refused("decide_session", with(approval, "reject")).await;
    assert!(contradicted.contains("ana"), "{contradicted}");
    let done = client.settled(&session).await;
    assert_eq!((&done["status"], &done["delivery"]["state"]), (&json!("done"), &json!("pushed")), "{done}");
    client.leave().await;
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

/// Another id of the same kind.
fn protocol_like_id(id: &str) -> String {
    let end = if id.ends_with('0') { '1' } else { '0' };
    format!("{}{end}", &id[..id.len() - 1])
}

#[tokio::test]
async fn a_repository_without_an_environment_will_do() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&models(&model));
    let serving = world.serve().await;
    let mut client = Client::start(&world, &[]).await;
    let arguments =
        json!({"repository": repo.url(), "branch": "main", "prompt": "Mend it", "model": "claude"});
    let started = client.data("start_session", arguments).await;
    assert_eq!(started["model"], "claude", "{started}");
    let session = started["session"].as_str().unwrap();
    let done = client.settled(session).await;
    assert_eq!(done["status"], "done", "{done}");
    client.leave().await;
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn calls_side_by_side_share_one_server() {
    let model = Server::start(Script::from_fn(|_, _| Reply::text("Nothing to do."))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::start(&world, &[]).await;
    let mut ids = Vec::new();
    for number in 0..8 {
        let params = match number % 4 {
            0 => {
                json!({"name": "start_session", "arguments": {"environment": ENVIRONMENT, "prompt": "Look"}})
            }
            _ => json!({"name": "list_sessions", "arguments": {}}),
        };
        ids.push(client.request("tools/call", params).await);
    }
    let mut sessions = Vec::new();
    for id in ids {
        let result = client.answer(id).await["result"].clone();
        assert_eq!(result["isError"], false, "{result}");
        sessions.extend(result["structuredContent"]["session"].as_str().map(str::to_owned));
    }
    assert_eq!(sessions.len(), 2);
    for session in &sessions {
        assert_eq!(client.settled(session).await["status"], "done");
    }
    client.leave().await;
    assert_eq!(world.background(), None);
    world.finish().await;
}

#[tokio::test]
async fn long_outputs_are_cut_and_say_so() {
    let script = Script::new()
        .answer(shell("seq -f '%.0f bottles on the wall' 1 5000 > big.txt"))
        .answer(shell("seq 1 5000"))
        .answer(edit("41", "42"))
        .say((0..3000).map(|number| format!("word {number} ")).collect::<String>());
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let mut client = Client::start(&world, &[]).await;
    let session = client.session(ENVIRONMENT, "Write much").await;
    let done = client.settled(&session).await;
    let words = done["last_words"].as_str().unwrap();
    assert!(words.len() < 5000 && words.contains("characters cut"), "{} {words}", words.len());
    let diff = client.call("diff_session", json!({"session": session})).await;
    let cut = diff["structuredContent"]["patch_cut"].as_u64().unwrap();
    assert!(cut > 50_000 && text(&diff).ends_with("ask for one file with path"), "{cut} {diff}");
    assert!(text(&diff).len() < 45_000 && text(&diff).contains("+5000 −0 big.txt"));
    let small = client.data("diff_session", json!({"session": session, "path": "answer.txt"})).await;
    assert_eq!(small["patch_cut"], 0, "{small}");
    let read = client.call("read_session", json!({"session": session})).await;
    assert!(text(&read).len() < 30_000 && text(&read).contains("characters cut"), "{}", text(&read).len());
    client.leave().await;
    world.finish().await;
}
