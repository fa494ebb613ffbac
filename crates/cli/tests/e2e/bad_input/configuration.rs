//! A configuration that cannot be used: the message has the file, the line and what was expected, and nothing is made.

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{reason, says, turn_in};
use crate::harness::{World, environment};

#[tokio::test]
async fn a_file_that_cannot_be_used_is_told_with_its_place() {
    let world = World::new();
    for (text, words) in [
        ("colour = 1\n", ["colour", "line 1", "environments"]),
        ("[server]\nlisten = \"127.0.0.1:0\"\nport = 3\n", ["port", "line 3", "listen"]),
        ("[agent]\nmax_step = 3\n", ["max_step", "line 2", "max_steps"]),
        ("[environments.x]\nrepos = [{ url = \"/r\" }]\nchekcs = []\n", ["chekcs", "line 3", "checks"]),
        ("[environments.x]\nrepos = [{ url = \"/r\", brunch = \"b\" }]\n", ["brunch", "line 2", "branch"]),
        ("[environments.x]\nrepos = []\n", ["[environments.x]", "repository", "repos = ["]),
        (
            "[environments.x]\nrepos = [{ url = \"/r\" }]\nbase = \"vm\"\n",
            ["vm", "host, tar:PATH", "[environments.x]"],
        ),
        ("[server]\nlisten = 7717\n", ["listen", "line 2", "socket address"]),
        ("[agent]\nmax_steps = \"many\"\n", ["max_steps", "line 2", "u32"]),
        ("this is not toml\n", ["line 1", "column", "="]),
        ("[models.a]\nprovider = \"acme\"\nmodel = \"m\"\n", ["acme", "anthropic", "openai-compatible"]),
        (
            "[models.a]\nprovider = \"openai-compatible\"\nmodel = \"m\"\n",
            ["[models.a]", "base_url", "http://"],
        ),
        (
            "[agent]\nmodel = \"b\"\n[models.a]\nprovider = \"openai\"\nmodel = \"m\"\n",
            ["[agent]", "\"b\"", "the models: a"],
        ),
    ] {
        world.configure(text);
        for command in [&["ls"][..], &["serve"], &["doctor"], &["sandbox", "run", "--", "true"]] {
            let output = world.run(command).await.expect_code(2);
            says(&output, &["slipway.toml"]);
            says(&output, &words);
            assert_eq!(output.stdout, "", "{output}");
        }
        assert_eq!(std::fs::read_dir(world.data()).unwrap().count(), 1, "only slipway.toml is there");
    }
    world.finish().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_named() {
    let world = World::new();
    let output = world.run(&["--config", "absent.toml", "ls"]).await.expect_code(2);
    says(&output, &["cannot read absent.toml", "No such file"]);
    let output = world.run(&["--config", "home", "ls"]).await.expect_code(2);
    says(&output, &["cannot read home", "directory"]);
    std::fs::write(world.root().join("latin.toml"), b"# caf\xe9\n").unwrap();
    let output = world.run(&["--config", "latin.toml", "ls"]).await.expect_code(2);
    says(&output, &["cannot read latin.toml", "UTF-8"]);
    world.finish().await;
}

#[tokio::test]
async fn a_repository_that_describes_itself_wrongly_is_told_so() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    for (text, words) in [
        ("chekcs = []\n", ["chekcs", "checks"]),
        ("setup = \"make\"\n", ["setup", "sequence"]),
        ("not toml\n", ["key with no value", "="]),
        ("checks = [{ name = \"a\" }]\n", ["missing field", "run"]),
    ] {
        repo.commit("main", &[(".slipway.toml", text)]);
        let events = turn_in(&world, 1).await;
        assert!(reason(&events).contains(".slipway.toml cannot be used"), "{}", reason(&events));
        let raised = events.only("error.raised");
        assert_eq!(raised["code"], "setup_failed", "{raised}");
        assert!(words.iter().all(|word| raised["message"].as_str().unwrap().contains(word)), "{raised}");
        assert!(raised["hint"].as_str().unwrap().contains("correct it"), "{raised}");
    }
    assert_eq!(model.requests().len(), 0, "the model is not asked in vain");

    // Keys that only the environment may have are understood, ignored, and spoken of.
    repo.commit("main", &[(".slipway.toml", "model = \"other\"\nrepos = [{ url = \"/elsewhere\" }]\n")]);
    drop(model);
    let model = Server::start(Script::new().say("Nothing to do.")).await;
    world.configure(&format!("{}{}", crate::harness::models(&model), environment(&repo)));
    let events = turn_in(&world, 0).await;
    let notices = events.items("notice");
    assert!(notices.iter().any(|notice| notice["text"].as_str().unwrap().contains("\"repos\" was ignored")));
    world.finish().await;
}
