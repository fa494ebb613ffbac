//! `slipway serve`: the routes of the contract as a foreign client uses them, the stream of events, and the door.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;
use tokio_tungstenite::tungstenite;

use crate::harness::{ENVIRONMENT, Events, World, edit, mend, shell, until};

/// A body that makes a session.
fn task(prompt: &str) -> Value {
    json!({"environment": ENVIRONMENT, "prompt": prompt})
}

#[tokio::test]
async fn the_contract_holds_over_http() {
    let script = mend().answer(Reply::text("Because six by seven is 42."));
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;

    let made = api.post("/sessions", &task("Make the answer right")).await;
    let session = made.expect(201);
    let id = session["id"].as_str().unwrap();
    assert!(id.starts_with("ses_"), "{session}");
    assert_eq!(made.headers["location"], format!("/api/v1/sessions/{id}"));
    assert_eq!((&session["environment"], &session["model"]), (&json!(ENVIRONMENT), &json!("chat")));
    let mut watcher = api.watch(id, 0).await;
    watcher.until_type("turn.finished").await;
    // The last thing that happens by itself.
    watcher.until_type("snapshot.taken").await;

    let shown = api.get(&format!("/sessions/{id}")).await.expect(200);
    assert_eq!((&shown["id"], &shown["status"]), (&json!(id), &json!("done")), "{shown}");
    let list = api.get("/sessions").await.expect(200);
    assert_eq!(list["sessions"], json!([shown]));
    let diff = api.get(&format!("/sessions/{id}/diff")).await.expect(200);
    assert!(diff["patch"].as_str().unwrap().contains("+42"), "{diff}");
    let delivery = api.post(&format!("/sessions/{id}/deliver"), &json!({})).await.expect(200);
    assert_eq!((&delivery["state"], &delivery["branch"]), (&json!("pushed"), &json!(repo.branches()[1])));

    let prompt = api.post(&format!("/sessions/{id}/prompts"), &json!({"prompt": "Why?"})).await;
    assert!(
        prompt.status.is_success() && prompt.json()["id"].as_str().unwrap().starts_with("prm_"),
        "{prompt:?}"
    );
    watcher.until_type("turn.finished").await;
    let stopped = api.post(&format!("/sessions/{id}/stop"), &json!({})).await;
    assert!(stopped.status.is_success() && stopped.json().get("turn").is_none(), "{stopped:?}");

    let page = api.get(&format!("/sessions/{id}/events?after=2&limit=3")).await.expect(200);
    let numbers: Vec<&Value> = page["events"].as_array().unwrap().iter().map(|event| &event["seq"]).collect();
    assert_eq!(numbers, [3, 4, 5]);
    assert_eq!((&page["next_after"], &page["more"]), (&json!(5), &json!(true)));
    let log = api.log(id).await;
    log.assert_gap_free(0);
    assert_eq!(log.durable[..watcher.seen.durable.len()], watcher.seen.durable, "the stream is the log");
    assert_eq!(log.of("turn.finished").len(), 2);

    let described = api.get("/openapi.json").await.expect(200);
    for (path, method) in [
        ("/sessions", "post"),
        ("/sessions", "get"),
        ("/sessions/{id}", "get"),
        ("/sessions/{id}/prompts", "post"),
        ("/sessions/{id}/stop", "post"),
        ("/sessions/{id}/approvals/{approval}", "post"),
        ("/sessions/{id}/diff", "get"),
        ("/sessions/{id}/deliver", "post"),
        ("/sessions/{id}/events", "get"),
        ("/sessions/{id}/socket", "get"),
    ] {
        let operation = &described["paths"][format!("/api/v1{path}")][method];
        assert!(operation.is_object(), "{method} {path} is not described");
    }
    assert_eq!(model.violations(), [""; 0]);
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_repeated_command_happens_once() {
    let model = Server::start(Script::new().answer(Reply::text("Hello.")).repeat_last()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let send = |prompt: &str| {
        let request = api.request(Method::POST, "/sessions").header("Idempotency-Key", "monday-1");
        api.send(request.json(&task(prompt)))
    };
    let first = send("Say hello").await;
    let id = first.expect(201)["id"].as_str().unwrap().to_owned();
    let again = send("Say hello").await;
    assert_eq!(again.expect(201), first.json());
    assert_eq!(again.headers["location"], first.headers["location"]);
    assert_eq!(send("Say goodbye").await.problem(422), "idempotency_mismatch");
    let list = api.get("/sessions").await.expect(200);
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
    api.watch(&id, 0).await.until_type("turn.finished").await;
    assert_eq!(model.requests().len(), 1);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_a_problem_with_a_code() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let nobody = "ses_00000000000000000000000000";
    assert_eq!(api.get(&format!("/sessions/{nobody}")).await.problem(404), "not_found");
    assert_eq!(api.get("/sessions/seven").await.problem(404), "not_found");
    assert_eq!(api.get("/nothing").await.problem(404), "not_found");
    let approval = format!("/sessions/{nobody}/approvals/apr_00000000000000000000000000");
    assert_eq!(api.post(&approval, &json!({"approved": true})).await.problem(404), "not_found");
    let mut body = task("Do it");
    body["environment"] = json!("nowhere");
    assert_eq!(api.post("/sessions", &body).await.problem(404), "environment_not_found");
    let mut body = task("Do it");
    body["model"] = json!("oracle");
    assert_eq!(api.post("/sessions", &body).await.problem(404), "model_not_found");
    for body in [json!({"environment": ENVIRONMENT}), json!([]), json!({"environment": 1, "prompt": "x"})] {
        assert_eq!(api.post("/sessions", &body).await.problem(400), "bad_request", "{body}");
    }
    let mut body = task("Do it");
    body["colour"] = json!("blue");
    let answer = api.post("/sessions", &body).await;
    assert_eq!(answer.problem(400), "bad_request");
    assert!(answer.text.contains("colour"), "{answer:?}");
    assert_eq!(api.post("/sessions", &task("  ")).await.problem(400), "bad_request");
    let broken = api.request(Method::POST, "/sessions").header("content-type", "application/json").body("{");
    assert_eq!(api.send(broken).await.problem(400), "bad_request");
    assert_eq!(api.send(api.request(Method::DELETE, "/sessions")).await.status, 405);
    assert_eq!(api.get("/sessions").await.expect(200)["sessions"], json!([]));
    serving.stop().await;
    world.finish().await;
}

/// The id and the data of each event in a text of server-sent events that is whole.
fn server_sent(text: &str) -> Vec<(Option<u64>, Value)> {
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start().to_owned())
    };
    whole
        .split("\n\n")
        .filter_map(|block| {
            let data = serde_json::from_str(&field(block, "data:")?).unwrap();
            let number = |id: String| id.split('@').next().unwrap().parse().unwrap();
            Some((field(block, "id:").map(number), data))
        })
        .collect()
}

