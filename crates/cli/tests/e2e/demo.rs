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
        "pushed slipway/",
        "tokens",
        "server   http://127.0.0.1:",
        "How to go on",
    ] {
        assert!(told.contains(step), "{step:?} is not shown: {output}");
    }
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
