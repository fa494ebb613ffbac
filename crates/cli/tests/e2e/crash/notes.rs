//! What an agent remembers is remembered once, also when the server dies between the memory and the log.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::client::Client;
use super::keeper::{Fate, Keeper};
use crate::harness::{ENVIRONMENT, World, environment, models};

#[tokio::test]
async fn a_note_that_the_log_does_not_have_yet_is_written_once() {
    let remember = |text: &str| json!({"text": text, "subject": "metrics port"});
    let script = Script::new()
        .call("remember", remember("Metrics are on port 9100"))
        .call("remember", remember("Metrics are on port 9200"))
        .say("Remembered.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}pool = 0\n", models(&model), environment(&repo)));
    let world = Arc::new(world);
    // The first dies when the first note is written, and the one after it when the second one is: that is its second call.
    let keeper = Arc::new(Keeper::start(&world, vec![Fate::At("tool-ended", 1), Fate::At("tool-ended", 2)]));
    let client = Client::new(&keeper);
    let body = json!({"environment": ENVIRONMENT, "prompt": "Remember the ports"});
    let (status, made) = client.command(Method::POST, "/sessions", &body).await;
    assert_eq!(status, 201, "{made}");
    let session = made["id"].as_str().unwrap().to_owned();
    client.follow(&session);
    let seen = client
        .until(&session, "the end of its turn", |events| {
            (events.of("turn.finished").len() == 1).then(|| events.clone())
        })
        .await;
    assert_eq!(keeper.met(), 2, "both died");
    assert_eq!(seen.only("turn.finished")["outcome"], "done", "{seen:?}");
    let how: Vec<&Value> = seen.of("memory.changed").into_iter().map(|data| &data["remembered"]).collect();
    assert_eq!(how.len(), 2, "each is told once: {how:?}");
    assert_eq!((&how[0]["how"], &how[1]["how"]), (&json!("new"), &json!("replaced")), "{how:?}");
    assert_eq!(how[1]["old"], json!([how[0]["id"]]));
    for call in seen.calls("remember") {
        assert_eq!(call["status"], "completed", "the model is told what became of it: {call}");
    }
    let notes = client.get("/memory").await;
    let ids: Vec<&Value> = notes["notes"].as_array().unwrap().iter().map(|note| &note["id"]).collect();
    assert_eq!(ids.len(), 2, "{notes}");
    assert!(ids.contains(&&how[0]["id"]) && ids.contains(&&how[1]["id"]), "{notes}");

    client.leave();
    drop(client);
    Keeper::release(keeper).await;
    let world = Arc::into_inner(world).expect("nobody else has it");
    world.remove_sandboxes().await;
    world.finish().await;
}
