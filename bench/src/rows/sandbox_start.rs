//! From asking for a sandbox to the first byte of `echo hi` in it, through the guest as the product does it; and on to
//! the moment when no process, directory or control group of it is left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use guest::{Output, ProcessSpec};
use protocol::SandboxId;
use sandbox::native::Native;
use sandbox::{Base, Driver, Life, Limits, Spec};
use serde::Deserialize;

use super::{Settings, ms};
use crate::peers::{self, ECHO, Missing, Peer, SAID, Start};
use crate::report::Table;

const ROUNDS: usize = 50;
/// Rounds that are not counted: they fill the caches.
const WARM_UP: usize = 3;
/// Pause before each sample. The kernel cleans up after a namespace or control group for some time, and moving a process
/// into a group is several times faster right after another such move; a lone start finds neither.
const SETTLE: Duration = Duration::from_millis(50);
/// How long the last traces may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// One life of a sandbox of ours.
struct Ours {
    create: Duration,
    first_byte: Duration,
    remove: Duration,
    whole: Duration,
}

struct Measured {
    peer: Result<Peer, Missing>,
    starts: Vec<Start>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
    let driver = Native::open(&dir.path().join("native"))?;
    let mut others: Vec<Measured> =
        peers::all(dir.path())?.into_iter().map(|peer| Measured { peer, starts: Vec::new() }).collect();
    let mut ours = Vec::new();
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let counted = round >= WARM_UP;
        tokio::time::sleep(SETTLE).await;
        let one = start(&driver, dir.path()).await?;
        if counted {
            ours.push(one);
        }
        // The order rotates, so that no peer always follows the same one.
        let count = others.len();
        for place in 0..count {
            tokio::time::sleep(SETTLE).await;
            others[(round + place) % count].sample(counted);
        }
    }
    let column = |take: fn(&Ours) -> Duration| ours.iter().map(|one| ms(take(one))).collect::<Vec<f64>>();
    let mut start = Table::new("create → first byte", "ms", "slipway", column(|one| one.first_byte));
    let mut life = Table::new("create → nothing left", "ms", "slipway", column(|one| one.whole));
    for other in &others {
        let name = match &other.peer {
            Err(missing) => {
                start = start.without(missing);
                continue;
            }
            Ok(peer) => peer.name,
        };
        start = start.against(name, other.starts.iter().map(|start| ms(start.first_byte)).collect());
        life = life.against(name, other.starts.iter().map(|start| ms(start.whole)).collect());
    }
    let parts = Table::new("of which, ours", "ms", "create", column(|one| one.create))
        .also("command → first byte", column(|one| one.first_byte.saturating_sub(one.create)))
        .also("remove", column(|one| one.remove));
    Ok(vec![start, life, parts])
}

impl Measured {
    /// A peer that fails once is not asked again: the table says why.
    fn sample(&mut self, counted: bool) {
        let Ok(peer) = &self.peer else { return };
        match tokio::task::block_in_place(|| peer.start()) {
            Ok(start) if counted => self.starts.push(start),
            Ok(_) => {}
            Err(error) => self.peer = Err(Missing::because(peer.name, &error)),
        }
    }
}

async fn start(driver: &Native, dir: &Path) -> anyhow::Result<Ours> {
    let spec = Spec { id: SandboxId::new(), base: Base::Host, limits: Limits::default(), life: Life::Tied };
    let command = ProcessSpec { argv: ECHO.map(str::to_owned).into(), ..ProcessSpec::default() };
    let began = Instant::now();
    let sandbox = driver.create(&spec).await?;
    let create = began.elapsed();
    let mut process = sandbox.guest().start("echo", &command).await?;
    let said = process.next().await?;
    let first_byte = began.elapsed();
    ensure!(matches!(&said, Some(Output::Stdout { data, .. }) if &data[..] == SAID), "it said {said:?}");
    let ended = process.next().await?;
    ensure!(matches!(&ended, Some(Output::Exit(exit)) if exit.code == 0), "it ended with {ended:?}");
    let used = began.elapsed();
    let traces = Traces::of(&dir.join("native/sandboxes").join(spec.id.to_string()))?;
    let removing = Instant::now();
    driver.remove(spec.id).await?;
    let remove = removing.elapsed();
    drop(sandbox);
    traces.wait_until_gone().await?;
    Ok(Ours { create, first_byte, remove, whole: used + removing.elapsed() })
}

/// What a sandbox has on the host while it runs.
struct Traces {
    paths: Vec<PathBuf>,
}

/// The part of a sandbox's `state.json` that names them.
#[derive(Deserialize)]
struct State {
    monitor: u32,
    init: u32,
    cgroups: Vec<PathBuf>,
}

impl Traces {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let state = std::fs::read(dir.join("state.json")).context("reading the sandbox's state")?;
        let State { monitor, init, cgroups } = serde_json::from_slice(&state)?;
        let mut paths = cgroups;
        paths.push(dir.to_owned());
        paths.extend([monitor, init].map(|pid| Path::new("/proc").join(pid.to_string())));
        Ok(Self { paths })
    }

    async fn wait_until_gone(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while let Some(left) = self.paths.iter().find(|path| path.exists()) {
            if began.elapsed() > PATIENCE {
                bail!("a removed sandbox left {} behind", left.display());
            }
            // None of these can be waited for by an event from outside.
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        Ok(())
    }
}
