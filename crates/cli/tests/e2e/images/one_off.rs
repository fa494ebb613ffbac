//! `slipway sandbox run --env`: what a session of the environment would begin with.

use testkit::model::{Script, Server};
use testkit::repo::Repo;

use super::{inside, repository, world};
use crate::harness::{ENVIRONMENT, World, environment, models};

#[tokio::test]
async fn a_command_on_an_image_runs_at_the_tip_of_the_branch() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let keys = "setup = [{ run = \"cp deps.lock cache\", inputs = [\"deps.lock\"], attempts = 1 }]\n";
    let world = world(&model, &repo, keys);
    world.ok(&["env", "build", ENVIRONMENT]).await;
    let look =
        "git log -1 --format=%H; git branch --show-current; cat cache; cat notes.txt 2>/dev/null || true";
    assert_eq!(inside(&world, look).await, format!("{}\nslipway/work\none\n", repo.tip("main")));
    repo.commit("main", &[("notes.txt", "later\n")]);
    assert_eq!(inside(&world, look).await, format!("{}\nslipway/work\none\nlater\n", repo.tip("main")));
    repo.commit("main", &[("deps.lock", "two\n")]);
    assert_eq!(inside(&world, look).await, format!("{}\nslipway/work\ntwo\nlater\n", repo.tip("main")));

    let away = repo.path().with_extension("away");
    std::fs::rename(repo.path(), &away).unwrap();
    let run = ["sandbox", "run", "--env", ENVIRONMENT, "--", "cat", "cache"];
    let output = world.ok(&run).await;
    std::fs::rename(&away, repo.path()).unwrap();
    assert_eq!(output.stdout, "one\n");
    assert!(output.stderr.contains("could not be fetched"), "{output}");
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn a_tip_that_cannot_be_set_up_is_shown_with_what_the_last_good_image_has() {
    let model = Server::start(Script::new()).await;
    let repo = repository();
    let step = "rm -f cache; if test -e broken; then echo no such package; exit 7; fi; echo whole > cache";
    let world = world(&model, &repo, &format!("setup = [{{ run = \"{step}\", attempts = 1 }}]\n"));
    world.ok(&["env", "build", ENVIRONMENT]).await;
    repo.commit("main", &[("broken", "yes\n")]);
    let run = ["sandbox", "run", "--env", ENVIRONMENT, "--", "cat", "broken", "cache"];
    let output = world.ok(&run).await;
    assert_eq!(output.stdout, "yes\nwhole\n");
    for said in ["no such package", "last good image", &repo.tip("main")[..12]] {
        assert!(output.stderr.contains(said), "{said} is not said: {output}");
    }
    assert_eq!(world.traces(), [""; 0]);
    world.finish().await;
}

#[tokio::test]
async fn values_of_secrets_that_only_the_server_has_are_missed_with_their_variable() {
    let model = Server::start(Script::new()).await;
    let repo = Repo::plain();
    let mut world = World::new();
    let keys = "secrets = [{ name = \"SHOP_TOKEN\", env = \"REAL_TOKEN\", hosts = [\"registry.example\"] },\
                { name = \"KEPT_TOKEN\", secret = \"KEPT\", hosts = [\"registry.example\"] }]\n";
    world.configure(&format!("{}{}{keys}", models(&model), environment(&repo)));
    let serving = world.serve().await;
    let run = ["sandbox", "run", "--env", ENVIRONMENT, "--", "sh", "-c", "echo $SHOP_TOKEN $KEPT_TOKEN"];
    let output = world.run(&run).await.expect_code(2);
    assert!(output.stderr.contains("stay in the server") && output.stderr.contains("REAL_TOKEN"), "{output}");
    world.set("REAL_TOKEN", "this command's value");
    let output = world.run(&run).await;
    assert!(output.code() != 0 && output.stderr.contains("slipway secret set KEPT"), "{output}");
    let mut setting = world.start(&["secret", "set", "KEPT"]);
    setting.write(b"kept by the server").await;
    setting.close_stdin();
    setting.wait().await.expect_code(0);
    let output = world.ok(&run).await;
    assert!(output.stdout.starts_with("slipway-SHOP_TOKEN-"), "{output}");
    assert!(output.stdout.contains(" slipway-KEPT_TOKEN-"), "{output}");
    assert!(output.stderr.contains("this command's own"), "{output}");
    serving.stop().await;
    world.finish().await;
}
