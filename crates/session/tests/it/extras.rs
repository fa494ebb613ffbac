//! What a commit needs that is not in its repository: content that Git LFS keeps elsewhere, and submodules. Both are there in
//! the workspace without the sandbox having any login, and what is new of them goes with the branch.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use forge::github::GitHub;
use protocol::event::DeliveryState;
use protocol::{Code, ItemKind, Outcome, Permission, PolicyRule};
use serde_json::json;
use session::{Outbox, Patience};
use testkit::forge::{On, Server as Forge};
use testkit::model::Script;
use testkit::repo::{Repo, git_in};

use crate::support::{Follow, World, ann, create};

const TOKEN: &str = "forge-token-canary-4711";
const PATIENCE: Patience = Patience {
    attempts: 3,
    first: std::time::Duration::from_millis(5),
    longest: std::time::Duration::from_millis(20),
};
const ATTRIBUTES: &str = "*.bin filter=lfs diff=lfs merge=lfs -text\n";

fn shell(command: &str) -> serde_json::Value {
    json!({"command": command})
}

/// Whether the program is there; a machine without it is told, and its test says nothing.
#[allow(clippy::print_stderr, reason = "what is left out says why")]
fn has_git_lfs() -> bool {
    let there =
        Command::new("git").args(["lfs", "version"]).output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("SKIPPED: git-lfs is not installed; scripts/need.sh test installs it");
    }
    there
}

fn sum(content: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x"), content).unwrap();
    let output = Command::new("sha256sum").arg(dir.path().join("x")).output().unwrap().stdout;
    String::from_utf8(output).unwrap()[..64].to_owned()
}

fn pointer(content: &[u8]) -> String {
    format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n",
        sum(content),
        content.len()
    )
}

fn object(repository: &Path, content: &[u8]) -> std::path::PathBuf {
    let oid = sum(content);
    repository.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(oid)
}

