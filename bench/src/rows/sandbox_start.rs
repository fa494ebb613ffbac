//! From asking for a sandbox on the host's own system to the first byte of `echo hi` in it, through the guest as the
//! product does it; and on to the moment when nothing of it is left.

use std::time::Duration;

use sandbox::native::Native;
use sandbox::{Life, Owner, Spec, Stack};

use super::{Settings, ms};
use crate::life::{self, Measured, Ours, SETTLE};
use crate::peers;
use crate::report::Table;

const ROUNDS: usize = 50;
/// Rounds that are not counted: they fill the caches.
const WARM_UP: usize = 3;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
    let driver = Native::open(&dir.path().join("native"))?;
    let mut others: Vec<Measured> = peers::all(dir.path())?.into_iter().map(Measured::new).collect();
    let mut ours = Vec::new();
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let counted = round >= WARM_UP;
        tokio::time::sleep(SETTLE).await;
        let spec = Spec::new(Stack::host(), Life::Tied, Owner::OneOff);
        let one = life::start(&driver, &dir.path().join("native"), &spec).await?;
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
