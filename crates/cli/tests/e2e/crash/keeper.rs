//! Keeps a server running: when it dies, however that came, the next one is started on the same data.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::harness::{PATIENCE, World};

/// How a server ends.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// At a named place, when it is reached for the Nth time.
    #[cfg_attr(not(feature = "failpoints"), expect(dead_code, reason = "there are no places to end at"))]
    At(&'static str, u32),
    /// This long after it was started.
    After(Duration),
    /// It is held up this long after it was started, for that long, and lives on.
    Held(Duration, Duration),
}

/// What the keeper and its users share.
#[derive(Debug)]
struct Shared {
    fates: Mutex<VecDeque<Fate>>,
    /// Fates that came true.
    met: watch::Sender<usize>,
    /// Where the server listens, while there is one.
    url: watch::Sender<Option<String>>,
    stop: watch::Sender<bool>,
}

/// The one who keeps it running.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Starts a first server; each meets the next of the fates, and the one after the last lives.
    pub(super) fn start(world: &Arc<World>, fates: Vec<Fate>) -> Self {
        let shared = Arc::new(Shared {
            fates: Mutex::new(fates.into()),
            met: watch::Sender::new(0),
            url: watch::Sender::new(None),
            stop: watch::Sender::new(false),
        });
        let task = tokio::spawn(keep(Arc::clone(world), Arc::clone(&shared)));
        Self { shared, task }
    }

    /// Where the server listens, as soon as there is one.
    pub(super) async fn url(&self) -> String {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(url) = self.shared.url.borrow().clone() {
                return url;
            }
            self.check();
            assert!(tokio::time::Instant::now() < end, "no server came up again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Fails if the keeper found something wrong, which it has told.
    pub(super) fn check(&self) {
        assert!(!self.task.is_finished(), "no server is kept running any more");
    }

    /// How many fates came true.
    pub(super) fn met(&self) -> usize {
        *self.shared.met.borrow()
    }

    /// The fates that no server has met yet, without that of the one that runs.
    pub(super) fn to_come(&self) -> Vec<Fate> {
        self.shared.fates.lock().unwrap().iter().cloned().collect()
    }

    /// Ends the server as a service manager would, and waits for that.
    pub(super) async fn release(mut keeper: Arc<Self>) {
        let keeper = loop {
            // Followers that were just told to leave may still have a hand on it.
            match Arc::try_unwrap(keeper) {
                Ok(keeper) => break keeper,
                Err(shared) => keeper = shared,
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        keeper.shared.stop.send_replace(true);
        keeper.task.await.unwrap();
    }
}

async fn keep(world: Arc<World>, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let fate = shared.fates.lock().unwrap().pop_front();
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let said =
            std::fs::OpenOptions::new().create(true).append(true).open(world.root().join("said")).unwrap();
        command.stderr(said).stdin(Stdio::null());
        if let Some(Fate::At(name, count)) = &fate {
            command.env("SLIPWAY_FAILPOINT", format!("{name}:{count}"));
        }
        let mut child = command.spawn().unwrap();
        let announced = tokio::spawn(announce(child.stdout.take().unwrap(), Arc::clone(&shared)));
        let ended = tokio::select! {
            ended = live(&mut child, fate.as_ref()) => Some(ended),
            _ = stop.wait_for(|stop| *stop) => None,
        };
        let Some(ended) = ended else {
            signal(&child, libc::SIGTERM);
            let ended = tokio::time::timeout(PATIENCE, child.wait()).await.unwrap().unwrap();
            announced.await.unwrap();
            assert!(ended.success(), "the last server did not end well: {ended}\n{}", told(&world));
            return;
        };
        announced.await.unwrap();
        shared.url.send_replace(None);
        assert_eq!(ended.signal(), Some(libc::SIGKILL), "a server ended by itself\n{}", told(&world));
        shared.met.send_modify(|met| *met += 1);
    }
}

/// Waits for the end of a server, and brings it about if that is its fate.
async fn live(child: &mut Child, fate: Option<&Fate>) -> ExitStatus {
    match fate {
        Some(Fate::After(time)) => {
            if let Ok(ended) = tokio::time::timeout(*time, child.wait()).await {
                return ended.unwrap();
            }
            signal(child, libc::SIGKILL);
        }
        Some(Fate::Held(time, hold)) => {
            tokio::time::sleep(*time).await;
            signal(child, libc::SIGSTOP);
            tokio::time::sleep(*hold).await;
            signal(child, libc::SIGCONT);
        }
        Some(Fate::At(..)) | None => {}
    }
    child.wait().await.unwrap()
}

/// Tells where a server listens, and reads what else it says so that it can say it.
async fn announce(stdout: ChildStdout, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(value) = serde_json::from_str::<Value>(&line)
            && let Some(url) = value["url"].as_str()
        {
            shared.url.send_replace(Some(url.to_owned()));
        }
    }
}

fn signal(child: &Child, number: i32) {
    let Some(pid) = child.id() else { return };
    // SAFETY: kill takes two numbers; the process is a child of ours that has not been waited for.
    unsafe { libc::kill(i32::try_from(pid).unwrap(), number) };
}

/// The end of what the servers said.
pub(super) fn told(world: &World) -> String {
    let said = std::fs::read_to_string(world.root().join("said")).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
