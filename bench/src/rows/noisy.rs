//! One session whose command prints a hundred megabytes, beside one that is watched: does the second one notice?

use serde_json::Value;

use super::Settings;
use super::fan_out::{Load, Run};
use crate::load::{Order, Part, Seen};
use crate::report::Table;

const ROUNDS: usize = 5;
const SESSIONS: usize = 10;
const RATE: u32 = 50;
/// Longer than the noise, so that its end and what follows it are in it too.
const SECONDS: u32 = 8;
const FLOOD: u64 = 100 << 20;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let mut load = Load::start(Part::Ours, SESSIONS, 1).await?;
    let (mut quiet, mut noisy) = (vec![], vec![]);
    for round in 0..=settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let before = load.stream(RATE, SECONDS).await?;
        let _session: Value = load.server.order(&Order::Flood { bytes: FLOOD }).await?;
        let during = load.stream(RATE, SECONDS).await?;
        let _over: Value = load.server.order(&Order::Calm).await?;
        if round > 0 {
            quiet.push(before);
            noisy.push(during);
        }
    }
    load.end().await?;
    let table = |what: &str, seen: fn(&Run) -> &Seen| {
        let title = format!("another session's p99, {SESSIONS} × {RATE} events/s, {what}");
        let p99 = |runs: &[Run]| runs.iter().map(|run| seen(run).quantile(0.99)).collect();
        Table::new(title, "ms", "beside 100 MB of output", p99(&noisy)).against("alone", p99(&quiet))
    };
    Ok(vec![
        table("from append to arrival", |run| &run.from_disk),
        table("with the append itself", |run| &run.whole),
    ])
}
