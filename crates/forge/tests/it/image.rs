//! What images are made from.

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
