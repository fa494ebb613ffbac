//! A check that ends with 0 while its own output says that tests fail is no pass, and one that runs fewer tests than when the
//! session began is told of, whatever made it so.

use protocol::{ItemKind, Outcome, WeakeningKind};
use serde_json::json;
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Finished, Follow, World, create};

const SHOP: &str = "def total(prices):\n    return sum(prices)\n";
const TESTS: &str = "import unittest\nimport shop\n\nclass T(unittest.TestCase):\n    def test_some(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n\n    def test_none(self):\n        self.assertEqual(shop.total([]), 0)\n";
/// Three tests, of which one has always failed; how they end is not how this ends.
const TOLERANT: &str = "#!/bin/sh\npython3 -m unittest 2>&1\nexit 0\n";

async fn world(files: &[(&str, &str)], check: &str, script: Script) -> World {
    let check = check.to_owned();
    World::with(Repo::bare_with(files), script)
        .await
        .environment(move |environment| environment.checks[0].run.clone_from(&check))
}

fn notices(follow: &Follow) -> String {
    let text = |kind: &ItemKind| match kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(|item| text(&item.kind)).collect::<Vec<_>>().join("\n")
}

fn write(path: &str, content: &str) -> serde_json::Value {
    json!({"path": path, "content": content})
}

fn shell(command: &str) -> serde_json::Value {
    json!({"command": command})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_early_with_0_makes_no_failing_test_pass() {
    let broken =
        "import atexit, os\natexit.register(os._exit, 0)\n\ndef total(prices):\n    return sum(prices) + 1\n";
    let script = Script::new().call("write", write("shop.py", broken)).say("It passes.").repeat_last();
    let files = [("shop.py", SHOP), ("test_shop.py", TESTS)];
    let world = world(&files, "python3 -m unittest", script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Add a fee").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    assert_eq!(world.repo.branches(), ["main"]);
    let requests = world.model.requests();
    let told = requests[2].last_user().unwrap();
    assert!(told.contains("ended with 0, but what it printed says that 2 tests failed"), "{told}");
    let told = notices(&follow);
    assert_eq!(told.matches("The check test did not pass.").count(), 1, "{told}");
    assert!(told.contains("a person writes `parser = \"fallback\"`"), "{told}");
    // Asked again, it is no better: that it failed before this turn is no leave to fail.
    sessions.prompt(id, crate::support::ann(), "Go on".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_never_counted_block_nobody_and_new_ones_do() {
    let files = [
        ("check.sh", TOLERANT),
        ("shop.py", SHOP),
        ("test_shop.py", TESTS),
        (
            "test_old.py",
            "import unittest\n\nclass Old(unittest.TestCase):\n    def test_old(self):\n        self.fail(\"for years\")\n",
        ),
    ];
    let script = Script::new()
        .call("write", write("README.md", "More.\n"))
        .say("Done.")
        .call("write", write("shop.py", "def total(prices):\n    return 0\n"))
        .say("Done.")
        .repeat_last();
    let world = world(&files, "sh check.sh", script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(finished.receipt.weakened, []);

    sessions.prompt(id, crate::support::ann(), "Give it away".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    let told = notices(&follow);
    let new = "1 test failed, which did not when the session began: ";
    assert!(told.contains(new) && !told.contains("test_old,"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_checks_own_command_ignores_is_ignored() {
    let files = [("shop.py", SHOP), ("test_shop.py", TESTS)];
    let script =
        Script::new().call("write", write("shop.py", "def total(prices):\n    return 0\n")).say("Done.");
    let world = world(&files, "python3 -m unittest || true", script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Give it away").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    // It stops nobody, and people see it.
    let [weaker] = finished.receipt.weakened.try_into().unwrap();
    assert_eq!((weaker.kind, weaker.file.as_str()), (WeakeningKind::FailureIgnored, "the check test"));
    assert!(weaker.what.starts_with("it passes though 1 test failed"), "{weaker:?}");
    world.end(sessions).await;
}

/// One turn on an image, and what its receipt says of weaker checks.
async fn weakened_by(files: &[(&str, &str)], check: &str, command: &str) -> Finished {
    let script = Script::new().call("shell", shell(command)).say("It passes.");
    let world = world(files, check, script).await;
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Tidy up").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    world.end(sessions).await;
    finished
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_that_are_not_found_any_more_are_told_by_their_number() {
    let files = [("shop.py", SHOP), ("test_shop.py", TESTS)];
    let finished = weakened_by(&files, "python3 -m unittest", "mkdir t && git mv test_shop.py t/").await;
    let told: Vec<&str> = finished.receipt.weakened.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(told, ["it runs no test any more; when the session began it ran 2 tests"]);
    assert_eq!(finished.receipt.weakened[0].file, "the check test");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_says_nothing_any_more_is_told() {
    let test = "const test = require('node:test');\ntest('adds up', () => {});\n";
    let files = [("package.json", r#"{"scripts":{"test":"node --test"}}"#), ("a.test.js", test)];
    let finished = weakened_by(&files, "npm test", "echo script-shell=/bin/true > .npmrc").await;
    let told: Vec<(&str, &str)> =
        finished.receipt.weakened.iter().map(|one| (one.file.as_str(), one.what.as_str())).collect();
    assert_eq!(
        told,
        [
            (".npmrc", "what runs the scripts was changed: script-shell=/bin/true"),
            ("the check test", "it runs no test any more; when the session began it ran 1 test")
        ]
    );
}
