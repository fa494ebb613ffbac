//! Pushing: what goes through, what is never done, and what is said when the remote objects.

use std::os::unix::fs::PermissionsExt;

use forge::{Error, Mirrors, Sent};
use testkit::repo::git_in;

use super::World;

fn is_refused(result: Result<(), Error>, because: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.to_string().contains(because), "{error}");
}

#[tokio::test]
async fn a_branch_is_pushed_once_and_moved_forward() {
    let world = World::new().await;
    let first = world.mended().await;
    for _ in 0..2 {
        world.mirror.push(&first, "slipway/mend").await.unwrap();
    }
    assert_eq!(world.remote.file("slipway/mend", "answer.txt").as_deref(), Some("42\n"));
    assert_eq!(world.remote.log("slipway/mend").len(), 2);
    assert_eq!(world.mirror.remote_tip("slipway/mend").await.unwrap(), Some(first.clone()));
    assert_eq!(world.mirror.remote_tip("mend").await.unwrap(), None);

    let clone = world.directory.path().join("clone");
    git_in(&clone, &["commit", "--quiet", "--allow-empty", "-m", "Say more"]);
    let second = world.take(&clone).await.unwrap();
    world.mirror.push(&second, "slipway/mend").await.unwrap();
    assert_eq!(world.remote.tip("slipway/mend"), second);
    // The remote has more than what is asked for, which is no reason to go back.
    world.mirror.push(&first, "slipway/mend").await.unwrap();
    assert_eq!(world.remote.tip("slipway/mend"), second);
}

#[tokio::test]
async fn the_default_branch_and_branches_of_others_are_never_pushed() {
    let world = World::new().await;
    world.remote.git(&["branch", "develop", "main"]);
    let commit = world.mended().await;
    is_refused(world.mirror.push(&commit, "main").await, "default branch");
    is_refused(world.mirror.push(&commit, "develop").await, "was there before");
    is_refused(world.mirror.push(&commit, "-f").await, "cannot be the name");
    assert_eq!(world.remote.tip("main"), world.base);
    assert_eq!(world.remote.tip("develop"), world.base);
}

#[tokio::test]
async fn commits_of_someone_else_are_not_overwritten() {
    let world = World::new().await;
    let first = world.mended().await;
    world.mirror.push(&first, "slipway/mend").await.unwrap();
    let theirs = world.remote.commit("slipway/mend", &[("theirs.txt", "mine\n")]);
    // What we pushed is in there, so pushing it again has nothing to do.
    world.mirror.push(&first, "slipway/mend").await.unwrap();

    let clone = world.directory.path().join("clone");
    git_in(&clone, &["commit", "--quiet", "--allow-empty", "-m", "Say more"]);
    let second = world.take(&clone).await.unwrap();
    let words = format!(
        "someone else pushed to slipway/mend (1 new, the last is {} Change theirs.txt, by Fixture), on top of what was \
         pushed from here: `slipway rebase` of the session takes it in",
        &theirs[..7]
    );
    is_refused(world.mirror.push(&second, "slipway/mend").await, &words);
    assert_eq!(world.remote.tip("slipway/mend"), theirs);
}

