//! A push of a process that is killed: git goes on without it, and whoever comes next knows.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use forge::{Mirrors, Sent};
use tokio::process::Command;

use super::World;

/// Tells the process that is killed what to push: the mirrors' directory, the remote, the commit.
const WHAT: &str = "SLIPWAY_TEST_PUSH";
const BRANCH: &str = "slipway/mend";

#[tokio::test]
#[ignore = "it is the process that the tests beside it kill, and does nothing by itself"]
async fn pushes_until_it_is_killed() {
    let Ok(what) = std::env::var(WHAT) else { return };
    let [mirrors, url, commit] = what.split('\n').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let mirror = Mirrors::new(Path::new(mirrors)).existing(url).unwrap();
    mirror.push(commit, BRANCH).await.unwrap();
}

async fn until(mut there: impl FnMut() -> bool) {
    while !there() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A remote that takes a push when it is let go, and counts.
struct Remote {
    world: World,
    commit: String,
}

impl Remote {
    async fn new() -> Self {
        let world = World::new().await;
        let commit = world.mended().await;
        let remote = Self { world, commit };
        let script = format!(
            "trap '' TERM\necho 'looking at it' >&2\necho $$ >> {}\n\
             until test -e {} || ! test -e {0}; do sleep 0.02; done\necho 'it is good' >&2",
            remote.file("hooks").display(),
            remote.file("go").display()
        );
        super::push::before_a_push(&remote.world, &script);
        remote
    }

    fn file(&self, name: &str) -> PathBuf {
        self.world.directory.path().join(name)
    }

    /// The hooks that were run, by their process ids.
    fn hooks(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file("hooks")).unwrap_or_default();
        text.lines().map(Into::into).collect()
    }

    fn let_go(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }

    /// Begins a push in another process, and kills that while the remote looks at the push.
    async fn leave(&self) {
        let mirrors = self.world.directory.path().join("mirrors");
        let what = format!("{}\n{}\n{}", mirrors.display(), self.world.remote.url(), self.commit);
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "left::pushes_until_it_is_killed", "--ignored"])
            .env(WHAT, what)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        until(|| self.hooks().len() == 1).await;
        process.kill().await.unwrap();
    }

    fn taken(&self) -> bool {
        self.world.remote.branches().iter().any(|branch| branch == BRANCH)
    }
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

#[tokio::test]
async fn it_is_waited_for_and_not_made_a_second_time() {
    let remote = Remote::new().await;
    remote.leave().await;
    let left = remote.world.mirror.left_push(BRANCH).unwrap().unwrap();
    assert!(left.is_running() && !left.may_come());
    assert!(remote.world.mirror.left_push("slipway/other").unwrap().is_none());
    // Whoever pushes without having asked waits for it too.
    let (mirror, commit) = (remote.world.mirror.clone(), remote.commit.clone());
    let again = tokio::spawn(async move { mirror.push(&commit, BRANCH).await });
    let ended = tokio::spawn(left.end(std::future::pending()));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!again.is_finished() && !ended.is_finished() && !remote.taken());
    remote.let_go();
    ended.await.unwrap().unwrap();
    again.await.unwrap().unwrap();
    assert_eq!(remote.world.remote.tip(BRANCH), remote.commit);
    assert_eq!(remote.hooks().len(), 1, "the remote was asked once");
    assert!(remote.world.mirror.left_push(BRANCH).unwrap().is_none(), "it is forgotten");
}

#[tokio::test]
async fn it_is_ended_when_it_is_given_up_and_never_comes() {
    let remote = Remote::new().await;
    remote.leave().await;
    let left = remote.world.mirror.left_push(BRANCH).unwrap().unwrap();
    left.end(std::future::ready(())).await.unwrap();
    assert!(!lives(&remote.hooks()[0]), "the hook is left");
    assert!(remote.world.mirror.left_push(BRANCH).unwrap().is_none());
    remote.let_go();
    assert!(!remote.taken());
    remote.world.mirror.push(&remote.commit, BRANCH).await.unwrap();
    assert!(remote.taken());
    assert_eq!(remote.hooks().len(), 2);
}

#[tokio::test]
async fn a_push_whose_end_is_known_is_not_left() {
    let remote = Remote::new().await;
    let mirror = &remote.world.mirror;
    let reached = until(|| remote.hooks().len() == 1);
    assert_eq!(mirror.push_unless(&remote.commit, BRANCH, reached).await.unwrap(), Sent::Perhaps);
    let left = mirror.left_push(BRANCH).unwrap().unwrap();
    assert!(!left.is_running(), "nothing of git is left");
    left.end(std::future::pending()).await.unwrap();

    super::push::before_a_push(&remote.world, "exit 1");
    mirror.push(&remote.commit, BRANCH).await.unwrap_err();
    assert!(mirror.left_push(BRANCH).unwrap().is_none(), "it was refused");
    super::push::before_a_push(&remote.world, "exit 0");
    for _ in 0..2 {
        mirror.push(&remote.commit, BRANCH).await.unwrap();
        assert!(mirror.left_push(BRANCH).unwrap().is_none(), "it was taken");
    }
}
