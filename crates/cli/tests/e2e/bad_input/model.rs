//! Models that are down, refuse, limit, break off, answer rubbish, or do not know what they are doing.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;
use tokio::net::{TcpListener, TcpStream};

use super::{reason, says, turn, turn_in};
use crate::harness::{ENVIRONMENT, World, edit, environment};

/// The environment of a repository with a model at this address.
fn world_at(url: &str, repo: &Repo) -> World {
    let world = World::new();
    let model = format!(
        "[models.main]\nprovider = \"openai-compatible\"\nmodel = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"MAIN_KEY\"\n\n"
    );
    world.configure(&format!("{model}{}", environment(repo)));
    world
}

#[tokio::test]
async fn a_server_that_is_down_is_tried_again_and_then_told_of() {
    let repo = Repo::plain();
    let url = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}/v1", listener.local_addr().unwrap())
    };
    let world = world_at(&url, &repo);
    let output = world.run(&["run", "--env", ENVIRONMENT, "x"]).await.expect_code(1);
    says(&output, &["try 2 of 4", "try 4 of 4", &url, "is it running?", "base_url of [models.main]"]);
    let list = world.json(&["ls"]).await;
    assert_eq!(list["sessions"][0]["status"], "failed", "{list}");
    assert!(list["sessions"][0]["reason"].as_str().unwrap().contains(&url), "{list}");
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_hangs_up_is_called_again() {
    let (model, repo) = (Server::start(Script::new().say("Here.")).await, Repo::plain());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let world = world_at(&format!("http://{}/v1", listener.local_addr().unwrap()), &repo);
    let address = model.address();
    let gateway = tokio::spawn(async move {
        drop(listener.accept().await.unwrap());
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(address).await.unwrap();
            // A broken connection is the client's business.
            drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
        }
    });
    let events = turn_in(&world, 0).await;
    gateway.abort();
    let retry = events.only("retry.scheduled");
    assert_eq!((&retry["attempt"], &retry["attempts"]), (&json!(2), &json!(4)), "{retry}");
    assert!(retry["reason"].as_str().unwrap().contains("cannot be reached"), "{retry}");
    world.finish().await;
}

