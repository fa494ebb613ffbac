//! A sandbox claimed from the warm pool, against one made afresh from the same image: without a network, and with the way
//! out that an environment has unless it says otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use protocol::{SessionId, Timestamp};
use sandbox::egress::{self, Internet, Rules};
use sandbox::image::Image;
use sandbox::pool::{Pool, Target};
use sandbox::{Driver, Life, Limits, Network, Owner, Sandbox, Spec};

use super::{Settings, ms};
use crate::fixture::Fixture;
use crate::life::{self, SETTLE};
use crate::report::Table;

const ROUNDS: usize = 30;
const WARM_UP: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// The two kinds of environments: their names here, and what they may reach.
const KINDS: [(&str, Network); 2] = [("no network", Network::None), ("with a way out", Network::Egress)];

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let fixture = Fixture::new()?;
    let (layer, _) = fixture.dependencies().await?;
    let image = Image {
        environment: String::new(),
        key: "bench".to_owned(),
        stack: sandbox::Stack::host().with(layer),
        url: String::new(),
        branch: String::new(),
        commit: String::new(),
        built_at: Timestamp::now(),
        duration_ms: 0,
        bytes: 0,
        notes: Vec::new(),
    };
    let pool = Pool::new(fixture.driver.clone());
    let mut measured = [Measured::default(), Measured::default()];
    for (environment, network) in &KINDS {
        pool.set(environment, target(&image, *network)?);
    }
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        for ((environment, network), measured) in KINDS.iter().zip(&mut measured) {
            settings.interrupt.check()?;
            let one = Round { fixture: &fixture, pool: &pool, image: &image, environment, network: *network };
            let (claimed, fresh) = (one.claim().await?, one.fresh().await?);
            if round >= WARM_UP {
                measured.claimed.push(claimed);
                measured.fresh.push(fresh);
            }
        }
    }
    pool.close().await;
    Ok(KINDS.iter().zip(measured).flat_map(|((name, _), measured)| measured.tables(name)).collect())
}

fn target(image: &Image, network: Network) -> anyhow::Result<Target> {
    Ok(Target {
        size: 1,
        image: image.clone(),
        limits: Limits::default(),
        network,
        rules: rules()?,
        outside: Arc::new(Internet),
        services: Vec::new(),
    })
}

/// What an environment has that says nothing: there is a way out, and everything is refused.
fn rules() -> anyhow::Result<Rules> {
    Ok(Rules::parse(&protocol::Egress::default())?)
}

/// Until it takes commands, and until the first byte of one.
struct Times {
    ready: Duration,
    first_byte: Duration,
}

#[derive(Default)]
struct Measured {
    claimed: Vec<Times>,
    fresh: Vec<Times>,
}

impl Measured {
    fn tables(self, name: &str) -> [Table; 2] {
        let table = |what: &str, time: fn(&Times) -> Duration| {
            let all = |times: &[Times]| times.iter().map(|times| ms(time(times))).collect::<Vec<_>>();
            Table::new(format!("{name}, {what}"), "ms", "slipway, claimed", all(&self.claimed))
                .against("slipway, fresh", all(&self.fresh))
        };
        [
            table("until it takes commands", |times| times.ready),
            table("until the first byte", |times| times.first_byte),
        ]
    }
}

/// One claim and one fresh start.
struct Round<'a> {
    fixture: &'a Fixture,
    pool: &'a Pool,
    image: &'a Image,
    environment: &'a str,
    network: Network,
}

impl Round<'_> {
    async fn claim(&self) -> anyhow::Result<Times> {
        self.settle().await?;
        let owner = Owner::Session(SessionId::new());
        let began = Instant::now();
        let taken = self.pool.claim(self.environment, &self.image.key, &owner).await;
        let taken = taken.context("nothing to claim")?;
        let ready = began.elapsed();
        let first_byte = ready + life::echo(&*taken.sandbox).await?;
        self.fixture.driver.remove(taken.sandbox.id()).await?;
        Ok(Times { ready, first_byte })
    }

    async fn fresh(&self) -> anyhow::Result<Times> {
        self.settle().await?;
        let spec =
            Spec { network: self.network, ..Spec::new(self.image.stack.clone(), Life::Own, Owner::OneOff) };
        let began = Instant::now();
        let sandbox = self.fixture.driver.create(&spec).await?;
        let proxy = connect(&*sandbox).await?;
        let ready = began.elapsed();
        let first_byte = ready + life::echo(&*sandbox).await?;
        drop(proxy);
        self.fixture.driver.remove(spec.id).await?;
        Ok(Times { ready, first_byte })
    }

    /// The pools are full again, and the kernel has cleaned up.
    async fn settle(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while KINDS.iter().any(|(environment, _)| self.pool.status(environment).ready == 0) {
            ensure!(began.elapsed() < PATIENCE, "the pool does not fill");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }
}

/// Gives a sandbox its way out, as the pool does for those that wait.
async fn connect(sandbox: &dyn Sandbox) -> anyhow::Result<Option<egress::Proxy>> {
    let Some(sockets) = sandbox.sockets().await? else { return Ok(None) };
    let nobody: egress::Sink = Arc::new(|_| {});
    let proxy = egress::Proxy::start(sockets, rules()?, Arc::new(Internet), nobody)?;
    if let Some(bundle) = proxy.ca_bundle() {
        sandbox.guest().write_file(egress::CA_BUNDLE, bundle.into()).await?;
    }
    sandbox.guest().set_env(&proxy.variables()).await?;
    Ok(Some(proxy))
}
