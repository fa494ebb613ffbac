//! Names and texts that a person types: what is unknown is answered with what is known, what is too long with where to
//! put it.

use protocol::{SandboxId, SessionId};
use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::says;
use crate::harness::{ENVIRONMENT, World};

async fn world() -> (World, Server, Repo) {
    let (model, repo) = (Server::start(Script::new()).await, Repo::plain());
    (World::with(&model, &repo), model, repo)
}

#[tokio::test]
async fn an_unknown_name_is_answered_with_the_known_ones() {
    let (world, model, repo) = world().await;
    for (arguments, words) in [
        (&["run", "--env", "shop", "x"][..], ["\"shop\"", ENVIRONMENT]),
        (&["run", "--env", ENVIRONMENT, "--model", "gpt", "x"], ["\"gpt\"", "chat, claude"]),
        (&["env", "rm", "shop"], ["\"shop\"", ENVIRONMENT]),
        (&["env", "add", "a b", "--repo", &repo.url()], ["\"a b\"", "letters, digits"]),
        (&["env", "add", "x", "--repo", &repo.url(), "--model", "gpt"], ["\"gpt\"", "chat, claude"]),
        (&["env", "add", "x", "--repo", &repo.url(), "--base", "vm"], ["\"vm\"", "host, tar:PATH, oci:NAME"]),
        (&["env", "add", "x", "--repo", &repo.url(), "--check", "lint="], ["\"lint=\"", "no command"]),
        (&["run", "x"], ["--env", "--repo"]),
        (&["frobnicate"], ["frobnicate", "--help"]),
    ] {
        let output = world.run(arguments).await.expect_code(2);
        says(&output, &words);
        assert_eq!(output.stdout, "", "{output}");
    }
    let list = world.json(&["ls"]).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 0, "no session is begun in vain: {list}");
    assert_eq!(model.requests().len(), 0);
    world.finish().await;
}

#[tokio::test]
async fn a_session_that_is_not_there_is_told_so() {
    let (world, _model, _repo) = world().await;
    let session = SessionId::new().to_string();
    for arguments in [
        &["show", &session][..],
        &["diff", &session],
        &["stop", &session],
        &["deliver", &session],
        &["attach", &session],
        &["prompt", &session, "go on"],
        &["show", &session, "--json"],
    ] {
        let output = world.run(arguments).await.expect_code(2);
        says(&output, &[&session, "slipway ls"]);
        assert_eq!(output.stdout, "", "an error is no data: {output}");
    }
    for arguments in [&["show", "nonsense"][..], &["attach", "sbx_1"], &["stop", ""]] {
        let output = world.run(arguments).await.expect_code(2);
        says(&output, &["not a valid id", "ses_"]);
    }
    let sandbox = SandboxId::new().to_string();
    let output = world.run(&["sandbox", "rm", &sandbox]).await.expect_code(2);
    says(&output, &[&sandbox, "slipway sandbox ls"]);
    world.finish().await;
}

#[tokio::test]
async fn a_prompt_that_cannot_be_worked_on_is_refused() {
    let (world, model, _repo) = world().await;
    for blank in ["", " \n\t "] {
        let output = world.run(&["run", "--env", ENVIRONMENT, blank]).await.expect_code(2);
        says(&output, &["the prompt is empty", "say what is to be done"]);
    }
    // The longer one is also more than a body without images may have.
    for length in [300_000, 2 << 20] {
        let mut running = world.start(&["run", "--env", ENVIRONMENT, "-"]);
        running.write("x".repeat(length).as_bytes()).await;
        running.close_stdin();
        says(&running.wait().await.expect_code(2), &["262144 are allowed", "file of the repository"]);
    }
    let list = world.json(&["ls"]).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 0, "{list}");
    assert_eq!(model.requests().len(), 0);
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_so() {
    let (world, _model, _repo) = world().await;
    let output = world.run(&["--server", "http://127.0.0.1:1", "ls"]).await.expect_code(1);
    says(&output, &["http://127.0.0.1:1", "slipway serve"]);
    let output = world.run(&["--server", "127.0.0.1:7717", "ls"]).await.expect_code(2);
    says(&output, &["--server", "http://127.0.0.1:7717"]);
    world.finish().await;
}
