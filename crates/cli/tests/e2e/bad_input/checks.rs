//! Set-up steps and checks that fail in their own ways.

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{reason, says, turn_in};
use crate::harness::{ENVIRONMENT, Events, World, edit, models};

/// One turn that changes a file, in an environment with these further keys.
async fn turn_with(keys: &str, code: i32) -> (Events, Repo, Server) {
    let model = Server::start(Script::new().answer(edit("41", "42")).say("Done.").repeat_last()).await;
    let repo = Repo::plain();
    let world = World::new();
    let head = format!("[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\" }}]\n", repo.url());
    world.configure(&format!("{}{head}{keys}\n", models(&model)));
    let events = turn_in(&world, code).await;
    world.finish().await;
    (events, repo, model)
}

#[tokio::test]
async fn a_set_up_step_that_fails_is_told_with_its_end() {
    let fails = "{ run = \"seq 1 9999; echo missing part >&2; exit 7\", attempts = 1 }";
    let keys = &format!("setup = [{{ run = \"echo fine\" }}, {fails}]");
    let (events, _repo, model) = turn_with(keys, 1).await;
    assert_eq!(events.only("turn.finished")["outcome"], "failed");
    for word in ["seq 1 9999", "exited with 7", "missing part"] {
        assert!(reason(&events).contains(word), "{}", reason(&events));
    }
    assert!(reason(&events).len() < 4096, "only the end of what it said: {}", reason(&events));
    let raised = events.only("error.raised");
    assert_eq!(raised["code"], "setup_failed", "{raised}");
    assert!(raised["hint"].as_str().unwrap().contains("correct the step"), "{raised}");
    assert_eq!(model.requests().len(), 0);
}

#[tokio::test]
async fn a_check_that_cannot_run_is_no_check_that_passes() {
    for (run, words) in [
        ("frobnicate --all", ["frobnicate: command not found", "exit code 127"]),
        ("./answer.txt", ["Permission denied", "exit code 126"]),
        ("kill -9 $$", ["printed nothing", "exit code 137"]),
    ] {
        let (events, repo, model) =
            turn_with(&format!("checks = [{{ name = \"own\", run = \"{run}\" }}]"), 1).await;
        let finished = events.only("turn.finished");
        assert_eq!(finished["outcome"], "escalated", "{finished}");
        assert_eq!(finished["receipt"]["checks"], json!([{"name": "own", "passed": false}]));
        let requests = model.requests();
        let told = requests[2].last_user().unwrap();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert_eq!(repo.branches(), ["main"], "nothing is pushed");
    }
}

#[tokio::test]
async fn a_check_that_changes_files_does_not_keep_a_turn_from_its_end() {
    let keys = "checks = [{ name = \"own\", run = \"date +%s%N > stamp; grep -q 42 answer.txt\" }]";
    let (events, repo, model) = turn_with(keys, 0).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(repo.branches().len(), 2);
}

#[tokio::test]
async fn a_recipe_that_makes_no_sense_is_refused_before_anything_is_begun() {
    let (model, repo) = (Server::start(Script::new()).await, Repo::plain());
    let world = World::new();
    for (keys, words) in [
        ("checks = [{ name = \"a\", run = \"x\", parser = \"nose\" }]", ["\"nose\"", "the parsers are"]),
        (
            "checks = [{ name = \"a\", run = \"x\" }, { name = \"a\", run = \"y\" }]",
            ["two checks", "name of its own"],
        ),
        ("checks = [{ name = \"a\", run = \" \" }]", ["no command", "{ name, run }"]),
        ("model = \"gpt\"", ["model = \"gpt\" is not one of the models", "chat, claude"]),
    ] {
        let head = format!("[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\" }}]\n", repo.url());
        world.configure(&format!("{}{head}{keys}\n", models(&model)));
        says(&world.run(&["run", "--env", ENVIRONMENT, "x"]).await.expect_code(2), &words);
    }
    world.configure(&models(&model));
    let list = world.json(&["ls"]).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 0, "{list}");
    world.finish().await;
}
