//! Pull requests as people and forges deal with them, through the binary: webhooks over real HTTP in each forge's manner,
//! people who sign in, and the commands for pull requests and branches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::forge::{Fault, Kind, On, Order, PullRequest, Server as Forge};
use testkit::model::{Script, Server};
use testkit::repo::{Repo, git_in};

use crate::harness::{CHECK, ENVIRONMENT, World, mend, models, shell};

pub(crate) const TOKEN: &str = "forge-token-canary-4711";
pub(crate) const SECRET: &str = "forge-hook-secret-canary-0815";

/// A world whose repository is on a forge of this kind, over HTTP, with webhooks.
pub(crate) fn world(
    model: &Server,
    forge: &Forge,
    repo: &Repo,
    kind: Kind,
    more: &str,
    rules: &str,
) -> World {
    forge.serve("acme", "answers", repo);
    let url = forge.git_url("acme", "answers");
    let word = match kind {
        Kind::GitHub => "github",
        Kind::GitLab => "gitlab",
        Kind::Gitea => "gitea",
    };
    let mut world = World::new();
    world.set("ACME_TOKEN", TOKEN);
    world.set("ACME_HOOK", SECRET);
    world.configure(&format!(
        "{}[forges.acme]\nkind = \"{word}\"\nurl = \"{}\"\napi_url = \"{}\"\ntoken_env = \"ACME_TOKEN\"\ngit = \"token\"\n\
         webhook_secret_env = \"ACME_HOOK\"\n{more}\n\n\
         [people.ann]\nname = \"Ann Example\"\nemail = \"ann@example.com\"\nlogins = {{ acme = \"Ann-There\" }}\n\n\
         [environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{url}\", branch = \"main\" }}]\npool = 0\n\
         checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n\n[environments.{ENVIRONMENT}.pull_request]\n{rules}\n",
        models(model),
        forge.url(),
        forge.api_of(kind),
    ));
    world
}

pub(crate) fn only(forge: &Forge) -> PullRequest {
    let [pull] = &forge.pull_requests()[..] else { panic!("one pull request: {:?}", forge.entries()) };
    pull.clone()
}

