//! A thousand idle sessions, each with an open socket: what they cost the real program.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt};
use protocol::{
    Actor, Environment, EventBody, Item, ItemId, ItemKind, ItemStatus, Outcome, PromptId, Receipt, SessionId,
    TurnId, Usage,
};
use store::{Draft, Store};

use super::Settings;
use super::fan_out::Load;
use crate::load::{Order, Part, Process};
use crate::process::cpu_seconds;
use crate::report::Table;
use crate::served::{self, Served};

const SESSIONS: usize = 1000;
/// Until logs that are not used are closed, and memory was given back twice.
const SETTLE: Duration = Duration::from_secs(40);
/// Long enough to see two pings on every socket.
const WATCH: Duration = Duration::from_secs(45);

/// What the sessions of a server cost.
#[derive(Default)]
struct Samples {
    memory: Vec<f64>,
    processor: Vec<f64>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let slipway = served::program()?;
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..settings.rounds(1) {
        settings.interrupt.check()?;
        // What a server with one session needs is not what a session costs.
        let one = Idle::start(&slipway, 1).await?;
        let many = Idle::start(&slipway, SESSIONS).await?;
        ours.watch(one.server.id()?, many.server.id()?).await?;
        one.end().await?;
        many.end().await?;
        settings.interrupt.check()?;
        let one = Load::start(Part::Bare, 1, 1).await?;
        let many = Load::start(Part::Bare, SESSIONS, 1).await?;
        bare.watch(one.server.id().context("no process")?, many.server.id().context("no process")?).await?;
        one.end().await?;
        many.end().await?;
    }
    const BARE: &str = "bare axum broadcast, nothing kept";
    Ok(vec![
        Table::new("memory of an idle session with a socket", "KiB", "slipway serve", ours.memory)
            .against(BARE, bare.memory),
        Table::new(
            format!("processor time of {SESSIONS} of them"),
            "% of a core",
            "slipway serve",
            ours.processor,
        )
        .against(BARE, bare.processor),
    ])
}

impl Samples {
    /// Looks at a server with one session and at one with many.
    async fn watch(&mut self, one: u32, many: u32) -> anyhow::Result<()> {
        tokio::time::sleep(SETTLE).await;
        let before = cpu_seconds(many)?;
        tokio::time::sleep(WATCH).await;
        self.processor.push((cpu_seconds(many)? - before) / WATCH.as_secs_f64() * 100.0);
        self.memory.push((resident_kib(many)? - resident_kib(one)?) / (SESSIONS - 1) as f64);
        Ok(())
    }
}

/// The real program with sessions that had a turn each, and a socket to each of them.
struct Idle {
    server: Served,
    readers: Process,
    _dir: tempfile::TempDir,
}

impl Idle {
    async fn start(slipway: &Path, count: usize) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
        std::fs::write(dir.path().join("slipway.toml"), "")?;
        let ids = write_sessions(&dir.path().join("data"), count).await?;
        let server = Served::slipway(slipway, dir.path()).await?;
        let address = server.address;
        // From the first event on, as somebody who opens a session does.
        let sockets = ids.iter().map(|id| format!("ws://{address}/api/v1/sessions/{id}/socket?after=0"));
        let mut readers = Process::start(Part::Readers)?;
        let opened: usize = readers.order(&Order::Open { sockets: sockets.collect(), each: 1 }).await?;
        ensure!(opened == count, "{opened} sockets were opened");
        Ok(Self { server, readers, _dir: dir })
    }

    async fn end(self) -> anyhow::Result<()> {
        self.readers.end().await?;
        self.server.end().await
    }
}

/// The logs of sessions whose one turn is done.
async fn write_sessions(data: &Path, count: usize) -> anyhow::Result<Vec<SessionId>> {
    let store = Store::open(data)?;
    let made = (0..count).map(|place| {
        let store = store.clone();
        async move {
            let id = SessionId::new();
            let drafts = a_turn(place).into_iter().map(|body| Draft { actor: Actor::user("bench"), body });
            store.create_log(id).await?.append(drafts.collect()).await?;
            anyhow::Ok(id)
        }
    });
    futures_util::stream::iter(made).buffered(16).try_collect().await
}

fn a_turn(place: usize) -> Vec<EventBody> {
    let (turn, prompt) = (TurnId::new(), PromptId::new());
    let text = format!("Say what the program number {place} does, and how it could do it in fewer lines.");
    let completed = |kind| {
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        EventBody::ItemCompleted { turn, item }
    };
    vec![
        EventBody::SessionCreated {
            environment: "plain".to_owned(),
            recipe: Box::new(Environment::default()),
            title: format!("Say what the program number {place} does"),
            model: "scripted".to_owned(),
            forked_from: None,
            budgets: Default::default(),
            origin: protocol::SessionOrigin::default(),
        },
        EventBody::PromptQueued { prompt, text: text.clone(), now: false, images: Vec::new() },
        EventBody::TurnStarted { turn, prompt },
        completed(ItemKind::Prompt { prompt, text, images: Vec::new() }),
        completed(ItemKind::Message { text: "It adds two numbers, in as few lines as it can. ".repeat(20) }),
        EventBody::UsageRecorded {
            turn,
            step: 1,
            model: "scripted".to_owned(),
            usage: Usage { input: 2000, output: 200, ..Usage::default() },
            cost_usd: None,
            first_token_ms: 100,
            duration_ms: 900,
            elapsed_ms: 900,
        },
        EventBody::TurnFinished { turn, outcome: Outcome::Done, reason: None, receipt: Receipt::default() },
    ]
}

fn resident_kib(id: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
}
