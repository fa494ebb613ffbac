//! Repositories that are made to harm whoever looks at them: names that other systems take for git's own, lists of submodules
//! that run something, settings, filters and hooks of a sandbox's repository. None of it gets in, and nothing of it runs.

use std::path::Path;

use testkit::repo::git_in;

use super::World;
use super::take::{blob, commit_dot_git, commit_entry, commit_tree, refused};

#[tokio::test]
async fn names_that_other_systems_take_for_dot_git_are_refused() {
    for name in ["git~1", "GIT~1", ".Git", ".git ", ".git.", ".g\u{200c}it", ".git::$INDEX_ALLOCATION"] {
        let world = World::new().await;
        let clone = world.clone_in_sandbox().await;
        commit_dot_git(&clone, name);
        refused(&world, &clone, "is inside a .git directory").await;
    }
    // A name that is one for git and three for Windows.
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let object = blob(&clone, "x\n");
    git_in(&clone, &["config", "core.protectNTFS", "false"]);
    let entry = format!("100644,{object},notes\\.git\\config");
    git_in(&clone, &["-c", "core.protectNTFS=false", "update-index", "--add", "--cacheinfo", &entry]);
    git_in(&clone, &["-c", "core.protectNTFS=false", "commit", "--quiet", "-m", "Add an entry"]);
    refused(&world, &clone, "is inside a .git directory").await;
}

#[tokio::test]
async fn lists_of_submodules_that_would_run_something_are_refused() {
    for list in [
        "[submodule \"a\"]\n\tpath = a\n\turl = --upload-pack=touch /tmp/x\n",
        "[submodule \"a\"]\n\tpath = a\n\turl = https://x.example/a\n\tupdate = !touch /tmp/x\n",
        "[submodule \"../../hooks\"]\n\tpath = a\n\turl = https://x.example/a\n",
        "[submodule \"a\"]\n\tpath = -x\n\turl = https://x.example/a\n",
    ] {
        let world = World::new().await;
        let clone = world.clone_in_sandbox().await;
        let object = blob(&clone, list);
        commit_entry(&clone, "100644", &object, ".gitmodules");
        refused(&world, &clone, "fault in its objects").await;
    }
    // Nor may the list be a link to another file.
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let object = blob(&clone, "answer.txt");
    let entry = format!("printf '120000 blob {object}\\t.gitmodules\\n'");
    commit_tree(&clone, &format!("tree=$( (git ls-tree HEAD; {entry}) | git mktree)"));
    refused(&world, &clone, "fault in its objects").await;
}

#[tokio::test]
async fn a_submodule_that_was_there_stays_and_one_that_is_moved_is_told() {
    let mut world = World::new().await;
    let list = "[submodule \"lib\"]\n\tpath = lib\n\turl = https://x.example/lib.git\n";
    world.remote.commit("main", &[(".gitmodules", list)]);
    let work = world.directory.path().join("work");
    git_in(world.directory.path(), &["clone", "--quiet", &world.remote.url(), "work"]);
    commit_entry(&work, "160000", &world.base, "lib");
    git_in(&work, &["push", "--quiet", "origin", "main"]);
    world.mirror = forge::Mirrors::new(&world.directory.path().join("mirrors"))
        .fetch(&world.remote.url())
        .await
        .unwrap();
    world.base = world.mirror.tip(None).await.unwrap().commit;
    let clone = world.clone_in_sandbox().await;
    std::fs::write(clone.join("answer.txt"), "42\n").unwrap();
    git_in(&clone, &["commit", "--quiet", "-am", "Mend the answer"]);
    let commit = world.take(&clone).await.unwrap();
    world.mirror.push(&commit, "slipway/lib").await.unwrap();
    let there = world.remote.git(&["ls-tree", "slipway/lib", "lib"]);
    assert!(there.starts_with("160000 commit"), "the pointer is pushed as it is: {there}");

    commit_entry(&clone, "160000", &commit, "lib");
    let there = world.take(&clone).await.unwrap();
    let moved = world.mirror.moved_submodules(&world.base, &there).await.unwrap();
    assert_eq!(moved.len(), 1);
    assert_eq!((moved[0].path.as_str(), &moved[0].commit), ("lib", &commit), "whoever delivers it decides");
    assert_eq!(moved[0].listed.as_ref().unwrap().url, "https://x.example/lib.git");
}

