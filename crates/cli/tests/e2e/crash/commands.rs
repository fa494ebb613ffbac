//! Commands happen once, also when the server dies before it has answered and the client asks again under the same key.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use testkit::model::Server;
use testkit::repo::Repo;

use super::client::Client;
use super::keeper::{Fate, Keeper};
use super::model::{Task, script};
use crate::harness::{ENVIRONMENT, World, environment, models};

/// Each dies where the one before it came further: claimed, begun, done.
fn fates() -> Vec<Fate> {
    vec![
        // A session is made.
        Fate::At("key-claimed", 1),
        Fate::At("log-created", 1),
        Fate::At("command-done", 1),
        // The first claim is that of the session, which is answered now. Then a prompt.
        Fate::At("key-claimed", 2),
        Fate::At("command-done", 1),
        // The same for the prompt. Then a fork.
        Fate::At("key-claimed", 2),
        Fate::At("log-created", 1),
        Fate::At("command-done", 1),
    ]
}

#[tokio::test]
async fn a_command_that_was_not_answered_happens_once() {
    let model = Server::start(script()).await;
    let repo = Repo::plain();
    let world = World::new();
    world.configure(&format!("{}{}pool = 0\n", models(&model), environment(&repo)));
    let world = Arc::new(world);
    let keeper = Arc::new(Keeper::start(&world, fates()));
    let client = Client::new(&keeper);

    let body = json!({"environment": ENVIRONMENT, "prompt": Task::Look.prompt(1)});
    let (status, made) = client.command(Method::POST, "/sessions", &body).await;
    assert_eq!((status, keeper.met()), (201, 3), "{made}");
    let session = made["id"].as_str().unwrap().to_owned();
    client.follow(&session);

    let path = format!("/sessions/{session}/prompts");
    let (status, queued) =
        client.command(Method::POST, &path, &json!({"prompt": Task::Look.prompt(2)})).await;
    assert_eq!((status, keeper.met()), (202, 5), "{queued}");
    let seen = client
        .until(&session, "two snapshots", |events| {
            (events.of("snapshot.taken").len() == 2).then(|| events.clone())
        })
        .await;
    let prompts = seen.of("prompt.queued");
    let texts: Vec<&str> = prompts.iter().map(|data| data["text"].as_str().unwrap()).collect();
    assert_eq!(texts, [Task::Look.prompt(1), Task::Look.prompt(2)]);
    assert_eq!(prompts[1]["prompt"], queued["id"], "the answer names what was made");
    assert_eq!(seen.of("turn.finished").len(), 2, "{seen:?}");

    let path = format!("/sessions/{session}/fork");
    let (status, forked) =
        client.command(Method::POST, &path, &json!({"prompt": Task::Look.prompt(3)})).await;
    assert_eq!((status, keeper.met()), (201, 8), "{forked}");
    let fork = forked["id"].as_str().unwrap().to_owned();
    client.follow(&fork);
    client
        .until(&fork, "the end of its turn", |events| (events.of("turn.finished").len() == 3).then_some(()))
        .await;
    let list = client.get("/sessions").await;
    let mut ids: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    ids.sort_by_key(|id| id.as_str());
    assert_eq!(ids, [&json!(session), &json!(fork)], "in the order in which they were asked for");

    client.leave();
    drop(client);
    Keeper::release(keeper).await;
    let world = Arc::into_inner(world).expect("nobody else has it");
    world.remove_sandboxes().await;
    world.finish().await;
}
