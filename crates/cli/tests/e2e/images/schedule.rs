//! What a server does about images without being asked: it follows the branch, builds again when it is time, and keeps the
//! good one when a build fails.

use serde_json::json;
use testkit::model::{Script, Server};

use super::ready::image;
use super::{environment, repository};
use crate::harness::{ENVIRONMENT, World, models};

/// A world whose server looks every second.
fn world(model: &Server, environment: &str) -> World {
    let world = World::new();
    world.configure(&format!("[sandbox]\nrebuild_s = 1\npool = 0\n\n{}{environment}", models(model)));
    world
}

#[tokio::test]
async fn an_image_follows_its_branch_and_outlives_a_bad_commit() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let step = "if test -e broken; then echo no such package: left-pad; exit 7; fi";
    // Not because it is old: only the branch can be the reason.
    let keys = format!("rebuild_s = 86400\nwarm = [{{ run = \"{step}\", attempts = 1 }}]\n");
    let world = world(&model, &environment(&repo, &keys));
    let serving = world.serve().await;
    let api = &serving.api;
    let built = |commit: String| {
        image(api, move |status| status["state"] == "ready" && status["current"]["commit"] == commit)
    };
    built(repo.tip("main")).await;
    // Only the branches of environments that are used are looked at all the time.
    api.post(&format!("/environments/{ENVIRONMENT}/warm"), &json!({})).await.expect(202);
    repo.commit("main", &[("notes/later.txt", "later\n")]);
    let good = repo.tip("main");
    let status = built(good.clone()).await;

    repo.commit("main", &[("broken", "yes\n")]);
    let failed = image(api, |status| status["state"] == "failed").await;
    assert_eq!(failed["current"]["key"], status["current"]["key"], "the old one stays: {failed}");
    let shown = world.ok(&["env", "ls"]).await;
    for said in ["failed", "no such package: left-pad", "the image before it stays in use"] {
        assert!(format!("{shown}").contains(said), "{said} is not shown: {shown}");
    }
    // The commit that mends it is not kept waiting for what failed.
    repo.git(&["update-ref", "refs/heads/main", "main^"]);
    repo.commit("main", &[("notes/mended.txt", "mended\n")]);
    built(repo.tip("main")).await;
    let shown = world.ok(&["env", "ls"]).await;
    assert!(!shown.stderr.contains("stays in use"), "{shown}");
    serving.stop().await;
    world.finish().await;
}

#[tokio::test]
async fn an_image_is_built_again_when_it_is_time() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &environment(&repo, ""));
    let serving = world.serve().await;
    let first = image(&serving.api, |status| status["state"] == "ready").await;
    let again = image(&serving.api, |status| {
        status["state"] == "ready" && status["current"]["built_at"] != first["current"]["built_at"]
    })
    .await;
    assert_eq!(again["current"]["key"], first["current"]["key"], "nothing changed: {again}");
    serving.stop().await;
    world.finish().await;
}
