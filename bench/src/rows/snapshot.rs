//! A live snapshot of a workspace in which 200 files changed, over an image with 50,000; and going on from it, once and as
//! a fork, against a fresh start.

use std::time::{Duration, Instant};

use anyhow::ensure;
use guest::{Output, ProcessSpec};
use sandbox::{Driver, LayerId, Life, Owner, Sandbox, Save, Spec, Stack};

use super::{Settings, ms};
use crate::fixture::{FILES, Fixture};
use crate::life::{self, SETTLE};
use crate::report::Table;

const ROUNDS: usize = 15;
const WARM_UP: usize = 1;
/// `tar` takes long and varies little.
const ARCHIVES: usize = 3;
const CHANGED: usize = 200;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let fixture = Fixture::new()?;
    let (layer, _) = fixture.dependencies().await?;
    let image = Stack::host().with(layer);
    let spec = Spec::new(image.clone(), Life::Own, Owner::OneOff);
    let sandbox = fixture.driver.create(&spec).await?;
    let (mut first, mut next) = (Vec::new(), Vec::new());
    let (mut at_once, mut restored, mut forked, mut fresh) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut last: Option<LayerId> = None;
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let counted = round >= WARM_UP;
        change(&*sandbox, round).await?;
        tokio::time::sleep(SETTLE).await;
        let whole: LayerId = format!("snapshot-{round}").parse()?;
        let alone = save(&fixture, &spec, &whole, None).await?;
        tokio::time::sleep(SETTLE).await;
        let shared: LayerId = format!("snapshot-{round}-next").parse()?;
        let after = save(&fixture, &spec, &shared, last.as_ref().or(Some(&whole))).await?;
        let stack = image.with(shared.clone());
        let mut times = Vec::new();
        // Going on from it at once, while its tree is in the making.
        let spec_at_once = Spec::new(stack.clone(), Life::Own, Owner::OneOff);
        times.push(
            life::start(&fixture.driver, &fixture.path().join("native"), &spec_at_once).await?.first_byte,
        );
        // Going on from it later, a fork of it while that still runs, and a start of the image as it was.
        let going_on = Spec::new(stack.clone(), Life::Own, Owner::OneOff);
        tokio::time::sleep(SETTLE).await;
        let began = Instant::now();
        let again = fixture.driver.create(&going_on).await?;
        times.push(began.elapsed() + life::echo(&*again).await?);
        for stack in [&stack, &image] {
            tokio::time::sleep(SETTLE).await;
            let spec = Spec::new(stack.clone(), Life::Own, Owner::OneOff);
            times.push(life::start(&fixture.driver, &fixture.path().join("native"), &spec).await?.first_byte);
        }
        fixture.driver.remove(going_on.id).await?;
        if counted {
            first.push(ms(alone));
            next.push(ms(after));
            for (samples, time) in
                [&mut at_once, &mut restored, &mut forked, &mut fresh].into_iter().zip(times)
            {
                samples.push(ms(time));
            }
        }
        last = Some(shared);
    }
    let mut archives = Vec::new();
    for _ in 0..settings.rounds(ARCHIVES).min(ARCHIVES) {
        settings.interrupt.check()?;
        archives.push(ms(archive(&*sandbox).await?));
    }
    fixture.driver.remove(spec.id).await?;
    Ok(vec![
        Table::new(format!("live snapshot, {CHANGED} of {FILES} files changed"), "ms", "slipway", first)
            .against("tar -c of the workspace", archives)
            .also("slipway, after another snapshot", next),
        Table::new("restore → first byte", "ms", "slipway, restored", restored)
            .against("slipway, fresh from the image", fresh.clone())
            .also("slipway, restored right after the snapshot", at_once),
        Table::new("fork → first byte", "ms", "slipway, forked", forked)
            .against("slipway, fresh from the image", fresh),
    ])
}

async fn save(
    fixture: &Fixture,
    spec: &Spec,
    layer: &LayerId,
    like: Option<&LayerId>,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    fixture.driver.save(spec.id, layer, Save::Live { like }).await?;
    Ok(began.elapsed())
}

/// Changes files here and there in the tree.
async fn change(sandbox: &dyn Sandbox, round: usize) -> anyhow::Result<()> {
    let step = FILES / CHANGED;
    let script = format!(
        "i=0; while [ $i -lt {FILES} ]; do echo {round} >> node_modules/package-$((i / 50))/file-$i.js; i=$((i + {step})); done"
    );
    run_inside(sandbox, &script).await.map(drop)
}

/// What one would do without layers: an archive of the workspace, made inside.
async fn archive(sandbox: &dyn Sandbox) -> anyhow::Result<Duration> {
    let took = run_inside(sandbox, "tar -cf /tmp/workspace.tar .").await?;
    run_inside(sandbox, "rm /tmp/workspace.tar").await?;
    Ok(took)
}

async fn run_inside(sandbox: &dyn Sandbox, script: &str) -> anyhow::Result<Duration> {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned).into();
    let spec = ProcessSpec { argv, cwd: Some(sandbox::WORKSPACE.to_owned()), ..ProcessSpec::default() };
    let began = Instant::now();
    let mut process = sandbox.guest().start(&protocol::ItemId::new().to_string(), &spec).await?;
    loop {
        match process.next().await? {
            Some(Output::Exit(exit)) => {
                ensure!(exit.code == 0, "{script} exited with {}", exit.code);
                return Ok(began.elapsed());
            }
            Some(Output::Stderr { data, .. }) => anyhow::bail!("{}", String::from_utf8_lossy(&data)),
            Some(Output::Stdout { .. }) => {}
            None => anyhow::bail!("the sandbox ended"),
        }
    }
}
