//! Memory of an idle sandbox: its processes' proportional set size, in which pages that several share are counted once,
//! spread over all who share them. What the kernel keeps for namespaces and mounts is not in it.

use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use anyhow::{Context, ensure};
use sandbox::native::Native;
use sandbox::{Driver, Life, Owner, Sandbox, Spec, Stack};

use super::{Settings, Skipped};
use crate::peers::tree::Tree;
use crate::peers::{Missing, bwrap};
use crate::process::descendants;
use crate::report::Table;

const ROUNDS: usize = 5;
/// Idle at the same time.
const SANDBOXES: usize = 20;

/// KiB of one sandbox.
#[derive(Clone, Copy, Default)]
struct Memory {
    proportional: f64,
    resident: f64,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    // The processes inside belong to another user namespace.
    if !rustix::process::geteuid().is_root() {
        return Err(Skipped("only root may read how much memory a sandbox uses; run this row as root").into());
    }
    let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
    let driver = Native::open(&dir.path().join("native"))?;
    let tree = Tree::make(&dir.path().join("tree"))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut missing: Option<Missing> = None;
    for _ in 0..settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        ours.push(slipway(&driver).await?);
        settings.interrupt.check()?;
        match bubblewrap(&tree).await? {
            Ok(memory) => theirs.push(memory),
            Err(absent) => missing = Some(absent),
        }
    }
    let column = |memory: &[Memory], take: fn(&Memory) -> f64| memory.iter().map(take).collect::<Vec<f64>>();
    let tables = [
        ("proportional (PSS)", (|memory| memory.proportional) as fn(&Memory) -> f64),
        ("resident (RSS)", |memory| memory.resident),
    ];
    Ok(tables
        .into_iter()
        .map(|(title, take)| {
            let table = Table::new(
                format!("{title}, one of {SANDBOXES}"),
                "KiB",
                "slipway: monitor + guest",
                column(&ours, take),
            );
            match &missing {
                Some(missing) => table.without(missing),
                None => table.against("bwrap --unshare-all cat", column(&theirs, take)),
            }
        })
        .collect())
}

async fn slipway(driver: &Native) -> anyhow::Result<Memory> {
    let mut sandboxes: Vec<Arc<dyn Sandbox>> = Vec::new();
    for _ in 0..SANDBOXES {
        let spec = Spec::new(Stack::host(), Life::Tied, Owner::OneOff);
        sandboxes.push(driver.create(&spec).await?);
    }
    let mut roots = Vec::new();
    for info in driver.list().await? {
        let init = info.pid.context("a sandbox without a process")?;
        // The monitor is the parent of the sandbox's first process.
        roots.push(parent(init).context("a sandbox without a monitor")?);
    }
    let memory = average(&roots);
    for sandbox in &sandboxes {
        driver.remove(sandbox.id()).await?;
    }
    memory
}

async fn bubblewrap(tree: &Tree) -> anyhow::Result<Result<Memory, Missing>> {
    let mut idle = Idle(Vec::new());
    for _ in 0..SANDBOXES {
        match bwrap::idle(tree) {
            Err(missing) => return Ok(Err(missing)),
            Ok(child) => idle.0.push(child.context("running bwrap")?),
        }
    }
    for child in &idle.0 {
        while !descendants(child.id()).iter().any(|pid| is_idle(*pid)) {
            ensure!(is_alive(child.id()), "bwrap --unshare-all does not run here");
            // Another program's progress through its start has no event to wait for.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    let roots: Vec<u32> = idle.0.iter().map(Child::id).collect();
    average(&roots).map(Ok)
}

/// Closes the input of every child when dropped, and waits for their end.
struct Idle(Vec<Child>);

impl Drop for Idle {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
            // One that is gone already is as good.
            let _gone = child.wait();
        }
    }
}

/// Whether the command itself runs, and not what prepares it.
fn is_idle(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == bwrap::IDLE)
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

/// What each root and its descendants use, on average.
fn average(roots: &[u32]) -> anyhow::Result<Memory> {
    let mut sum = Memory::default();
    for root in roots {
        for pid in std::iter::once(*root).chain(descendants(*root)) {
            let path = format!("/proc/{pid}/smaps_rollup");
            let text =
                std::fs::read_to_string(Path::new(&path)).with_context(|| format!("reading {path}"))?;
            let field = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0)
            };
            sum.proportional += field("Pss:");
            sum.resident += field("Rss:");
        }
    }
    let count = roots.len().max(1) as f64;
    Ok(Memory { proportional: sum.proportional / count, resident: sum.resident / count })
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}
