//! One session whose command prints a hundred megabytes, beside one that is watched: does the second one notice?

use serde_json::Value;

use super::Settings;
use super::fan_out::Load;
use crate::load::{Order, Part};
use crate::report::Table;

const ROUNDS: usize = 5;
const SESSIONS: usize = 10;
const RATE: u32 = 50;
const SECONDS: u32 = 3;
const FLOOD: u64 = 100 << 20;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let mut load = Load::start(Part::Ours, SESSIONS, 1).await?;
    let (mut quiet, mut noisy) = (vec![], vec![]);
    for round in 0..=settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let before = load.stream(RATE, SECONDS).await?.quantile(0.99);
        let _session: Value = load.server.order(&Order::Flood { bytes: FLOOD }).await?;
        let during = load.stream(RATE, SECONDS).await?.quantile(0.99);
        if round > 0 {
            quiet.push(before);
            noisy.push(during);
        }
    }
    load.end().await?;
    let title = format!("another session's p99, {SESSIONS} × {RATE} events/s");
    Ok(vec![Table::new(title, "ms", "beside 100 MB of output", noisy).against("alone", quiet)])
}
