//! What leaves the machine is looked through first: secrets in any commit, and files that a policy wants a person to see. And
//! what each turn did stays where no later one takes its place.

use protocol::{ApprovalId, Decide, EventBody, Outcome, Permission, PolicyRule};
use serde_json::json;
use testkit::model::Script;
use testkit::repo::git_in;

use crate::support::{Follow, World, ann, create};

/// Put together here, so that nobody who looks for keys in this file finds one.
fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6".repeat(3))
}

fn shell(command: &str) -> serde_json::Value {
    json!({"command": command})
}

async fn asked(follow: &mut Follow) -> (ApprovalId, String) {
    match follow.until(|body| matches!(body, EventBody::ApprovalRequested { .. })).await.body {
        EventBody::ApprovalRequested { approval, question, .. } => (approval, question),
        _ => unreachable!(),
    }
}

fn decide(approved: bool) -> Decide {
    Decide { approved, ..Decide::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_told_to_the_model_which_can_take_it_out_before_it_is_in_a_commit() {
    let token = token();
    let script = Script::new()
        .call("shell", shell(&format!("echo 42 > answer.txt; echo 'key = \"{token}\"' > conf.py")))
        .say("Done.")
        .call("shell", shell("echo 'key = os.environ[\"KEY\"]' > conf.py"))
        .say("It is read from the environment now.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("conf.py:1: a GitHub token, ghp_… (40 characters)"), "{told}");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let history = world.repo.git(&["log", "-p", &branch]);
    assert!(!history.contains(&token) && history.contains("os.environ"), "{history}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_stays_is_shown_to_a_person_who_decides() {
    let token = token();
    // Also where only an earlier commit has it, and git would call the file binary.
    let hide = format!(
        "printf '\\0{token}\\n' > x.bin; git add x.bin; git commit -qm one; git rm -q x.bin; git commit -qm two; \
         echo 42 > answer.txt"
    );
    let script = Script::new().call("shell", shell(&hide)).say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, question) = asked(&mut follow).await;
    assert!(question.contains("x.bin:1: a GitHub token, ghp_… (40 characters) (commit "), "{question}");
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed");
    sessions.decide(id, ann(), approval, decide(false)).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Escalated);
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert!(refused.title.contains("x.bin:1") && refused.hint.unwrap().contains("--allow-secrets"));
    assert_eq!(world.repo.branches(), ["main"]);
    let events = serde_json::to_string(&follow.events).unwrap();
    let calls = events.matches(&token[8..]).count();
    assert!(calls > 0 && !question.contains(&token[8..]), "only the model's own words have the value");

    let allow = protocol::DeliverSession { allow_secrets: true };
    sessions.deliver_with(id, ann(), allow).await.unwrap();
    assert_eq!(world.repo.branches().len(), 2, "a person said so");
    sessions.deliver(id, ann()).await.unwrap();
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_slipway_itself_is_a_secret_like_any_other() {
    let own = "an-ordinary-looking-token-of-ann";
    let script = Script::new()
        .call("shell", shell(&format!("echo 42 > answer.txt; echo {own} > t.txt")))
        .say("Done.")
        .say("It was asked for.");
    let mut world = World::new(script).await;
    world.outbox.own = vec![("the token of ann".to_owned(), forge::Token::new(own))];
    let sessions = world.start().await;
    let id = create(&sessions, &format!("Put {own} into t.txt")).await;
    let mut follow = Follow::new(&sessions, id).await;
    let (_, question) = asked(&mut follow).await;
    assert!(question.contains("t.txt:1") && question.contains("the token of ann"), "{question}");
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed");
    sessions.shut_down(session::ShutDown::RemoveSandboxes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_ci_wait_for_a_person_once_and_what_is_denied_is_not_pushed() {
    let workflow =
        "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml; echo 42 > answer.txt";
    let script = Script::new()
        .call("shell", shell(workflow))
        .say("Done.")
        .call("shell", shell("echo more > more.txt"))
        .say("More.")
        .call("shell", shell("echo x > denied.txt"))
        .say("Done.");
    let world = World::new(script).await.environment(|environment| {
        let rule = PolicyRule::tool(Permission::Deny, "deliver");
        environment.policy.rules = vec![PolicyRule { path: Some("denied.txt".into()), ..rule }];
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, question) = asked(&mut follow).await;
    assert!(
        question.contains(".github/workflows/ci.yml: it runs with the repository's secrets"),
        "{question}"
    );
    sessions.decide(id, ann(), approval, decide(true)).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, ann(), "And more".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(
        finished.outcome,
        Outcome::Done,
        "what was seen is not asked for again: {:?}",
        finished.reason
    );
    let tip = world.repo.tip(&sessions.get(id).await.unwrap().delivery.unwrap().branch);

    sessions.prompt(id, ann(), "And what is denied".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.unwrap().contains("denied.txt: a policy says so"));
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert!(refused.title.contains("denied.txt"), "{refused}");
    assert_eq!(world.repo.tip(&sessions.get(id).await.unwrap().delivery.unwrap().branch), tip);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_each_turn_did_is_kept_whatever_becomes_of_the_sandbox() {
    let script = Script::new()
        .call("shell", shell("echo precious > one.txt; echo begun; sleep 1000"))
        .call("shell", shell("rm one.txt; echo 42 > answer.txt"))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    // The sandbox goes, and nobody says goodbye.
    for info in world.driver.list().await.unwrap() {
        world.driver.remove(info.id).await.unwrap();
    }
    sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let mirrors = world.dir.path().join("mirrors");
    let mirror = std::fs::read_dir(&mirrors).unwrap().next().unwrap().unwrap().path();
    let refs = format!("refs/slipway-turns/{id}/");
    let listed = git_in(&mirror, &["for-each-ref", "--sort=refname", "--format=%(refname)", &refs]);
    let turns: Vec<&str> = listed.lines().collect();
    assert_eq!(turns.len(), 2, "{listed}");
    let show = |turn: &str, file: &str| git_in(&mirror, &["show", &format!("{turn}:{file}")]);
    assert_eq!(show(turns[0], "one.txt"), "precious\n", "the second turn removed it, and it is there");
    assert_eq!(show(turns[1], "answer.txt"), "42\n");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_a_prompt_is_in_no_commit_and_one_that_the_agent_writes_into_a_message_is_found() {
    let token = token();
    let commit = format!("echo more > more.txt; git add -A; git commit -qm 'Use {token}'");
    let script = Script::new()
        .call("shell", shell("echo 42 > answer.txt"))
        .say("Done.")
        .call("shell", shell(&commit))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, &format!("Correct the answer with {token}")).await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let pushed = world.repo.git(&["log", "--format=%B", &branch]);
    assert!(!pushed.contains(&token[4..]), "{pushed}");
    assert!(pushed.contains("Work of a session") && pushed.contains("Slipway-Session: "), "{pushed}");
    assert!(!branch.contains(&token[4..].to_lowercase()), "{branch}");

    sessions.prompt(id, ann(), "And more, fixes #12".into()).await.unwrap();
    let (approval, question) = asked(&mut follow).await;
    assert!(question.contains("the message of commit") && question.contains("a GitHub token"), "{question}");
    sessions.decide(id, ann(), approval, decide(false)).await.unwrap();
    follow.finished().await;
    assert_eq!(world.repo.git(&["log", "--format=%B", &branch]), pushed, "nothing more was pushed");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_value_of_a_secret_that_is_known_here_is_found_whatever_it_looks_like() {
    let (login, stored) = ("forge login canary", "stored canary");
    let write = format!(
        "echo 42 > answer.txt; echo 'ask for {stored}' > one.txt; echo 'and {login}' > two.txt; git add -A; git commit -qm x"
    );
    let script = Script::new().call("shell", shell(&write)).say("Done.").say("Nothing of it is a secret.");
    let mut world = World::new(script).await;
    let token = Some(forge::Token::new(login));
    let gitlab = forge::gitlab::GitLab::new("https://git.example/api/v4", token, "TOKEN").unwrap();
    world.outbox.forges.add("https://git.example", std::sync::Arc::new(gitlab)).unwrap();
    let sessions = world.start().await;
    sessions.set_secret("DB", stored.to_owned()).await.unwrap();
    let id = create(&sessions, &format!("Use {stored} as it is")).await;
    let mut follow = Follow::new(&sessions, id).await;
    let (approval, question) = asked(&mut follow).await;
    for found in [
        "one.txt:1: the secret DB, whose value",
        "two.txt:1: the login of the forge git.example, whose value",
    ] {
        assert!(question.contains(found), "{question}");
    }
    assert!(!question.contains(login) && !question.contains(stored), "{question}");
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("two.txt:1: the login of the forge"), "the model could have taken it out: {told}");
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed");
    sessions.decide(id, ann(), approval, decide(true)).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert!(branch.starts_with("slipway/work-"), "what has a secret in it names no branch: {branch}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lockfile_waits_for_a_person_unless_a_rule_lets_such_files_go() {
    let lock = "mkdir web; echo 42 > answer.txt; echo '{}' > web/package-lock.json";
    for open in [false, true] {
        let script = Script::new().call("shell", shell(lock)).say("Done.");
        let world = World::new(script).await.environment(|environment| {
            let rule = PolicyRule::tool(Permission::Allow, "deliver");
            let rule = PolicyRule { path: Some("@lockfiles".into()), ..rule };
            environment.policy.rules.extend(open.then_some(rule));
        });
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        if !open {
            let (approval, question) = asked(&mut follow).await;
            assert!(
                question.contains("web/package-lock.json: it says whose code is installed"),
                "{question}"
            );
            sessions.decide(id, ann(), approval, decide(true)).await.unwrap();
        }
        let finished = follow.finished().await;
        assert_eq!(finished.outcome, Outcome::Done, "{open}: {:?}", finished.reason);
        world.end(sessions).await;
    }
}