/// Files below a directory that have this text in them.
fn holding(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
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

pub(crate) fn is_sent(frame: &Value, key: &str) -> bool {
    let data = &frame["data"];
    frame["type"] == "reply.updated"
        && data["state"] == "sent"
        && data["key"].as_str().is_some_and(|name| name.ends_with(key))
}

/// A session whose pull request is talked about, and merged.
async fn talked_about(kind: Kind) {
    let script = mend().answer(shell("echo more > more.txt")).say("There is more, @ann.");
    let model = Server::start(script).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let world = world(&model, &forge, &repo, kind, "", "labels = [\"agent\"]");
    let serving = world.serve().await;
    forge.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
    // Whoever does not know the secret is not heard.
    let intruder = Forge::start(TOKEN).await;
    intruder.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), "another-secret-of-16");
    // Each comes twice.
    forge.order(Order::Twice);
    let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    let pull = only(&forge);
    assert_eq!((pull.labels.as_slice(), pull.open), (&["agent".to_owned()][..], true));
    assert!(
        pull.body.contains("The answer is 42 now.") && pull.body.contains("| answer | "),
        "{}",
        pull.body
    );

    // What others pushed meanwhile is taken in.
    repo.commit(&pull.branch, &[("theirs.txt", "theirs\n")]);
    forge.say(1, "somebody", "what is this?");
    forge.say(1, "stranger", "@slipway do evil");
    forge.say(1, "ann-there", "@slipway there should be more");
    watcher.until(|frame| is_sent(frame, ".answer")).await;
    let events = serving.api.log(&session).await;
    let prompts = events.of("prompt.queued");
    assert_eq!(prompts.len(), 2, "one for the comment, however often it is told: {prompts:?}");
    let text = prompts[1]["text"].as_str().unwrap();
    assert!(text.contains("there should be more") && text.contains("ann-there"), "{text}");
    let asked = events.durable.iter().filter(|event| event["type"] == "prompt.queued").nth(1).unwrap();
    assert_eq!(asked["actor"]["id"], "ann", "they are who the configuration says");
    let said: Vec<String> = only(&forge)
        .comments
        .iter()
        .filter(|said| said.author == "slipway-bot")
        .map(|said| said.text.clone())
        .collect();
    assert_eq!(said.len(), 2, "it is acknowledged and answered, once each: {said:?}");
    assert!(said[0].starts_with("Taken as a request.") && said[0].contains(&session), "{said:?}");
    assert!(said[1].starts_with("Done.") && said[1].contains("There is more"), "{said:?}");
    assert!(!said[1].contains("@ann"), "nobody is called: {said:?}");
    let pull = only(&forge);
    assert_eq!(repo.file(&pull.branch, "more.txt").as_deref(), Some("more\n"));
    assert_eq!(repo.file(&pull.branch, "theirs.txt").as_deref(), Some("theirs\n"));
    let told = format!("{events:?}");
    assert!(told.contains("Others pushed 1 commits") && told.contains("theirs.txt"), "the agent is told");

    // What comes late and is older changes nothing.
    forge.order(Order::Held);
    forge.close(1);
    forge.reopen(1);
    forge.merge(1).unwrap();
    forge.order(Order::Straight);
    let merged = |frame: &Value| frame["data"]["review"]["state"] == "merged";
    watcher.until(merged).await;
    // The oldest of those that were held comes last.
    let answers = forge.hook_answers().await;
    assert!(answers.iter().any(|answer| answer.contains("it is not news")), "{answers:?}");
    let events = serving.api.log(&session).await;
    let states: Vec<&Value> =
        events.of("delivery.updated").into_iter().map(|data| &data["review"]["state"]).collect();
    assert_eq!(states.last(), Some(&&json!("merged")), "{states:?}");
    // The index may be a moment behind the log.
    let mut funnel = json!({});
    for _ in 0..200 {
        funnel = serving.api.get("/statistics").await.expect(200)["funnel"].clone();
        if funnel["merged"] == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((&funnel["merged"], &funnel["closed"]), (&json!(1), &json!(0)));
    assert_eq!(forge.violations(), Vec::<String>::new());
    for secret in [TOKEN, SECRET] {
        assert_eq!(holding(&world.data(), secret), Vec::<PathBuf>::new());
        assert!(!format!("{events:?}").contains(secret));
    }
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn a_comment_is_a_prompt_and_a_merge_is_counted_at_github() {
    talked_about(Kind::GitHub).await;
}

#[tokio::test]
async fn a_comment_is_a_prompt_and_a_merge_is_counted_at_gitlab() {
    talked_about(Kind::GitLab).await;
}

#[tokio::test]
async fn a_comment_is_a_prompt_and_a_merge_is_counted_at_gitea() {
    talked_about(Kind::Gitea).await;
}

#[tokio::test]
async fn a_comment_of_a_review_is_answered_in_its_thread() {
    for kind in [Kind::GitHub, Kind::GitLab] {
        let model = Server::start(mend().say("It is 42 because of the question.")).await;
        let forge = Forge::start(TOKEN).await;
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "comments = \"anyone\"", "");
        let serving = world.serve().await;
        forge.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until_type("turn.finished").await;
        forge.say_at(1, "bob", "@slipway why 42?", ("answer.txt", 1));
        watcher.until(|frame| is_sent(frame, ".answer")).await;
        let text = watcher.seen.of("prompt.queued")[1]["text"].as_str().unwrap();
        assert!(text.contains("at answer.txt:1"), "{text}");
        let comments = only(&forge).comments;
        assert_eq!(comments.len(), 3, "{comments:?}");
        assert!(comments.iter().all(|said| said.thread == Some(comments[0].id)), "{kind:?}: {comments:?}");
        assert_eq!(forge.violations(), Vec::<String>::new());
        drop(watcher);
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn a_failed_check_is_a_prompt_as_often_as_the_environment_wants() {
    for kind in Kind::ALL {
        let script = mend().answer(shell("echo fixed > fixed.txt")).say("Corrected.");
        let model = Server::start(script).await;
        let forge = Forge::start(TOKEN).await;
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "", "fix_checks = 1");
        let serving = world.serve().await;
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until_type("turn.finished").await;
        let pull = only(&forge);
        // The log is there before anybody is told.
        forge.report("acme/answers", &pull.commit, "build", "failure");
        forge.log(2, "2026-11-18T10:00:00.0000000Z src/main.c:3:5: error: expected ';'\n");
        forge.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        forge.order(Order::Twice);
        assert_eq!(forge.report("acme/answers", &pull.commit, "lint", "failure"), 2);
        watcher.until_type("turn.finished").await;
        let events = serving.api.log(&session).await;
        let prompts = events.of("prompt.queued");
        assert_eq!(prompts.len(), 2, "{kind:?}: {prompts:?}");
        let text = prompts[1]["text"].as_str().unwrap();
        assert!(text.contains("\"lint\"") && text.contains("expected ';'"), "{kind:?}: {text}");
        assert_eq!(repo.file(&pull.branch, "fixed.txt").as_deref(), Some("fixed\n"));
        // It was tried as often as may be.
        let now = only(&forge).commit;
        assert_ne!(now, pull.commit);
        forge.report("acme/answers", &now, "lint", "failure");
        let answers = forge.hook_answers().await;
        assert!(
            answers.iter().any(|answer| answer.contains("as often as the environment wants")),
            "{answers:?}"
        );
        assert_eq!(serving.api.log(&session).await.of("prompt.queued").len(), 2, "{answers:?}");
        assert_eq!(forge.violations(), Vec::<String>::new(), "{kind:?}");
        drop(watcher);
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn webhooks_that_are_not_the_forges_are_refused() {
    let model = Server::start(Script::new()).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let mut world = world(&model, &forge, &repo, Kind::GitHub, "", "");
    // Also where everybody else needs a token.
    world.set("SLIPWAY_TOKEN", "a-token-for-people");
    let serving = world.serve().await;
    let api = serving.api.without_token();
    let post = |path: &str, headers: &[(&'static str, &str)], body: &str| {
        let mut request = api.request(reqwest::Method::POST, path).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        api.send(request)
    };
    assert_eq!(post("/hooks/nowhere", &[], "{}").await.problem(404), "not_found");
    assert_eq!(post("/hooks/acme", &[], "{}").await.problem(401), "unauthorized");
    let forged =
        [("x-github-event", "ping"), ("x-github-delivery", "1"), ("x-hub-signature-256", "sha256=00")];
    assert_eq!(post("/hooks/acme", &forged, "{}").await.problem(401), "unauthorized");
    assert_eq!(post("/hooks/acme", &forged, &" ".repeat(5 << 20)).await.problem(413), "too_large");
    let key = hmac("{}");
    let good =
        [("x-github-event", "ping"), ("x-github-delivery", "1"), ("x-hub-signature-256", key.as_str())];
    assert_eq!(post("/hooks/acme", &good, "{}").await.expect(200)["taken"], false);
    assert_eq!(post("/hooks/acme", &good, "{}").await.expect(200)["what"], "it was told before");
    let other = hmac("{ }");
    let replayed =
        [("x-github-event", "ping"), ("x-github-delivery", "1"), ("x-hub-signature-256", other.as_str())];
    assert_eq!(post("/hooks/acme", &replayed, "{ }").await.problem(409), "conflict");
    assert_eq!(api.get("/sessions").await.problem(401), "unauthorized", "nothing else is open");
    serving.stop().await;
    world.finish().await;
}

/// The signature of a body, by another program than ours.
pub(crate) fn hmac(body: &str) -> String {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", SECRET, "-r"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = openssl.wait_with_output().unwrap();
    format!("sha256={}", String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap())
}

#[tokio::test]
async fn whoever_signs_in_opens_the_pull_requests_of_their_prompts() {
    for (kind, page) in [(Kind::GitHub, "ghu_"), (Kind::GitLab, "glo_")] {
        let model = Server::start(mend()).await;
        let forge = Forge::start(TOKEN).await;
        // Tokens that end so soon that each is renewed before it is used.
        forge.devices(Duration::from_secs(60), 1);
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "client_id = \"app-1\"", "");
        let mut signing_in = world.start(&["login", "acme"]);
        signing_in.close_stdin();
        signing_in.stderr_has("CODE-0001").await;
        assert!(forge.approve("CODE-0001", "ana-there"));
        let signed_in = signing_in.wait().await.expect_code(0);
        assert_eq!(signed_in.stdout.trim(), "ana-there", "{signed_in}");
        let listed = world.json(&["login"]).await;
        assert_eq!(listed["logins"][0]["login"], "ana-there", "{listed}");

        let output = world.ok(&["-vv", "run", "--env", ENVIRONMENT, "Correct the answer"]).await;
        let pull = only(&forge);
        assert_eq!(pull.author, "ana-there", "so that ana cannot approve it");
        assert!(!pull.body.contains("Opened for"), "{}", pull.body);
        assert!(forge.requests(On::SignIn).len() >= 3, "it was renewed");
        let list = world.json(&["ls"]).await;
        let id = list["sessions"][0]["id"].as_str().unwrap().to_owned();
        let events = world.ok(&["attach", &id, "--json"]).await;
        for secret in [TOKEN, SECRET, page, "ghr_", "glr_"] {
            assert_eq!(holding(&world.data(), secret), Vec::<PathBuf>::new(), "{secret}");
            for text in [&pull.body, &output.stderr, &output.stdout, &events.stdout, &signed_in.stderr] {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
        world.ok(&["login", "acme", "--remove"]).await;
        assert!(world.json(&["login"]).await["logins"][0]["login"].is_null());
        assert_eq!(forge.violations(), Vec::<String>::new());
        world.finish().await;
    }
}

#[tokio::test]
async fn a_token_that_was_made_at_the_forge_signs_in_until_it_is_revoked() {
    const OWN: &str = "personal-token-canary-2342";
    let model = Server::start(mend().answer(shell("echo more > more.txt")).say("There is more.")).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let world = world(&model, &forge, &repo, Kind::Gitea, "", "");
    let give = |token: &'static str| {
        let mut login = world.start(&["login", "gitea"]);
        async move {
            login.write(format!("{token}\n").as_bytes()).await;
            login.close_stdin();
            login.wait().await
        }
    };
    let refused = give(OWN).await.expect_code(1);
    assert!(
        refused.stderr.contains("does not accept this token") && !refused.stderr.contains(OWN),
        "{refused}"
    );
    forge.let_in("ana-there", OWN);
    assert_eq!(give(OWN).await.expect_code(0).stdout.trim(), "ana-there");
    forge.revoke(OWN);
    let output = world.ok(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await;
    let pull = only(&forge);
    assert_eq!(pull.author, "slipway-bot", "{output}");
    assert!(pull.body.ends_with("Opened for ana."), "{}", pull.body);
    assert_eq!(holding(&world.data(), OWN), Vec::<PathBuf>::new());
    let unknown = world.run(&["login", "github"]).await.expect_code(2);
    assert!(unknown.stderr.contains("the forges are: acme"), "{unknown}");
    world.finish().await;
}

#[tokio::test]
async fn a_pull_request_is_shown_changed_and_closed() {
    for kind in Kind::ALL {
        let model = Server::start(mend()).await;
        let forge = Forge::start(TOKEN).await;
        forge.let_in("bob", "bobs-token");
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "", "draft = true\ntemplate = \"Why: {prompts}\"");
        world.ok(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await;
        let list = world.json(&["ls"]).await;
        let id = list["sessions"][0]["id"].as_str().unwrap().to_owned();
        let pull = only(&forge);
        assert!(pull.draft && pull.body.starts_with("Why: ana:\n\n> Correct the answer"), "{}", pull.body);
        forge.report("acme/answers", &pull.commit, "lint", "failure");
        let shown = world.json(&["pr", &id]).await;
        assert_eq!((&shown["state"], &shown["draft"]), (&json!("open"), &json!(true)), "{shown}");
        assert_eq!(shown["checks"][0]["state"], "failed", "{shown}");
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0");
        let comment = format!("See here.\nuse {token}");
        let edit = [
            "pr",
            &id,
            "--ready",
            "--title",
            "Mend it",
            "--label",
            "agent",
            "--reviewer",
            "bob",
            "--comment",
            &comment,
        ];
        let edited = world.ok(&edit).await;
        assert!(edited.stderr.contains("open: Mend it"), "{edited}");
        let pull = only(&forge);
        assert_eq!((pull.title.as_str(), pull.draft), ("Mend it", false), "{kind:?}");
        assert_eq!((pull.labels, pull.reviewers), (vec!["agent".to_owned()], vec!["bob".to_owned()]));
        let said = &pull.comments[0].text;
        assert!(said.starts_with("See here.\n(left out: a GitHub token)"), "{said}");
        world.ok(&["pr", &id, "--describe"]).await;
        let closed = world.json(&["pr", &id, "--close"]).await;
        assert_eq!(closed["state"], "closed", "{closed}");
        let session = world.json(&["show", &id]).await;
        assert_eq!(session["delivery"]["review"]["state"], "closed", "{session}");
        assert_eq!(forge.violations(), Vec::<String>::new(), "{kind:?}");
        let nothing = world.run(&["pr", &id, "--title", ""]).await.expect_code(2);
        assert!(nothing.stderr.contains("this is no title"), "{nothing}");
        world.finish().await;
    }
}

#[tokio::test]
async fn a_branch_is_pulled_into_a_checkout_and_overwrites_nothing() {
    let model = Server::start(mend().answer(shell("echo more > more.txt")).say("There is more.")).await;
    let repo = Repo::plain();
    let world = World::with(&model, &repo);
    let checkout = world.root().join("checkout");
    git_in(world.root(), &["clone", "-q", &repo.url(), "checkout"]);
    let into = checkout.to_str().unwrap();
    world.ok(&["run", "--env", ENVIRONMENT, "Correct the answer"]).await;
    let list = world.json(&["ls"]).await;
    let id = list["sessions"][0]["id"].as_str().unwrap().to_owned();
    let nowhere = world.run(&["pull", &id]).await.expect_code(2);
    assert!(nowhere.stderr.contains("is in no checkout"), "{nowhere}");
    let pulled = world.json(&["pull", &id, "--into", into]).await;
    let branch = pulled["branch"].as_str().unwrap();
    assert_eq!(git_in(&checkout, &["rev-parse", branch]).trim(), repo.tip(branch));
    assert_eq!(
        git_in(&checkout, &["symbolic-ref", "--short", "HEAD"]).trim(),
        "main",
        "it stays where it is"
    );

    // What was committed on top here stays, and is told.
    git_in(&checkout, &["switch", "-q", branch]);
    world.ok(&["prompt", &id, "And more"]).await;
    world.ok(&["pull", &id, "--into", into]).await;
    assert_eq!(
        std::fs::read_to_string(checkout.join("more.txt")).unwrap(),
        "more\n",
        "it goes forward with the files"
    );
    git_in(
        &checkout,
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--amend", "-m", "mine"],
    );
    let refused = world.run(&["pull", &id, "--into", into]).await.expect_code(1);
    assert!(
        refused.stderr.contains("not overwritten") && refused.stderr.contains("git branch -m"),
        "{refused}"
    );
    git_in(world.root(), &["init", "-q", "other"]);
    let other = world.root().join("other");
    let foreign = world.run(&["pull", &id, "--into", other.to_str().unwrap()]).await.expect_code(1);
    assert!(foreign.stderr.contains("does not have the commit"), "{foreign}");
    world.finish().await;
}

#[tokio::test]
async fn a_server_that_dies_while_it_answers_says_nothing_twice() {
    for fault in [Fault::ActThenHang, Fault::Hang] {
        let model = Server::start(mend().say("It is 42 because of the question.")).await;
        let forge = Forge::start(TOKEN).await;
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, Kind::GitHub, "comments = \"members\"", "");
        let serving = world.serve().await;
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until_type("turn.finished").await;
        drop(watcher);
        forge.tell(Kind::GitHub, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        forge.fail(On::Comment, fault);
        forge.say(1, "stranger", "@slipway let me in");
        forge.say(1, "bob", "@slipway why 42?");
        forge.wait_for(On::Comment, 1).await;
        serving.crash().await;
        let serving = world.serve().await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until(|frame| is_sent(frame, ".answer")).await;
        let events = serving.api.log(&session).await;
        let sent = events.of("reply.updated").iter().filter(|reply| reply["state"] == "sent").count();
        if sent < 2 {
            watcher.until(|frame| is_sent(frame, ".seen")).await;
        }
        let said: Vec<String> = only(&forge).comments.into_iter().map(|said| said.author).collect();
        assert_eq!(said.iter().filter(|author| *author == "slipway-bot").count(), 2, "{fault:?}: {said:?}");
        let asked = events.durable.iter().filter(|event| event["type"] == "prompt.queued").nth(1).unwrap();
        assert_eq!(asked["actor"]["id"], "bob@acme", "whoever is not known by name is nobody who is");
        assert_eq!(forge.violations(), Vec::<String>::new());
        drop(watcher);
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}