#[tokio::test]
async fn a_hook_that_objects_is_quoted() {
    let world = World::new().await;
    let commit = world.mended().await;
    let hooks = world.remote.path().join("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let hook = hooks.join("pre-receive");
    std::fs::write(&hook, "#!/bin/sh\necho 'branches must begin with team/' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = world.mirror.push(&commit, "slipway/mend").await.unwrap_err();
    assert!(matches!(&error, Error::Push { branch, .. } if branch == "slipway/mend"), "{error:?}");
    assert!(error.to_string().contains("branches must begin with team/"), "{error}");
    assert_eq!(world.remote.branches(), ["main"]);

    // The refused push gave no claim to the name: should someone else take it, it is theirs.
    std::fs::remove_file(&hook).unwrap();
    world.remote.git(&["branch", "slipway/mend", "main"]);
    is_refused(world.mirror.push(&commit, "slipway/mend").await, "was there before");
}

#[tokio::test]
async fn a_work_tree_takes_a_new_branch() {
    let world = World::new().await;
    let tree = world.directory.path().join("tree");
    git_in(world.directory.path(), &["clone", "--quiet", &world.remote.url(), "tree"]);
    let mirrors = Mirrors::new(&world.directory.path().join("other"));
    let mirror = mirrors.fetch(tree.to_str().unwrap()).await.unwrap();
    let clone = world.clone_in_sandbox().await;
    std::fs::write(clone.join("answer.txt"), "42\n").unwrap();
    git_in(&clone, &["commit", "--quiet", "-am", "Mend the answer"]);
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
    let commit = mirror.take(&bundle, "work", &world.base, ("ses_1", None), None).await.unwrap().commit;
    mirror.push(&commit, "slipway/mend").await.unwrap();
    assert_eq!(git_in(&tree, &["rev-parse", "slipway/mend"]).trim(), commit);
    assert_eq!(std::fs::read_to_string(tree.join("answer.txt")).unwrap(), "41\n");
}

#[tokio::test]
async fn hooks_of_another_user_are_not_run_by_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = World::new().await;
    let commit = world.mended().await;
    std::os::unix::fs::chown(world.remote.path(), Some(65534), Some(65534)).unwrap();
    let error = world.mirror.push(&commit, "slipway/mend").await.unwrap_err();
    assert!(matches!(error, Error::Push { .. }), "{error:?}");
    assert!(error.to_string().contains("belongs to another user"), "{error}");
}

/// Lets the remote do this before it takes a push.
pub(crate) fn before_a_push(world: &World, script: &str) {
    let hook = world.remote.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

async fn until_there(path: &std::path::Path) {
    while !path.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_push_that_is_given_up_leaves_no_process_and_can_be_made_again() {
    let world = World::new().await;
    let commit = world.mended().await;
    let reached = world.directory.path().join("reached");
    // Deaf to the polite signal, so that only the other one helps.
    before_a_push(
        &world,
        &format!(
            "trap '' TERM\nread line\necho $$ > {0}.new\nmv {0}.new {0}\nsleep 98763",
            reached.display()
        ),
    );
    let sent = world.mirror.push_unless(&commit, "slipway/mend", until_there(&reached)).await.unwrap();
    assert_eq!(sent, Sent::Perhaps);
    let hook = std::fs::read_to_string(&reached).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", hook.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z"), "the hook is left: {state}");
    assert_eq!(world.mirror.remote_tip("slipway/mend").await.unwrap(), None, "it was not taken");

    before_a_push(&world, "exit 0");
    world.mirror.push(&commit, "slipway/mend").await.unwrap();
    assert_eq!(world.remote.tip("slipway/mend"), commit);
}

#[tokio::test]
async fn a_push_that_nobody_wants_is_not_begun() {
    let world = World::new().await;
    let commit = world.mended().await;
    let sent = world.mirror.push_unless(&commit, "slipway/mend", std::future::ready(())).await.unwrap();
    assert!(matches!(sent, Sent::No), "{sent:?}");
    assert_eq!(world.remote.branches(), ["main"]);
}

#[tokio::test]
async fn a_commit_that_comes_while_it_is_pushed_is_no_failure() {
    let world = World::new().await;
    let commit = world.mended().await;
    // As a server that is gone left it: its own push comes to its end between this one's look and its push.
    let (mirror, remote) = (world.mirror_dir(), world.remote.path().display().to_string());
    let late = world.directory.path().join("late");
    before_a_push(
        &world,
        &format!(
            "test -e {late} && exit 0\ntouch {late}\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_DIR\n\
             git --git-dir={} push --quiet {remote} {commit}:refs/heads/slipway/mend",
            mirror.display(),
            late = late.display(),
        ),
    );
    world.mirror.push(&commit, "slipway/mend").await.unwrap();
    assert_eq!(world.remote.tip("slipway/mend"), commit);
    assert!(late.exists());
}
