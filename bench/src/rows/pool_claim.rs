//! A sandbox claimed from the warm pool, against one made afresh from the same image.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use protocol::{SessionId, Timestamp};
use sandbox::egress::{Internet, Rules};
use sandbox::image::Image;
use sandbox::pool::{Pool, Target};
use sandbox::{Driver, Life, Limits, Network, Owner, Spec};

use super::{Settings, ms};
use crate::fixture::Fixture;
use crate::life::{self, SETTLE};
use crate::report::Table;

const ROUNDS: usize = 30;
const WARM_UP: usize = 2;
const ENVIRONMENT: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let fixture = Fixture::new()?;
    let (layer, _) = fixture.dependencies().await?;
    let image = Image {
        environment: ENVIRONMENT.to_owned(),
        key: "bench".to_owned(),
        stack: sandbox::Stack::host().with(layer),
        url: String::new(),
        branch: String::new(),
        commit: String::new(),
        built_at: Timestamp::now(),
        duration_ms: 0,
        bytes: 0,
    };
    let pool = Pool::new(fixture.driver.clone());
    let target = Target {
        size: 1,
        image: image.clone(),
        limits: Limits::default(),
        network: Network::None,
        rules: Rules::parse(&protocol::Egress::None)?,
        outside: Arc::new(Internet),
        services: Vec::new(),
    };
    pool.set(ENVIRONMENT, target);
    let (mut claimed, mut claims, mut fresh, mut creates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        wait_for_one(&pool).await?;
        tokio::time::sleep(SETTLE).await;
        let owner = Owner::Session(SessionId::new());
        let began = Instant::now();
        let taken = pool.claim(ENVIRONMENT, &image.key, &owner).await.context("nothing to claim")?;
        let claim = began.elapsed();
        let first_byte = claim + life::echo(&*taken.sandbox).await?;
        fixture.driver.remove(taken.sandbox.id()).await?;
        wait_for_one(&pool).await?;
        tokio::time::sleep(SETTLE).await;
        let spec = Spec::new(image.stack.clone(), Life::Own, Owner::OneOff);
        let one = life::start(&fixture.driver, &fixture.path().join("native"), &spec).await?;
        if round >= WARM_UP {
            claims.push(ms(claim));
            claimed.push(ms(first_byte));
            creates.push(ms(one.create));
            fresh.push(ms(one.first_byte));
        }
    }
    pool.close().await;
    Ok(vec![
        Table::new("until it takes commands", "ms", "slipway, claimed", claims)
            .against("slipway, fresh", creates),
        Table::new("until the first byte", "ms", "slipway, claimed", claimed)
            .against("slipway, fresh", fresh),
    ])
}

async fn wait_for_one(pool: &Pool) -> anyhow::Result<()> {
    let began = Instant::now();
    while pool.status(ENVIRONMENT).ready == 0 {
        ensure!(began.elapsed() < PATIENCE, "the pool does not fill");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
