//! Repositories that are not there, are none, have nothing, or lack the branch.

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{reason, says, turn_in};
use crate::harness::{ENVIRONMENT, World, models};

#[tokio::test]
async fn a_repository_that_cannot_be_read_is_no_environment() {
    let (model, empty, plain) = (Server::start(Script::new()).await, Repo::empty(), Repo::plain());
    let world = World::new();
    world.configure(&models(&model));
    let not_one = world.home().display().to_string();
    for (repo, words) in [
        ("/nowhere/at/all", ["no repository at /nowhere/at/all", "no such directory"]),
        (&not_one, ["not a git repository", "git init"]),
        (&empty.url(), ["has no commits", "push a first commit"]),
        ("http://127.0.0.1:1/shop.git", ["http://127.0.0.1:1/shop.git", "check the address"]),
        ("gopher://127.0.0.1/shop.git", ["gopher", "use a path, file, http, https or ssh"]),
        ("https://ana:secret@127.0.0.1:1/shop.git", ["127.0.0.1:1/shop.git", "check the address"]),
    ] {
        for arguments in [&["env", "add", "shop", "--repo", repo][..], &["run", "--repo", repo, "x"]] {
            let output = world.run(arguments).await.expect_code(2);
            says(&output, &words);
            assert!(!output.stderr.contains("secret"), "{output}");
        }
    }
    for arguments in [
        &["env", "add", "shop", "--repo", &plain.url(), "--branch", "next"][..],
        &["run", "--repo", &plain.url(), "--branch", "next", "x"],
    ] {
        let output = world.run(arguments).await.expect_code(2);
        says(&output, &["no branch \"next\"", "it has: main", "push the branch first"]);
    }
    let list = world.json(&["env", "ls"]).await;
    assert_eq!(list["environments"].as_array().unwrap().len(), 0, "nothing is kept of them: {list}");
    assert_eq!(model.requests().len(), 0);
    world.finish().await;
}

#[tokio::test]
async fn a_repository_that_vanished_fails_the_turn() {
    let (model, repo) = (Server::start(Script::new().say("Fine.")).await, Repo::plain());
    let world = World::with(&model, &repo);
    turn_in(&world, 0).await;

    // The host's copy of it is no substitute: it may be old.
    std::fs::rename(repo.path(), repo.path().with_extension("moved")).unwrap();
    let events = turn_in(&world, 1).await;
    std::fs::rename(repo.path().with_extension("moved"), repo.path()).unwrap();
    assert!(reason(&events).contains(&format!("{}: no such directory", repo.url())), "{}", reason(&events));
    let raised = events.only("error.raised");
    assert_eq!(raised["code"], "repository_unavailable", "{raised}");
    assert!(raised["hint"].as_str().unwrap().contains("check the address"), "{raised}");
    assert_eq!(events.only("turn.finished")["outcome"], "failed");
    assert_eq!(model.requests().len(), 1);
    let shown = world.json(&["show", events.session()]).await;
    assert_eq!(
        (&shown["status"], &shown["reason"]),
        (&"failed".into(), &events.only("turn.finished")["reason"])
    );
    world.finish().await;
}

#[tokio::test]
async fn a_branch_that_is_not_there_fails_the_turn_with_those_that_are() {
    let (model, repo) = (Server::start(Script::new()).await, Repo::plain());
    repo.commit("release", &[("a", "b\n")]);
    let world = World::new();
    world.configure(&format!(
        "{}[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\", branch = \"next\" }}]\n",
        models(&model),
        repo.url()
    ));
    let events = turn_in(&world, 1).await;
    assert!(reason(&events).contains("no branch \"next\"; it has: main, release"), "{}", reason(&events));
    assert_eq!(events.only("error.raised")["code"], "branch_not_found");
    let output = world.run(&["run", "--env", ENVIRONMENT, "x"]).await.expect_code(1);
    says(&output, &["no branch \"next\"", "main, release", "push the branch first"]);
    world.finish().await;
}
