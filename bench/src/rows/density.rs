//! Three hundred idle sandboxes at once: what each takes of the machine's memory, all told, and whether the last one still
//! starts like the first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use sandbox::{Driver, Life, Owner, Sandbox, Spec, Stack};

use super::{Settings, Skipped, ms};
use crate::fixture::Fixture;
use crate::life;
use crate::report::Table;

const SANDBOXES: usize = 300;
/// The first and the last so many starts are compared.
const EDGE: usize = 10;
/// The least memory that it is tried with.
const NEEDED_KIB: u64 = 4 << 20;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    if available_kib()? < NEEDED_KIB {
        return Err(Skipped("less than 4 GiB of memory are free").into());
    }
    let fixture = Fixture::new()?;
    let (layer, _) = fixture.dependencies().await?;
    let image = Stack::host().with(layer);
    // One comes and goes first: what is loaded once for all is not of any one.
    let spec = Spec::new(image.clone(), Life::Tied, Owner::OneOff);
    life::start(&fixture.driver, &fixture.path().join("native"), &spec).await?;
    let before = settled().await?;
    let mut sandboxes: Vec<Arc<dyn Sandbox>> = Vec::new();
    let mut starts = Vec::new();
    for _ in 0..SANDBOXES {
        settings.interrupt.check()?;
        let spec = Spec::new(image.clone(), Life::Tied, Owner::OneOff);
        let began = Instant::now();
        let sandbox = fixture.driver.create(&spec).await?;
        let create = began.elapsed();
        starts.push(ms(create + life::echo(&*sandbox).await?));
        sandboxes.push(sandbox);
    }
    let after = settled().await?;
    let used = before.saturating_sub(after) as f64 / 1024.0 / SANDBOXES as f64;
    for sandbox in sandboxes {
        let id = sandbox.id();
        drop(sandbox);
        fixture.driver.remove(id).await?;
    }
    let (first, last) = (starts[..EDGE].to_vec(), starts[SANDBOXES - EDGE..].to_vec());
    Ok(vec![
        Table::new(format!("memory of one of {SANDBOXES}, all told"), "MiB", "slipway", vec![used])
            .against("what it may take", vec![6.0]),
        Table::new(
            "start → first byte",
            "ms",
            format!("slipway, the last {EDGE} of {SANDBOXES}").as_str(),
            last,
        )
        .against(format!("slipway, the first {EDGE}"), first),
    ])
}

/// What the whole machine has free, once the kernel has caught up. Processes, the kernel's own structures and page tables
/// are all in it.
async fn settled() -> anyhow::Result<u64> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    available_kib()
}

fn available_kib() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).context("reading /proc/meminfo")
}
