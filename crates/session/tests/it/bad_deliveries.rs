//! Deliveries that cannot be made, or that are odd: what is wrong is told with what to do, the work is kept, and it can be
//! delivered later.

use std::sync::Arc;
use std::time::Duration;

use protocol::event::DeliveryState;
use protocol::{Code, EventBody, Outcome};
use serde_json::json;
use session::{Outbox, Patience, ShutDown};
use testkit::forge::{On, Server as Forge};
use testkit::model::Script;

use crate::support::{Follow, World, ann, create};

const TOKEN: &str = "forge-token-4711";
const PATIENCE: Patience =
    Patience { attempts: 3, first: Duration::from_millis(5), longest: Duration::from_millis(20) };

fn correct() -> Script {
    Script::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"})).say("Done.")
}

fn shell(script: Script, command: &str) -> Script {
    script.call("shell", json!({"command": command}))
}

async fn world(forge: &Forge, script: Script) -> World {
    let mut world = World::new(script).await;
    let url = forge.serve("acme", "shop", &world.repo);
    let github = forge::github::GitHub::new(&forge.api_url(), Some(forge::Token::new(TOKEN)), "FORGE_TOKEN");
    let mut forges = forge::Forges::default();
    forges.add(&forge.root().to_string_lossy(), Arc::new(github.unwrap())).unwrap();
    world.outbox = Outbox { forges, delivery: PATIENCE, notification: PATIENCE, ..Outbox::default() };
    world.environment(|environment| environment.repos[0].url = url)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_diff_is_done_and_delivers_nothing() {
    let forge = Forge::start(TOKEN).await;
    let script = shell(Script::new(), "echo x > x.txt; rm x.txt").say("Nothing is to be done.");
    let world = world(&forge, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "What is the answer?").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(
        (finished.outcome, finished.receipt.files_changed),
        (Outcome::Done, 0),
        "{:?}",
        finished.reason
    );
    assert!(follow.deliveries().is_empty() && forge.pull_requests().is_empty());
    let problem = sessions.deliver(id, ann()).await.unwrap_err();
    assert_eq!(problem.code, Code::Conflict);
    assert!(problem.title.contains("there is nothing to deliver"), "{problem:?}");
    assert_eq!(sessions.bundle(id, None).await.err().unwrap().code, Code::Conflict);
    assert_eq!(sessions.pull_request(id, None).await.unwrap_err().code, Code::Conflict);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_somebody_replaced_is_not_overwritten() {
    let forge = Forge::start(TOKEN).await;
    let script = shell(correct(), "echo more > more.txt").say("There is more.");
    let world = world(&forge, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    // Somebody begins the branch anew.
    world.repo.git(&["update-ref", &format!("refs/heads/{branch}"), &world.repo.tip("main")]);
    let theirs = world.repo.commit(&branch, &[("theirs.txt", "theirs\n")]);
    sessions.prompt(id, ann(), "And more".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("someone else pushed to") && reason.contains("slipway deliver"), "{reason}");
    assert_eq!(world.repo.tip(&branch), theirs, "what is theirs stays");
    let problem = sessions.deliver(id, ann()).await.unwrap_err();
    assert_eq!(problem.code, Code::DeliveryFailed);

    // Once theirs is elsewhere, it goes.
    world.repo.git(&["branch", "theirs", &theirs]);
    world.repo.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
    let delivery = sessions.deliver(id, ann()).await.unwrap();
    assert_eq!(delivery.state, DeliveryState::Opened);
    assert_eq!(world.repo.file(&branch, "more.txt").as_deref(), Some("more\n"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_was_deleted_is_told_and_the_branch_is_there() {
    let forge = Forge::start(TOKEN).await;
    let mut world = world(&forge, correct()).await;
    world.repo.git(&["branch", "next", "main"]);
    world = world.environment(|environment| environment.repos[0].branch = Some("next".into()));
    let script_waits = world.repo.tip("next");
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    world.repo.git(&["branch", "-D", "next"]);
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed, "{:?}", follow.deliveries());
    let reason = finished.reason.unwrap();
    assert!(reason.contains("base is invalid") && reason.contains("has no pull request"), "{reason}");
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    assert_eq!(Some(world.repo.tip(&delivery.branch)), delivery.commit, "the branch is pushed");

    world.repo.git(&["branch", "next", &script_waits]);
    assert_eq!(sessions.deliver(id, ann()).await.unwrap().state, DeliveryState::Opened);
    assert_eq!(forge.pull_requests().len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_was_renamed_is_told_with_what_to_do() {
    let forge = Forge::start(TOKEN).await;
    let world = world(&forge, correct()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    forge.rename("acme/shop", "acme/store").unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("slipway deliver"), "{reason}");
    forge.rename("acme/store", "acme/shop").unwrap();
    forge.forget_moves();
    assert_eq!(sessions.deliver(id, ann()).await.unwrap().state, DeliveryState::Opened);
    assert_eq!(forge.violations(), Vec::<String>::new());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_follows_its_repository_to_where_the_environment_has_it_now() {
    // Whether the forge still knows where it went.
    for forgotten in [false, true] {
        let forge = Forge::start(TOKEN).await;
        let script = shell(correct(), "echo more > more.txt").say("There is more.");
        let world = world(&forge, script).await;
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
        forge.rename("acme/shop", "acme/store").unwrap();
        assert_eq!(follow.finished().await.outcome, Outcome::Failed);
        if forgotten {
            forge.forget_moves();
        }
        assert_eq!(sessions.deliver(id, ann()).await.unwrap_err().code, Code::DeliveryFailed);
        sessions.shut_down(ShutDown::KeepSandboxes).await;
        drop((sessions, follow));

        let world = world.environment(|environment| {
            environment.repos[0].url = environment.repos[0].url.replace("acme/shop", "acme/store");
        });
        let sessions = world.start().await;
        let delivery = sessions.deliver(id, ann()).await.unwrap();
        assert_eq!(delivery.state, DeliveryState::Opened);
        assert!(delivery.remote.ends_with("/acme/store.git"), "{}", delivery.remote);
        assert_eq!(world.repo.file(&delivery.branch, "answer.txt").as_deref(), Some("42\n"));
        // And so does the next server, which finds it in what was saved.
        sessions.shut_down(ShutDown::KeepSandboxes).await;
        drop(sessions);
        let sessions = world.start().await;
        let mut follow = Follow::new(&sessions, id).await;
        sessions.prompt(id, ann(), "And more".into()).await.unwrap();
        while follow.finished().await.outcome != Outcome::Done {}
        assert_eq!(world.repo.file(&delivery.branch, "more.txt").as_deref(), Some("more\n"));
        assert_eq!(forge.pull_requests().len(), 1);
        assert_eq!(forge.violations(), Vec::<String>::new());
        world.end(sessions).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_does_not_follow_to_a_repository_that_is_another_one() {
    let forge = Forge::start(TOKEN).await;
    let world = world(&forge, correct()).await;
    let other = testkit::repo::Repo::bare_with(&[("other.txt", "other\n")]);
    let elsewhere = forge.serve("acme", "other", &other);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    forge.rename("acme/shop", "acme/store").unwrap();
    forge.forget_moves();
    assert_eq!(follow.finished().await.outcome, Outcome::Failed);
    sessions.shut_down(ShutDown::KeepSandboxes).await;
    drop((sessions, follow));
    let world = world.environment(|environment| environment.repos[0].url = elsewhere);
    let sessions = world.start().await;
    assert_eq!(sessions.deliver(id, ann()).await.unwrap_err().code, Code::DeliveryFailed);
    assert_eq!(other.branches(), ["main"], "nothing of the work is there");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_that_nobody_told_of_is_seen_when_the_next_turn_begins() {
    let forge = Forge::start(TOKEN).await;
    let script = shell(correct(), "echo more > more.txt").say("Added more of the answer.");
    let world = world(&forge, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let squashed = forge.squash(1).unwrap();
    sessions.prompt(id, ann(), "And more".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let pulls = forge.pull_requests();
    assert_eq!(pulls.len(), 2, "{pulls:?}");
    assert_eq!(pulls[1].title, "Added more of the answer");
    let branch = &pulls[1].branch;
    assert_eq!(world.repo.git(&["merge-base", "main", branch]).trim(), squashed);
    assert_eq!(world.repo.git(&["diff", "--name-only", &format!("main...{branch}")]).trim(), "more.txt");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_texts_of_any_bytes_are_delivered_as_they_are() {
    let forge = Forge::start(TOKEN).await;
    let odd = "printf 'one\\n' > \"$(printf 'new\\nline.txt')\"; printf 'two\\n' > \"$(printf 'caf\\351.txt')\"; \
               printf '\\377\\376\\000bytes' > bytes.bin; printf 'three\\n' > ' -lead.txt'; printf 'four\\n' > 'a\"quote.txt'";
    let world = world(&forge, shell(correct_first(), odd).say("Done.")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Write files with odd names").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    let listed = world.repo.git(&["ls-tree", "--name-only", &delivery.branch]);
    for name in ["\"new\\nline.txt\"", "\"caf\\351.txt\"", " -lead.txt", "\"a\\\"quote.txt\""] {
        assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
    }
    let kinds = world.repo.git(&["cat-file", "-s", &format!("{}:bytes.bin", delivery.branch)]);
    assert_eq!(kinds.trim(), "8");
    let diff = sessions.diff(id).await.unwrap();
    assert!(diff.files >= 6, "{diff:?}");
    assert!(forge.pull_requests()[0].body.contains("6 files"), "{}", forge.pull_requests()[0].body);
    world.end(sessions).await;
}

fn correct_first() -> Script {
    Script::new().call("edit", json!({"path": "answer.txt", "old": "41", "new": "42"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_and_one_that_is_too_large_are_delivered_but_for_that_one() {
    let forge = Forge::start(TOKEN).await;
    let many = "mkdir many && cd many && seq 1 10000 | xargs -n 500 sh -c 'for n; do echo $n > $n.txt; done' x; \
                truncate -s 2G ../huge.bin";
    let world = world(&forge, shell(correct_first(), many).say("Done.")).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Write many files").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    assert_eq!(finished.receipt.files_changed, 10_001);
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(told.contains("huge.bin"), "the session says what was left out");
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    assert_eq!(delivery.state, DeliveryState::Opened);
    let listed = world.repo.git(&["ls-tree", "-r", "--name-only", &delivery.branch]);
    assert_eq!(listed.lines().filter(|name| name.starts_with("many/")).count(), 10_000);
    assert!(!listed.contains("huge.bin"));
    assert!(forge.pull_requests()[0].body.contains("10001 files"));
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pointers_of_large_files_stay_as_they_are() {
    let forge = Forge::start(TOKEN).await;
    let world = world(&forge, correct()).await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    world.repo.commit(
        "main",
        &[(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"), ("large.bin", pointer)],
    );
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "large.bin").as_deref(), Some(pointer));
    assert_eq!(finished.receipt.files_changed, 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forge_that_is_down_for_an_hour_gets_it_afterwards_also_from_another_server() {
    let forge = Forge::start(TOKEN).await;
    let world = world(&forge, correct()).await;
    forge.fail_times(On::LookUp, testkit::forge::Fault::Refuse(503), 100);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    assert!(finished.reason.unwrap().contains("503"));
    sessions.shut_down(ShutDown::RemoveSandboxes).await;
    drop((sessions, follow));
    let sessions = world.start().await;
    assert_eq!(sessions.deliver(id, ann()).await.unwrap_err().code, Code::DeliveryFailed, "it is down still");
    forge.heal();
    assert_eq!(sessions.deliver(id, ann()).await.unwrap().state, DeliveryState::Opened);
    assert_eq!(forge.pull_requests().len(), 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_moved_is_merged_and_conflicts_are_the_agents() {
    let forge = Forge::start(TOKEN).await;
    let resolve = "test -f came.txt && grep -q '<<<<<<<' answer.txt && printf '42\\n' > answer.txt";
    let script = shell(correct(), resolve).say("Resolved.").say("There was nothing to do.");
    let world = world(&forge, script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let main = world.repo.commit("main", &[("answer.txt", "40\n"), ("came.txt", "came\n")]);
    sessions.rebase(id, ann(), protocol::PromptId::new()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, follow.items().last());
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(
        told.contains("Merging it left conflicts in these files") && told.contains("answer.txt"),
        "the agent is told"
    );
    let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
    let (branch, tip) = (delivery.branch, delivery.commit.unwrap());
    let parents = world.repo.git(&["rev-list", "--parents", "-1", &tip]);
    assert!(
        parents.split_whitespace().nth(2).is_some_and(|parent| parent == main),
        "it is a merge: {parents}"
    );
    assert_eq!(world.repo.file(&branch, "answer.txt").as_deref(), Some("42\n"));
    let diff = sessions.diff(id).await.unwrap();
    assert_eq!((diff.base, diff.files), (main, 1), "what came from the base is not the session's");
    assert_eq!(forge.pull_requests().len(), 1);

    sessions.rebase(id, ann(), protocol::PromptId::new()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    assert_eq!(world.repo.tip(&branch), tip, "a base that has not moved changes nothing");
    world.end(sessions).await;
}
