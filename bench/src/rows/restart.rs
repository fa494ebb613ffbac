//! A server that is killed with a thousand turns under way: how long until the next one answers, and until all of them
//! are going again. Each session has its own sandbox, which outlives the server, has run a command in it, and waits for
//! its model.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures_util::{StreamExt, TryStreamExt};
use protocol::chat::Message;
use protocol::{SandboxId, Session, SessionId, SessionList, Status};
use serde_json::{Value, json};
use testkit::model::{At, Gate, Reply, Request, Script, Server};
use testkit::repo::Repo;
use tokio::sync::Notify;

use super::{Settings, Skipped, ms};
use crate::peers::plain_server;
use crate::report::Table;
use crate::served::{self, Served};

const ROUNDS: usize = 3;
const SESSIONS: usize = 1000;
/// Memory for their sandboxes, and as much again.
const MEMORY_MIB: u64 = 4096;
/// How long a thousand sandboxes may take to be made.
const MAKING: Duration = Duration::from_secs(900);
/// How long the sessions may take to go on.
const GOING_ON: Duration = Duration::from_secs(120);

/// How far a turn is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// It has asked the model for the first time; its sandbox may still be brought to the branch's tip.
    Begun,
    /// It has run a command, so its sandbox is ready.
    Ran,
}

/// The model: it lets each wait, asks it for one command, and lets it wait again.
#[derive(Default)]
struct Calls {
    /// Whose prompts wait for an answer.
    waiting: Mutex<HashSet<(Step, String)>>,
    came: Notify,
    begun: Gate,
    ran: Gate,
}

impl Calls {
    fn script(self: Arc<Self>) -> Script {
        Script::from_fn(move |request: &Request, _| {
            let prompt = request.messages.iter().find_map(|message| match message {
                Message::User { text, .. } => Some(text.clone()),
                _ => None,
            });
            let ran = request.messages.iter().any(|message| matches!(message, Message::Tools { .. }));
            let (step, reply, gate) = if ran {
                (Step::Ran, Reply::text("Done."), &self.ran)
            } else {
                // Nothing writes before the sandbox is at the branch's tip.
                (Step::Begun, Reply::new().call("shell", json!({ "command": "true" })), &self.begun)
            };
            self.waiting().insert((step, prompt.unwrap_or_default()));
            self.came.notify_one();
            reply.stall(At::Event(0), gate)
        })
    }

    fn waiting(&self) -> MutexGuard<'_, HashSet<(Step, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        self.waiting().clear();
    }

    /// Waits until everybody waits for the model; gives when that was.
    async fn everybody(&self, whose: &str, step: Step, patience: Duration) -> anyhow::Result<Instant> {
        let is_meant = |(at, prompt): &&(Step, String)| *at == step && prompt.starts_with(whose);
        let count = || self.waiting().iter().filter(is_meant).count();
        let end = Instant::now() + patience;
        while count() < SESSIONS {
            if tokio::time::timeout_at(end.into(), self.came.notified()).await.is_err() {
                bail!("after {} s only {} of {SESSIONS} called the model", patience.as_secs(), count());
            }
        }
        Ok(Instant::now())
    }
}

/// Samples of one kind of server.
#[derive(Default)]
struct Samples {
    reply: Vec<f64>,
    going: Vec<f64>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    if available_mib() < MEMORY_MIB {
        return Err(Skipped("a thousand sandboxes need 4 GiB of memory").into());
    }
    let calls = Arc::new(Calls::default());
    let model = Server::start(Arc::clone(&calls).script()).await;
    let repo = Repo::plain();
    let dir = served::home(&model.url(), &repo.url())?;
    let bench = Bench { slipway: served::program()?, calls, model, dir };
    let measured = bench.measure(settings).await;
    // They outlive the server.
    served::remove_sandboxes(bench.dir.path()).await?;
    measured
}

