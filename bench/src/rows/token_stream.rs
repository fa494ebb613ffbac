//! A hundred turns at once whose models write fifty tokens a second each, with somebody who follows every one: what that
//! costs the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt};
use protocol::Session;
use serde_json::json;
use testkit::model::{Reply, Script, Server};
use testkit::repo::Repo;

use super::Settings;
use crate::process::cpu_seconds;
use crate::report::Table;
use crate::served::{self, Served};

const SESSIONS: usize = 100;
/// Between two tokens. Sleeping takes about a millisecond longer than asked.
const PAUSE: Duration = Duration::from_millis(19);
/// Long enough for the turns to begin, to be watched and to end.
const TOKENS: usize = 1500;
/// Letters that the scripted model sends at once.
const LETTERS: usize = 7;
const WATCH: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: usize = 3;
/// Tokens a second that have to reach every follower: with fewer, the processor time says nothing.
const LEAST: f64 = 47.0;

pub(super) async fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let slipway = served::program()?;
    let (mut processor, mut rate) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds(ROUNDS) {
        settings.interrupt.check()?;
        let asked = Arc::new(AtomicUsize::new(0));
        let model = Server::start(script(Arc::clone(&asked))).await;
        let repo = Repo::plain();
        let dir = served::home(&model.url(), &repo.url())?;
        let mut server = Served::slipway(&slipway, dir.path()).await?;
        let measured = watch(&server, &asked).await;
        // It would let the turns under way go on for a while. Their sandboxes outlive it.
        server.kill().await?;
        served::remove_sandboxes(dir.path()).await?;
        let (cpu, tokens) = measured?;
        let least = tokens.iter().copied().fold(f64::INFINITY, f64::min);
        ensure!(least > LEAST, "a follower got {least:.1} tokens a second, which is less than {LEAST}");
        processor.push(cpu);
        rate.extend(tokens);
    }
    Ok(vec![
        Table::new(
            format!("processor time of {SESSIONS} turns, each with a follower"),
            "% of a core",
            "slipway serve",
            processor,
        ),
        Table::new("tokens that reached each follower", "1/s", "slipway serve", rate),
    ])
}

/// Processor time in per cent, and the tokens a second of each follower.
async fn watch(server: &Served, asked: &AtomicUsize) -> anyhow::Result<(f64, Vec<f64>)> {
    let begun = (0..SESSIONS).map(|place| async move {
        let request =
            json!({ "environment": "plain", "prompt": format!("Write a long text, number {place}.") });
        let session: Session = server.post("/api/v1/sessions", &request).await?;
        let url = format!("ws://{}/api/v1/sessions/{}/socket?after=0", server.address, session.id);
        let (stream, _) = tokio_tungstenite::connect_async(url).await.context("following a session")?;
        anyhow::Ok(stream)
    });
    let sockets: Vec<_> = futures_util::stream::iter(begun).buffer_unordered(8).try_collect().await?;
    let came: Vec<Arc<AtomicUsize>> = sockets.iter().map(|_| Arc::default()).collect();
    let mut followers = tokio::task::JoinSet::new();
    for (mut socket, came) in sockets.into_iter().zip(&came) {
        let came = Arc::clone(came);
        followers.spawn(async move {
            while let Some(Ok(message)) = socket.next().await {
                let text = message.to_text().unwrap_or_default();
                came.fetch_add(text.matches(WORD).count(), Ordering::Relaxed);
            }
        });
    }
    let end = Instant::now() + PATIENCE;
    while asked.load(Ordering::Relaxed) < SESSIONS {
        ensure!(Instant::now() < end, "only {} turns began", asked.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counts = || came.iter().map(|came| came.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (cpu, before, began) = (cpu_seconds(server.id()?)?, counts(), Instant::now());
    tokio::time::sleep(WATCH).await;
    let took = began.elapsed().as_secs_f64();
    let cpu = (cpu_seconds(server.id()?)? - cpu) / took * 100.0;
    let tokens = counts().into_iter().zip(before).map(|(now, before)| (now - before) as f64 / took);
    Ok((cpu, tokens.collect()))
}

/// One token.
const WORD: &str = "strand ";

fn script(asked: Arc<AtomicUsize>) -> Script {
    Script::from_fn(move |_, _| {
        asked.fetch_add(1, Ordering::Relaxed);
        debug_assert_eq!(WORD.len(), LETTERS);
        Reply::text(WORD.repeat(TOKENS)).delay(PAUSE)
    })
}
