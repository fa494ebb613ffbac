//! Fetching, reading, bundling and comparing.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use forge::{Error, Mirrors, READ_LIMIT};
use tempfile::TempDir;
use testkit::repo::{Repo, git_in};

use super::World;

fn mirrors() -> (TempDir, Mirrors) {
    let directory = TempDir::new().unwrap();
    let mirrors = Mirrors::new(&directory.path().join("mirrors"));
    (directory, mirrors)
}

#[tokio::test]
async fn a_mirror_follows_its_remote() {
    let remote = Repo::plain();
    remote.commit("topic/x", &[("a.txt", "a\n")]);
    let (_directory, mirrors) = mirrors();
    assert!(mirrors.existing(&remote.url()).is_none());
    let mirror = mirrors.fetch(&remote.url()).await.unwrap();
    assert_eq!(mirror.tip(None).await.unwrap().branch, "main");
    assert_eq!(mirror.tip(Some("topic/x")).await.unwrap().commit, remote.tip("topic/x"));

    let newer = remote.commit("main", &[("b.txt", "b\n")]);
    remote.git(&["branch", "-D", "topic/x"]);
    remote.git(&["branch", "topic", "main"]);
    remote.git(&["symbolic-ref", "HEAD", "refs/heads/topic"]);
    mirrors.fetch(&remote.url()).await.unwrap();
    let mirror = mirrors.existing(&remote.url()).unwrap();
    let tip = mirror.tip(None).await.unwrap();
    assert_eq!((tip.branch.as_str(), tip.commit), ("topic", newer));
    let Err(Error::NoBranch { known, branch, .. }) = mirror.tip(Some("topic/x")).await else { panic!() };
    assert_eq!((known, branch.as_str()), (vec!["main".to_owned(), "topic".to_owned()], "topic/x"));
    assert!(matches!(mirror.tip(Some("--all")).await, Err(Error::NoBranch { .. })));
}

