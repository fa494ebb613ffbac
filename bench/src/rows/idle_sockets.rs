//! A thousand idle sessions, each with an open socket: what they cost.

use std::time::Duration;

use anyhow::Context;

use super::Settings;
use super::fan_out::Load;
use crate::load::Part;
use crate::report::Table;

const SESSIONS: usize = 1000;
/// Long enough to see two pings on every socket.
const WATCH: Duration = Duration::from_secs(45);

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let (mut ours, mut bare) = (vec![], vec![]);
    let (mut our_cpu, mut bare_cpu) = (vec![], vec![]);
    for _ in 0..settings.rounds(1) {
        settings.interrupt.check()?;
        for (part, memory, cpu) in
            [(Part::Ours, &mut ours, &mut our_cpu), (Part::Bare, &mut bare, &mut bare_cpu)]
        {
            // What a server with one session needs is not what a session costs.
            let one = Load::start(part, 1, 1).await?;
            let base = resident_kib(one.server.id().context("no process")?)?;
            one.end().await?;
            let load = Load::start(part, SESSIONS, 1).await?;
            let id = load.server.id().context("no process")?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            let before = cpu_seconds(id)?;
            tokio::time::sleep(WATCH).await;
            cpu.push((cpu_seconds(id)? - before) / WATCH.as_secs_f64() * 100.0);
            memory.push((resident_kib(id)? - base) / (SESSIONS - 1) as f64);
            load.end().await?;
        }
    }
    const BARE: &str = "bare axum broadcast, nothing kept";
    Ok(vec![
        Table::new("memory of an idle session with a socket", "KiB", "slipway", ours).against(BARE, bare),
        Table::new(format!("processor time of {SESSIONS} of them"), "% of a core", "slipway", our_cpu)
            .against(BARE, bare_cpu),
    ])
}

fn resident_kib(id: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse()?)
}

fn cpu_seconds(id: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name in parentheses may have blanks.
    let rest = stat.rsplit_once(')').context("no name")?.1;
    let ticks: f64 =
        rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0)).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}
