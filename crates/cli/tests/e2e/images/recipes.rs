//! Recipes that cannot be used: the answer says what is wrong and what to write instead, and nothing is built.

use testkit::model::{Script, Server};

use super::{environment, repository};
use crate::harness::{ENVIRONMENT, World, models};

#[tokio::test]
async fn what_cannot_be_used_is_answered_with_what_to_write() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = World::new();
    for (keys, words) in [
        ("base = \"vm\"", ["\"vm\"", "host, tar:PATH, oci:NAME"]),
        ("base = \"dockerfile:../Dockerfile\"", ["../Dockerfile", "repository"]),
        ("egress = \"all\"", ["\"all\"", "\"none\", \"open\" or a list"]),
        ("egress = [\"http://x\"]", ["\"http://x\"", "leave out"]),
        ("egress = [\"*\"]", ["\"*\"", "egress = \"open\""]),
        ("egress = [\"a b\"]", ["\"a b\"", "registry.npmjs.org"]),
        ("egress = [\"127.0.0.1\"]", ["127.0.0.1", "loopback"]),
        ("egress = [\"db.example.com:0\"]", ["\"0\"", "1 to 65535"]),
        ("limits = { memory_mb = 0 }", ["memory_mb", "above 0"]),
        ("limits = { cpus = 0.0 }", ["cpus", "above 0"]),
        ("limits = { memory = 64 }", ["memory", "memory_mb"]),
        ("setup = [{ run = \" \" }]", ["set-up step", "run = "]),
        ("setup = [{ run = \"make\", inputs = [\"../lock\"] }]", ["../lock", "from the repository's root"]),
        ("warm = [{ run = \"make\", attempts = 0 }]", ["warm step", "1 to 20"]),
        ("services = [{ name = \"db\", run = \"\" }]", ["\"db\"", "`run`"]),
        ("services = [{ name = \"a b\", run = \"x\" }]", ["a b", "letters, digits"]),
        (
            "services = [{ name = \"db\", run = \"x\", ready = { tcp = 1, run = \"y\" } }]",
            ["more than one", "`tcp`"],
        ),
        (
            "services = [{ name = \"web\", run = \"x\", ready = { http = \"http://example.com/\" } }]",
            ["loopback", "127.0.0.1"],
        ),
        ("secrets = [{ name = \"T\", hosts = [\"a.test\"] }]", ["secret T", "env = \"VARIABLE\""]),
        ("secrets = [{ name = \"T\", env = \"T\", hosts = [] }]", ["no host", "hosts = ["]),
        (
            "secrets = [{ name = \"T\", env = \"T\", hosts = [\"a.test\"], form = \"query\" }]",
            ["\"query\"", "bearer"],
        ),
    ] {
        world.configure(&format!("{}{}", models(&model), environment(&repo, keys)));
        let output = world.run(&["env", "build", ENVIRONMENT]).await.expect_code(2);
        for word in words {
            assert!(output.stderr.contains(word), "{keys}: {word:?} is not said: {output}");
        }
        assert_eq!(output.stdout, "", "{output}");
    }
    world.configure(&format!("{}{}", models(&model), environment(&repo, "")));
    let output = world.run(&["env", "build", "nowhere"]).await.expect_code(2);
    assert!(output.stderr.contains("\"nowhere\"") && output.stderr.contains(ENVIRONMENT), "{output}");
    world.finish().await;
}

#[tokio::test]
async fn what_is_added_is_looked_at_first() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let world = World::new();
    world.configure(&models(&model));
    let url = repo.url();
    let add = ["env", "add", "shop", "--repo", &url];
    for (more, words) in [
        (&["--egress", "https://example.com"][..], ["https://example.com", "leave out"]),
        (&["--egress", "none", "--egress", "a.test"], ["none", "egress"]),
        (&["--base", "oci:"], ["no name of an image", "debian:12"]),
        (&["--input", "deps.lock"], ["--setup", "--help"]),
        (&["--setup", ""], ["set-up step", "run = "]),
    ] {
        let arguments: Vec<&str> = add.iter().chain(more).copied().collect();
        let output = world.run(&arguments).await.expect_code(2);
        for word in words {
            assert!(output.stderr.contains(word), "{more:?}: {word:?} is not said: {output}");
        }
    }
    let list = world.json(&["env", "ls"]).await;
    assert_eq!(list["environments"].as_array().unwrap().len(), 0, "{list}");
    let more =
        ["--setup", "true", "--input", "deps.lock", "--warm", "true", "--egress", "a.test", "--pool", "2"];
    let arguments: Vec<&str> = add.iter().chain(&more).copied().collect();
    let added = world.json(&arguments).await;
    assert_eq!(added["setup"][0]["inputs"][0], "deps.lock", "{added}");
    assert_eq!((&added["egress"][0], &added["pool"]), (&"a.test".into(), &2.into()), "{added}");
    world.finish().await;
}
