//! Calls that wait for a person, from the command line: look, edit, reject, approve all of a kind.

use serde_json::json;
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, environment, models, shell};

#[tokio::test]
async fn a_call_is_shown_edited_rejected_and_allowed_for_good() {
    let script = Script::new()
        .answer(shell("echo model > answer.txt"))
        .answer(shell("git push --force"))
        .answer(shell("git status --short"))
        .answer(shell("git status --short ."))
        .say("Done.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let policy = "policy = { rules = [{ then = \"deny\", command = \"rm *\" }] }\n";
    world.configure(&format!("{}{}{policy}", models(&model), environment(&repo)));
    let file = world.root().join("careful.toml");
    std::fs::write(&file, "rules = [{ then = \"ask\", tool = \"shell\", reason = \"we look first\" }]\n")
        .unwrap();

    let file = file.to_str().unwrap();
    let output = world.run(&["run", "--env", ENVIRONMENT, "--json", "--policy", file, "Do it"]).await;
    assert_eq!(output.code(), 4, "{output:?}");
    let events = output.events();
    let id = events.session();
    let asked = events.only("approval.requested");
    assert_eq!((&asked["gate"], &asked["call"]["tool"]), (&json!("call"), &json!("shell")));
    assert!(asked["question"].as_str().unwrap().contains("we look first"), "{asked}");

    let shown = world.ok(&["show", id]).await;
    assert!(shown.stdout.contains("command: echo model > answer.txt"), "{shown:?}");
    assert!(shown.stdout.contains("policy       ask tool \"shell\""), "{shown:?}");
    let wrong = world.run(&["approve", id, "--all"]).await;
    assert!(wrong.code() != 0 && wrong.stderr.contains("no rule can say"), "{wrong:?}");
    let wrong = world.run(&["approve", id, "--edit", "ls"]).await;
    assert!(wrong.code() == 2 && wrong.stderr.contains("as JSON"), "{wrong:?}");

    let edited = world.run(&["approve", id, "--edit", r#"{"command": "echo 42 > answer.txt"}"#]).await;
    assert_eq!(edited.code(), 4, "the next call waits: {edited:?}");
    let looked = world.ok(&["approve", id, "--show"]).await;
    assert!(looked.stdout.contains("git push --force") && looked.stdout.contains("+42"), "{looked:?}");
    assert!(
        looked.stdout.contains("--all: allow tool \"shell\" command \"git push --force *\""),
        "{looked:?}"
    );

    let rejected = world.run(&["reject", id, "--comment", "slipway pushes itself"]).await;
    assert!(rejected.code() == 4 && rejected.stderr.contains("rejected"), "{rejected:?}");
    let told = model.requests().last().unwrap().json.to_string();
    assert!(told.contains("did not approve this call and said: slipway pushes itself"), "{told}");

    let done = world.ok(&["approve", id, "--all"]).await;
    assert!(done.stderr.contains("approved"), "the second of its kind is not asked: {done:?}");
    let session = world.json(&["show", id]).await;
    assert_eq!(session["granted"][0]["command"], "git status --short *", "{session}");
    assert_eq!(session["status"], "done");
    let branch = repo.branches().into_iter().find(|branch| branch != "main").unwrap();
    assert_eq!(repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));

    std::fs::write(file, "rules = [{ then = \"ask\", tool = \"shel\" }]\n").unwrap();
    let wrong = world.run(&["edit", id, "--policy", file]).await;
    assert!(wrong.code() != 0 && wrong.stderr.contains("unknown tool"), "{wrong:?}");
    world.ok(&["edit", id, "--after-every=3"]).await;
    assert_eq!(world.json(&["show", id]).await["policy"], json!({"after_every": 3}));
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}
