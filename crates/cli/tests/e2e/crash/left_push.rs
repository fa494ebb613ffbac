//! A server that is killed while it pushes: its git goes on without it. The next server makes no second push beside it, and
//! what it tells of the push is true and stays true.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::model::Server;
use testkit::repo::Repo;

use crate::harness::{CHECK, ENVIRONMENT, Events, PATIENCE, Serving, World, mend, models};

fn write_program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

async fn until(what: &str, mut there: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !there() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what} did not come");
}

/// A session whose push is held by the remote's hook until it is let go. The hook is deaf to the polite signal.
struct Pushing {
    world: World,
    repo: Repo,
    _model: Server,
}

impl Pushing {
    /// With the repository on this machine.
    async fn here() -> Self {
        Self::at(|repo| repo.url()).await
    }

    /// With the repository on another machine, as far as git can tell: what runs there goes on when git ends here.
    async fn elsewhere() -> Self {
        let pushing = Self::at(|repo| format!("ssh://elsewhere{}", repo.url())).await;
        let program = pushing.world.home().join("ssh");
        // Like ssh it leaves nothing open that it was not meant to have.
        let script = format!(
            "#!/bin/bash\nfor file in /proc/$$/fd/*; do number=${{file##*/}}; \
             if ((number > 2 && number != 255)); then eval \"exec $number>&-\"; fi; done\n\
             setsid -w sh -c \"$2\"\ncase $2 in *upload-pack*) echo >> {};; esac\n",
            pushing.looks_file().display()
        );
        write_program(&program, &script);
        let config = format!("[core]\n\tsshCommand = {}\n[ssh]\n\tvariant = simple\n", program.display());
        std::fs::write(pushing.world.home().join(".gitconfig"), config).unwrap();
        pushing
    }

    async fn at(url: impl Fn(&Repo) -> String) -> Self {
        let (model, repo, world) = (Server::start(mend()).await, Repo::plain(), World::new());
        world.configure(&format!(
            "{}[environments.{ENVIRONMENT}]\nrepos = [{{ url = \"{}\", branch = \"main\" }}]\npool = 0\n\
             checks = [{{ name = \"answer\", run = \"{CHECK}\" }}]\n",
            models(&model),
            url(&repo)
        ));
        let pushing = Self { world, repo, _model: model };
        let hook = format!(
            "#!/bin/sh\ntrap '' TERM\necho 'a look at it' >&2\necho $$ >> {}\n\
             until test -e {} || ! test -d {}; do sleep 0.02; done\necho 'it is good' >&2\n",
            pushing.hooks_file().display(),
            pushing.go_file().display(),
            pushing.repo.path().display()
        );
        write_program(&pushing.repo.path().join("hooks/pre-receive"), &hook);
        pushing
    }

    fn hooks_file(&self) -> PathBuf {
        self.repo.path().join("hooks.log")
    }

    fn go_file(&self) -> PathBuf {
        self.repo.path().join("go")
    }

    fn looks_file(&self) -> PathBuf {
        self.repo.path().join("looks.log")
    }

    /// The processes of the hooks that were run.
    fn hooks(&self) -> Vec<String> {
        lines(&self.hooks_file())
    }

    /// How many pushes the mirror remembers whose end nobody saw.
    fn remembered(&self) -> usize {
        let mirrors = std::fs::read_dir(self.world.data().join("mirrors")).unwrap().flatten();
        let files =
            mirrors.filter_map(|mirror| std::fs::read_dir(mirror.path().join("slipway-pushing")).ok());
        files.map(Iterator::count).sum()
    }

    fn let_go(&self) {
        std::fs::write(self.go_file(), "").unwrap();
    }

    /// Begins a session and gives it when the remote looks at its push.
    async fn begin(&self) -> (Serving, String) {
        let serving = self.world.serve().await;
        let session = serving.api.create(ENVIRONMENT, "Make the answer right").await;
        until("the push", || self.hooks().len() == 1).await;
        (serving, session)
    }

