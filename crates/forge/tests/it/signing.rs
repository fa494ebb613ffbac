//! In whose name commits come out of a sandbox.

use std::path::Path;

use forge::{Mirror, Signing, Taken};
use testkit::repo::git_in;

use super::World;

const SHOWN: &str = "%an <%ae> / %cn <%ce> at %at: %B";

async fn signed(mirror: &Mirror, bundle: &Path, base: &str, known: &[&str]) -> Taken {
    let words = |message: &str| format!("{}\n\nSession: 1", message.replace("\n\nSession: 1", ""));
    let signing = Signing { name: "Ann", email: "ann@example.com", known, words: &words };
    mirror.take(bundle, "work", base, ("ses_1", None), Some(signing)).await.unwrap()
}

fn commit(clone: &Path, who: &str, message: &str) {
    std::fs::write(clone.join("answer.txt"), message).unwrap();
    let author = format!("--author={who} <{who}@corp.example>");
    let args = ["commit", "--quiet", "-am", message, &author, "--date", "1700000000 +0100"];
    git_in(clone, &args);
}

#[tokio::test]
async fn commits_of_the_sandbox_are_by_whom_the_host_says_and_become_the_same_each_time() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    commit(&clone, "ceo", "One");
    git_in(&clone, &["checkout", "--quiet", "-b", "side", &world.base]);
    std::fs::write(clone.join("side.txt"), "side").unwrap();
    git_in(&clone, &["add", "."]);
    git_in(&clone, &["commit", "--quiet", "-m", "Side"]);
    git_in(&clone, &["checkout", "--quiet", "work"]);
    git_in(&clone, &["merge", "--quiet", "--no-ff", "-m", "Both", "side"]);
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);

    let taken = signed(&world.mirror, &bundle, &world.base, &[]).await;
    assert_eq!(taken.renewed.len(), 3);
    assert_eq!(world.mirror.kept("ses_1").await.unwrap().as_ref(), Some(&taken.commit));
    let mirror = world.mirror_dir();
    let log = |format: &str| git_in(&mirror, &["log", &format!("--format={format}"), &taken.commit, "-3"]);
    let people = log("%an <%ae> / %cn <%ce>");
    assert!(people.lines().all(|line| line == "Ann <ann@example.com> / Ann <ann@example.com>"), "{people}");
    assert!(log(SHOWN).contains("at 1700000000: One\n\nSession: 1\n"), "{}", log(SHOWN));
    let shape = |at: &Path, tip: &str| git_in(at, &["log", "--topo-order", "--format=%T %at %ct", tip]);
    assert_eq!(shape(&mirror, &taken.commit), shape(&clone, "work"), "trees, order and times stay");
    let parents = |at: &Path, tip: &str| git_in(at, &["log", "-1", "--format=%P", tip]);
    assert_eq!(parents(&mirror, &taken.commit).split(' ').count(), 2);

    // The server died before it said so: the same comes once more. Then the sandbox goes on from what is here.
    assert_eq!(signed(&world.mirror, &bundle, &world.base, &[]).await, taken);
    let pack = world.directory.path().join("renewed.pack");
    let commits: Vec<&str> = taken.renewed.iter().map(|one| one.is.as_str()).collect();
    world.mirror.pack_commits(&commits, &pack).await.unwrap();
    let unpack = format!("git unpack-objects -q < {}", pack.display());
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &unpack])
            .current_dir(&clone)
            .status()
            .unwrap()
            .success()
    );
    git_in(&clone, &["reset", "--quiet", "--soft", &taken.commit]);
    commit(&clone, "ceo", "Two");
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
    let again = signed(&world.mirror, &bundle, &world.base, &[]).await;
    assert_eq!(again.renewed.len(), 1, "what is known stays");
    assert_eq!(parents(&mirror, &again.commit).trim(), taken.commit);
}

#[tokio::test]
async fn commits_that_the_remote_has_are_of_those_who_made_them() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    // Somebody pushed since the mirror was fetched, and the sandbox has it by a way of its own.
    let theirs = world.remote.commit("main", &[("theirs.txt", "theirs\n")]);
    git_in(&clone, &["fetch", "--quiet", &world.remote.url(), "main"]);
    commit(&clone, "Ann", "Ours");
    git_in(&clone, &["merge", "--quiet", "--no-ff", "-m", "Both", "FETCH_HEAD"]);
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
    let taken = signed(&world.mirror, &bundle, &world.base, &[]).await;
    assert_eq!(taken.renewed.len(), 2);
    assert!(world.mirror.has_in(&theirs, &taken.commit).await.unwrap(), "it is the same commit as there");
}

#[tokio::test]
async fn names_of_commits_are_read_with_their_messages() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    commit(&clone, "s3cret", "One");
    let taken = world.take(&clone).await.unwrap();
    let messages = world.mirror.messages(&taken, &[&world.base]).await.unwrap();
    assert_eq!(messages.len(), 1);
    let told = "s3cret <s3cret@corp.example>\nFixture <fixture@example.com>\nOne\n";
    assert_eq!(messages[0].1.trim_end(), told.trim_end());
}