#[tokio::test]
async fn nothing_of_a_sandboxs_repository_runs_on_the_host() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let witness = world.directory.path().join("ran");
    let touch = format!("touch {}", witness.display());
    // All of this is in the sandbox, or comes with the commits.
    for (key, value) in [
        ("filter.evil.clean", touch.as_str()),
        ("filter.evil.smudge", &touch),
        ("filter.evil.required", "true"),
        ("diff.evil.command", &touch),
        ("diff.evil.textconv", &touch),
        ("merge.evil.driver", &touch),
        ("uploadpack.packObjectsHook", &touch),
        ("core.sshCommand", &touch),
    ] {
        git_in(&clone, &["config", key, value]);
    }
    let hooks = clone.join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in ["pre-push", "post-checkout", "reference-transaction", "post-update"] {
        executable(&hooks.join(hook), &format!("#!/bin/sh\n{touch}\n"));
    }
    let attributes = "* filter=evil diff=evil merge=evil export-subst\n";
    std::fs::create_dir_all(clone.join(".githooks")).unwrap();
    executable(&clone.join(".githooks/pre-push"), &format!("#!/bin/sh\n{touch}\n"));
    std::fs::write(clone.join(".gitattributes"), attributes).unwrap();
    std::fs::write(clone.join("answer.txt"), "42\n").unwrap();
    git_in(&clone, &["-c", "filter.evil.clean=cat", "-c", "core.hooksPath=/dev/null", "add", "-A"]);
    git_in(&clone, &["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "Mend the answer"]);
    let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
    std::fs::remove_file(&witness).ok();

    let commit =
        world.mirror.take(&bundle, "work", &world.base, ("ses_1", Some("trn_1")), None).await.unwrap().commit;
    world.mirror.diff(&world.base, &commit).await.unwrap();
    world.mirror.patches(&commit, &[&world.base]).await.unwrap();
    let out = world.directory.path().join("out");
    std::fs::create_dir(&out).unwrap();
    world.mirror.checkout(&commit, &out).await.unwrap();
    world.mirror.push(&commit, "slipway/evil").await.unwrap();
    assert!(!witness.exists(), "something of the sandbox's repository ran");
    assert_eq!(std::fs::read_to_string(out.join("answer.txt")).unwrap(), "42\n");
}

fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn the_work_of_each_turn_is_kept_beside_what_came_last() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let mut commits = Vec::new();
    for (number, turn) in [("1", "trn_1"), ("2", "trn_2")] {
        // Each begins anew, as after a restore: the second has nothing of the first.
        git_in(&clone, &["reset", "--quiet", "--hard", &world.base]);
        std::fs::write(clone.join("answer.txt"), number).unwrap();
        git_in(&clone, &["commit", "--quiet", "-am", "Try"]);
        let bundle = world.bundle_from(&clone, &[&format!("{}..work", world.base)]);
        let taken = world
            .mirror
            .take(&bundle, "work", &world.base, ("ses_1", Some(turn)), None)
            .await
            .unwrap()
            .commit;
        commits.push((turn.to_owned(), taken));
    }
    assert_eq!(world.mirror.kept("ses_1").await.unwrap().as_ref(), commits.last().map(|(_, commit)| commit));
    assert_eq!(world.mirror.turns("ses_1").await.unwrap(), commits);
    assert_eq!(world.mirror.turns("ses_2").await.unwrap(), []);
    assert_eq!(world.mirror.read(&commits[0].1, "answer.txt").await.unwrap().unwrap(), b"1");
}

#[tokio::test]
async fn patches_show_every_commit_and_what_a_merge_brings() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    std::fs::write(clone.join("key.bin"), b"\0hidden=1\n").unwrap();
    git_in(&clone, &["add", "."]);
    git_in(&clone, &["commit", "--quiet", "-m", "Add it"]);
    git_in(&clone, &["rm", "--quiet", "key.bin"]);
    git_in(&clone, &["commit", "--quiet", "-m", "Remove it"]);
    git_in(&clone, &["checkout", "--quiet", "-b", "side", &world.base]);
    std::fs::write(clone.join("side.txt"), "side\n").unwrap();
    git_in(&clone, &["add", "."]);
    git_in(&clone, &["commit", "--quiet", "-m", "Side"]);
    git_in(&clone, &["checkout", "--quiet", "work"]);
    git_in(&clone, &["merge", "--quiet", "--no-commit", "side"]);
    std::fs::write(clone.join("answer.txt"), "in the merge\n").unwrap();
    git_in(&clone, &["commit", "--quiet", "-am", "Merge"]);
    let commit = world.take(&clone).await.unwrap();
    let patches = world.mirror.patches(&commit, &[&world.base]).await.unwrap();
    for shown in ["hidden=1", "+side", "++in the merge"] {
        assert!(patches.text.contains(shown), "{shown}: {}", patches.text);
    }
    assert_eq!(patches.text.matches("commit ").count(), 4);
    assert_eq!(world.mirror.patches(&commit, &[&commit]).await.unwrap().text, "");
    let names = world.mirror.differing(&world.base, &commit).await.unwrap();
    assert_eq!(names, ["answer.txt", "side.txt"]);
}