    async fn end(self, serving: Serving) {
        assert_eq!(self.remembered(), 0, "a push of which all is known is still remembered");
        serving.stop().await;
        self.world.remove_sandboxes().await;
        self.world.finish().await;
    }
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(Into::into).collect()
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

fn last_delivery(events: &Events) -> Value {
    (*events.of("delivery.updated").last().unwrap()).clone()
}

#[tokio::test]
async fn it_is_waited_for_and_happens_once() {
    happens_once(false).await;
}

#[tokio::test]
async fn it_gets_time_to_come_to_its_end_after_a_stop() {
    happens_once(true).await;
}

async fn happens_once(stopped: bool) {
    let pushing = Pushing::here().await;
    let (serving, session) = pushing.begin().await;
    if stopped {
        serving.api.post(&format!("/sessions/{session}/stop"), &json!({})).await.expect(202);
    }
    serving.crash().await;
    let serving = pushing.world.serve().await;
    let mut watcher = serving.api.watch(&session, 0).await;
    watcher.until(|frame| frame["data"]["item"]["kind"] == "notice").await;
    pushing.let_go();
    watcher.until_type("turn.finished").await;
    let events = watcher.seen;
    events.assert_gap_free(0);
    assert_eq!(events.only("turn.finished")["outcome"], "done", "{events:?}");
    let delivery = last_delivery(&events);
    assert_eq!(delivery["state"], "pushed");
    assert_eq!(
        pushing.repo.file(delivery["branch"].as_str().unwrap(), "answer.txt").as_deref(),
        Some("42\n")
    );
    assert_eq!(pushing.hooks().len(), 1, "the remote was asked once");
    pushing.end(serving).await;
}

#[tokio::test]
async fn it_is_ended_after_a_stop_and_never_comes() {
    let pushing = Pushing::here().await;
    let (serving, session) = pushing.begin().await;
    serving.api.post(&format!("/sessions/{session}/stop"), &json!({})).await.expect(202);
    serving.crash().await;
    let serving = pushing.world.serve().await;
    let events = super::finished(&serving.api, &session).await;
    let finished = events.only("turn.finished");
    assert_eq!(finished["outcome"], "cancelled", "{events:?}");
    assert!(finished["reason"].as_str().unwrap().contains("does not have it"), "{finished}");
    assert_eq!(last_delivery(&events)["state"], "failed");
    assert!(!lives(&pushing.hooks()[0]), "the hook still runs");
    pushing.let_go();
    assert_eq!(pushing.repo.branches(), ["main"]);

    let delivered = serving.api.post(&format!("/sessions/{session}/deliver"), &json!({})).await.expect(200);
    assert_eq!(delivered["state"], "pushed", "{delivered}");
    assert_eq!(pushing.hooks().len(), 2);
    pushing.end(serving).await;
}

#[tokio::test]
async fn it_does_not_go_on_behind_a_failure() {
    let pushing = Pushing::here().await;
    let (serving, session) = pushing.begin().await;
    serving.crash().await;
    let (head, aside) = (pushing.repo.path().join("HEAD"), pushing.repo.path().join("aside"));
    std::fs::rename(&head, &aside).unwrap();
    let serving = pushing.world.serve().await;
    let events = super::finished(&serving.api, &session).await;
    assert_eq!(events.only("turn.finished")["outcome"], "failed", "{events:?}");
    let delivery = last_delivery(&events);
    assert_eq!(delivery["state"], "unknown", "nobody could look: {delivery}");
    assert!(delivery["error"].as_str().unwrap().contains("not a git repository"), "{delivery}");
    assert!(!lives(&pushing.hooks()[0]), "the hook still runs");
    std::fs::rename(&aside, &head).unwrap();
    pushing.let_go();
    assert_eq!(pushing.repo.branches(), ["main"]);
    pushing.end(serving).await;
}

#[tokio::test]
async fn it_may_still_come_where_nobody_can_end_it() {
    let pushing = Pushing::elsewhere().await;
    let (serving, session) = pushing.begin().await;
    serving.api.post(&format!("/sessions/{session}/stop"), &json!({})).await.expect(202);
    serving.crash().await;
    let serving = pushing.world.serve().await;
    let events = super::finished(&serving.api, &session).await;
    let finished = events.only("turn.finished");
    assert_eq!(finished["outcome"], "failed", "it may come, so it is not cancelled: {events:?}");
    assert!(finished["reason"].as_str().unwrap().contains("may still do so"), "{finished}");
    assert_eq!(last_delivery(&events)["state"], "unknown");
    assert!(lives(&pushing.hooks()[0]), "nobody here can end it");

    pushing.let_go();
    until("the branch", || pushing.repo.branches().len() == 2).await;
    let delivered = serving.api.post(&format!("/sessions/{session}/deliver"), &json!({})).await.expect(200);
    assert_eq!(delivered["state"], "pushed", "{delivered}");
    assert_eq!(pushing.hooks().len(), 1, "the remote was asked once");
    pushing.end(serving).await;
}

#[tokio::test]
async fn a_remote_gets_time_to_take_what_was_sent_before_everything_here_was_killed() {
    let pushing = Pushing::elsewhere().await;
    let (serving, session) = pushing.begin().await;
    // As when the machine loses its power: nothing of git is left either.
    serving.crash().await;
    for pid in gits_at(&pushing.world.data()) {
        // SAFETY: kill takes two numbers, and the process is a git of this test.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let looks = lines(&pushing.looks_file()).len();
    let serving = pushing.world.serve().await;
    until("a look", || lines(&pushing.looks_file()).len() > looks).await;
    pushing.let_go();
    let events = super::finished(&serving.api, &session).await;
    assert_eq!(events.only("turn.finished")["outcome"], "done", "{events:?}");
    assert_eq!(pushing.repo.branches().len(), 2);
    assert_eq!(pushing.hooks().len(), 1, "the remote was asked once");
    pushing.end(serving).await;
}

/// The processes whose command line has a path in it.
fn gits_at(path: &Path) -> Vec<i32> {
    let path = path.to_str().unwrap();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let line = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| line(pid).contains(path) && line(pid).contains("push")).collect()
}
