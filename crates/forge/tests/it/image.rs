//! What images are made from.

use forge::Mirrors;
use testkit::repo::git_in;

use crate::World;

#[tokio::test]
async fn inputs_have_ids_that_follow_their_content() {
    let world = World::new().await;
    let mirror = &world.mirror;
    let before = mirror.object(&world.base, "answer.txt").await.unwrap().unwrap();
    assert_eq!(mirror.object(&world.base, "./answer.txt").await.unwrap().as_ref(), Some(&before));
    assert!(mirror.object(&world.base, "notes/").await.unwrap().is_some(), "a directory has one too");
    for absent in ["absent", "../x", "", "notes/../answer.txt", "/etc/passwd"] {
        assert_eq!(mirror.object(&world.base, absent).await.unwrap(), None, "{absent}");
    }
    let moved = world.mended().await;
    assert_ne!(mirror.object(&moved, "answer.txt").await.unwrap().unwrap(), before);
    let same = mirror.object(&world.base, "check.sh").await.unwrap();
    assert_eq!(mirror.object(&moved, "check.sh").await.unwrap(), same);
    assert_eq!(mirror.between(&world.base, &moved, 9).await.unwrap(), (1, vec!["answer.txt".to_owned()]));
}

/// Adds a commit with links, and files where the mode is one of those.
fn commit_entries(world: &World, entries: &[(&str, &str, &str)]) {
    let clone = world.directory.path().join("links");
    if !clone.exists() {
        git_in(world.directory.path(), &["clone", "--quiet", &world.remote.url(), "links"]);
    }
    for (mode, path, text) in entries {
        let (to, text) = (clone.join(path), *text);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        match *mode {
            "120000" => std::os::unix::fs::symlink(text, &to).unwrap(),
            _ => std::fs::write(&to, text).unwrap(),
        }
    }
    git_in(&clone, &["add", "--all"]);
    git_in(&clone, &["commit", "--quiet", "-m", "Change entries"]);
    git_in(&clone, &["push", "--quiet", "origin", "HEAD:main"]);
}

#[tokio::test]
async fn what_is_behind_a_link_is_part_of_an_input() {
    let world = World::new().await;
    let mirrors = forge::Mirrors::new(&world.directory.path().join("mirrors"));
    let inputs = ["lock", "app", "app/lock", "short/lock", "dead", "out", "notes"];
    let look = async || {
        let mirror = mirrors.fetch(&world.remote.url()).await.unwrap();
        let tip = mirror.tip(None).await.unwrap().commit;
        let mut all = Vec::new();
        for input in inputs {
            all.push(mirror.object(&tip, input).await.unwrap());
        }
        all
    };
    commit_entries(
        &world,
        &[
            ("100644", "shared/real", "v9\n"),
            ("120000", "lock", "shared/real"),
            ("120000", "app/lock", "../lock"),
            ("120000", "short", "app"),
            ("120000", "dead", "made/later"),
            ("120000", "out", "/etc/passwd"),
        ],
    );
    let before = look().await;
    let there: Vec<bool> = before.iter().map(Option::is_some).collect();
    assert_eq!(there, [true, true, true, true, false, false, true], "{before:?}");

    commit_entries(&world, &[("100644", "other", "x\n")]);
    assert_eq!(look().await, before, "what none of them leads to is none of their concern");

    commit_entries(&world, &[("100644", "shared/real", "v10\n")]);
    let after = look().await;
    let changed: Vec<bool> = after.iter().zip(&before).map(|(after, before)| after != before).collect();
    assert_eq!(changed, [true, true, true, true, false, false, false], "{after:?}");

    commit_entries(&world, &[("100644", "made/later", "y\n")]);
    assert!(look().await[4].is_some(), "it leads somewhere now");
}

#[tokio::test]
async fn a_bundle_has_only_what_came_since() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    let moved = world.remote.commit("main", &[("more.txt", "more\n")]);
    let mirrors = forge::Mirrors::new(&world.directory.path().join("mirrors"));
    let mirror = mirrors.fetch(&world.remote.url()).await.unwrap();
    let bundle = world.directory.path().join("since.bundle");
    assert!(mirror.bundle_since("main", &moved, &world.base, &bundle).await.unwrap());
    git_in(&clone, &["fetch", "--quiet", bundle.to_str().unwrap(), "refs/heads/main:refs/heads/fetched"]);
    assert_eq!(git_in(&clone, &["rev-parse", "fetched"]).trim(), moved);
    std::fs::remove_file(&bundle).unwrap();
    assert!(!mirror.bundle_since("main", &world.base, &moved, &bundle).await.unwrap());
    assert!(!bundle.exists());
}

#[tokio::test]
async fn a_commit_can_be_written_out() {
    let world = World::new().await;
    let to = world.directory.path().join("files");
    std::fs::create_dir(&to).unwrap();
    world.mirror.checkout(&world.base, &to).await.unwrap();
    assert_eq!(std::fs::read_to_string(to.join("answer.txt")).unwrap(), "41\n");
    assert!(to.join("notes/question.txt").is_file() && !to.join(".git").exists());
}

#[tokio::test]
async fn a_revision_is_pinned_to_its_commit_with_its_files() {
    let world = World::new().await;
    let first = world.remote.tip("main");
    world.remote.git(&["tag", "--annotate", "--message=one", "v1", "main"]);
    let second = world.remote.commit("main", &[("skills/a/run.sh", "#!/bin/sh\n"), ("skills/b.md", "b")]);
    let mirrors = Mirrors::new(&world.directory.path().join("mirrors"));
    let mirror = mirrors.fetch(&world.remote.url()).await.unwrap();
    for (revision, commit) in
        [(None, &second), (Some("main"), &second), (Some("v1"), &first), (Some(&*first), &first)]
    {
        assert_eq!(mirror.pin(revision).await.unwrap(), *commit, "{revision:?}");
    }
    for wrong in ["v2", "--upload-pack=x", "main~1", "refs/heads/main"] {
        let error = mirror.pin(Some(wrong)).await.unwrap_err();
        assert!(error.to_string().contains("main"), "{wrong}: {error}");
    }
    assert!(mirror.pin(Some(&"0".repeat(40))).await.unwrap_err().to_string().contains("has no commit"));

    let files = mirror.below(&second, &["skills"]).await.unwrap();
    let names: Vec<(&str, bool)> = files.iter().map(|file| (file.path.as_str(), file.executable)).collect();
    assert_eq!(names, [("skills/a/run.sh", true), ("skills/b.md", false)]);
    assert_eq!(mirror.bytes(&files[1]).await.unwrap(), b"b");
    assert!(mirror.below(&second, &[]).await.unwrap().len() > files.len());
    let linked = world.remote.link("main", "skills/c.md", "b.md");
    mirrors.fetch(&world.remote.url()).await.unwrap();
    assert_eq!(mirror.below(&linked, &["skills"]).await.unwrap(), files);
    let listed = mirror.listed(&linked, &["skills"]).await.unwrap();
    assert_eq!((listed.len(), listed[2].path.as_str(), listed[2].link), (3, "skills/c.md", true));
    assert_eq!(mirror.bytes(&listed[2]).await.unwrap(), b"b.md");
    assert_eq!(mirror.below(&first, &["skills"]).await.unwrap(), []);
    assert_eq!(mirror.below(&second, &["../x"]).await.unwrap(), []);
    let tree = world.remote.git(&["rev-parse", "main:skills/a"]).trim().to_owned();
    assert_eq!(mirror.tree(&second, "skills/a").await.unwrap(), Some(tree));
    assert_eq!(mirror.tree(&first, "skills/a").await.unwrap(), None);
}
