//! A server that is killed in the middle of something that takes several steps: the next one goes on, and nothing is left
//! of what was half done. Below are the places that need a set-up of their own; [`kills`] goes through all others.

mod client;
#[cfg(feature = "failpoints")]
mod commands;
mod keeper;
mod kills;
mod left_push;
mod model;
#[cfg(feature = "failpoints")]
mod notes;
mod story;
mod team;

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{Api, ENVIRONMENT, World, edit, environment, models, shell};
use crate::images::{image, slow_fetches};

/// A world whose environment has more keys.
fn world(model: &Server, repo: &Repo, keys: &str) -> World {
    let world = World::new();
    configure(&world, model, repo, keys);
    world
}

fn configure(world: &World, model: &Server, repo: &Repo, keys: &str) {
    world.configure(&format!("{}{}{keys}\n", models(model), environment(repo)));
}

/// The owners of the sandboxes that are there.
async fn owners(world: &World) -> Vec<Value> {
    let list = world.json(&["sandbox", "ls"]).await;
    list["sandboxes"].as_array().unwrap().iter().map(|sandbox| sandbox["owner"].clone()).collect()
}

/// Waits until the turn of a session that another server began is over, and gives the log.
async fn finished(api: &Api, session: &str) -> crate::harness::Events {
    let mut watcher = api.watch(session, 0).await;
    watcher.until_type("turn.finished").await;
    watcher.seen.assert_gap_free(0);
    watcher.seen
}

#[tokio::test]
async fn while_an_image_is_built() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = world(&model, &repo, "pool = 0\nsetup = [{ run = \"sleep 600\" }]");
    let serving = world.serve().await;
    image(&serving.api, |status| status["steps"][2]["state"] == "running").await;
    assert_eq!(owners(&world).await, [json!({"build": ENVIRONMENT})]);
    serving.crash().await;
    configure(&world, &model, &repo, "pool = 0\nsetup = [{ run = \"echo yes > prepared\" }]");
    let serving = world.serve().await;
    let status = image(&serving.api, |status| status["state"] == "ready").await;
    assert_eq!(status["steps"][1]["state"], "cached", "what was whole is used again: {status}");
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn while_a_sandbox_is_kept_ready() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = world(&model, &repo, "pool = 1");
    let serving = world.serve().await;
    image(&serving.api, |status| status["warm"] == 1).await;
    let before = world.json(&["sandbox", "ls"]).await;
    serving.crash().await;
    let serving = world.serve().await;
    image(&serving.api, |status| status["warm"] == 1).await;
    let after = world.json(&["sandbox", "ls"]).await;
    assert_eq!(after["sandboxes"].as_array().unwrap().len(), 1, "{before} {after}");
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn while_the_branch_is_fetched() {
    // The first edit waits when the server dies; the model is told so, and does it again.
    let script = Script::new()
        .answer(Reply::new().call("read", json!({"path": "answer.txt"})))
        .answer(edit("41", "42"))
        .answer(edit("41", "42"))
        .say("The answer is 42 now.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let mut world = world(&model, &repo, "pool = 0");
    world.ok(&["env", "build", ENVIRONMENT]).await;
    repo.commit("main", &[("notes/last.txt", "last\n")]);
    let tip = repo.tip("main");
    let hold = slow_fetches(&mut world);
    std::fs::write(&hold, "").unwrap();
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until(|frame| frame["data"]["state"] == "syncing").await;
    watcher.until(|frame| frame["type"] == "item.started" && frame["data"]["item"]["tool"] == "edit").await;
    drop(watcher);
    serving.crash().await;
    std::fs::remove_file(&hold).unwrap();
    let serving = world.serve().await;
    let events = finished(&serving.api, &session).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done", "{events:?}");
    let branch = repo.branches().into_iter().find(|name| name != "main").expect("a branch was pushed");
    assert_eq!(repo.git(&["rev-parse", &format!("{branch}^")]).trim(), tip);
    assert_eq!(repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn right_after_a_snapshot() {
    let script = Script::new()
        .answer(shell("echo ignored > kept.tmp"))
        .answer(edit("41", "42"))
        .say("Done.")
        .answer(shell("cat kept.tmp answer.txt"))
        .say("All there.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    repo.commit("main", &[(".gitignore", "*.tmp\n")]);
    let world = world(&model, &repo, "pool = 0");
    let serving = world.serve().await;
    let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    let taken = watcher.until_type("snapshot.taken").await;
    drop(watcher);
    serving.crash().await;
    let serving = world.serve().await;
    let list = world.json(&["snapshots", &session]).await;
    assert_eq!(list["snapshots"][0]["id"], taken["data"]["snapshot"], "{list}");
    let mut watcher = serving.api.watch(&session, taken["seq"].as_u64().unwrap()).await;
    serving.api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "Look"})).await;
    watcher.until_type("turn.finished").await;
    let text = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(text.starts_with("ignored\n42\n"), "{text}");
    assert_eq!(watcher.seen.of("sandbox.changed").len(), 0, "it is the same sandbox");
    watcher.until_type("snapshot.taken").await;
    drop(watcher);
    serving.stop().await;
    assert_eq!(owners(&world).await, [json!({"session": session})]);
    world.remove_sandboxes().await;
    world.finish().await;
}
