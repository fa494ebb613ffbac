//! A command in a sandbox that runs, against the same command without one.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sandbox::{Driver, Life, Owner, Spec, Stack};

use super::{Settings, ms};
use crate::fixture::Fixture;
use crate::life;
use crate::peers::{ECHO, SAID};
use crate::report::Table;

const ROUNDS: usize = 200;
const WARM_UP: usize = 10;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let fixture = Fixture::new()?;
    let spec = Spec::new(Stack::host(), Life::Tied, Owner::OneOff);
    let sandbox = fixture.driver.create(&spec).await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let inside = life::echo(&*sandbox).await?;
        let outside = tokio::task::block_in_place(spawn)?;
        if round >= WARM_UP {
            ours.push(ms(inside));
            bare.push(ms(outside));
        }
    }
    fixture.driver.remove(spec.id).await?;
    Ok(vec![Table::new("command → first byte", "ms", "slipway", ours).against("fork + exec", bare)])
}

/// Nothing between this process and the command.
fn spawn() -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut child = Command::new(ECHO[0])
        .args(&ECHO[1..])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = [0; SAID.len()];
    child.stdout.as_mut().context("a child without output")?.read_exact(&mut said)?;
    let first_byte = began.elapsed();
    ensure!(child.wait()?.success() && said == SAID, "echo failed");
    Ok(first_byte)
}
