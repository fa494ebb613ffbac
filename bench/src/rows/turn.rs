//! A turn of 20 steps as a person runs it from a shell, from the start of the program to its end: ours, with its server,
//! log and sandbox, beside other harnesses that work right on the host.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use sandbox::Driver;
use sandbox::native::Native;
use testkit::repo::Repo;
use tokio::process::Command;

use super::{Settings, ms};
use crate::harness::model::Model;
use crate::harness::{self, Harness, PROMPT};
use crate::peers::Missing;
use crate::report::Table;
use crate::{process, served};

const ROUNDS: usize = 10;
const STEPS: usize = 20;
const OURS: &str = "slipway run, with its sandbox";

#[derive(Default)]
struct Samples {
    whole: Vec<f64>,
    step: Vec<f64>,
    memory: Vec<f64>,
}

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let repo = Repo::plain();
    let model = Model::start(STEPS).await?;
    let dir = served::home(&model.url(), &repo.url())?;
    let bench = Bench { slipway: served::program()?, model, dir };
    let measured = bench.measure(settings).await;
    // The binary removes its sandboxes; one that was killed could not.
    let native = bench.dir.path().join("data/native");
    if native.exists() {
        let driver = Native::open(&native)?;
        for info in driver.list().await? {
            driver.remove(info.id).await?;
        }
    }
    measured
}

struct Bench {
    slipway: PathBuf,
    model: Model,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn measure(&self, settings: &Settings) -> anyhow::Result<Vec<Table>> {
        let mut others: Vec<(Result<Harness, Missing>, Samples)> = Vec::new();
        for harness in harness::all(self.dir.path(), &self.model.url())? {
            // The first turn makes what later ones share. Who cannot do it is not asked again: the table says why.
            let harness = match harness {
                Ok(harness) => {
                    match self.turn(harness.name, harness.command(), &mut Samples::default()).await {
                        Ok(()) => Ok(harness),
                        Err(error) => Err(Missing::because(harness.name, &error)),
                    }
                }
                missing => missing,
            };
            others.push((harness, Samples::default()));
        }
        let mut ours = Samples::default();
        self.turn(OURS, self.ours(), &mut Samples::default()).await?;
        for _ in 0..settings.rounds(ROUNDS) {
            settings.interrupt.check()?;
            self.turn(OURS, self.ours(), &mut ours).await?;
            self.turn_for_memory(OURS, self.ours(), &mut ours).await?;
            for (harness, samples) in &mut others {
                let Ok(harness) = harness else { continue };
                settings.interrupt.check()?;
                self.turn(harness.name, harness.command(), samples).await?;
                self.turn_for_memory(harness.name, harness.command(), samples).await?;
            }
        }
        let table = |title: &str, unit, take: fn(&Samples) -> &Vec<f64>| {
            let table = Table::new(title, unit, OURS, take(&ours).clone());
            others.iter().fold(table, |table, (harness, samples)| match harness {
                Ok(harness) => table.against(harness.name, take(samples).clone()),
                Err(missing) => table.without(missing),
            })
        };
        Ok(vec![
            table(&format!("turn of {STEPS} steps, whole"), "ms", |samples| &samples.whole),
            table("most memory at one time, all processes", "MiB", |samples| &samples.memory),
            table("a step: answer → next request", "ms", |samples| &samples.step),
        ])
    }

    fn ours(&self) -> Command {
        let mut command = served::command(&self.slipway, self.dir.path());
        command.args(["run", "--json", "--env", "plain", PROMPT]);
        command
    }

    async fn turn(&self, name: &str, command: Command, samples: &mut Samples) -> anyhow::Result<()> {
        self.model.forget();
        let began = Instant::now();
        let output = captured(command).output().await?;
        let whole = began.elapsed();
        harness::check(name, &output)?;
        samples.step.extend(self.model.gaps()?.into_iter().map(ms));
        samples.whole.push(ms(whole));
        Ok(())
    }

    /// Apart from the others, because looking at the memory takes time from whoever is looked at.
    async fn turn_for_memory(
        &self,
        name: &str,
        command: Command,
        samples: &mut Samples,
    ) -> anyhow::Result<()> {
        self.model.forget();
        let (output, peak) = process::peak_mib(&mut captured(command)).await?;
        harness::check(name, &output)?;
        self.model.gaps()?;
        samples.memory.push(peak);
        Ok(())
    }
}

fn captured(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}
