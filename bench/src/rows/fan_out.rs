//! Many sessions with many readers. An event of ours is in the log, synced, before anyone sees it; the alternative keeps
//! nothing. So there are two times: from the event on disk to its arrival, which is what the alternative does as well, and
//! from the wish to append it, with the disk's part in it.

use anyhow::ensure;

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
    readers_each: usize,
}

/// What a run showed.
pub(super) struct Run {
    /// From the wish to append, or from sending, to arrival.
    pub(super) whole: Seen,
    /// From the event on disk to arrival.
    pub(super) from_disk: Seen,
}

impl Load {
    pub(super) async fn start(part: Part, sessions: usize, readers_each: usize) -> anyhow::Result<Self> {
        let mut server = Process::start(part)?;
        let sockets: Vec<String> = server.order(&Order::Make { sessions }).await?;
        let mut readers = Process::start(Part::Readers)?;
        let opened: usize = readers.order(&Order::Open { sockets, each: readers_each }).await?;
        ensure!(opened == sessions * readers_each, "{opened} sockets were opened");
        Ok(Self { server, readers, readers_each })
    }

    pub(super) async fn stream(&mut self, rate: u32, seconds: u32) -> anyhow::Result<Run> {
        let on_disk_ms: Vec<f32> = self.server.order(&Order::Stream { rate, seconds }).await?;
        let expected = u64::from(rate) * u64::from(seconds);
        let whole: Seen = self.readers.order(&Order::Report { expected }).await?;
        ensure!(
            whole.wrong == 0,
            "{} messages of {} were lost, double or out of order",
            whole.wrong,
            whole.messages
        );
        // Sessions follow each other, and so do the sockets of each.
        let before = on_disk_ms.chunks(usize::try_from(expected)?);
        let before = before.flat_map(|session| std::iter::repeat_n(session, self.readers_each)).flatten();
        let mut from_disk = whole.clone();
        from_disk.latencies_ms.iter_mut().zip(before).for_each(|(latency, before)| *latency -= before);
        Ok(Run { whole, from_disk })
    }

    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.readers.end().await?;
        self.server.end().await
    }
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let mut ours = Load::start(Part::Ours, SESSIONS, READERS).await?;
    let mut bare = Load::start(Part::Bare, SESSIONS, READERS).await?;
    let (mut our_runs, mut bare_runs) = (vec![], vec![]);
    for round in 0..=settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let one = ours.stream(RATE, SECONDS).await?;
        let other = bare.stream(RATE, SECONDS).await?;
        // The first round opens files and fills caches.
        if round > 0 {
            our_runs.push(one);
            bare_runs.push(other);
        }
    }
    ours.end().await?;
    bare.end().await?;
    let table = |share: f64, what: &str, ours: fn(&Run) -> &Seen| {
        let title = format!(
            "{SESSIONS} sessions × {RATE} events/s × {READERS} readers, {what}: p{} of a run",
            share * 100.0
        );
        let ours = our_runs.iter().map(|run| ours(run).quantile(share)).collect();
        let bare = bare_runs.iter().map(|run| run.whole.quantile(share)).collect();
        Table::new(title, "ms", "slipway, durable", ours).against("bare axum broadcast, nothing kept", bare)
    };
    const APPENDED: &str = "from append to arrival";
    const WISHED: &str = "with the append itself";
    Ok(vec![
        table(0.99, APPENDED, |run| &run.from_disk),
        table(0.5, APPENDED, |run| &run.from_disk),
        table(0.99, WISHED, |run| &run.whole),
        table(0.5, WISHED, |run| &run.whole),
    ])
}