struct Bench {
    slipway: PathBuf,
    calls: Arc<Calls>,
    model: Server,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn measure(&self, settings: &Settings) -> anyhow::Result<Vec<Table>> {
        let mut server = Served::slipway(&self.slipway, self.dir.path()).await?;
        begin_sessions(&server).await?;
        self.calls.everybody("ours", Step::Begun, MAKING).await?;
        // In the worst moment: few of the sandboxes are ready, and some are not made yet.
        let made = sandboxes(&list(&server).await?);
        let began = self.again(&mut server).await?;
        let unready = ms(self.calls.everybody("ours", Step::Begun, GOING_ON).await? - began);
        self.calls.begun.open();
        self.calls.everybody("ours", Step::Ran, MAKING).await?;
        let begun = list(&server).await?;
        let file = self.dir.path().join("plain.db");
        plain_server::write(&file, &self.rows(&begun)?)?;
        let (mut ours, mut plain) = (Samples::default(), Samples::default());
        let (mut had, mut replaced) = (sandboxes(&begun), Vec::new());
        let unready_replaced = others(&made, &had);
        for _ in 0..settings.rounds(ROUNDS) {
            settings.interrupt.check()?;
            let began = self.again(&mut server).await?;
            ours.reply.push(ms(began.elapsed()));
            ours.going.push(ms(self.calls.everybody("ours", Step::Ran, GOING_ON).await? - began));
            // Each of them was ready, and none may be without; how many were made again all the same is told.
            let now = sandboxes(&list(&server).await?);
            ensure!(now.values().all(Option::is_some), "a session goes on without a sandbox");
            replaced.push(others(&had, &now));
            had = now;
            let mut other = plain_server::start(&file, self.model.address()).await?;
            let _rows: Value = other.get("/sessions").await?;
            plain.reply.push(ms(other.began.elapsed()));
            plain.going.push(ms(self.calls.everybody("plain", Step::Ran, GOING_ON).await? - other.began));
            other.kill().await?;
        }
        let finished = self.finished(settings, server).await?;
        let violations = self.model.violations();
        ensure!(violations.is_empty(), "the scripted model was asked wrongly: {}", violations.join("; "));
        const PLAIN: &str = "plain axum program, one SQLite file";
        Ok(vec![
            Table::new(
                format!("kill -9 with {SESSIONS} turns under way → the list of sessions"),
                "ms",
                "slipway serve",
                ours.reply,
            )
            .against(PLAIN, plain.reply)
            .also("slipway serve, after their turns finished", finished),
            Table::new(
                format!("kill -9 with {SESSIONS} turns under way → every model is called again"),
                "ms",
                "slipway serve, with their sandboxes",
                ours.going,
            )
            .against(PLAIN, plain.going)
            .also("slipway serve, killed before their sandboxes were ready", vec![unready]),
            Table::new("sandboxes that were made again", "of 1,000", "slipway serve", replaced)
                .also("slipway serve, killed before they were ready", vec![unready_replaced]),
        ])
    }

    /// Kills the server and starts it again, until it answers; gives when its process was begun.
    async fn again(&self, server: &mut Served) -> anyhow::Result<Instant> {
        server.kill().await?;
        self.calls.forget();
        *server = Served::slipway(&self.slipway, self.dir.path()).await?;
        list(server).await?;
        Ok(server.began)
    }

    /// Lets every turn finish; then kills and starts the server again, until it answers.
    async fn finished(&self, settings: &Settings, mut server: Served) -> anyhow::Result<Vec<f64>> {
        self.calls.ran.open();
        let end = Instant::now() + GOING_ON;
        while !list(&server).await?.iter().all(|session| session.status == Status::Done) {
            ensure!(Instant::now() < end, "not every turn finished");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let mut replies = Vec::new();
        for _ in 0..settings.rounds(ROUNDS) {
            settings.interrupt.check()?;
            replies.push(ms(self.again(&mut server).await?.elapsed()));
        }
        server.end().await?;
        Ok(replies)
    }

    /// What the plain program has of each session: the same row, and a request as long as ours.
    fn rows(&self, sessions: &[Session]) -> anyhow::Result<Vec<(Value, Value)>> {
        let request = self.model.requests().pop().context("the model was asked nothing")?;
        let number = |(place, session)| {
            let mut request = request.json.clone();
            let messages = request["messages"].as_array_mut().context("a request without messages")?;
            let user = messages.iter_mut().find(|message| message["role"] == "user");
            user.context("a request without a prompt")?["content"] = json!(format!("plain {place}"));
            Ok((serde_json::to_value(session)?, request))
        };
        sessions.iter().enumerate().map(number).collect()
    }
}

/// A session for each, with a prompt that tells it from the others.
async fn begin_sessions(server: &Served) -> anyhow::Result<()> {
    let begun = (0..SESSIONS).map(|place| async move {
        let request = json!({ "environment": "plain", "prompt": format!("ours {place}") });
        server.post::<Session>("/api/v1/sessions", &request).await.map(drop)
    });
    futures_util::stream::iter(begun).buffer_unordered(16).try_collect().await
}

async fn list(server: &Served) -> anyhow::Result<Vec<Session>> {
    let SessionList { sessions, .. } = server.get("/api/v1/sessions").await?;
    ensure!(sessions.len() == SESSIONS, "{} sessions are listed", sessions.len());
    Ok(sessions)
}

fn sandboxes(sessions: &[Session]) -> BTreeMap<SessionId, Option<SandboxId>> {
    sessions.iter().map(|session| (session.id, session.sandbox)).collect()
}

/// How many sessions have another sandbox than before.
fn others(
    before: &BTreeMap<SessionId, Option<SandboxId>>,
    now: &BTreeMap<SessionId, Option<SandboxId>>,
) -> f64 {
    now.iter().filter(|(id, sandbox)| before.get(*id) != Some(*sandbox)).count() as f64
}

fn available_mib() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
