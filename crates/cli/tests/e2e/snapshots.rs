//! Snapshots: taken at the end of each turn, used after an idle stop, and the place where forks begin.

use protocol::SnapshotId;
use serde_json::{Value, json};
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, World, edit, environment, models, shell};

/// A world whose sandboxes are stopped as soon as nothing uses them.
fn impatient(model: &Server, repo: &Repo) -> World {
    let world = World::new();
    let idle = "[sandbox]\nidle_s = 1\npool = 0\n\n";
    world.configure(&format!("{idle}{}{}", models(model), environment(repo)));
    world
}

#[tokio::test]
async fn what_git_does_not_keep_survives_an_idle_stop() {
    let write = "echo ignored > cache.tmp; echo untracked > new.txt; echo elsewhere > ~/state; ln -s new.txt link; \
                 chmod 751 new.txt; (sleep 600 >/dev/null 2>&1 &)";
    let read = "cat cache.tmp new.txt ~/state link; stat -c %a new.txt; git status --short";
    let work = Script::new().answer(shell(write)).answer(edit("41", "42")).say("Written.");
    let script = work.answer(shell(read)).say("Read.");
    let model = Server::start(script).await;
    let repo = Repo::plain();
    repo.commit("main", &[(".gitignore", "*.tmp\n")]);
    let world = impatient(&model, &repo);
    let serving = world.serve().await;
    let api = &serving.api;
    let session = api.create(ENVIRONMENT, "Write").await;
    let mut watcher = api.watch(&session, 0).await;
    let taken = watcher.until_type("snapshot.taken").await;
    let finished = watcher.seen.only("turn.finished");
    assert_eq!(taken["data"]["turn"], finished["turn"], "{taken}");
    assert!(taken["data"]["bytes"].as_u64().unwrap() > 0 && taken["data"]["duration_ms"].is_u64(), "{taken}");
    let stopped = watcher.until(|frame| frame["data"]["state"] == "stopped").await;
    assert!(stopped["data"]["detail"].as_str().unwrap().contains("nothing used it"), "{stopped}");
    assert_eq!(world.json(&["sandbox", "ls"]).await, json!({"sandboxes": []}), "nothing of it runs");

    let list = world.json(&["snapshots", &session]).await;
    let ids: Vec<&Value> = list["snapshots"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    let told: Vec<&Value> = watcher.seen.of("snapshot.taken").iter().map(|one| &one["snapshot"]).collect();
    assert_eq!(ids, told, "one after the turn, one at the stop: {list}");
    let shown = world.ok(&["snapshots", &session]).await;
    assert!(shown.stdout.lines().nth(1).unwrap().starts_with(ids[0].as_str().unwrap()), "{shown}");

    api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "Read"})).await;
    watcher.until_type("turn.finished").await;
    let call = watcher.seen.calls("shell")[1];
    let text = call["output"]["text"].as_str().unwrap();
    assert!(text.starts_with("ignored\nuntracked\nelsewhere\nuntracked\n751\n"), "{text}");
    let told = format!("{:?}", model.requests().last().unwrap().messages);
    assert!(told.contains("Processes that ran in it (sleep)"), "{told}");
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_fork_goes_on_from_the_snapshot_that_was_chosen() {
    let script = Script::new()
        .answer(shell("echo first > kept.tmp; echo one > new.txt"))
        .answer(edit("41", "42"))
        .say("First done.")
        .answer(shell("echo second > kept.tmp; rm new.txt"))
        .answer(edit("42", "40"))
        .say("Second done.")
        .repeat_last();
    let model = Server::start(script).await;
    let repo = Repo::plain();
    repo.commit("main", &[(".gitignore", "*.tmp\n")]);
    let world = World::with(&model, &repo);
    let first = world.ok(&["run", "--env", ENVIRONMENT, "--json", "First"]).await.events();
    let session = first.session();
    let list = world.json(&["snapshots", session]).await;
    let begin = list["snapshots"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    world.run(&["prompt", session, "Second"]).await.expect_code(1);
    let delivered: Vec<(String, String)> =
        repo.branches().into_iter().map(|name| (repo.tip(&name), name)).collect();

    let script =
        Script::new().answer(shell("cat kept.tmp new.txt answer.txt; git log -1 --format=%s")).say("Seen.");
    let other = Server::start(script).await;
    world.configure(&format!("{}{}", models(&other), environment(&repo)));
    let forked = world.ok(&["fork", session, "--at", &begin, "--json", "Another way"]).await.events();
    let fork = forked.session();
    assert_ne!(fork, session);
    let text = forked.calls("shell")[0]["output"]["text"].as_str().unwrap();
    assert!(text.starts_with("first\none\n42\nFirst\n"), "{text}");
    let told = format!("{:?}", other.requests()[0].messages);
    assert!(told.contains("First done.") && told.contains("Another way"), "{told}");
    assert!(!told.contains("Second"), "{told}");
    let shown = world.json(&["show", fork]).await;
    assert_eq!(shown["forked_from"], json!({"session": session, "snapshot": begin}), "{shown}");
    for (tip, name) in &delivered {
        assert_eq!(repo.tip(name), *tip, "{name} is the first session's");
    }
    let whole = world.ok(&["attach", fork, "--json"]).await.events();
    whole.assert_gap_free(0);
    assert_eq!(whole.of("turn.finished").len(), 2, "the first turn is part of it");
    assert!(world.json(&["show", session]).await.get("forked_from").is_none());
    world.finish().await;
}

#[tokio::test]
async fn a_snapshot_that_is_not_there_is_answered_with_those_that_are() {
    let model = Server::start(Script::new().answer(Reply::text("Hello.")).repeat_last()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let events = world.ok(&["run", "--env", ENVIRONMENT, "--json", "Say hello"]).await.events();
    let session = events.session();
    let list = world.json(&["snapshots", session]).await;
    let known = list["snapshots"][0]["id"].as_str().unwrap();
    let nobody = SnapshotId::new().to_string();
    let output = world.run(&["fork", session, "--at", &nobody, "Go on"]).await.expect_code(2);
    assert!(output.stderr.contains(&nobody) && output.stderr.contains(known), "{output}");
    let output = world.run(&["fork", session, "--at", "yesterday", "Go on"]).await.expect_code(2);
    assert!(output.stderr.contains("yesterday"), "{output}");
    let stranger = protocol::SessionId::new().to_string();
    for arguments in [&["fork", &stranger, "Go on"][..], &["snapshots", &stranger]] {
        let output = world.run(arguments).await.expect_code(2);
        assert!(output.stderr.contains(&stranger) && output.stderr.contains("slipway ls"), "{output}");
    }
    assert_eq!(world.json(&["ls"]).await["sessions"].as_array().unwrap().len(), 1);
    world.finish().await;
}
