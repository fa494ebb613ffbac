//! Pull requests and notifications through the binary, with a fake forge beside the repository.

use testkit::forge::{APP_ID, APP_KEY, Fault, Kind, On, Server as Forge};
use testkit::model::Server;
use testkit::repo::Repo;

use crate::harness::{CHECK, ENVIRONMENT, World, mend, models};

const TOKEN: &str = "forge-token-canary-4711";
const SECRET: &str = "hook-secret-canary-0815";

/// A world whose repository is on the forge as acme/answers, and which tells the forge what happens.
fn world(model: &Server, forge: &Forge, repo: &Repo) -> World {
    let url = forge.serve("acme", "answers", repo);
    let mut world = World::new();
    world.set("ACME_TOKEN", TOKEN);
    world.set("HOOK_SECRET", SECRET);
    world.configure(&format!(
        "{}[forges.acme]\nkind = \"github\"\nurl = \"{}\"\napi_url = \"{}\"\ntoken_env = \"ACME_TOKEN\"\n\n\
         [notify]\nwebhook = \"{}\"\nsecret_env = \"HOOK_SECRET\"\n\n\
         [environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{url}\", branch = \"main\" }}]\npool = 0\n\
         checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n",
        models(model),
        forge.root().display(),
        forge.api_url(),
        forge.hook_url(),
    ));
    world
}

/// Files below a directory that have this text in them.
fn holding(directory: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(holding(&path, text));
        } else if kind.is_file()
            && let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn a_run_ends_with_a_pull_request_and_a_notification() {
    let model = Server::start(mend()).await;
    let forge = Forge::start(TOKEN).await;
    forge.fail(On::LookUp, Fault::Refuse(503));
    forge.fail(On::Open, Fault::ActThenDrop);
    let repo = Repo::plain();
    let world = world(&model, &forge, &repo);
    let output = world.ok(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await;
    assert!(output.stderr.contains("/acme/answers/pull/1"), "{output}");
    assert!(output.stderr.contains("try 2 of"), "a forge that was away is seen: {output}");
    let [pull] = &forge.pull_requests()[..] else { panic!("one pull request: {:?}", forge.entries()) };
    assert_eq!((pull.title.as_str(), pull.base.as_str()), ("Correct the answer", "main"));
    assert_eq!(forge.requests(On::Open).len(), 1, "the answer was lost, and it was not opened again");
    // The command waited for it: nobody else would have sent it soon.
    let received = forge.received();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!((&received[0].1["outcome"], received[0].2), (&serde_json::json!("done"), 1));
    assert_eq!(forge.violations(), Vec::<String>::new());

    let list = world.json(&["ls"]).await;
    let id = list["sessions"][0]["id"].as_str().unwrap().to_owned();
    let shown = world.ok(&["show", &id]).await;
    assert!(shown.stdout.contains("/acme/answers/pull/1"), "{shown}");
    for secret in [TOKEN, SECRET] {
        assert_eq!(holding(&world.data(), secret), Vec::<std::path::PathBuf>::new());
        assert!(!pull.body.contains(secret) && !output.stderr.contains(secret));
    }
    world.finish().await;
}

#[tokio::test]
async fn without_a_token_the_branch_is_there_and_deliver_opens_it_later() {
    let model = Server::start(mend()).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let mut world = world(&model, &forge, &repo);
    world.set("ACME_TOKEN", "");
    let output = world.run(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await.expect_code(1);
    assert!(output.stderr.contains("set ACME_TOKEN"), "{output}");
    assert_eq!(forge.pull_requests(), []);
    let list = world.json(&["ls"]).await;
    let id = list["sessions"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(list["sessions"][0]["delivery"]["state"], "failed", "{list}");
    assert_eq!(repo.branches().len(), 2, "the branch is pushed");

    world.set("ACME_TOKEN", TOKEN);
    let delivered = world.json(&["deliver", &id]).await;
    assert_eq!((&delivered["state"], &delivered["number"]), (&"opened".into(), &1.into()), "{delivered}");
    let again = world.ok(&["deliver", &id]).await;
    assert!(again.stderr.contains("/acme/answers/pull/1"), "{again}");
    assert_eq!(forge.pull_requests().len(), 1);
    world.finish().await;
}

/// A run against a forge of this kind, with everything over HTTP: git clones and pushes with the forge's token.
async fn over_http(kind: &str, api: Kind, way_in: &str, page: &str) {
    let model = Server::start(mend()).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    forge.serve("acme", "answers", &repo);
    let url = forge.git_url("acme", "answers");
    let mut world = World::new();
    world.set("ACME_TOKEN", TOKEN);
    world.configure(&format!(
        "{}[forges.acme]\nkind = \"{kind}\"\nurl = \"{}\"\napi_url = \"{}\"\n{way_in}\n\n\
         [environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{url}\", branch = \"main\" }}]\npool = 0\n\
         checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n",
        models(&model),
        forge.url(),
        forge.api_of(api),
    ));
    forge.fail(On::Open, Fault::ActThenRefuse(502));
    let output = world.ok(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await;
    assert!(output.stderr.contains(page), "{output}");
    let [pull] = &forge.pull_requests()[..] else { panic!("one pull request: {:?}", forge.entries()) };
    assert_eq!((pull.title.as_str(), pull.base.as_str(), pull.open), ("Correct the answer", "main", true));
    assert_eq!(repo.tip(&pull.branch), pull.commit);
    assert_eq!(forge.requests(On::Push).iter().filter(|entry| entry.acted).count(), 1);
    forge.merge(pull.number).unwrap();
    assert_eq!(repo.file("main", "answer.txt").as_deref(), Some("42\n"), "what was delivered merges");
    assert_eq!(forge.violations(), Vec::<String>::new());
    for secret in [TOKEN, "ghs_minted", APP_KEY.lines().nth(1).unwrap()] {
        assert_eq!(holding(&world.data(), secret), Vec::<std::path::PathBuf>::new(), "{secret}");
        assert!(!pull.body.contains(secret) && !output.stderr.contains(secret));
    }
    world.finish().await;
}

const BY_TOKEN: &str = "token_env = \"ACME_TOKEN\"\ngit = \"token\"";

#[tokio::test]
async fn a_run_ends_with_a_merge_request_at_gitlab() {
    over_http("gitlab", Kind::GitLab, BY_TOKEN, "/acme/answers/-/merge_requests/1").await;
}

#[tokio::test]
async fn a_run_ends_with_a_pull_request_at_gitea() {
    over_http("gitea", Kind::Gitea, BY_TOKEN, "/acme/answers/pulls/1").await;
}

#[tokio::test]
async fn a_run_ends_with_a_pull_request_of_a_github_app() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("app.pem");
    std::fs::write(&key, APP_KEY).unwrap();
    let way_in = format!("app_id = \"{APP_ID}\"\napp_key_file = \"{}\"", key.display());
    over_http("github", Kind::GitHub, &way_in, "/acme/answers/pull/1").await;
}

#[tokio::test]
async fn what_cannot_be_called_keeps_a_server_from_starting() {
    let world = World::new();
    world.configure("[notify]\nwebhook = \"chat\"\n");
    let output = world.run(&["serve", "--listen", "127.0.0.1:0"]).await.expect_code(2);
    assert!(output.stderr.contains("[notify] webhook"), "{output}");
    world.finish().await;
}
