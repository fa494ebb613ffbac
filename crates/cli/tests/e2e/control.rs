//! `slipway approve`, `queue`, `prompt --now` and `stop --pause`, without a server and with one.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, mend, models, shell};

#[tokio::test]
async fn work_waits_with_exit_code_4_and_goes_on_when_it_is_approved() {
    let model = Server::start(mend()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    world.configure(&format!("{}{}approve = [\"delivery\"]\n", models(&model), environment(&repo)));
    let output = world.run(&["run", "--env", ENVIRONMENT, "--json", "Make the answer right"]).await;
    assert_eq!(output.code(), 4, "{output:?}");
    assert_eq!(repo.branches(), ["main"]);
    let events = output.events();
    let id = events.session();
    assert_eq!(events.only("approval.requested")["gate"], "delivery");

    let listed = world.json(&["ls"]).await;
    assert_eq!(listed["sessions"][0]["status"], "waiting", "{listed}");
    let shown = world.ok(&["show", id]).await;
    assert!(
        shown.stdout.contains("Push 1 changed file") && shown.stdout.contains("slipway approve"),
        "{shown:?}"
    );
    let wrong = world.run(&["approve", "ses_00000000000000000000000001"]).await;
    assert_eq!(wrong.code(), 2, "{wrong:?}");

    let approved = world.ok(&["approve", id]).await;
    assert!(approved.stderr.contains("approved"), "{approved:?}");
    assert_eq!(repo.branches().len(), 2);
    let again = world.run(&["approve", id]).await;
    assert!(again.code() == 2 && again.stderr.contains("does not wait"), "{again:?}");
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_queue_is_changed_from_the_command_line() {
    let script =
        Script::new().answer(shell("echo begun; sleep 1000")).answer(Reply::text("Now it is.")).repeat_last();
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let serving = world.serve().await;
    let id = serving.api.create(ENVIRONMENT, "Work for ever").await;
    let mut watcher = serving.api.watch(&id, 0).await;
    watcher.until(|frame| frame["data"]["text"].as_str().is_some_and(|text| text.contains("begun"))).await;
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        let queued = world.json(&["prompt", &id, text, "--detach"]).await;
        ids.push(queued["id"].as_str().unwrap().to_owned());
    }
    let texts = |queue: &Value| -> Vec<String> {
        queue["prompts"].as_array().unwrap().iter().map(|p| p["text"].as_str().unwrap().to_owned()).collect()
    };
    let queue = world.json(&["queue", &id, "move", &ids[2], "--first"]).await;
    assert_eq!(texts(&queue), ["three", "one", "two"]);
    world.ok(&["queue", &id, "rm", &ids[0]]).await;
    world.ok(&["queue", &id, "edit", &ids[1], "zwei"]).await;
    let listed = world.ok(&["queue", &id]).await;
    assert!(listed.stdout.contains("zwei") && !listed.stdout.contains("one"), "{listed:?}");
    let stopped = world.json(&["stop", &id, "--pause"]).await;
    assert!(stopped["turn"].is_string(), "{stopped}");
    watcher.until_type("turn.finished").await;
    let waits = world.run(&["attach", &id]).await;
    assert_eq!(waits.code(), 4, "what is paused waits for a person: {waits:?}");
    world.ok(&["queue", &id, "resume"]).await;
    watcher.until_type("turn.finished").await;
    watcher.until_type("turn.finished").await;
    let queue = world.json(&["queue", &id]).await;
    assert_eq!((texts(&queue), &queue["paused"]), (Vec::new(), &json!(false)));
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
