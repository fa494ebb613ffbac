//! What is delivered is the work, whatever the agent did to the repository's own settings, and no work is lost.

use protocol::Outcome;
use serde_json::json;
use testkit::model::Script;

use crate::support::{Follow, World, create};

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_workspace_hide_nothing_and_caches_stay_behind() {
    let bend = "git config core.worktree /tmp; git config core.bare true; \
                git --work-tree=. -c core.bare=false update-index --assume-unchanged answer.txt; \
                echo '*' >> .git/info/exclude; \
                mkdir -p target/debug pkg/__pycache__; touch target/CACHEDIR.TAG target/debug/x pkg/__pycache__/a.pyc; \
                echo 42 > answer.txt; echo new > new.txt";
    let script = Script::new().call("shell", json!({"command": bend})).say("Done.");
    let world = World::new(script).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let finished = Follow::new(&sessions, id).await.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let changed = world.repo.git(&["diff", "--name-only", "main", &branch]);
    assert_eq!(changed.trim(), "answer.txt\nnew.txt");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_git_cannot_keep_is_told_to_the_model_and_saved() {
    // A repository without a commit inside the repository: git cannot add it.
    let nested = "git init -q sub && echo precious > sub/work.txt && echo 42 > answer.txt";
    let script = Script::new()
        .call("shell", json!({"command": nested}))
        .answer(testkit::model::Reply::text("I leave it like that."));
    let world = World::new(script.repeat_last()).await;
    let sessions = world.start().await;
    let id = create(&sessions, "Make a mess").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_ne!(finished.outcome, Outcome::Done);
    let told = world.model.requests()[2].json.to_string();
    assert!(told.contains("sub") && told.contains("delivery"), "{told}");
    let rescued = sessions.store().session_dir(id).join("rescued.tar");
    let archive = std::fs::read(&rescued).unwrap();
    assert!(archive.windows(8).any(|bytes| bytes == b"precious"), "the work is in {}", rescued.display());
    world.end(sessions).await;
}