#[tokio::test]
async fn a_key_that_is_refused_is_not_tried_again() {
    let (model, repo) =
        (Server::start(Script::new().answer(Reply::status(401, "who are you"))).await, Repo::plain());
    let mut world = world_at(&model.url(), &repo);
    world.set("MAIN_KEY", "sk-very-secret");
    let events = turn_in(&world, 1).await;
    assert_eq!((model.requests().len(), events.of("retry.scheduled").len()), (1, 0));
    let raised = events.only("error.raised");
    assert_eq!(raised["code"], "model_unavailable", "{raised}");
    for word in ["401", "who are you", "api_key_env of [models.main]"] {
        assert!(reason(&events).contains(word), "{}", reason(&events));
    }
    let everything = format!("{events:?}");
    assert!(!everything.contains("sk-very-secret"), "a key is never shown");
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_asks_for_patience_gets_it_in_bounds() {
    let slow = || Reply::status(429, "slow down").header("retry-after-ms", "10");
    let script = Script::new().answer(slow()).answer(edit("41", "42")).answer(slow()).say("Done.");
    let (events, _model) = turn(script, 0).await;
    let retries = events.of("retry.scheduled");
    assert_eq!(retries.len(), 2, "{retries:?}");
    // Never less than was asked for, and a little more, so that not everybody comes back at once.
    assert!((10..=12).contains(&retries[0]["delay_ms"].as_u64().unwrap()), "{retries:?}");
    assert_eq!(retries[0]["attempts"], 6, "{retries:?}");
    assert!(retries[0]["reason"].as_str().unwrap().contains("slower pace"), "{retries:?}");
    assert_eq!(events.only("turn.finished")["outcome"], "done");

    // Nobody waits for an hour.
    let broken = Reply::status(500, "out of order").header("retry-after", "3600");
    let (events, model) = turn(Script::new().answer(broken).repeat_last(), 1).await;
    assert_eq!((model.requests().len(), events.of("retry.scheduled").len()), (1, 0));
    assert!(
        reason(&events).contains("out of order") && reason(&events).contains("500"),
        "{}",
        reason(&events)
    );
    assert_eq!(events.only("error.raised")["code"], "model_unavailable");
}

#[tokio::test]
async fn rubbish_is_asked_for_again_and_then_told_of() {
    let page = || Reply::raw(200, "text/html", "<html>Please log in</html>");
    let other = || Reply::raw(200, "application/json", "{\"hello\": \"world\"}");
    let (events, _model) = turn(Script::new().answer(page()).answer(other()).say("Here I am."), 0).await;
    let retries: Vec<&Value> = events.of("retry.scheduled");
    assert_eq!(retries.len(), 2, "{retries:?}");
    assert!(retries[0]["reason"].as_str().unwrap().contains("Please log in"), "{retries:?}");
    assert!(retries[1]["reason"].as_str().unwrap().contains("no choices"), "{retries:?}");

    let (events, model) = turn(Script::new().answer(other()).answer(page()).repeat_last(), 1).await;
    assert_eq!(model.requests().len(), 3);
    let raised = events.only("error.raised");
    assert_eq!(raised["code"], "model_misbehaved", "{raised}");
    for word in ["Please log in", &model.url(), "base_url of [models.chat]"] {
        assert!(reason(&events).contains(word), "{}", reason(&events));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_counts_for_nothing() {
    let half = Reply::text("I will delete").call("shell", json!({"command": "rm -rf ."})).cut(2);
    let script = Script::new().answer(half).answer(edit("41", "42")).say("Done.");
    let (events, model) = turn(script, 0).await;
    assert_eq!((model.requests().len(), events.of("retry.scheduled").len()), (3, 1));
    assert_eq!((events.calls("shell").len(), events.calls("edit").len()), (0, 1));
    assert_eq!(events.only("turn.finished")["receipt"]["steps"], 2, "an attempt is no step");
    assert_eq!(model.violations(), [""; 0]);
}

#[tokio::test]
async fn a_call_that_cannot_be_used_is_explained_to_the_model() {
    let script = Script::new()
        .answer(Reply::new().raw_call("shell", "{\"command\": \"echo hi"))
        .answer(Reply::new().raw_call("edit", "{\"path\": \"answer.txt\", \"olt\": \"41\"}"))
        .call("frobnicate", json!({}))
        .answer(edit("41", "42"))
        .say("Done.");
    let (events, model) = turn(script, 0).await;
    let requests = model.requests();
    for (request, words) in [
        (1, ["not valid JSON", "command (string, required)"]),
        (2, ["olt", "old (string, required)"]),
        (3, ["no tool \"frobnicate\"", "shell, process, read, write, edit"]),
    ] {
        let [result] = requests[request].results() else { panic!("{:?}", requests[request].messages) };
        assert!(words.iter().all(|word| result.text.contains(word)), "{}", result.text);
    }
    assert_eq!(model.violations(), [""; 0], "what is sent back is valid, whatever came");
    let receipt = &events.only("turn.finished")["receipt"];
    assert_eq!((&receipt["tools_completed"], &receipt["tools_skipped"]), (&json!(1), &json!(3)), "{receipt}");
}

#[tokio::test]
async fn a_model_that_does_not_get_anywhere_is_stopped() {
    let broken = Reply::new().raw_call("shell", "{\"command\": \"echo hi");
    let (events, model) = turn(Script::new().answer(broken).repeat_last(), 1).await;
    assert_eq!(events.only("turn.finished")["outcome"], "failed");
    assert!(reason(&events).contains("tool calls cannot be used"), "{}", reason(&events));
    assert!(model.requests().len() < 10, "{}", model.requests().len());

    let (events, model) = turn(Script::new().say("").repeat_last(), 1).await;
    assert_eq!(events.only("turn.finished")["outcome"], "failed");
    assert!(reason(&events).contains("empty answers"), "{}", reason(&events));
    assert!(model.requests().len() < 10, "{}", model.requests().len());

    let again = Script::new().call("shell", json!({"command": "ls"})).repeat_last();
    let (events, model) = turn(again, 1).await;
    assert_eq!(events.only("turn.finished")["outcome"], "escalated");
    assert!(reason(&events).contains("repeated itself"), "{}", reason(&events));
    assert!(model.requests().len() < 10, "{}", model.requests().len());
    assert_eq!(model.violations(), [""; 0]);
}
