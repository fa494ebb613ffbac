//! Many sessions with many readers: from sending an event to its arrival. Ours is in the log, synced, before anyone sees
//! it; the alternative keeps nothing.

use anyhow::ensure;
use serde_json::Value;

use super::Settings;
use crate::load::{Order, Part, Process, Seen};
use crate::report::Table;

const ROUNDS: usize = 5;
const SESSIONS: usize = 100;
const READERS: usize = 3;
const RATE: u32 = 50;
const SECONDS: u32 = 5;

/// A server with its readers.
pub(super) struct Load {
    pub(super) server: Process,
    readers: Process,
}

impl Load {
    pub(super) async fn start(part: Part, sessions: usize, readers_each: usize) -> anyhow::Result<Self> {
        let mut server = Process::start(part)?;
        let sockets: Vec<String> = server.order(&Order::Make { sessions }).await?;
        let mut readers = Process::start(Part::Readers)?;
        let opened: usize = readers.order(&Order::Open { sockets, each: readers_each }).await?;
        ensure!(opened == sessions * readers_each, "{opened} sockets were opened");
        Ok(Self { server, readers })
    }

    pub(super) async fn stream(&mut self, rate: u32, seconds: u32) -> anyhow::Result<Seen> {
        let _done: Value = self.server.order(&Order::Stream { rate, seconds }).await?;
        let expected = u64::from(rate) * u64::from(seconds);
        let seen: Seen = self.readers.order(&Order::Report { expected }).await?;
        ensure!(
            seen.wrong == 0,
            "{} messages of {} were lost, double or out of order",
            seen.wrong,
            seen.messages
        );
        Ok(seen)
    }

    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.readers.end().await?;
        self.server.end().await
    }
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let mut ours = Load::start(Part::Ours, SESSIONS, READERS).await?;
    let mut bare = Load::start(Part::Bare, SESSIONS, READERS).await?;
    let (mut our_p50, mut our_p99, mut bare_p50, mut bare_p99) = (vec![], vec![], vec![], vec![]);
    for round in 0..=settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let one = ours.stream(RATE, SECONDS).await?;
        let other = bare.stream(RATE, SECONDS).await?;
        // The first round opens files and fills caches.
        if round > 0 {
            our_p50.push(one.quantile(0.5));
            our_p99.push(one.quantile(0.99));
            bare_p50.push(other.quantile(0.5));
            bare_p99.push(other.quantile(0.99));
        }
    }
    ours.end().await?;
    bare.end().await?;
    let what = format!("{SESSIONS} sessions × {RATE} events/s × {READERS} readers");
    const BARE: &str = "bare axum broadcast, nothing kept";
    Ok(vec![
        Table::new(format!("{what}: p99 of a run"), "ms", "slipway, durable", our_p99)
            .against(BARE, bare_p99),
        Table::new(format!("{what}: p50 of a run"), "ms", "slipway, durable", our_p50)
            .against(BARE, bare_p50),
    ])
}
