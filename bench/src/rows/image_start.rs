//! A sandbox from an image: the same root file system for all, a Debian of essential packages. Then the same image with a
//! layer of 50,000 files over it, against unpacking those files.

use std::time::{Duration, Instant};

use sandbox::{Life, Network, Owner, Spec, Stack};

use super::{Settings, ms};
use crate::fixture::{self, FILES, Fixture};
use crate::life::{self, Measured, Ours, SETTLE};
use crate::peers::{self, docker};
use crate::report::Table;

const ROUNDS: usize = 30;
const WARM_UP: usize = 3;
/// Unpacking takes seconds and varies little.
const UNPACKINGS: usize = 3;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let fixture = Fixture::new()?;
    let root = fixture.root_directory()?;
    let image = fixture.root_stack().await?;
    let (layer, archive) = fixture.dependencies().await?;
    let large = image.with(layer);
    let engine = docker::start(fixture.path(), &fixture.root_archive()?);
    let mut others: Vec<Measured> =
        peers::on_root(fixture.path(), &root).into_iter().map(Measured::new).collect();
    others.push(Measured::new(engine.as_ref().map(docker::Engine::peer).map_err(Clone::clone)));
    let (mut plain, mut open, mut full) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let counted = round >= WARM_UP;
        for (stack, network, samples) in [
            (&image, Network::None, &mut plain),
            (&image, Network::Egress, &mut open),
            (&large, Network::None, &mut full),
        ] {
            tokio::time::sleep(SETTLE).await;
            let one = start(&fixture, stack, network).await?;
            if counted {
                samples.push(ms(one.first_byte));
            }
        }
        let count = others.len();
        for place in 0..count {
            tokio::time::sleep(SETTLE).await;
            others[(round + place) % count].sample(counted);
        }
    }
    let mut unpackings = Vec::new();
    for _ in 0..settings.rounds(UNPACKINGS).min(UNPACKINGS) {
        settings.interrupt.check()?;
        unpackings.push(ms(unpack(&fixture, &archive)?));
    }
    let mut start = Table::new("image → first byte", "ms", "slipway", plain.clone());
    for other in &others {
        start = match &other.peer {
            Err(missing) => start.without(missing),
            Ok(peer) => {
                start.against(peer.name, other.starts.iter().map(|start| ms(start.first_byte)).collect())
            }
        };
    }
    start = start.also("slipway, with a way out (egress)", open);
    let dependencies = Table::new(format!("with {FILES} files more → first byte"), "ms", "slipway", full)
        .against("slipway, without them", plain)
        .against("tar -x of them alone", unpackings);
    Ok(vec![start, dependencies])
}

async fn start(fixture: &Fixture, stack: &Stack, network: Network) -> anyhow::Result<Ours> {
    let spec = Spec { network, ..Spec::new(stack.clone(), Life::Tied, Owner::OneOff) };
    life::start(&fixture.driver, &fixture.path().join("native"), &spec).await
}

fn unpack(fixture: &Fixture, archive: &std::path::Path) -> anyhow::Result<Duration> {
    let into = fixture.path().join("unpacked");
    let began = Instant::now();
    fixture::unpack(archive, &into)?;
    let took = began.elapsed();
    std::fs::remove_dir_all(&into)?;
    Ok(took)
}
