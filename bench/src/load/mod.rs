//! Servers and readers under load, each in a process of its own: this program, run again. They are told what to do on
//! their standard input and answer on their standard output, one line of JSON each; they end when the input does.

mod bare;
mod ours;
mod readers;

use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// First argument of such a process.
pub(crate) const ARGUMENT: &str = "load-process";

/// What the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Our server, with a store on disk.
    Ours,
    /// An axum server that keeps nothing.
    Bare,
    /// Those who follow.
    Readers,
}

/// What it is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Make this many sessions; the answer is their sockets' addresses.
    Make { sessions: usize },
    /// Open this many sockets to each address.
    Open { sockets: Vec<String>, each: usize },
    /// Send this many messages a second to each session for so long.
    Stream { rate: u32, seconds: u32 },
    /// Begin a turn whose one command prints this many bytes; answers when the first of it shows.
    Flood { bytes: u64 },
    /// Wait until that turn is over.
    Calm,
    /// Tell what came, and forget it. So many messages should come on each socket.
    Report { expected: u64 },
}

/// What readers saw.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Messages on all sockets.
    pub(crate) messages: u64,
    /// Messages that came out of order, twice or not at all.
    pub(crate) wrong: u64,
    /// From sending to arrival, in milliseconds, for each message: one socket after the other, in order.
    pub(crate) latencies_ms: Vec<f32>,
}

impl Seen {
    /// The latency that this share of the messages does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_by(f32::total_cmp);
        let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(place).copied().map_or(f64::NAN, f64::from)
    }
}

/// A process of this program.
pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts one. It goes with us.
    pub(crate) fn start(part: Part) -> anyhow::Result<Self> {
        let mut child = tokio::process::Command::new(std::env::current_exe()?)
            .args([ARGUMENT, &serde_json::to_string(&part)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().context("no way to tell it anything")?;
        let answers = child.stdout.take().context("no way to hear it")?;
        Ok(Self { child, orders, answers: BufReader::new(answers).lines() })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Gives an order and waits for the answer.
    pub(crate) async fn order<T: DeserializeOwned>(&mut self, order: &Order) -> anyhow::Result<T> {
        self.begin(order).await?;
        self.answer().await
    }

    /// Gives an order without waiting for its answer.
    pub(crate) async fn begin(&mut self, order: &Order) -> anyhow::Result<()> {
        let line = format!("{}\n", serde_json::to_string(order)?);
        self.orders.write_all(line.as_bytes()).await.context("a process of the measurement ended")
    }

    /// The next answer.
    pub(crate) async fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let line = self.answers.next_line().await?.context("a process of the measurement ended")?;
        match serde_json::from_str::<Result<serde_json::Value, String>>(&line)? {
            Ok(value) => Ok(serde_json::from_value(value)?),
            Err(error) => bail!(error),
        }
    }

    /// Ends it.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.orders);
        let status = self.child.wait().await?;
        anyhow::ensure!(status.success(), "a process of the measurement ended with {status}");
        Ok(())
    }
}

/// The life of such a process.
pub(crate) fn main(part: &str) -> anyhow::Result<ExitCode> {
    let part: Part = serde_json::from_str(part)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        match part {
            Part::Ours => ours::run().await,
            Part::Bare => bare::run().await,
            Part::Readers => readers::run().await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The orders that this process is given.
struct Orders(Lines<BufReader<tokio::io::Stdin>>);

impl Orders {
    fn listen() -> Self {
        Self(BufReader::new(tokio::io::stdin()).lines())
    }

    async fn next(&mut self) -> anyhow::Result<Option<Order>> {
        match self.0.next_line().await? {
            Some(line) => Ok(Some(serde_json::from_str(&line)?)),
            None => Ok(None),
        }
    }
}

/// Answers an order.
async fn answer(result: anyhow::Result<serde_json::Value>) -> anyhow::Result<()> {
    let result = result.map_err(|error| format!("{error:#}"));
    let mut stdout = tokio::io::stdout();
    stdout.write_all(format!("{}\n", serde_json::to_string(&result)?).as_bytes()).await?;
    Ok(stdout.flush().await?)
}

/// The clock that all processes share, in nanoseconds.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// A message: its number, when it was sent, and as much more as makes it as long as events usually are.
fn message(number: u64) -> String {
    format!("#{number} {} {}", now(), "x".repeat(200))
}

/// Number and time of a message, wherever it is in the text.
fn read_message(text: &str) -> Option<(u64, u64)> {
    let mut words = text[text.find('#')? + 1..].split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Calls `send` so many times a second for each of the sessions, evenly spread. Gives what it says, one session after the
/// other, in order.
async fn stream<F>(
    sessions: usize,
    rate: u32,
    seconds: u32,
    send: impl Fn(usize, u64) -> F + Clone + Send + 'static,
) -> anyhow::Result<Vec<f32>>
where
    F: Future<Output = anyhow::Result<f32>> + Send,
{
    let period = Duration::from_secs(1) / rate;
    let begin = Instant::now() + Duration::from_millis(100);
    let mut tasks = tokio::task::JoinSet::new();
    for session in 0..sessions {
        let send = send.clone();
        let offset = period * u32::try_from(session)? / u32::try_from(sessions)?;
        tasks.spawn(async move {
            let mut ticks = tokio::time::interval_at((begin + offset).into(), period);
            let mut said = Vec::new();
            for number in 1..=u64::from(rate) * u64::from(seconds) {
                ticks.tick().await;
                said.push(send(session, number).await?);
            }
            anyhow::Ok((session, said))
        });
    }
    let mut all = tasks.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    all.sort_by_key(|(session, _)| *session);
    Ok(all.into_iter().flat_map(|(_, said)| said).collect())
}
