//! `slipway demo`: the main job on embedded defaults.

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::git_in;

use crate::harness::{World, models};

/// The faulty expression of the bundled repository, and the right one.
const FAULT: &str = "sum * (100 - discount_percent) / 100";
const RIGHT: &str = "(sum * (100 - discount_percent) + 50) / 100";

/// The branches of the demo's bare repository.
fn branches(world: &World) -> Vec<String> {
    let git = world.data().join("demo/cart.git");
    let text = git_in(&git, &["for-each-ref", "--format=%(refname:strip=2)", "refs/heads"]);
    text.lines().map(Into::into).collect()
}

fn library(world: &World, branch: &str) -> String {
    git_in(&world.data().join("demo/cart.git"), &["cat-file", "blob", &format!("{branch}:src/lib.rs")])
}

#[tokio::test]
async fn it_shows_the_whole_of_it_without_a_model() {
    let world = World::new();
    let output = world.ok(&["demo"]).await;
    assert_eq!(world.traces(), [""; 0]);
    let told = &output.stderr;
    assert!(told.contains("no model key is set") && told.contains("built-in demo model"), "{output}");
    for step in [
        "✓ read src/lib.rs",
        "✓ edit src/lib.rs",
        "check test failed: 1 of 3 tests failed",
        "FAILED tests::a_half_cent_is_rounded_up",
        "expected: 905",
        "actual: 904",
        "check test passed: 3 tests passed",
        "All tests pass.",
        "pushed slipway/",
        "tokens",
        "server   http://127.0.0.1:",
        "How to go on",
    ] {
        assert!(told.contains(step), "{step:?} is not shown: {output}");
    }
    assert!(!told.contains("still fails, and"), "the demo model does not see that it is done: {output}");
    assert!(output.stdout.contains(&format!("\n-    {FAULT}\n+    {RIGHT}\n")), "{output}");
    let branches = branches(&world);
    let [main, branch] = &branches[..] else { panic!("{branches:?}") };
    assert_eq!((main.as_str(), branch.starts_with("slipway/")), ("main", true));
    assert!(library(&world, branch).contains(RIGHT));
    assert!(library(&world, "main").contains(FAULT));
    world.finish().await;
}

#[tokio::test]
async fn it_uses_the_configured_model_and_gives_json() {
    let script = Script::new()
        .call("read", json!({"path": "src/lib.rs"}))
        .call("edit", json!({"path": "src/lib.rs", "old": FAULT, "new": RIGHT}))
        .say("Rounded half up.");
    let model = Server::start(script).await;
    let world = World::new();
    let file = world.root().join("mine.toml");
    std::fs::write(&file, models(&model)).unwrap();
    let output = world.ok(&["demo", "--json", "--config", file.to_str().unwrap()]).await;
    assert_eq!(world.traces(), [""; 0]);
    assert!(!output.stderr.contains("demo model"), "{output}");
    assert_eq!((model.requests().len(), model.violations()), (3, vec![]));
    let events = output.events();
    events.assert_gap_free(0);
    assert_eq!(events.only("session.created")["model"], "chat");
    let finished = events.only("turn.finished");
    assert_eq!(finished["outcome"], "done", "{finished}");
    let report = *events.items("report").last().unwrap();
    assert_eq!(report["report"]["tests_passed"], 3, "{report}");
    let branches = branches(&world);
    assert!(library(&world, &branches[1]).contains(RIGHT));
    world.finish().await;
}

#[tokio::test]
async fn a_model_that_does_not_solve_it_gets_an_honest_end() {
    let script = Script::new()
        .call("edit", json!({"path": "src/lib.rs", "old": FAULT, "new": "sum * 100 - discount_percent"}))
        .then(|_, _| testkit::model::Reply::text("It is rounded now."));
    let model = Server::start(script).await;
    let world = World::new();
    let file = world.root().join("mine.toml");
    let configured = models(&model).replace("[agent]\n", "[agent]\ncheck_rounds = 1\n");
    std::fs::write(&file, configured).unwrap();
    let output = world.run(&["demo", "--config", file.to_str().unwrap()]).await.expect_code(1);
    let told = &output.stderr;
    assert!(told.contains("escalated: checks still fail") && told.contains("not done"), "{output}");
    assert!(told.contains("no branch") && told.contains("a larger model   export"), "{output}");
    assert!(!told.contains("the branch       git"), "{output}");
    assert_eq!(branches(&world), ["main"]);
    world.finish().await;
}
