//! Those who follow: every socket in a task of its own, every message checked and timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_tungstenite::tungstenite::Message;

use super::{Order, Orders, Seen, answer, now, read_message};

/// How long late messages are waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came on one socket.
#[derive(Default)]
struct Socket {
    came: AtomicU64,
    seen: Mutex<Seen>,
}

pub(super) async fn run() -> anyhow::Result<()> {
    let mut orders = Orders::listen();
    let mut sockets: Vec<Arc<Socket>> = Vec::new();
    while let Some(order) = orders.next().await? {
        let result = match order {
            Order::Open { sockets: addresses, each } => open(&addresses, each).await.map(|opened| {
                sockets = opened;
                json!(sockets.len())
            }),
            Order::Report { expected } => report(&sockets, expected).await,
            other => bail!("this process cannot do {other:?}"),
        };
        answer(result).await?;
    }
    Ok(())
}

async fn open(addresses: &[String], each: usize) -> anyhow::Result<Vec<Arc<Socket>>> {
    let wanted = addresses.iter().flat_map(|address| std::iter::repeat_n(address, each));
    let opened = wanted.map(|address| async move {
        let (mut stream, _) =
            tokio_tungstenite::connect_async(address).await.with_context(|| format!("opening {address}"))?;
        let socket = Arc::new(Socket::default());
        let kept = Arc::clone(&socket);
        drop(tokio::spawn(async move {
            let mut last = 0;
            while let Some(Ok(message)) = stream.next().await {
                if let Message::Text(text) = message
                    && let Some((number, sent)) = read_message(&text)
                {
                    let mut seen = kept.seen.lock().await;
                    seen.messages += 1;
                    seen.latencies_ms.push((now().saturating_sub(sent) as f64 / 1e6) as f32);
                    // A new run counts from one again.
                    seen.wrong += u64::from(number != last + 1 && number != 1);
                    last = number;
                    kept.came.fetch_add(1, Ordering::Release);
                }
            }
        }));
        anyhow::Ok(socket)
    });
    let opened = futures_util::stream::iter(opened).buffered(32);
    futures_util::TryStreamExt::try_collect(opened).await
}

async fn report(sockets: &[Arc<Socket>], expected: u64) -> anyhow::Result<Value> {
    let began = Instant::now();
    let complete = || sockets.iter().all(|socket| socket.came.load(Ordering::Acquire) >= expected);
    while !complete() && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut all = Seen::default();
    for socket in sockets {
        let came = socket.came.swap(0, Ordering::AcqRel);
        let seen = std::mem::take(&mut *socket.seen.lock().await);
        all.messages += seen.messages;
        all.wrong += seen.wrong + expected.abs_diff(came);
        all.latencies_ms.extend(seen.latencies_ms);
    }
    Ok(serde_json::to_value(all)?)
}