#[tokio::test]
async fn a_failed_fetch_leaves_a_whole_mirror_or_none() {
    let remote = Repo::plain();
    let (directory, mirrors) = mirrors();
    let broken = Repo::plain();
    // The branches can still be listed, but nothing can be had of them.
    std::fs::remove_dir_all(broken.path().join("objects")).unwrap();
    std::fs::create_dir(broken.path().join("objects")).unwrap();
    let error = mirrors.fetch(&broken.url()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(mirrors.existing(&broken.url()).is_none());

    let (url, tip) = (remote.url(), remote.tip("main"));
    mirrors.fetch(&url).await.unwrap();
    drop(remote);
    assert!(matches!(mirrors.fetch(&url).await, Err(Error::Unavailable { .. })));
    assert_eq!(mirrors.existing(&url).unwrap().tip(None).await.unwrap().commit, tip);
    assert_eq!(std::fs::read_dir(directory.path().join("mirrors")).unwrap().count(), 1);
}

#[tokio::test]
async fn fetches_at_the_same_time_do_not_disturb_each_other() {
    let remote = Repo::plain();
    let (_directory, mirrors) = mirrors();
    let url = remote.url();
    let clone = mirrors.clone();
    let (a, b, c) = tokio::join!(mirrors.fetch(&url), mirrors.fetch(&url), clone.fetch(&url));
    for mirror in [a, b, c] {
        assert_eq!(mirror.unwrap().tip(None).await.unwrap().commit, remote.tip("main"));
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said_plainly() {
    let (directory, mirrors) = mirrors();
    let plain = directory.path().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let missing = directory.path().join("missing");
    for (url, sentence) in [
        (missing.to_str().unwrap(), "no such directory"),
        (plain.to_str().unwrap(), "not a git repository"),
        ("relative/path", "a path must be absolute"),
        ("--upload-pack=touch /tmp/x", "must not begin with"),
        ("ext::sh -c date", "not supported"),
        ("http://127.0.0.1:1/x.git", "127.0.0.1 port 1"),
    ] {
        let error = mirrors.fetch(url).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(mirrors.existing(url).is_none());
    }
    let empty = Repo::empty();
    assert!(matches!(mirrors.fetch(&empty.url()).await, Err(Error::Empty { .. })));
    assert!(mirrors.existing(&empty.url()).is_none(), "nothing is left of a repository without commits");
    empty.commit("main", &[("a", "a")]);
    assert!(mirrors.fetch(&empty.url()).await.unwrap().tip(None).await.is_ok());
}

#[tokio::test]
async fn a_work_tree_with_hooks_is_only_read() {
    let remote = Repo::plain();
    let (directory, mirrors) = mirrors();
    git_in(directory.path(), &["clone", "--quiet", &remote.url(), "it's a tree"]);
    let tree = directory.path().join("it's a tree");
    let trace = directory.path().join("a-hook-ran");
    for hook in ["post-checkout", "reference-transaction", "pre-auto-gc", "post-update", "post-merge"] {
        let file = tree.join(".git/hooks").join(hook);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\ntouch '{}'\n", trace.display())).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let pack_hook = format!("touch '{}'", trace.display());
    git_in(&tree, &["config", "uploadpack.packObjectsHook", &pack_hook]);
    if rustix::process::geteuid().is_root() {
        // As a server run by root meets it: the tree belongs to someone else.
        std::os::unix::fs::chown(&tree, Some(65534), Some(65534)).unwrap();
        std::os::unix::fs::chown(tree.join(".git"), Some(65534), Some(65534)).unwrap();
    }
    for url in [tree.to_str().unwrap().to_owned(), format!("file://{}", tree.display())] {
        let mirror = mirrors.fetch(&url).await.unwrap();
        assert_eq!(mirror.tip(Some("main")).await.unwrap().commit, remote.tip("main"));
    }
    assert!(!trace.exists(), "fetching ran a program out of the repository");
}

#[tokio::test]
async fn files_and_names_are_read_at_a_commit() {
    let world = World::new().await;
    let big = "x".repeat(READ_LIMIT as usize + 1);
    world.remote.commit("main", &[("big.txt", &big), ("*", "star")]);
    let mirror = &world.mirror;
    let answer = mirror.read(&world.base, "answer.txt").await.unwrap().unwrap();
    assert_eq!(answer, b"41\n");
    assert!(mirror.read(&world.base, "notes/question.txt").await.unwrap().is_some());
    for absent in ["nothing", "notes", "../answer.txt", "/answer.txt", "", "*", "answer.tx?"] {
        assert_eq!(mirror.read(&world.base, absent).await.unwrap(), None, "{absent}");
    }
    assert_eq!(mirror.root(&world.base).await.unwrap(), ["README.md", "answer.txt", "check.sh", "notes"]);

    let mirrors = Mirrors::new(&world.directory.path().join("mirrors"));
    let tip = mirrors.fetch(&world.remote.url()).await.unwrap().tip(None).await.unwrap();
    assert_eq!(mirror.read(&tip.commit, "*").await.unwrap().unwrap(), b"star");
    assert!(mirror.read(&tip.commit, "big.txt").await.unwrap_err().to_string().contains("1048577 bytes"));
    assert!(mirror.read("--help", "answer.txt").await.is_err());
}

#[tokio::test]
async fn a_bundle_can_be_cloned_with_its_history() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    assert_eq!(git_in(&clone, &["rev-parse", "HEAD"]).trim(), world.base);
    assert_eq!(git_in(&clone, &["symbolic-ref", "HEAD"]).trim(), "refs/heads/work");
    assert_eq!(std::fs::read_to_string(clone.join("answer.txt")).unwrap(), "41\n");
    let missing = world.mirror.bundle("work", &"0".repeat(40), &clone.join("x")).await.unwrap_err();
    assert!(missing.to_string().contains("has no commit"), "{missing}");
    world.mirror_dir();
}

#[tokio::test]
async fn a_diff_has_renames_binary_files_and_counts() {
    let world = World::new().await;
    let clone = world.clone_in_sandbox().await;
    git_in(&clone, &["mv", "notes/question.txt", "question.txt"]);
    std::fs::write(clone.join("answer.txt"), "42\n43\n").unwrap();
    std::fs::write(clone.join("logo.bin"), [0u8, 1, 2, 255]).unwrap();
    git_in(&clone, &["add", "."]);
    git_in(&clone, &["commit", "--quiet", "-m", "Change things"]);
    let commit = world.take(&clone).await.unwrap();
    let diff = world.mirror.diff(&world.base, &commit).await.unwrap();
    assert_eq!((diff.files, diff.insertions, diff.deletions), (3, 2, 1));
    assert_eq!(diff.base, world.base);
    for part in
        ["-41\n+42\n+43\n", "rename from notes/question.txt\nrename to question.txt\n", "Binary files"]
    {
        assert!(diff.patch.contains(part), "{part} is not in {}", diff.patch);
    }
    let nothing = world.mirror.diff(&commit, &commit).await.unwrap();
    assert_eq!((nothing.files, nothing.patch.as_str()), (0, ""));
}

#[tokio::test]
async fn a_long_diff_is_cut_and_says_so() {
    let world = World::new().await;
    let long: String = (0..100_000).map(|n| format!("{n:0>100}\n")).collect();
    let tip = world.remote.commit("main", &[("long.txt", &long)]);
    let mirrors = Mirrors::new(&world.directory.path().join("mirrors"));
    mirrors.fetch(&world.remote.url()).await.unwrap();
    let diff = world.mirror.diff(&world.base, &tip).await.unwrap();
    assert_eq!(diff.insertions, 100_000);
    assert!(diff.patch.len() < forge::PATCH_LIMIT + 200);
    assert!(diff.patch.ends_with("bytes]\n"), "{}", &diff.patch[diff.patch.len() - 100..]);
}

/// A server that wants a password and remembers what it was sent.
fn locked_server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            seen.lock().unwrap().push(head.join("\n"));
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"s3cret\"\r\n\
                          Content-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    (address, sent)
}

#[tokio::test]
async fn a_server_that_wants_a_password_gets_an_answer_at_once() {
    let (address, sent) = locked_server();
    let (_directory, mirrors) = mirrors();
    let error = mirrors.fetch(&format!("http://{address}/x.git")).await.unwrap_err();
    assert!(error.to_string().contains("set up a git credential helper"), "{error}");
    assert!(!sent.lock().unwrap().iter().any(|head| head.contains("Authorization")));
}

#[tokio::test]
async fn credentials_of_the_url_are_used_and_never_shown() {
    let (address, sent) = locked_server();
    let (_directory, mirrors) = mirrors();
    let error = mirrors.fetch(&format!("http://ann:s3c%72et@{address}/x.git")).await.unwrap_err();
    assert!(error.to_string().contains(&format!("http://{address}/x.git")), "{error}");
    assert!(!format!("{error} {error:?}").contains("s3c"), "{error:?}");
    // "ann:s3cret" in base64.
    assert!(sent.lock().unwrap().iter().any(|head| head.contains("Basic YW5uOnMzY3JldA==")), "{sent:?}");
}

#[tokio::test]
async fn lock_files_of_a_killed_git_are_not_in_the_way_for_ever() {
    let world = World::new().await;
    world.remote.git(&["branch", "old", "main"]);
    let mirrors = Mirrors::new(&world.directory.path().join("mirrors"));
    mirrors.fetch(&world.remote.url()).await.unwrap();
    let mirror = world.mirror_dir();
    git_in(&mirror, &["pack-refs", "--all"]);
    world.remote.git(&["branch", "-D", "old"]);
    let tip = world.remote.commit("main", &[("new.txt", "new\n")]);
    let names =
        ["HEAD", "packed-refs", "refs/remotes/origin/main", "refs/slipway/ses_1", "refs/slipway-pushed/a"];
    for name in names {
        let path = mirror.join(format!("{name}.lock"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let fetched = mirrors.fetch(&world.remote.url()).await.unwrap();
    assert_eq!(fetched.tip(None).await.unwrap().commit, tip);
    let commit = world.mended().await;
    fetched.push(&commit, "a").await.unwrap();
    assert_eq!(world.remote.tip("a"), commit);
    let left: Vec<&str> =
        names.into_iter().filter(|name| mirror.join(format!("{name}.lock")).exists()).collect();
    assert_eq!(left, [""; 0]);
}
