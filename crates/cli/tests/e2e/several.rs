//! An environment with several repositories, through the binary: one command adds it, one prompt works in all of them, and the
//! commands for pull requests and branches know which is which.

use serde_json::{Value, json};
use testkit::forge::{Kind, Server as Forge};
use testkit::model::{Script, Server};
use testkit::repo::{Repo, git_in};

use crate::harness::{World, models, shell};

const TOKEN: &str = "forge-token-canary-4711";
const SECRET: &str = "forge-hook-secret-canary-0815";

#[tokio::test]
async fn several_repositories_from_the_command_line_to_the_last_merge() {
    let script = Script::new()
        .answer(shell("pwd; for at in api apps/web; do echo 2 > $at/version; git -C $at add -A; done; git -C api commit -qm 'Two here'"))
        .say("Both say 2 now.");
    let model = Server::start(script).await;
    let forge = Forge::start(TOKEN).await;
    let (api, web) = (Repo::bare_with(&[("version", "1\n")]), Repo::bare_with(&[("version", "1\n")]));
    for (name, repo) in [("api", &api), ("web", &web)] {
        forge.serve("acme", name, repo);
    }
    let mut world = World::new();
    world.set("ACME_TOKEN", TOKEN);
    world.set("ACME_HOOK", SECRET);
    world.configure(&format!(
        "{}[forges.acme]\nkind = \"github\"\nurl = \"{}\"\napi_url = \"{}\"\ntoken_env = \"ACME_TOKEN\"\ngit = \"token\"\n\
         webhook_secret_env = \"ACME_HOOK\"\n",
        models(&model),
        forge.url(),
        forge.api_of(Kind::GitHub),
    ));
    let (api_url, web_url) = (forge.git_url("acme", "api"), forge.git_url("acme", "web"));
    let at_web = format!("apps/web={web_url}");
    let twice =
        world.run(&["env", "add", "both", "--repo", &api_url, "--repo", &api_url]).await.expect_code(2);
    assert!(twice.stderr.contains("two repositories would lie in the directory \"api\""), "{twice}");
    let branches =
        world.run(&["env", "add", "both", "--repo", &api_url, "--repo", &at_web, "--branch", "main"]).await;
    assert!(branches.expect_code(2).stderr.contains("give a --branch for each --repo"));

    let serving = world.serve().await;
    forge.tell(Kind::GitHub, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
    let check = "cmp api/version apps/web/version";
    world.ok(&["env", "add", "both", "--repo", &api_url, "--repo", &at_web, "--check", check]).await;
    let listed = world.ok(&["env", "ls"]).await;
    assert!(listed.stdout.contains("in apps/web"), "{listed}");
    let session = serving.api.create("both", "Raise the version").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    let pulls = world.json(&["pr", &session]).await;
    let names: Vec<&Value> = pulls.as_array().unwrap().iter().map(|pull| &pull["repository"]).collect();
    assert_eq!(names, [&json!("api"), &json!("apps/web")], "{pulls}");
    let shown = world.ok(&["pr", &session]).await;
    assert!(shown.stderr.contains("api #1 open") && shown.stderr.contains("apps/web #2 open"), "{shown}");
    let which = world.run(&["pr", &session, "--title", "Which?"]).await.expect_code(1);
    assert!(which.stderr.contains("name one: api, apps/web"), "{which}");
    let edited = world.json(&["pr", &session, "--repo", "apps/web", "--title", "Two there"]).await;
    assert_eq!((&edited["number"], &edited["title"]), (&json!(2), &json!("Two there")), "{edited}");

    // A checkout is known by its remote; where it is not, the repository is named.
    git_in(world.root(), &["clone", "-q", &web.url(), "checkout"]);
    let checkout = world.root().join("checkout");
    let into = checkout.to_str().unwrap();
    let unknown = world.run(&["pull", &session, "--into", into]).await.expect_code(2);
    assert!(unknown.stderr.contains("name one with --repo: api, apps/web"), "{unknown}");
    let pulled = world.json(&["pull", &session, "--into", into, "--repo", "apps/web"]).await;
    let branch = pulled["branch"].as_str().unwrap();
    assert_eq!(git_in(&checkout, &["rev-parse", branch]).trim(), web.tip(branch));
    assert!(api.log(branch).contains(&"Two here".to_owned()), "the agent's own commit is there");
    git_in(&checkout, &["remote", "set-url", "origin", &web_url]);
    world.ok(&["pull", &session, "--into", into]).await;
    let diff = world.ok(&["diff", &session]).await;
    assert!(diff.stdout.contains("b/api/version") && diff.stdout.contains("b/apps/web/version"), "{diff}");

    let is_merged = |number: u64| {
        move |frame: &Value| {
            let data = &frame["data"];
            data["review"]["state"] == "merged" && data["number"] == number
        }
    };
    for number in [1, 2] {
        let before = serving.api.get(&format!("/sessions/{session}")).await.expect(200);
        assert!(before["merged_at"].is_null(), "{before}");
        forge.merge(number).unwrap();
        watcher.until(is_merged(number)).await;
    }
    let after = serving.api.get(&format!("/sessions/{session}")).await.expect(200);
    assert!(after["merged_at"].is_string(), "{after}");
    let told = world.ok(&["show", &session]).await;
    assert_eq!(told.stdout.matches("(merged)").count(), 2, "{told}");
    assert_eq!(forge.violations(), Vec::<String>::new());
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}
