//! Durable appends: the store, against a loop by hand over one SQLite file with the same journal and the same syncs.

use std::path::Path;
use std::time::{Duration, Instant};

use protocol::{Actor, EventBody, SessionId};
use rusqlite::Connection;
use store::{Draft, Store};

use super::Settings;
use crate::report::Table;

const ROUNDS: usize = 5;
const SECONDS: Duration = Duration::from_secs(2);
const MANY: usize = 200;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
    let store = Store::open(&dir.path().join("data"))?;
    let (mut one, mut many, mut by_hand) = (vec![], vec![], vec![]);
    for round in 0..=settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let samples = (
            ours(&store, 1).await?,
            ours(&store, MANY).await?,
            tokio::task::block_in_place(|| hand_written(&dir.path().join(format!("hand-{round}.db"))))?,
        );
        if round > 0 {
            one.push(samples.0);
            many.push(samples.1);
            by_hand.push(samples.2);
        }
    }
    const HAND: &str = "one file by hand, a sync for each";
    Ok(vec![
        Table::new("appends, 1 session", "events/s", "slipway", one).against(HAND, by_hand.clone()),
        Table::new(format!("appends, {MANY} sessions"), "events/s", "slipway", many).against(HAND, by_hand),
    ])
}

fn text() -> String {
    "an event of about the usual size ".repeat(8)
}

/// Each session appends the next event when the one before is confirmed.
async fn ours(store: &Store, sessions: usize) -> anyhow::Result<f64> {
    let mut logs = Vec::new();
    for _ in 0..sessions {
        logs.push(store.create_log(SessionId::new()).await?);
    }
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for log in logs {
        tasks.spawn(async move {
            let mut count = 0u64;
            while began.elapsed() < SECONDS {
                let draft = Draft {
                    actor: Actor::system(),
                    body: EventBody::MemoryChanged { text: text(), remembered: None },
                };
                log.append(vec![draft]).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0;
    while let Some(count) = tasks.join_next().await {
        total += count??;
    }
    Ok(total as f64 / began.elapsed().as_secs_f64())
}

/// The least that has the same promise: encode, insert, commit with a sync.
fn hand_written(path: &Path) -> anyhow::Result<f64> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection
        .execute_batch("CREATE TABLE events (seq INTEGER PRIMARY KEY, at INTEGER, data TEXT) STRICT")?;
    let mut insert = connection.prepare("INSERT INTO events (at, data) VALUES (?1, ?2)")?;
    let began = Instant::now();
    let mut count = 0u64;
    while began.elapsed() < SECONDS {
        let body = EventBody::MemoryChanged { text: text(), remembered: None };
        let data = serde_json::to_string(&body)?;
        insert.execute((jiff::Timestamp::now().as_microsecond(), data))?;
        count += 1;
    }
    Ok(count as f64 / began.elapsed().as_secs_f64())
}
