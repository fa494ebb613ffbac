//! The gate before `done`: work that no turn's checks have passed is checked before it is called done, and what is
//! delivered is what was there while the checks ran.

use protocol::event::CheckOutcome;
use protocol::{Actor, Budget, Budgets, EditSession, ItemKind, Outcome};
use serde_json::json;
use session::{Sessions, ShutDown};
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, ann, create};

/// How each run of a check ended, in order.
fn runs(follow: &Follow) -> Vec<Option<bool>> {
    let passed = |kind: &ItemKind| match kind {
        ItemKind::Report(report) => Some(report.passed),
        _ => None,
    };
    follow.items().iter().filter_map(|item| passed(&item.kind)).collect()
}

fn steps(steps: u32) -> Budgets {
    Budgets { turn: Budget { steps: Some(steps), ..Budget::default() }, ..Budgets::default() }
}

async fn restart(world: &World, sessions: Sessions) -> Sessions {
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop(sessions);
    world.start().await
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_stopped_turn_left_is_not_called_done_by_one_that_only_talks() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 43 > answer.txt; echo begun; sleep 1000"}))
        .say("All is well.")
        .repeat_last();
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    assert_eq!(runs(&follow), []);

    sessions.prompt(id, ann(), "Is it done?".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    assert_eq!(finished.receipt.checks, [CheckOutcome { name: "test".into(), passed: false }]);
    // Nor does it become so with another server, or because it was asked before.
    drop(follow);
    let sessions = restart(&world, sessions).await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.finished().await;
    follow.finished().await;
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    assert_eq!(world.repo.branches(), ["main"]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_budget_broke_off_is_checked_and_delivered_and_questions_afterwards_are_not() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("It is done.")
        .say("I wrote the answer.")
        .say("Still the same.");
    let world = World::new(script).await.budgets(steps(1));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::OutOfBudget);
    assert_eq!(runs(&follow), []);

    // It goes on by itself.
    let edit = EditSession { budgets: Some(steps(50)), ..EditSession::default() };
    sessions.edit(id, Actor::user("bob"), edit).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(runs(&follow), [Some(true)]);
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));

    // What passed is known from the log, to this server and to the next.
    let delivered = follow.deliveries().len();
    sessions.prompt(id, ann(), "What did you do?".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    drop(follow);
    let sessions = restart(&world, sessions).await;
    let mut follow = Follow::new(&sessions, id).await;
    for _ in 0..3 {
        follow.finished().await;
    }
    sessions.prompt(id, ann(), "And now?".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(runs(&follow), [Some(true)], "a question is no reason to check again");
    assert_eq!(follow.deliveries().len(), delivered);
    world.end(sessions).await;
}

/// Passes as soon as the file is good, and says when it has begun.
const WAITS: &str = "#!/bin/sh\ntouch /tmp/started\nfor i in $(seq 400); do\n  grep -q good f && exit 0\n  sleep 0.05\ndone\nexit 1\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_delivered_is_what_was_there_while_the_checks_ran() {
    let late = "echo bad > f; while ! [ -e /tmp/started ]; do sleep 0.05; done; echo good > f";
    let script = Script::new().call("shell", json!({"command": late, "background": true})).say("It is good.");
    let repo = Repo::bare_with(&[("f", "old\n"), ("check.sh", WAITS)]);
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "sh check.sh".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Make it good").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(runs(&follow), [Some(true), Some(true)], "once more, on what is there now");
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "f").as_deref(), Some("good\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_never_come_to_rest_are_told_to_the_model_and_not_delivered() {
    let script = Script::new()
        .call("shell", json!({"command": "echo more >> README.md"}))
        .say("Done.")
        .call("shell", json!({"command": "git rm -q --cached stamp; echo stamp > .gitignore"}))
        .say("Now it is.");
    let repo = Repo::bare_with(&[("README.md", "Read me.\n"), ("stamp", "0\n")]);
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "cat /proc/sys/kernel/random/uuid > stamp".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(runs(&follow).len(), 4, "three times in vain, and once when the file was ignored");
    let requests = world.model.requests();
    let told = requests[2].last_user().unwrap();
    assert!(told.contains("files that change while the checks run") && told.contains(": stamp."), "{told}");
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "README.md").as_deref(), Some("Read me.\nmore\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_checks_leave_behind_is_neither_delivered_nor_checked_by_a_question() {
    let script = Script::new()
        .call("shell", json!({"command": "echo more >> README.md"}))
        .say("Done.")
        .say("It is more.");
    let world = World::with(Repo::bare_with(&[("README.md", "Read me.\n")]), script).await.environment(
        |environment| environment.checks[0].run = "cat /proc/sys/kernel/random/uuid > report".into(),
    );
    let sessions = world.start().await;
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(runs(&follow), [Some(true)], "once");
    let branch = follow.deliveries().last().unwrap().branch.clone();
    assert_eq!(world.repo.file(&branch, "report"), None);
    assert_eq!(world.repo.file(&branch, "README.md").as_deref(), Some("Read me.\nmore\n"));
    sessions.prompt(id, ann(), "How much is it?".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(runs(&follow), [Some(true)], "nothing more was checked");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_without_any_check_is_said_to_be_unchecked_once() {
    let script = Script::new()
        .call("shell", json!({"command": "echo more >> README.md"}))
        .say("Done.")
        .call("shell", json!({"command": "echo still more >> README.md"}))
        .say("Done again.");
    let world = World::with(Repo::bare_with(&[("README.md", "Read me.\n")]), script)
        .await
        .environment(|environment| environment.checks.clear());
    let sessions = world.start().await;
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, ann(), "Say still more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let unchecked = |kind: &ItemKind| matches!(kind, ItemKind::Notice { text, .. } if text.starts_with("Nothing was checked"));
    assert_eq!(follow.items().iter().filter(|item| unchecked(&item.kind)).count(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_never_come_to_rest_end_a_turn_that_leaves_them() {
    let script =
        Script::new().call("shell", json!({"command": "echo more >> README.md"})).say("Done.").repeat_last();
    let repo = Repo::bare_with(&[("README.md", "Read me.\n"), ("stamp", "0\n")]);
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "cat /proc/sys/kernel/random/uuid > stamp".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Say more").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("files that change while the checks run"), "{reason}");
    assert!(runs(&follow).iter().all(|passed| *passed == Some(true)), "no check failed");
    assert!(!follow.names().contains(&"checks.passed"), "nobody knows what passed");
    assert_eq!(world.repo.branches(), ["main"]);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_knows_what_passed_and_checks_what_it_changes() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("Done.")
        .say("It is 42.")
        .call("shell", json!({"command": "echo more > more.txt"}))
        .say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    follow.until(|body| matches!(body, protocol::EventBody::SnapshotTaken { .. })).await;
    let request = protocol::ForkSession {
        prompt: "What is the answer?".into(),
        images: Vec::new(),
        snapshot: None,
        model: None,
    };
    let fork = sessions.fork(id, ann(), request).await.unwrap().id;
    let mut follow = Follow::new(&sessions, fork).await;
    // The turn that it has of the other session, then its own.
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert!(follow.names().contains(&"checks.passed"), "{:?}", follow.names());
    assert_eq!(runs(&follow), [Some(true)]);
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(runs(&follow), [Some(true)], "what passed in the other session is not checked again");
    sessions.prompt(fork, ann(), "Say more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(runs(&follow), [Some(true), Some(true)], "what is new is");
    world.end(sessions).await;
}

/// No change of the code can mend that, so both are told what can.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_whose_program_is_not_in_the_sandbox_says_so_and_what_to_do() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("It is done.")
        .say("I cannot install it.")
        .repeat_last();
    let world = World::new(script).await.environment(|environment| {
        environment.checks[0].run = "sh -c 'no-such-runner --all'".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Escalated, "{:?}", finished.reason);
    let words = "no-such-runner is not in the sandbox, so the check test says nothing of the work.";
    let notices: Vec<String> = follow
        .items()
        .iter()
        .filter_map(|item| match &item.kind {
            ItemKind::Notice { text, .. } if text.contains(words) => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert!(notices[0].contains("a person adds it to `setup`"), "people are told, too: {notices:?}");
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains(words), "{told}");
    world.end(sessions).await;
}