/// Puts content where git-lfs keeps it in a repository.
fn store(repository: &Path, content: &[u8]) {
    let path = object(repository, content);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn notices(follow: &Follow) -> Vec<String> {
    let text = |item: &&protocol::Item| match &item.kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(text).collect()
}

/// A world whose repository is on a forge that git reaches over HTTP, with a token that only the host has.
async fn world(forge: &Forge, script: Script) -> World {
    let mut world = World::new(script).await;
    forge.serve("acme", "shop", &world.repo);
    let github = GitHub::new(&forge.api_url(), Some(forge::Token::new(TOKEN)), "TOKEN").unwrap();
    let mut forges = forge::Forges::default();
    forges.add_with_logins(forge.url(), Arc::new(github)).unwrap();
    world.outbox = Outbox { forges, delivery: PATIENCE, notification: PATIENCE, ..Outbox::default() };
    let url = forge.git_url("acme", "shop");
    world.environment(|environment| environment.repos[0].url = url)
}

/// Adds a submodule at a commit to the repository's `main`.
fn add_submodule(repo: &Repo, url: &str, path: &str, commit: &str) {
    let list = format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n");
    let parent = repo.commit("main", &[(".gitmodules", &list)]);
    repo.git(&["read-tree", &parent]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
    let tree = repo.git(&["write-tree"]).trim().to_owned();
    let commit = repo.git(&["commit-tree", &tree, "-p", &parent, "-m", "Add a library"]).trim().to_owned();
    repo.git(&["update-ref", "refs/heads/main", &commit]);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_there_and_new_ones_go_with_the_branch() {
    if !has_git_lfs() {
        return;
    }
    let forge = Forge::start(TOKEN).await;
    let (old, new) = (b"old and large\n".repeat(3), b"new and large\n".repeat(5));
    let write = "for n in 1 2 3 4 5; do echo 'new and large'; done";
    let script = Script::new()
        .call(
            "shell",
            shell(&format!(
                "cat large.bin && {write} > new.bin && mv large.bin moved.bin && echo 42 > answer.txt"
            )),
        )
        .call(
            "shell",
            shell(
                "git add -A && git -c core.hooksPath=/dev/null commit -qm 'By hand' && git show HEAD:new.bin",
            ),
        )
        .say("Done.")
        .call("shell", shell("cat new.bin; echo 'one more' >> new.bin"))
        .say("Done.");
    let world = world(&forge, script).await;
    world.repo.commit("main", &[(".gitattributes", ATTRIBUTES), ("large.bin", &pointer(&old))]);
    store(world.repo.path(), &old);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(
        told.contains("old and large\\n"),
        "the content is there, not the pointer: {:#?}",
        follow.items()
    );
    assert!(told.contains(&format!("oid sha256:{}", sum(&new))), "what the agent commits is a pointer");
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.file(&branch, "new.bin"), Some(pointer(&new)));
    assert_eq!(world.repo.file(&branch, "moved.bin"), Some(pointer(&old)));
    assert_eq!(std::fs::read(object(world.repo.path(), &new)).unwrap(), new, "the store has what is new");
    assert!(forge.entries().iter().any(|entry| entry.on == On::Large), "it came over HTTP");

    sessions.prompt(id, ann(), "One more".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let more = [new.as_slice(), b"one more\n"].concat();
    assert_eq!(world.repo.file(&branch, "new.bin"), Some(pointer(&more)));
    assert_eq!(std::fs::read(object(world.repo.path(), &more)).unwrap(), more);
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(!told.contains(TOKEN) && forge.violations().is_empty(), "{:?}", forge.violations());
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_in_the_image_and_come_back_without_a_snapshot() {
    if !has_git_lfs() {
        return;
    }
    let old = b"old and large\n".repeat(3);
    let script = Script::new()
        .call("shell", shell("cp large.bin two.bin; echo more >> two.bin; cat large.bin; sleep 1000"))
        .call("shell", shell("cat two.bin; git status --short; echo 42 > answer.txt"))
        .say("Done.");
    let world = World::new(script).await;
    world.repo.commit("main", &[(".gitattributes", ATTRIBUTES), ("large.bin", &pointer(&old))]);
    store(world.repo.path(), &old);
    let sessions = world.start().await;
    sessions.build_and_wait("plain").await.unwrap();
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    follow.text("old and large").await;
    sessions.stop(id, ann()).await.unwrap();
    assert_eq!(follow.finished().await.outcome, Outcome::Cancelled);
    // The sandbox and its snapshot go: what is left is what git and the host's store have.
    for info in world.driver.list().await.unwrap() {
        world.driver.remove(info.id).await.unwrap();
    }
    let snapshots = world.dir.path().join("sandbox/snapshots");
    std::fs::remove_dir_all(&snapshots).unwrap();
    std::fs::create_dir_all(&snapshots).unwrap();
    sessions.prompt(id, ann(), "Go on".into()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    let two = [old.as_slice(), b"more\n"].concat();
    assert_eq!(world.repo.file(&branch, "two.bin"), Some(pointer(&two)));
    assert_eq!(std::fs::read(object(world.repo.path(), &two)).unwrap(), two);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_without_its_content_is_not_delivered_and_a_secret_in_a_large_file_is_found() {
    let bogus = pointer(b"nobody has this");
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let script = Script::new()
        .call("shell", shell(&format!("printf '%s' '{bogus}' > bogus.bin; echo 42 > answer.txt")))
        .say("Done.")
        .call("shell", shell(&format!("rm bogus.bin; echo 'key = \"{token}\"' > conf.bin")))
        .say("Done.");
    let world = World::new(script).await;
    world.repo.commit("main", &[(".gitattributes", ATTRIBUTES)]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("did not come out of the workspace: bogus.bin"), "{reason}");
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed");

    sessions.prompt(id, ann(), "Take it out".into()).await.unwrap();
    let asked = follow.until(|body| matches!(body, protocol::EventBody::ApprovalRequested { .. })).await;
    let asked = serde_json::to_string(&asked.body).unwrap();
    assert!(asked.contains("conf.bin:1: a GitHub token") && !asked.contains(&token[8..]), "{asked}");
    sessions.shut_down(session::ShutDown::RemoveSandboxes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn submodules_are_there_also_in_each_other_and_without_any_login_in_the_sandbox() {
    let forge = Forge::start(TOKEN).await;
    let (lib, deep) = (Repo::plain(), Repo::plain());
    let deep_at = deep.commit("main", &[("deep.txt", "deep\n")]);
    add_submodule(&lib, "../deep.git", "inner", &deep_at);
    let lib_at = lib.commit("main", &[("lib.txt", "library\n")]);
    lib.commit("main", &[("lib.txt", "newer\n")]);
    forge.serve("acme", "lib", &lib);
    forge.serve("acme", "deep", &deep);
    let look = "cat vendor/lib/lib.txt vendor/lib/inner/deep.txt; git status --short; git submodule status; echo 42 > answer.txt";
    let script = Script::new()
        .call("shell", shell(look))
        .call("shell", shell("echo x >> vendor/lib/lib.txt"))
        .say("Done.");
    let world = world(&forge, script).await;
    add_submodule(&world.repo, "../lib.git", "vendor/lib", &lib_at);
    let before = world.repo.git(&["ls-tree", "main", "vendor/lib"]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(told.contains("library\\ndeep\\n"), "{:#?}", follow.items());
    assert!(told.contains(&format!(" {lib_at} vendor/lib")), "git knows it: {:#?}", follow.items());
    assert!(told.contains("the changes in the submodules vendor/lib"), "{:#?}", notices(&follow));
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert_eq!(world.repo.git(&["ls-tree", &branch, "vendor/lib"]), before, "it stays where it is");
    assert!(!told.contains(TOKEN));
    assert_eq!(finished.receipt.files_changed, 1);
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_that_was_moved_goes_only_where_others_find_it_and_a_rule_allows_it() {
    let forge = Forge::start(TOKEN).await;
    let lib = Repo::plain();
    let (one, two) = (lib.tip("main"), lib.commit("main", &[("lib.txt", "newer\n")]));
    forge.serve("acme", "lib", &lib);
    let commit = "git -C vendor/lib -c user.name=x -c user.email=x@x commit -q --allow-empty -m mine";
    let script = Script::new()
        .call("shell", shell(&format!("echo 42 > answer.txt; {commit}")))
        .say("Done.")
        .call("shell", shell(&format!("git -C vendor/lib checkout -q {two}")))
        .say("Done.");
    let world = world(&forge, script).await.environment(|environment| {
        let rule = PolicyRule::tool(Permission::Allow, "deliver");
        environment.policy.rules = vec![PolicyRule { path: Some("vendor/lib".into()), ..rule }];
    });
    add_submodule(&world.repo, "../lib.git", "vendor/lib", &one);
    // The newer commit is known in the sandbox, as after a fetch.
    world.repo.git(&["rev-parse", "main"]);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Failed);
    let reason = finished.reason.unwrap();
    assert!(reason.contains("vendor/lib: it is a submodule that was moved to"), "{reason}");
    assert!(reason.contains("does not have the commit"), "{reason}");
    assert_eq!(world.repo.branches(), ["main"], "nothing is pushed");
    let refused = sessions.deliver(id, ann()).await.unwrap_err();
    assert_eq!(refused.code, Code::Forbidden, "{refused:?}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_goes_back_and_forth_among_commits_that_others_have() {
    let forge = Forge::start(TOKEN).await;
    let lib = Repo::plain();
    let (one, two) = (lib.tip("main"), lib.commit("main", &[("lib.txt", "newer\n")]));
    forge.serve("acme", "lib", &lib);
    let back = format!("git -C vendor/lib checkout -q {one}; echo 42 > answer.txt");
    let script = || Script::new().call("shell", shell(&back)).say("Done.");
    for allowed in [true, false] {
        let world = world_again(&forge, script(), allowed).await;
        add_submodule(&world.repo, &forge.git_url("acme", "lib"), "vendor/lib", &two);
        let sessions = world.start().await;
        let id = create(&sessions, "Correct the answer").await;
        let mut follow = Follow::new(&sessions, id).await;
        let finished = follow.finished().await;
        if allowed {
            assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
            let delivery = sessions.get(id).await.unwrap().delivery.unwrap();
            assert_eq!(delivery.state, DeliveryState::Opened);
            assert!(world.repo.git(&["ls-tree", &delivery.branch, "vendor/lib"]).contains(&one));
        } else {
            assert_eq!(finished.outcome, Outcome::Failed);
            let reason = finished.reason.unwrap();
            assert!(reason.contains("no rule lets that go"), "{reason}");
        }
        world.end(sessions).await;
    }
}

async fn world_again(forge: &Forge, script: Script, allowed: bool) -> World {
    let mut world = World::new(script).await;
    let name = if allowed { "one" } else { "two" };
    forge.serve("acme", name, &world.repo);
    let github = GitHub::new(&forge.api_url(), Some(forge::Token::new(TOKEN)), "TOKEN").unwrap();
    let mut forges = forge::Forges::default();
    forges.add_with_logins(forge.url(), Arc::new(github)).unwrap();
    world.outbox = Outbox { forges, delivery: PATIENCE, notification: PATIENCE, ..Outbox::default() };
    let url = forge.git_url("acme", name);
    world.environment(|environment| {
        environment.repos[0].url = url;
        if allowed {
            let rule = PolicyRule::tool(Permission::Allow, "deliver");
            environment.policy.rules = vec![PolicyRule { path: Some("vendor/lib".into()), ..rule }];
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_whose_submodule_moved_is_merged_with_it() {
    let lib = Repo::plain();
    let (one, two) = (lib.tip("main"), lib.commit("main", &[("lib.txt", "newer\n")]));
    let script = Script::new()
        .call("shell", shell("echo 42 > answer.txt"))
        .say("Done.")
        .call("shell", shell("cat vendor/lib/lib.txt; git status --short"))
        .say("It fits.");
    let world = World::new(script).await;
    let beside = lib.path().file_name().unwrap().to_string_lossy().into_owned();
    add_submodule(&world.repo, &format!("../{beside}"), "vendor/lib", &one);
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
    assert_eq!(notices(&follow), Vec::<String>::new(), "nothing was changed in it");
    add_submodule(&world.repo, &format!("../{beside}"), "vendor/lib", &two);
    sessions.rebase(id, ann(), protocol::PromptId::new()).await.unwrap();
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?} {:#?}", finished.reason, notices(&follow));
    let told = serde_json::to_string(&follow.events).unwrap();
    assert!(told.contains("newer\\n"), "the workspace has what the base has: {:#?}", follow.items());
    let branch = sessions.get(id).await.unwrap().delivery.unwrap().branch;
    assert!(world.repo.git(&["ls-tree", &branch, "vendor/lib"]).contains(&two), "and it is not moved back");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_the_repositorys_to_choose_are_told_and_not_read() {
    let secret = Repo::bare_with(&[("secret.txt", "of another\n")]);
    let elsewhere = tempfile::tempdir().unwrap();
    let aside = elsewhere.path().join("private.git");
    git_in(elsewhere.path(), &["clone", "-q", "--bare", &secret.url(), "private.git"]);
    let script = Script::new().call("shell", shell("ls -A vendor/lib; echo 42 > answer.txt")).say("Done.");
    let world = World::new(script).await;
    add_submodule(&world.repo, &aside.to_string_lossy(), "vendor/lib", &secret.tip("main"));
    let sessions = world.start().await;
    let id = create(&sessions, "Correct the answer").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = notices(&follow).join("\n");
    assert!(
        told.contains("vendor/lib: ") && told.contains("is a directory of this machine that is not beside"),
        "{told}"
    );
    assert!(!serde_json::to_string(&follow.events).unwrap().contains("secret.txt"));
    world.end(sessions).await;
}
