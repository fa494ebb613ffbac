//! Beside a command that builds: others look, and work, as if there were a server.

use testkit::model::{Script, Server};

use super::{environment, repository};
use crate::harness::{ENVIRONMENT, World, models};

/// Ends when it is let go.
const WAIT: &str = "while ! test -e /tmp/go; do sleep 0.02; done";

#[tokio::test]
async fn others_look_and_work_while_an_image_is_built() {
    let model = Server::start(Script::new().say("Nothing to do.")).await;
    let repo = repository();
    let world = World::new();
    let keys = format!("setup = [{{ run = \"{WAIT}\" }}]\n");
    let other = environment(&repo, "").replace(ENVIRONMENT, "other");
    world.configure(&format!("{}{}{other}", models(&model), environment(&repo, &keys)));
    let running = world.start(&["env", "build", ENVIRONMENT]);
    running.stderr_has(&format!("… {WAIT}")).await;
    let list = world.json(&["env", "ls"]).await;
    let image = &list["environments"][0]["image"];
    assert_eq!(
        (image["state"].as_str(), image["steps"][2]["state"].as_str()),
        (Some("building"), Some("running"))
    );
    assert_eq!(world.json(&["ls"]).await["sessions"].as_array().unwrap().len(), 0);
    assert_eq!(world.json(&["gc", "--dry-run"]).await["dry_run"], true);
    let events = world.ok(&["run", "--env", "other", "--json", "Look"]).await.events();
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    world.let_build_go("/tmp/go");
    running.wait().await.expect_code(0);
    assert_eq!(world.json(&["env", "ls"]).await["environments"][0]["image"]["state"], "ready");
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn others_look_while_an_environment_is_added_and_work_waits() {
    let model = Server::start(Script::new().say("Nothing to do.")).await;
    let repo = repository();
    let mut world = World::new();
    world.configure(&format!("{}{}", models(&model), environment(&repo, "")));
    // The mirror is there, so that only what is added has to wait for its repository.
    world.ok(&["env", "build", ENVIRONMENT]).await;
    // What it has already is not fetched again.
    repo.commit("main", &[("answer.txt", "40\n")]);
    let hold = super::slow_fetches(&mut world);
    std::fs::write(&hold, "").unwrap();
    let adding = world.start(&["env", "add", "shop", "--repo", &repo.url()]);
    crate::harness::until("it can be asked", || world.background().is_some()).await;
    let list = world.json(&["env", "ls"]).await;
    assert_eq!(list["environments"].as_array().unwrap().len(), 1, "{list}");
    let working = world.start(&["run", "--env", ENVIRONMENT, "--json", "Look"]);
    working.stderr_has("waiting for another slipway command").await;
    std::fs::remove_file(&hold).unwrap();
    adding.wait().await.expect_code(0);
    let events = working.wait().await.expect_code(0).events();
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    assert_eq!(world.json(&["env", "ls"]).await["environments"].as_array().unwrap().len(), 2);
    world.finish().await;
}

#[tokio::test]
async fn who_waits_can_give_up() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let mut world = World::new();
    world.configure(&format!("{}{}", models(&model), environment(&repo, "")));
    let hold = super::slow_fetches(&mut world);
    std::fs::write(&hold, "").unwrap();
    let adding = world.start(&["env", "add", "shop", "--repo", &repo.url()]);
    crate::harness::until("it can be asked", || world.background().is_some()).await;
    let working = world.start(&["run", "--env", ENVIRONMENT, "Look"]);
    working.stderr_has("waiting for another slipway command").await;
    working.signal(libc::SIGINT);
    working.wait().await.expect_code(130);
    std::fs::remove_file(&hold).unwrap();
    adding.wait().await.expect_code(0);
    world.finish().await;
}
