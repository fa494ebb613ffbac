//! What the platform adds to each step of a turn. The real binary works through a scripted turn; the time is taken at
//! the model's side, from handing out an answer to the arrival of the next request, so nothing of ours can hide.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use protocol::chat::Message;
use sandbox::Driver;
use sandbox::native::Native;
use serde_json::{Value, json};
use testkit::model::{Reply, Request, Script, Server};
use testkit::repo::Repo;

use super::{Settings, ms};
use crate::peers::bare_loop::{self, Log};
use crate::report::Table;
use crate::served;
use crate::stats::Summary;

const ROUNDS: usize = 30;
const STEPS: usize = 20;

/// When a request came, and when its answer was handed out.
#[derive(Debug, Clone, Copy)]
struct Mark {
    arrived: Instant,
    answered: Instant,
}

type Marks = Arc<Mutex<Vec<Mark>>>;

/// One turn.
struct Turn {
    /// From each answer to the next request.
    steps: Vec<Duration>,
    /// The command of each step.
    commands: Vec<Duration>,
    /// From the start to the first request: for us, the program, the sandbox and the clone.
    ready: Duration,
    whole: Duration,
}

#[derive(Default)]
struct Samples {
    step: Vec<f64>,
    command: Vec<f64>,
    ready: Vec<f64>,
    whole: Vec<f64>,
}

impl Samples {
    fn add(&mut self, turn: &Turn) {
        self.step.extend(turn.steps.iter().copied().map(ms));
        self.command.extend(turn.commands.iter().copied().map(ms));
        self.ready.push(ms(turn.ready));
        self.whole.push(ms(turn.whole));
    }

    /// The steps without so much time of each.
    fn less(&self, own: f64) -> Vec<f64> {
        self.step.iter().map(|step| step - own).collect()
    }
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let slipway = served::program()?;
    let marks = Marks::default();
    let model = Server::start(script(Arc::clone(&marks))).await;
    let repo = Repo::plain();
    let dir = served::home(&model.url(), &repo.url())?;
    let bench = Bench { slipway, marks, model, _repo: repo, dir };
    let measured = bench.measure(settings).await;
    // The binary removes its sandboxes; one that was killed could not.
    bench.sweep().await?;
    measured
}

struct Bench {
    slipway: PathBuf,
    marks: Marks,
    model: Server,
    _repo: Repo,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn measure(&self, settings: &Settings) -> anyhow::Result<Vec<Table>> {
        // The first turn of a data directory also makes what later ones share; it is not counted.
        let cold = self.ours().await?;
        let first = self.model.requests().into_iter().next().context("the binary asked the model nothing")?;
        let mut ours = Samples::default();
        let mut bare = Samples::default();
        let mut logged = Samples::default();
        for _ in 0..settings.rounds(ROUNDS) {
            settings.interrupt.check()?;
            ours.add(&self.ours().await?);
            bare.add(&self.bare(&first.json, Log::None).await?);
            logged.add(&self.bare(&first.json, Log::Synced).await?);
        }
        let violations = self.model.violations();
        ensure!(violations.is_empty(), "the scripted model was asked wrongly: {}", violations.join("; "));
        // The command's own time is what it takes with nothing around it: what the sandbox and the guest add is ours.
        let own = Summary::of(&bare.command).context("no command was run")?.median;
        const BARE: &str = "bare loop, sh -c";
        const LOGGED: &str = "bare loop + synced log";
        Ok(vec![
            Table::new("a step less the command's own time", "ms", "slipway", ours.less(own))
                .against(BARE, bare.less(own))
                .against(LOGGED, logged.less(own)),
            Table::new("a step", "ms", "slipway", ours.step)
                .against(BARE, bare.step)
                .against(LOGGED, logged.step),
            Table::new("the command (`true`)", "ms", "slipway, in the sandbox", ours.command)
                .against(BARE, bare.command),
            Table::new(format!("turn of {STEPS} steps"), "ms", "slipway run, whole", ours.whole)
                .against(BARE, bare.whole)
                .against(LOGGED, logged.whole)
                .also("slipway: to first request", ours.ready)
                .also("slipway: whole, first ever", vec![ms(cold.whole)]),
        ])
    }

    /// A turn through the binary, in a sandbox, with its log.
    async fn ours(&self) -> anyhow::Result<Turn> {
        self.forget_marks();
        let mut command = served::command(&self.slipway, self.dir.path());
        command.args(["run", "--json", "--env", "plain", "Do nothing, twenty times."]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let began = Instant::now();
        let output = command.output().await.with_context(|| format!("running {}", self.slipway.display()))?;
        let whole = began.elapsed();
        if !output.status.success() {
            bail!(
                "slipway run failed ({}): {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let commands = std::str::from_utf8(&output.stdout)?.lines().filter_map(command_time).collect();
        self.turn(began, whole, commands)
    }

    /// The same turn without anything around it.
    async fn bare(&self, first: &Value, log: Log) -> anyhow::Result<Turn> {
        self.forget_marks();
        let began = Instant::now();
        let commands = bare_loop::run(self.model.address(), first, log, self.dir.path()).await?;
        self.turn(began, began.elapsed(), commands)
    }

    fn turn(&self, began: Instant, whole: Duration, commands: Vec<Duration>) -> anyhow::Result<Turn> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, ..] = &marks[..] else { bail!("the model was asked nothing") };
        let steps: Vec<Duration> = marks.windows(2).map(|pair| pair[1].arrived - pair[0].answered).collect();
        ensure!(
            steps.len() == STEPS && commands.len() == STEPS,
            "a turn of {STEPS} steps had {} steps and {} commands",
            steps.len(),
            commands.len()
        );
        Ok(Turn { steps, commands, ready: first.arrived - began, whole })
    }

    fn forget_marks(&self) {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn sweep(&self) -> anyhow::Result<()> {
        let native = self.dir.path().join("data/native");
        if native.exists() {
            let driver = Native::open(&native)?;
            for info in driver.list().await? {
                driver.remove(info.id).await?;
            }
        }
        Ok(())
    }
}

/// Calls `true` as often as wanted, then ends. The number keeps each call a new one, as a model that goes in circles
/// would be stopped; it is read from the conversation, so one server serves every round.
fn script(marks: Marks) -> Script {
    Script::from_fn(move |request: &Request, _| {
        let arrived = Instant::now();
        let steps = request.messages.iter().filter(|message| matches!(message, Message::Assistant { .. }));
        let reply = match steps.count() {
            step if step < STEPS => Reply::new().call("shell", json!({ "command": format!("true {step}") })),
            _ => Reply::text("There is nothing to do."),
        };
        let mark = Mark { arrived, answered: Instant::now() };
        marks.lock().unwrap_or_else(PoisonError::into_inner).push(mark);
        reply
    })
}

/// How long the command took that this event tells of; None for other events, and for one that failed.
fn command_time(line: &str) -> Option<Duration> {
    let event: Value = serde_json::from_str(line).ok()?;
    let item = &event["data"]["item"];
    if event["type"] != "item.completed" || item["kind"] != "tool_call" || item["exit_code"] != 0 {
        return None;
    }
    item["duration_ms"].as_u64().map(Duration::from_millis)
}
