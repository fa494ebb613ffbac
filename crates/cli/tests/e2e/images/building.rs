//! Building: which steps run, which are taken from before, and what is said of each.

use serde_json::{Value, json};
use testkit::model::{Script, Server};

use super::{INSTALL, inside, repository, steps, world};
use crate::harness::ENVIRONMENT;

/// The state of each step of a build, by kind.
#[track_caller]
fn states(status: &Value) -> Vec<(&str, &str)> {
    let steps = status["steps"].as_array().unwrap_or_else(|| panic!("{status}"));
    steps.iter().map(|step| (step["kind"].as_str().unwrap(), step["state"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn only_what_changed_is_built_again() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, &steps());
    let output = world.ok(&["env", "build", ENVIRONMENT]).await;
    let key = output.stdout.trim().to_owned();
    assert!(!key.is_empty() && output.stdout == format!("{key}\n"), "the key is the data: {output}");
    let commit = &repo.tip("main")[..12];
    for said in
        ["✓ clone  ", &format!("✓ {INSTALL}  "), &format!("{ENVIRONMENT} is ready: main at {commit}, ")]
    {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    assert_eq!(world.traces(), [""; 0], "nothing of the build is left but its layers");
    let made = inside(&world, "cat deps/stamp cache").await;

    let again = world.json(&["env", "build", ENVIRONMENT]).await;
    let cached = [("base", "cached"), ("clone", "cached"), ("setup", "cached"), ("warm", "cached")];
    assert_eq!(states(&again), cached, "{again}");
    assert_eq!((&again["state"], &again["current"]["key"]), (&json!("ready"), &json!(key)), "{again}");
    assert_eq!(inside(&world, "cat deps/stamp cache").await, made);

    // A push installs nothing again, and what depends on every commit runs.
    repo.commit("main", &[("notes/later.txt", "later\n")]);
    let pushed = world.json(&["env", "build", ENVIRONMENT]).await;
    let built = [("base", "cached"), ("clone", "built"), ("setup", "cached"), ("warm", "built")];
    assert_eq!(states(&pushed), built, "{pushed}");
    assert_eq!(pushed["current"]["commit"], repo.tip("main"), "{pushed}");
    assert_ne!(pushed["current"]["key"], key, "{pushed}");
    let after_push = inside(&world, "cat deps/stamp cache notes/later.txt").await;
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (lines(&made), lines(&after_push));
    assert_eq!((&after[0], after[2].as_str()), (&before[0], "later"), "{after_push}");
    assert_ne!(after[1], before[1], "the cache was filled again");

    // Another lock file does.
    repo.commit("main", &[("deps.lock", "two\n")]);
    let locked = world.json(&["env", "build", ENVIRONMENT]).await;
    let built = [("base", "cached"), ("clone", "built"), ("setup", "built"), ("warm", "built")];
    assert_eq!(states(&locked), built, "{locked}");
    assert_ne!(lines(&inside(&world, "cat deps/stamp").await)[0], before[0]);
    assert_eq!(inside(&world, "git status --short; git log -1 --format=%H").await.trim(), repo.tip("main"));
    world.finish().await;
}

#[tokio::test]
async fn a_list_shows_how_far_each_image_is() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, &steps());
    let image = |list: &Value| list["environments"][0]["image"].clone();
    let before = world.json(&["env", "ls"]).await;
    assert_eq!((&image(&before)["state"], image(&before).get("current")), (&json!("none"), None), "{before}");
    let built = world.json(&["env", "build", ENVIRONMENT]).await;
    let status = image(&world.json(&["env", "ls"]).await);
    assert_eq!((&status["state"], &status["current"]["key"]), (&json!("ready"), &built["current"]["key"]));
    let current = &status["current"];
    assert!(
        current["bytes"].as_u64().unwrap() > 0 && current["duration_ms"].as_u64().unwrap() > 0,
        "{status}"
    );
    current["built_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    for step in &status["steps"].as_array().unwrap()[1..] {
        assert!(step["duration_ms"].as_u64().unwrap() > 0 && step["bytes"].as_u64().unwrap() > 0, "{step}");
        assert_eq!(step["attempts"], 1, "{step}");
    }
    let shown = world.ok(&["env", "ls"]).await;
    let row: Vec<&str> = shown.stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..2], [ENVIRONMENT, "ready"], "{shown}");
    for head in ["image", "age", "size", "built in"] {
        assert!(shown.stdout.lines().next().unwrap().contains(head), "{shown}");
    }
    assert!(shown.stderr.contains("✓ clone  ") && shown.stderr.contains(INSTALL), "{shown}");
    world.finish().await;
}

#[tokio::test]
async fn a_step_that_fails_keeps_the_image_before_it() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let step = "if test -e broken; then echo no such package: left-pad; exit 7; fi; date +%s%N > cache";
    let world = world(&model, &repo, &format!("setup = [{{ run = \"{step}\", attempts = 2 }}]\n"));
    // Without an image before it there is nothing to go on with.
    repo.commit("main", &[("broken", "yes\n")]);
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    assert_eq!(output.stdout, "", "{output}");
    for said in ["✗ if test", "2 attempts", "no such package: left-pad"] {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    assert!(!output.stderr.contains("stays in use"), "{output}");
    assert_eq!(world.traces(), [""; 0], "{output}");

    repo.git(&["update-ref", "refs/heads/main", "main^"]);
    let good = world.json(&["env", "build", ENVIRONMENT]).await;
    assert_eq!(good["state"], "ready", "{good}");
    let made = inside(&world, "cat cache").await;
    repo.commit("main", &[("broken", "yes\n"), ("more.txt", "more\n")]);
    let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(1);
    for said in ["no such package: left-pad", "the image before it stays in use"] {
        assert!(output.stderr.contains(said), "{said} is not shown: {output}");
    }
    let list = world.json(&["env", "ls"]).await;
    let status = &list["environments"][0]["image"];
    assert_eq!((&status["state"], &status["current"]["key"]), (&json!("failed"), &good["current"]["key"]));
    assert!(status["error"].as_str().unwrap().contains("left-pad"), "{status}");
    assert_eq!(states(status).last(), Some(&("setup", "failed")), "{status}");
    let shown = world.ok(&["env", "ls"]).await;
    assert!(shown.stderr.contains("left-pad"), "{shown}");
    assert_eq!(inside(&world, "cat cache").await, made, "the old image is in use");
    world.finish().await;
}

#[tokio::test]
async fn a_build_that_is_interrupted_leaves_nothing() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = world(&model, &repo, "setup = [{ run = \"sleep 600\" }]\n");
    let running = world.start(&["env", "build", ENVIRONMENT]);
    running.stderr_has("… sleep 600").await;
    running.signal(libc::SIGINT);
    running.wait().await.expect_code(130);
    world.finish().await;
}
