//! Whose commits they are: each is by the person whose prompt caused it, and those who share one are named in it.

use protocol::{Actor, Outcome};
use serde_json::json;
use session::{Author, People};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

fn bob() -> Actor {
    Actor::user("bob")
}

fn people() -> People {
    let author = |name: &str, email: &str| Author { name: name.into(), email: email.into() };
    People {
        known: [
            ("ann".to_owned(), author("Ann Example", "ann@example.com")),
            ("bob".to_owned(), author("Bob Other", "bob@example.com")),
        ]
        .into(),
        url: Some("https://slipway.example".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_commit_is_by_whoever_asked_for_it_and_says_what_it_does() {
    let own =
        "echo own > own.txt; git add own.txt; git commit -qm 'Add a file of its own'; echo more > more.txt";
    let script = Script::new()
        .call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
        .say("Done.")
        .call("shell", json!({"command": own}))
        .say("I've added two files beside the answer. The checks pass.");
    let mut world = World::new(script).await;
    world.people = people();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, bob(), "go on".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let log = world.repo.git(&["log", "--format=%an <%ae> / %cn <%ce> / %s", &format!("main..{branch}")]);
    let by = |who: &str, what: &str| format!("{who} / {who} / {what}");
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        [
            by("Bob Other <bob@example.com>", "Added two files beside the answer"),
            by("Bob Other <bob@example.com>", "Add a file of its own"),
            by("Ann Example <ann@example.com>", "Correct the answer"),
        ]
    );
    let trailers = world.repo.git(&["log", "-1", "--format=%(trailers:only,unfold)", &branch]);
    assert_eq!(trailers.trim(), format!("Slipway-Session: https://slipway.example/sessions/{id}"));
    let body = world.repo.git(&["log", "-1", "--format=%b", &branch]);
    assert!(body.starts_with("go on\n"), "the prompt is there, too: {body}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_killed_git_left_keeps_no_later_turn_from_its_author() {
    let script = Script::new()
        .call("shell", json!({"command": "echo 42 > answer.txt; touch .git/config.lock"}))
        .say("Done.")
        .call("shell", json!({"command": "echo more > more.txt"}))
        .say("Done.");
    let mut world = World::new(script).await;
    world.people = people();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    sessions.prompt(id, bob(), "One more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(!told.contains("cannot be kept"), "{told}");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.git(&["log", "-1", "--format=%an", &branch]).trim(), "Bob Other");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_another_persons_turn_left_is_shared() {
    let script = Script::new()
        .call("shell", json!({"command": "echo bob > bob.txt; echo begun; sleep 1000"}))
        .call("shell", json!({"command": "echo 42 > answer.txt"}))
        .say("Done.")
        .call("shell", json!({"command": "echo more > more.txt"}))
        .say("Done.");
    let mut world = World::new(script).await;
    world.people = people();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    sessions.prompt(id, bob(), "Go on with it".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let show = |what: &str| world.repo.git(&["log", "-1", &format!("--format={what}"), &branch]);
    assert_eq!(show("%an%n%s").trim(), "Bob Other\nCorrect the answer");
    let shared = "%(trailers:key=Co-authored-by,valueonly)";
    assert_eq!(show(shared).trim(), "Ann Example <ann@example.com>");

    sessions.prompt(id, bob(), "And more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(show(shared).trim(), "", "what is committed is not shared again");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agent_commits_is_by_whoever_asked_whatever_it_says() {
    let ceo = "git -c user.name='The CEO' -c user.email=ceo@corp.example commit -qam 'Fixes #12 @octocat [skip ci]\n\n\
               It was 41.\n\nCo-authored-by: Mallory <m@evil.example>\nReviewed-by: The CEO <ceo@corp.example>'";
    let all = "git add -A; GIT_COMMITTER_NAME=ghp_0 git commit -qm 'Commit all of it'";
    let script = Script::new()
        .call("shell", json!({"command": "echo bob > bob.txt; echo begun; sleep 1000"}))
        .call("shell", json!({"command": format!("{all}; echo 42 > answer.txt; {ceo}")}))
        .say("Done.")
        .call("shell", json!({"command": "git commit -q --allow-empty -m Third; echo more > more.txt"}))
        .say("Done.")
        .call("shell", json!({"command": "git log -1 --format='at %h of %an'; git status --short"}))
        .say("Done.");
    let mut world = World::new(script).await;
    world.people = people();
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("begun").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    sessions.prompt(id, bob(), "Go on with it".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let log = |what: &str| world.repo.git(&["log", &format!("--format={what}"), &format!("main..{branch}")]);
    let bobs = "Bob Other <bob@example.com> / Bob Other <bob@example.com>";
    assert_eq!(log("%an <%ae> / %cn <%ce>"), format!("{bobs}\n{bobs}\n"));
    let trailers = format!(
        "Co-authored-by: Ann Example <ann@example.com>\nSlipway-Session: https://slipway.example/sessions/{id}\n\n"
    );
    assert_eq!(log("%(trailers:only,unfold)"), trailers.repeat(2));
    let said = log("%B");
    for bad in ["Fixes #12", "@octocat", "[skip ci]", "Mallory", "The CEO"] {
        assert!(!said.contains(bad), "{bad}: {said}");
    }
    assert!(said.contains("It was 41.") && said.contains("Commit all of it"), "{said}");

    // The workspace goes on from what was made of it.
    sessions.prompt(id, bob(), "And more".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(log("%an").lines().count(), 4);
    assert_eq!(log("%s").lines().last(), Some("Commit all of it"));
    sessions.prompt(id, bob(), "Look".into()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let tip = world.repo.git(&["log", "-1", "--format=at %h of Bob Other", &branch]);
    let seen = serde_json::to_string(&follow.events).unwrap();
    assert!(seen.contains(tip.trim()), "{tip}");
    world.end(sessions).await;
}