#[tokio::test]
async fn events_stream_to_browsers_and_go_on_where_they_broke_off() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let id = api.create(ENVIRONMENT, "Make the answer right").await;
    let path = format!("/sessions/{id}/events?after=0");
    let mut first = api.request(Method::GET, &path).send().await.unwrap();
    assert!(first.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let mut text = String::new();
    let seen = loop {
        text.push_str(&String::from_utf8_lossy(&first.chunk().await.unwrap().unwrap()));
        let seen = server_sent(&text);
        if seen.iter().any(|(_, event)| event["type"] == "turn.finished") {
            break seen;
        }
    };
    let stored: Events = seen.iter().filter(|(id, _)| id.is_some()).map(|(_, event)| event.clone()).collect();
    stored.assert_gap_free(0);
    assert!(
        seen.iter().all(|(id, event)| id.is_none_or(|id| event["seq"] == id)),
        "ids begin with the numbers"
    );

    let request = api.request(Method::GET, &path).header("Last-Event-ID", "5");
    let mut second = request.send().await.unwrap();
    let mut text = String::new();
    let again = loop {
        text.push_str(&String::from_utf8_lossy(&second.chunk().await.unwrap().unwrap()));
        let seen = server_sent(&text);
        if seen.iter().any(|(_, event)| event["type"] == "live") {
            break seen;
        }
    };
    let again: Events = again.into_iter().map(|(_, event)| event).collect();
    again.assert_gap_free(5);
    assert_eq!(again.durable[..stored.durable.len() - 5], stored.durable[5..]);
    drop((first, second));
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn everyone_who_watches_sees_the_same() {
    let command = "echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two";
    let script = Script::new().answer(edit("41", "42")).answer(shell(command)).say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let id = api.create(ENVIRONMENT, "Make the answer right").await;
    let mut early = api.watch(&id, 0).await;
    early.until(|frame| frame["data"]["text"] == "one\n").await;
    // In the middle of a command: what is stored, then where the output is now, then what happens.
    let mut late = api.watch(&id, 4).await;
    late.until(|frame| frame["type"] == "live").await;
    let delta = late.until(|frame| frame["type"] == "delta").await;
    assert_eq!((&delta["data"]["offset"], &delta["data"]["text"]), (&json!(0), &json!("one\n")), "{delta}");
    world.let_go("/tmp/go");
    for watcher in [&mut early, &mut late] {
        watcher.until_type("turn.finished").await;
    }
    early.seen.assert_gap_free(0);
    late.seen.assert_gap_free(4);
    assert_eq!(early.seen.durable[4..], late.seen.durable);
    for watcher in [&early, &late] {
        let mut text = String::new();
        for delta in watcher.seen.ephemeral.iter().filter(|frame| frame["data"]["channel"] == "stdout") {
            if delta["data"]["item"] != early.seen.calls("shell")[0]["id"] {
                continue;
            }
            assert_eq!(delta["data"]["offset"], text.len(), "{delta}");
            text.push_str(delta["data"]["text"].as_str().unwrap());
        }
        assert_eq!(text, "one\ntwo\n", "output has neither gap nor repetition");
    }
    let finished = early.seen.durable.last().unwrap();
    assert_eq!(finished["data"]["outcome"], "done");
    let mut past = api.watch(&id, finished["seq"].as_u64().unwrap()).await;
    past.until(|frame| frame["type"] == "live").await;
    past.ping().await;
    past.until(|frame| frame["type"] == "ping").await;
    assert_eq!(past.seen.of("turn.finished").len(), 0, "what was seen does not come again");
    drop((early, late, past));
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn stopping_ends_a_command_that_never_ends() {
    let model = Server::start(Script::new().answer(shell("echo started; sleep 600 & sleep 600"))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let id = api.create(ENVIRONMENT, "Wait").await;
    let mut watcher = api.watch(&id, 0).await;
    watcher.until(|frame| frame["data"]["text"] == "started\n").await;
    let stopped = api.post(&format!("/sessions/{id}/stop"), &json!({})).await;
    assert!(stopped.status.is_success(), "{stopped:?}");
    let finished = watcher.until_type("turn.finished").await;
    assert_eq!(
        (&finished["data"]["outcome"], &finished["data"]["turn"]),
        (&json!("cancelled"), &stopped.json()["turn"])
    );
    assert_eq!(watcher.seen.calls("shell")[0]["status"], "cancelled");
    // The sandbox is kept for the next prompt; the command's processes are gone from it.
    let sandbox = world.sandbox_state("session");
    let group = sandbox["cgroups"][0].as_str().map(|group| format!("{group}/cgroup.procs"));
    if let Some(group) = group {
        let init = sandbox["init"].to_string();
        let only_guest = || std::fs::read_to_string(&group).unwrap().trim() == init;
        until("only the guest is left", only_guest).await;
    }
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn pages_of_others_are_refused() {
    let model = Server::start(Script::new().answer(Reply::text("Hello."))).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let get =
        |name: &'static str, value: &str| api.send(api.request(Method::GET, "/sessions").header(name, value));
    assert_eq!(get("host", "evil.example").await.problem(403), "forbidden");
    assert_eq!(get("origin", "https://evil.example").await.problem(403), "forbidden");
    assert_eq!(get("origin", "null").await.problem(403), "forbidden");
    assert_eq!(get("origin", &serving.url).await.status, 200);
    let posted = api.request(Method::POST, "/sessions").header("origin", "https://evil.example");
    assert_eq!(api.send(posted.json(&task("Do it"))).await.problem(403), "forbidden");
    let simple = api.request(Method::POST, "/sessions").header("content-type", "text/plain");
    let answer = api.send(simple.body(task("Do it").to_string())).await;
    assert!(answer.status.is_client_error(), "a form of another page can send this: {answer:?}");

    let id = api.create(ENVIRONMENT, "Say hello").await;
    let refused = api.try_watch(&id, 0, &[("origin", "https://evil.example")]).await.err();
    let Some(tungstenite::Error::Http(response)) = refused else { panic!("{refused:?}") };
    assert_eq!(response.status(), 403);
    api.watch(&id, 0).await.until_type("turn.finished").await;
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_token() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let mut world = World::with(&model, &repo);
    let output = world.run(&["serve", "--listen", "0.0.0.0:0"]).await.expect_code(2);
    assert!(output.stderr.contains("token") && output.stderr.contains("SLIPWAY_TOKEN"), "{output}");

    let token = "0123456789abcdef";
    world.set("SLIPWAY_TOKEN", token);
    let serving = world.serve_at("0.0.0.0:0").await;
    let local = serving.address().replace("0.0.0.0", "127.0.0.1");
    let api = crate::harness::Api::new(&format!("http://{local}"), Some(token.to_owned()));
    assert_eq!(api.get("/sessions").await.expect(200)["sessions"], json!([]));
    let stranger = api.without_token();
    assert_eq!(stranger.get("/sessions").await.problem(401), "unauthorized");
    assert_eq!(stranger.post("/sessions", &task("Do it")).await.problem(401), "unauthorized");
    let wrong = stranger.request(Method::GET, "/sessions").bearer_auth("0123456789abcdee");
    assert_eq!(stranger.send(wrong).await.problem(401), "unauthorized");
    let nobody = "ses_00000000000000000000000000";
    assert!(stranger.try_watch(nobody, 0, &[]).await.is_err());

    // The command line has the token from the same variable, or is not let in.
    let server = format!("http://{local}");
    assert_eq!(world.json(&["ls", "--server", &server]).await["sessions"], json!([]));
    world.set("SLIPWAY_TOKEN", "wrong");
    let output = world.run(&["ls", "--server", &server]).await.expect_code(3);
    assert!(output.stderr.contains("token"), "{output}");
    serving.stop().await;
    world.finish().await;
}
