//! What a forge tells of pull requests when it is inconvenient: after a delivery that failed, before the number of a pull request is
//! known here, late and in another order, and from people who are known only later.

use serde_json::{Value, json};
use testkit::forge::{Fault, Kind, On, Order, Server as Forge};
use testkit::model::Server;
use testkit::repo::Repo;

use crate::harness::{ENVIRONMENT, Serving, mend, shell};
use crate::pull_requests::{SECRET, TOKEN, hmac, is_sent, only, world};

/// Sends a comment on the first pull request as GitHub does, under a name of its own; gives the answer.
async fn comment(serving: &Serving, name: &str, author: &str, text: &str) -> Value {
    let body = json!({
        "action": "created",
        "issue": {"number": 1, "pull_request": {}},
        "comment": {"id": 7001, "body": text, "user": {"login": author}, "author_association": "NONE"},
        "repository": {"full_name": "acme/answers"},
    });
    let (body, api) = (body.to_string(), serving.api.without_token());
    let request = api
        .request(reqwest::Method::POST, "/hooks/acme")
        .header("x-github-event", "issue_comment")
        .header("x-github-delivery", name)
        .header("x-hub-signature-256", hmac(&body))
        .body(body);
    api.send(request).await.expect(200)
}

#[tokio::test]
async fn a_pull_request_stays_known_when_a_later_delivery_fails() {
    let script = mend()
        .answer(shell("echo more > more.txt"))
        .say("There is more.")
        .answer(shell("echo most > most.txt"))
        .say("There is most.");
    let model = Server::start(script).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let world = world(&model, &forge, &repo, Kind::GitHub, "", "");
    let serving = world.serve().await;
    forge.tell(Kind::GitHub, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
    let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    forge.revoke(TOKEN);
    serving.api.post(&format!("/sessions/{session}/prompts"), &json!({"prompt": "And more"})).await;
    let finished = watcher.until_type("turn.finished").await;
    assert_eq!(finished["data"]["outcome"], "failed", "{finished}");
    let delivery = serving.api.get(&format!("/sessions/{session}")).await.expect(200)["delivery"].clone();
    assert_eq!((&delivery["state"], &delivery["number"]), (&json!("failed"), &json!(1)), "{delivery}");
    assert!(delivery["url"].as_str().is_some_and(|url| url.ends_with("/1")), "{delivery}");

    forge.let_in("slipway-bot", TOKEN);
    let shown = world.json(&["pr", &session]).await;
    assert_eq!((&shown["number"], &shown["state"]), (&json!(1), &json!("open")), "{shown}");
    forge.say(1, "ann-there", "@slipway there should be most");
    watcher.until(|frame| is_sent(frame, ".answer")).await;
    assert_eq!(forge.pull_requests().len(), 1);
    assert_eq!(repo.file(&only(&forge).branch, "most.txt").as_deref(), Some("most\n"));
    forge.merge(1).unwrap();
    watcher.until(|frame| frame["data"]["review"]["state"] == "merged").await;
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn what_is_said_before_the_number_is_known_is_taken_once_it_is() {
    for kind in Kind::ALL {
        let model = Server::start(mend().answer(shell("echo more > more.txt")).say("There is more.")).await;
        let forge = Forge::start(TOKEN).await;
        // It is opened, and the answer says otherwise: what is there is seen a moment later.
        forge.fail(On::Open, Fault::ActThenRefuse(502));
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "", "");
        let serving = world.serve().await;
        forge.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        forge.wait_for(On::Open, 1).await;
        forge.say(1, "ann-there", "@slipway there should be more");
        let answers = forge.hook_answers().await;
        assert!(answers.iter().any(|answer| answer.contains("is being opened")), "{kind:?}: {answers:?}");
        watcher.until(|frame| is_sent(frame, ".answer")).await;
        assert_eq!(watcher.seen.of("prompt.queued").len(), 2, "{kind:?}");
        assert_eq!(repo.file(&only(&forge).branch, "more.txt").as_deref(), Some("more\n"));
        let delivery = serving.api.get(&format!("/sessions/{session}")).await.expect(200)["delivery"].clone();
        assert_eq!(delivery["review"]["state"], "open", "that it was opened was told too: {delivery}");
        drop(watcher);
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn news_that_is_late_changes_nothing_whatever_it_says() {
    for kind in Kind::ALL {
        let model = Server::start(mend()).await;
        let forge = Forge::start(TOKEN).await;
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, kind, "", "");
        let serving = world.serve().await;
        forge.tell(kind, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until_type("turn.finished").await;
        forge.hook_answers().await;
        // That it is open again comes first, and says what is known; that it was closed comes after it, and is older.
        forge.order(Order::Held);
        forge.close(1);
        forge.reopen(1);
        forge.order(Order::Straight);
        let answers = forge.hook_answers().await;
        assert!(answers.last().is_some_and(|last| last.contains("it is not news")), "{kind:?}: {answers:?}");
        let review = async |serving: &Serving| {
            serving.api.get(&format!("/sessions/{session}")).await.expect(200)["delivery"]["review"].clone()
        };
        assert_eq!(review(&serving).await["state"], "open", "{kind:?}: it is open at the forge");
        // Also for a server that comes later.
        forge.order(Order::Held);
        forge.close(1);
        forge.reopen(1);
        drop(watcher);
        let address = serving.address().to_owned();
        serving.stop().await;
        let serving = world.serve_at(&address).await;
        forge.order(Order::Straight);
        let answers = forge.hook_answers().await;
        assert!(answers.last().is_some_and(|last| last.contains("it is not news")), "{kind:?}: {answers:?}");
        assert_eq!(review(&serving).await["state"], "open", "{kind:?}");
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}

#[tokio::test]
async fn whoever_is_made_known_later_is_heard_when_it_is_told_again() {
    let model = Server::start(mend().say("It is 42 because of the question.")).await;
    let forge = Forge::start(TOKEN).await;
    let repo = Repo::plain();
    let first = "comments = \"people\"";
    let world = world(&model, &forge, &repo, Kind::GitHub, first, "");
    let serving = world.serve().await;
    // Nobody has this pull request yet.
    let early = comment(&serving, "early", "bob-there", "@slipway why 42?").await;
    assert_eq!(early["what"], "no session has this pull request", "{early}");
    let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    let stranger = comment(&serving, "early", "bob-there", "@slipway why 42?").await;
    assert_eq!(stranger["what"], "its author may not prompt here", "{stranger}");
    drop(watcher);
    serving.stop().await;
    let config = std::fs::read_to_string(world.data().join("slipway.toml")).unwrap();
    world.configure(
        &config.replace("[people.ann]", "[people.bob]\nname = \"Bob\"\nemail = \"bob@example.org\"\nlogins = { acme = \"bob-there\" }\n\n[people.ann]"),
    );
    let serving = world.serve().await;
    let known = comment(&serving, "early", "bob-there", "@slipway why 42?").await;
    assert_eq!((&known["taken"], &known["session"]), (&json!(true), &json!(session)), "{known}");
    let again = comment(&serving, "early", "bob-there", "@slipway why 42?").await;
    assert_eq!(again["what"], "it was told before", "{again}");
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until(|frame| is_sent(frame, ".answer")).await;
    let events = serving.api.log(&session).await;
    let asked = events.durable.iter().filter(|event| event["type"] == "prompt.queued").nth(1).unwrap();
    assert_eq!(asked["actor"]["id"], "bob");
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn work_after_a_merge_is_a_pull_request_of_its_own() {
    let more = shell("echo Six times seven. > notes.txt");
    let script = mend().say("Because of the question.").answer(more).say("Added notes on the answer.");
    let model = Server::start(script).await;
    let forge = Forge::start(TOKEN).await;
    forge.let_in("bea", "beas-token-of-tests");
    let repo = Repo::plain();
    let rules = "labels = [\"agent\"]\nreviewers = [\"bea\"]";
    let world = world(&model, &forge, &repo, Kind::GitHub, "", rules);
    let serving = world.serve().await;
    forge.tell(Kind::GitHub, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
    let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until_type("turn.finished").await;
    // The base has the same as another commit, and the branch is gone.
    let branch = only(&forge).branch;
    let squashed = forge.squash(1).unwrap();
    watcher.until(|frame| frame["data"]["review"]["state"] == "merged").await;
    forge.say(1, "ann-there", "@slipway why is it 42?");
    watcher.until(|frame| is_sent(frame, ".answer")).await;
    assert_eq!(only(&forge).number, 1, "a question opens nothing");
    forge.say(1, "ann-there", "@slipway note how it comes about");
    watcher.until(|frame| is_sent(frame, ".answer")).await;

    let pulls = forge.pull_requests();
    assert_eq!(pulls.len(), 2, "{pulls:?}");
    let second = &pulls[1];
    assert_eq!((second.branch.as_str(), second.open), (branch.as_str(), true));
    assert_eq!(second.title, "Added notes on the answer");
    assert_eq!(
        (&second.labels[..], &second.reviewers[..]),
        (&["agent".to_owned()][..], &["bea".to_owned()][..])
    );
    assert!(
        second.body.contains("note how it comes about") && !second.body.contains("Correct the answer"),
        "{}",
        second.body
    );
    // It goes on from the base, and has only what is new.
    let base = repo.git(&["merge-base", "main", &branch]);
    assert_eq!(base.trim(), squashed);
    assert_eq!(repo.git(&["diff", "--name-only", &format!("main...{branch}")]).trim(), "notes.txt");
    forge.merge(2).unwrap();
    assert_eq!(repo.file("main", "notes.txt").as_deref(), Some("Six times seven.\n"));
    drop(watcher);
    serving.stop().await;
    world.remove_sandboxes().await;
    world.finish().await;
}

#[tokio::test]
async fn what_could_not_be_said_is_said_once_the_forge_takes_it() {
    // By the next reply, by a delivery that somebody asks for, and by the next server.
    for way in ["reply", "deliver", "restart"] {
        let model = Server::start(mend().say("It is 42 because of the question.")).await;
        let forge = Forge::start(TOKEN).await;
        let repo = Repo::plain();
        let world = world(&model, &forge, &repo, Kind::GitHub, "", "");
        let mut serving = world.serve().await;
        forge.tell(Kind::GitHub, &format!("{}/api/v1/hooks/acme", serving.url), SECRET);
        let session = serving.api.create(ENVIRONMENT, "Correct the answer").await;
        let mut watcher = serving.api.watch(&session, 0).await;
        watcher.until_type("turn.finished").await;
        let count = if way == "reply" { 1 } else { 2 };
        forge.fail_times(On::Comment, Fault::Refuse(401), count);
        forge.say(1, "ann-there", "@slipway why 42?");
        if way != "reply" {
            let failed = |frame: &Value, key: &str| {
                let data = &frame["data"];
                data["state"] == "failed" && data["key"].as_str().is_some_and(|name| name.ends_with(key))
            };
            watcher.until(|frame| failed(frame, ".answer")).await;
        }
        match way {
            "deliver" => {
                serving.api.post(&format!("/sessions/{session}/deliver"), &json!({})).await.expect(200);
            }
            "restart" => {
                drop(watcher);
                serving.stop().await;
                serving = world.serve().await;
                watcher = serving.api.watch(&session, 0).await;
            }
            _ => {}
        }
        let mut said = 0;
        while said < 2 {
            watcher.until(|frame| is_sent(frame, ".answer") || is_sent(frame, ".seen")).await;
            said += 1;
        }
        let comments = only(&forge).comments;
        let ours: Vec<&str> = comments
            .iter()
            .filter(|said| said.author == "slipway-bot")
            .map(|said| said.text.as_str())
            .collect();
        assert_eq!(ours.len(), 2, "{way}: {ours:?}");
        assert!(ours.iter().any(|text| text.starts_with("Taken as a request.")), "{way}: {ours:?}");
        assert!(ours.iter().any(|text| text.contains("because of the question")), "{way}: {ours:?}");
        drop(watcher);
        serving.stop().await;
        world.remove_sandboxes().await;
        world.finish().await;
    }
}
