//! Sandboxes that a server keeps ready: made before anybody asks, taken by the first who does.

use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};

use super::{repository, steps, world};
use crate::harness::{Api, ENVIRONMENT, PATIENCE, shell};

/// Waits until the image's status fits, and gives it.
pub(crate) async fn image(api: &Api, fits: impl Fn(&Value) -> bool) -> Value {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let status = api.get(&format!("/environments/{ENVIRONMENT}/image")).await.expect(200);
        if fits(&status) {
            return status;
        }
        assert!(tokio::time::Instant::now() < end, "it never came to this: {status}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_takes_the_sandbox_that_is_ready() {
    // What the environment serves is up in a sandbox that was kept ready, before the first prompt.
    let ask = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8123 && echo it answers'";
    let model = Server::start(Script::new().answer(shell(ask)).answer(Reply::text("Hello."))).await;
    let repo = repository();
    let service =
        "services = [{ name = \"echo\", run = \"python3 -m http.server 8123\", ready = { tcp = 8123 } }]\n";
    let world = world(&model, &repo, &format!("{}{service}pool = 1\n", steps()));
    let serving = world.serve().await;
    let api = &serving.api;
    // The server builds what it is configured for, without being asked.
    let status = image(api, |status| status["warm"] == 1).await;
    assert_eq!(status["state"], "ready", "{status}");
    let warm = api.post(&format!("/environments/{ENVIRONMENT}/warm"), &json!({})).await.expect(202);
    assert_eq!(warm["ready"], 1, "{warm}");
    let list = world.json(&["sandbox", "ls"]).await;
    // Beside it the checks may still run on the image.
    let ours = list["sandboxes"].as_array().unwrap().iter().filter(|one| one["owner"].get("build").is_none());
    let [ready] = ours.collect::<Vec<_>>()[..] else { panic!("{list}") };
    assert_eq!(
        (&ready["state"], &ready["owner"]["pool"]["environment"]),
        (&json!("running"), &json!(ENVIRONMENT))
    );
    let shown = world.ok(&["sandbox", "ls"]).await;
    assert!(shown.stdout.contains(&format!("pool of {ENVIRONMENT}")), "{shown}");

    let session = api.create(ENVIRONMENT, "Say hello").await;
    let mut watcher = api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    let said = watcher.seen.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(said.starts_with("it answers\n"), "{said}");
    let changes = watcher.seen.of("sandbox.changed");
    assert!(changes.iter().all(|changed| changed["sandbox"] == ready["id"]), "{changes:?}");
    let states: Vec<&Value> = changes.iter().map(|changed| &changed["state"]).collect();
    assert_eq!(states[..2], ["syncing", "ready"], "nothing is made: {changes:?}");
    assert!(changes.iter().take(2).all(|changed| changed["duration_ms"].is_u64()), "{changes:?}");
    // Another one is made for whoever comes next.
    image(api, |status| status["warm"] == 1).await;
    let shown = world.ok(&["sandbox", "ls"]).await;
    for whose in [format!("session {session}"), format!("pool of {ENVIRONMENT}")] {
        assert!(shown.stdout.contains(&whose), "{whose} is not listed: {shown}");
    }
    drop(watcher);
    serving.stop().await;
    let list = world.json(&["sandbox", "ls"]).await;
    let [left] = &list["sandboxes"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(left["id"], ready["id"], "only the session's stays");
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn somebody_who_is_about_to_ask_makes_one_ready() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, "pool = 0\n");
    world.ok(&["env", "build", ENVIRONMENT]).await;
    let serving = world.serve().await;
    let api = &serving.api;
    image(api, |status| status["state"] == "ready").await;
    assert_eq!(world.json(&["sandbox", "ls"]).await, json!({"sandboxes": []}));
    let warm = api.post(&format!("/environments/{ENVIRONMENT}/warm"), &json!({})).await.expect(202);
    assert_eq!(warm["ready"].as_u64().unwrap() + warm["starting"].as_u64().unwrap(), 1, "{warm}");
    image(api, |status| status["warm"] == 1).await;
    assert_eq!(
        api.post("/environments/nowhere/warm", &json!({})).await.problem(404),
        "environment_not_found"
    );
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn a_new_image_comes_with_new_sandboxes() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, "pool = 1\n");
    let serving = world.serve().await;
    let api = &serving.api;
    image(api, |status| status["warm"] == 1).await;
    let first = world.json(&["sandbox", "ls"]).await;
    repo.commit("main", &[("notes/later.txt", "later\n")]);
    let tip = repo.tip("main");
    let building = api.post(&format!("/environments/{ENVIRONMENT}/build"), &json!({})).await.expect(202);
    assert_eq!(building["state"], "building", "{building}");
    image(api, |status| {
        status["state"] == "ready" && status["current"]["commit"] == tip && status["warm"] == 1
    })
    .await;
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let list = world.json(&["sandbox", "ls"]).await;
        let all = list["sandboxes"].as_array().unwrap();
        if all.len() == 1 && all[0]["id"] != first["sandboxes"][0]["id"] {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "the old one is still there: {list}");
    }
    serving.stop().await;
    world.finish().await;
}
