//! One life of a sandbox of ours, timed: from asking for it to the first byte of a command's output, and on to the moment
//! when no process, directory or control group of it is left. And the same of a peer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use guest::{Output, ProcessSpec};
use sandbox::native::Native;
use sandbox::{Driver, Sandbox, Spec};
use serde::Deserialize;

use crate::peers::{ECHO, Missing, Peer, SAID, Start};

/// Pause before each sample. The kernel cleans up after a namespace or control group for some time, and moving a process
/// into a group is several times faster right after another such move; a lone start finds neither.
pub(crate) const SETTLE: Duration = Duration::from_millis(50);
/// How long the last traces may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// One life of a sandbox of ours.
pub(crate) struct Ours {
    pub(crate) create: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) remove: Duration,
    pub(crate) whole: Duration,
}

/// A peer and its starts.
pub(crate) struct Measured {
    pub(crate) peer: Result<Peer, Missing>,
    pub(crate) starts: Vec<Start>,
}

impl Measured {
    pub(crate) fn new(peer: Result<Peer, Missing>) -> Self {
        Self { peer, starts: Vec::new() }
    }

    /// A peer that fails once is not asked again: the table says why.
    pub(crate) fn sample(&mut self, counted: bool) {
        let Ok(peer) = &self.peer else { return };
        match tokio::task::block_in_place(|| peer.start()) {
            Ok(start) if counted => self.starts.push(start),
            Ok(_) => {}
            Err(error) => self.peer = Err(Missing::because(peer.name, &error)),
        }
    }
}

/// Starts a sandbox, runs a command in it, and removes it. `dir` is the driver's.
pub(crate) async fn start(driver: &Native, dir: &Path, spec: &Spec) -> anyhow::Result<Ours> {
    let began = Instant::now();
    let sandbox = driver.create(spec).await?;
    let create = began.elapsed();
    let first_byte = create + echo(&*sandbox).await?;
    let used = began.elapsed();
    let traces = Traces::of(&dir.join("sandboxes").join(spec.id.to_string()))?;
    let removing = Instant::now();
    driver.remove(spec.id).await?;
    let remove = removing.elapsed();
    drop(sandbox);
    traces.wait_until_gone().await?;
    Ok(Ours { create, first_byte, remove, whole: used + removing.elapsed() })
}

/// Runs the command; gives the time to the first byte of its output.
pub(crate) async fn echo(sandbox: &dyn Sandbox) -> anyhow::Result<Duration> {
    let command = ProcessSpec { argv: ECHO.map(str::to_owned).into(), ..ProcessSpec::default() };
    let id = protocol::ItemId::new().to_string();
    let began = Instant::now();
    let mut process = sandbox.guest().start(&id, &command).await?;
    let said = process.next().await?;
    let first_byte = began.elapsed();
    ensure!(matches!(&said, Some(Output::Stdout { data, .. }) if &data[..] == SAID), "it said {said:?}");
    let ended = process.next().await?;
    ensure!(matches!(&ended, Some(Output::Exit(exit)) if exit.code == 0), "it ended with {ended:?}");
    Ok(first_byte)
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
