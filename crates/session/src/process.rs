//! Running a command in a sandbox: following its output through short breaks of the connection, ending it when the
//! turn is stopped, and never holding more of its output than the collector does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use guest::{Exit, Output, Process, ProcessSpec};
use protocol::{Code, Problem};
use sandbox::Sandbox;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::failure::Failure;
use crate::intake::Intake;
use crate::problem;
use crate::runner::deltas::Deltas;
use crate::runner::output::Collector;
use crate::stop::Stop;

/// How long a stopped command may tidy up before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// How long a killed command may take to be gone.
pub(crate) const LAST: Duration = Duration::from_secs(5);
/// How often it is looked whether anything of a stopped command is left.
const LOOK: Duration = Duration::from_millis(20);
pub(crate) const TERM: i32 = 15;
const KILL: i32 = 9;
/// Reaches what there is and does it no harm; what was paused goes on, so that it can end.
pub(crate) const CONT: i32 = 18;
/// Waits before following a command again after the connection broke.
const REATTACH: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Bytes of an input that are sent at once.
const INPUT: usize = 256 * 1024;
/// How long a helper command of a server that is gone may take to end.
const LEFTOVER: Duration = Duration::from_secs(60);
/// The ids of our own helper commands begin like this; the agent's commands have the ids of their items.
const HELPER: &str = "helper-";

/// How following a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It exited.
    Exited(Exit),
    /// The turn was stopped, and the command with it.
    Stopped,
}

/// The two texts of a command on their way to the feed.
pub(crate) struct Live {
    pub(crate) stdout: Deltas,
    pub(crate) stderr: Deltas,
    /// How much of the two together has come.
    seen: u64,
}

impl Live {
    /// For a command that is followed from its first byte that is held.
    pub(crate) fn new(stdout: Deltas, stderr: Deltas) -> Self {
        Self { stdout, stderr, seen: 0 }
    }

    /// A piece begins here. Where bytes are missing before it, nobody knows of which text they are: both jump to a place
    /// that neither can have come to, so that readers see the hole and never the same place twice.
    pub(crate) fn at(&mut self, offset: u64, bytes: usize) {
        if offset > self.seen {
            self.stdout.jump_to(offset);
            self.stderr.jump_to(offset);
        }
        self.seen = offset + bytes as u64;
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        match (self.stdout.due(), self.stderr.due()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    pub(crate) fn flush(&mut self) {
        self.stdout.flush();
        self.stderr.flush();
    }
}

/// Reads a process to its end in a task, so that waiting for the next piece can be given up without losing one.
pub(crate) fn pump(
    guest: guest::Client,
    id: String,
    process: Process,
) -> (mpsc::Receiver<Result<Output, guest::Error>>, AbortOnDropHandle<()>) {
    let (sender, receiver) = mpsc::channel(16);
    let task = tokio::spawn(async move {
        let mut process = process;
        let mut seen = 0;
        loop {
            let next = match process.next().await {
                Ok(Some(output)) => Ok(output),
                Ok(None) => Err(guest::Error::Unavailable("its output broke off".to_owned())),
                Err(error) => Err(error),
            };
            let last = match &next {
                Ok(Output::Stdout { offset, data } | Output::Stderr { offset, data }) => {
                    seen = offset + data.len() as u64;
                    false
                }
                Ok(Output::Exit(_)) | Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => true,
                Err(guest::Error::Unavailable(_)) => match reattach(&guest, &id, seen).await {
                    Some(again) => {
                        process = again;
                        continue;
                    }
                    None => true,
                },
            };
            if sender.send(next).await.is_err() || last {
                return;
            }
        }
    });
    (receiver, AbortOnDropHandle::new(task))
}

async fn reattach(guest: &guest::Client, id: &str, seen: u64) -> Option<Process> {
    for wait in REATTACH {
        tokio::time::sleep(wait).await;
        match guest.attach(id, seen).await {
            Ok(process) => return Some(process),
            Err(guest::Error::Unavailable(_)) => {}
            Err(guest::Error::NotFound(_) | guest::Error::Refused(_)) => return None,
        }
    }
    None
}

/// Follows a process to its end. When the stop signal comes it is asked to end, and killed after a grace.
pub(crate) async fn follow(
    sandbox: &dyn Sandbox,
    id: &str,
    process: Process,
    collector: &mut Collector,
    mut live: Option<&mut Live>,
    stop: Option<&Stop>,
) -> Result<Ending, guest::Error> {
    enum Phase {
        Running,
        Asked,
        Killed,
    }
    let guest = sandbox.guest();
    let (mut pieces, _pump) = pump(guest.clone(), id.to_owned(), process);
    let mut phase = Phase::Running;
    let mut deadline = None;
    let (mut intake, mut more_at) = (Intake::new(Instant::now()), None);
    loop {
        let flush = live.as_ref().and_then(|live| live.due());
        tokio::select! {
            biased;
            () = given(stop), if matches!(phase, Phase::Running) => {
                signal(guest, id, TERM).await;
                signal(guest, id, CONT).await;
                phase = Phase::Asked;
                deadline = Some(Instant::now() + GRACE);
            }
            () = until(deadline) => match phase {
                Phase::Running | Phase::Asked => {
                    signal(guest, id, KILL).await;
                    phase = Phase::Killed;
                    deadline = Some(Instant::now() + LAST);
                }
                Phase::Killed => {
                    kill_tree(guest, id).await;
                    return Ok(Ending::Stopped);
                }
            },
            () = until(flush) => {
                if let Some(live) = live.as_mut() {
                    live.flush();
                }
            }
            () = until(more_at), if more_at.is_some() => more_at = None,
            piece = pieces.recv(), if more_at.is_none() => {
                let lost = || guest::Error::Unavailable("its output broke off".to_owned());
                let piece = piece.unwrap_or_else(|| Err(lost()))?;
                if let Output::Stdout { data, .. } | Output::Stderr { data, .. } = &piece {
                    more_at = intake.took(data.len(), Instant::now());
                }
                match piece {
                    Output::Stdout { offset, data } => {
                        collector.push(offset, &data).await;
                        if let Some(live) = live.as_mut() {
                            live.at(offset, data.len());
                            live.stdout.push_bytes(&data);
                        }
                    }
                    Output::Stderr { offset, data } => {
                        collector.push(offset, &data).await;
                        if let Some(live) = live.as_mut() {
                            live.at(offset, data.len());
                            live.stderr.push_bytes(&data);
                        }
                    }
                    Output::Exit(exit) => {
                        if let Some(live) = live.as_mut() {
                            live.flush();
                        }
                        return Ok(match phase {
                            Phase::Running => Ending::Exited(exit),
                            Phase::Asked => {
                                end_tree(guest, id, deadline.unwrap_or_else(Instant::now)).await;
                                Ending::Stopped
                            }
                            Phase::Killed => {
                                kill_tree(guest, id).await;
                                Ending::Stopped
                            }
                        });
                    }
                }
            }
        }
    }
}

async fn given(stop: Option<&Stop>) {
    match stop {
        Some(stop) => stop.given().await,
        None => std::future::pending().await,
    }
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Sends a signal to a process and all it started; gives how many it reached.
pub(crate) async fn signal(guest: &guest::Client, id: &str, signal: i32) -> usize {
    // It may be gone already, which is what was wanted.
    guest.signal(id, signal).await.unwrap_or_else(|error| {
        tracing::debug!(%id, signal, %error, "a signal was not delivered");
        0
    })
}

/// Sees to it that nothing is left of a command that ended: what it started has until the deadline to end by itself, as
/// the command had, and is killed then, also what left its group and session.
pub(crate) async fn end_tree(guest: &guest::Client, id: &str, deadline: Instant) {
    while signal(guest, id, CONT).await > 0 {
        if Instant::now() >= deadline {
            return kill_tree(guest, id).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Kills until nothing is left: what forks as fast as it dies is met again.
async fn kill_tree(guest: &guest::Client, id: &str) {
    let give_up = Instant::now() + LAST;
    while signal(guest, id, KILL).await > 0 {
        if Instant::now() >= give_up {
            tracing::warn!(%id, "a command that was killed is not gone yet");
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Forgets an ended process. What it leaves behind is only memory of the guest, so a failure changes nothing.
pub(crate) async fn forget(sandbox: &dyn Sandbox, id: &str) {
    if let Err(error) = sandbox.guest().forget(id).await {
        tracing::debug!(%id, %error, "an ended process could not be forgotten");
    }
}

/// Waits for helper commands that a server which is gone left running in an adopted sandbox: two that write to the same
/// repository would be in each other's way. They are short, so they are not broken off, which could leave locks behind.
pub(crate) async fn settle_helpers(sandbox: &dyn Sandbox) -> Result<(), guest::Error> {
    let guest = sandbox.guest();
    for known in guest.processes().await?.into_iter().filter(|known| known.id.starts_with(HELPER)) {
        if known.exit.is_none() {
            let process = guest.attach(&known.id, known.output).await?;
            let mut collector = Collector::bounded();
            let ended = follow(sandbox, &known.id, process, &mut collector, None, None);
            match tokio::time::timeout(LEFTOVER, ended).await {
                Ok(ended) => {
                    ended?;
                }
                Err(_) => kill_tree(guest, &known.id).await,
            }
        }
        forget(sandbox, &known.id).await;
    }
    Ok(())
}

/// How long a process runs already, or ran. It is for show: one that is not known counts from now.
pub(crate) async fn ran(sandbox: &dyn Sandbox, id: &str) -> Duration {
    match sandbox.guest().processes().await {
        Ok(all) => {
            let known = all.into_iter().find(|known| known.id == id).and_then(|known| known.ran_ms);
            known.map(Duration::from_millis).unwrap_or_default()
        }
        Err(error) => {
            tracing::debug!(%id, %error, "how long a process ran is not known");
            Duration::ZERO
        }
    }
}

/// Ends a process that nobody waits for.
pub(crate) async fn kill(sandbox: &dyn Sandbox, id: &str) {
    kill_tree(sandbox.guest(), id).await;
}

/// What a helper command gave.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) code: i32,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether its time ran out.
    pub(crate) timed_out: bool,
    /// Standard output, at most as long as was asked for; empty where it went to a file.
    pub(crate) stdout: Vec<u8>,
    /// Whether there was more of it.
    pub(crate) cut: bool,
    /// Standard error, head and tail.
    pub(crate) stderr: String,
}

impl Captured {
    /// How it ended and what it said, of one that did not come to a good end.
    pub(crate) fn trouble(&self, timeout: Duration) -> String {
        let how = match (self.timed_out, self.signal) {
            (true, _) => Some(format!("it was not done after {} s", timeout.as_secs())),
            (false, Some(signal)) => Some(format!("it was ended by signal {signal}")),
            (false, None) => None,
        };
        match (how, self.stderr.trim()) {
            (None, "") => format!("it exited with {} and gave no reason", self.code),
            (None, said) => said.to_owned(),
            (Some(how), "") => how,
            (Some(how), said) => format!("{how}: {said}"),
        }
    }
}

/// A command of ours in the sandbox, such as a script of git commands.
pub(crate) struct Command<'a> {
    pub(crate) script: &'a str,
    pub(crate) args: &'a [&'a str],
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: &'a str,
    pub(crate) timeout: Duration,
    /// Most bytes of standard output to keep.
    pub(crate) limit: usize,
}

/// Where a helper's standard output goes.
enum Sink<'a> {
    Memory(Vec<u8>),
    File { path: &'a Path, file: tokio::fs::File, written: usize },
}

impl Sink<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File { written, .. } => *written,
        }
    }

    async fn take(&mut self, data: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Memory(bytes) => bytes.extend_from_slice(data),
            Self::File { path, file, written } => {
                file.write_all(data).await.map_err(|error| problem::file(path, &error))?;
                *written += data.len();
            }
        }
        Ok(())
    }
}

impl Command<'_> {
    /// Runs it. With a stop signal it is ended when the turn is stopped.
    pub(crate) async fn run(&self, sandbox: &dyn Sandbox, stop: Option<&Stop>) -> Result<Captured, Failure> {
        let mut sink = Sink::Memory(Vec::new());
        let captured = self.follow(sandbox, stop, &mut sink).await?;
        let Sink::Memory(stdout) = sink else { return Ok(captured) };
        Ok(Captured { stdout, ..captured })
    }

    /// Runs it with its standard output going to a file on the host. It is ended when there is more of it than the limit.
    pub(crate) async fn run_into(
        &self,
        sandbox: &dyn Sandbox,
        stop: Option<&Stop>,
        path: &Path,
    ) -> Result<Captured, Failure> {
        let file = tokio::fs::File::create(path).await.map_err(|error| problem::file(path, &error))?;
        let mut sink = Sink::File { path, file, written: 0 };
        let captured = self.follow(sandbox, stop, &mut sink).await?;
        if let Sink::File { file, .. } = &mut sink {
            // Dropping a tokio file does not wait for its last write.
            file.flush().await.map_err(|error| problem::file(path, &error))?;
        }
        Ok(captured)
    }

    async fn follow(
        &self,
        sandbox: &dyn Sandbox,
        stop: Option<&Stop>,
        sink: &mut Sink<'_>,
    ) -> Result<Captured, Failure> {
        let mut argv: Vec<String> = ["sh", "-c", self.script, "sh"].map(str::to_owned).to_vec();
        argv.extend(self.args.iter().map(|arg| (*arg).to_owned()));
        let spec = ProcessSpec {
            argv,
            env: self.env.clone(),
            cwd: Some(self.cwd.to_owned()),
            timeout_ms: Some(u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX)),
            pty: None,
            stdin: false,
        };
        let id = format!("{HELPER}{}", protocol::ItemId::new());
        Call { id: &id, spec: &spec, limit: self.limit, input: None }.follow(sandbox, stop, sink).await
    }
}

/// A process of ours in the sandbox, as the guest is asked for it.
pub(crate) struct Call<'a> {
    /// Its id. Where one with this id is there already, that one is followed.
    pub(crate) id: &'a str,
    pub(crate) spec: &'a ProcessSpec,
    /// Most bytes of standard output to keep.
    pub(crate) limit: usize,
    /// What it reads. Only for one that keeps its standard input open.
    pub(crate) input: Option<bytes::Bytes>,
}

impl Call<'_> {
    /// Runs it, until it ends or the turn is stopped.
    pub(crate) async fn run(&self, sandbox: &dyn Sandbox, stop: &Stop) -> Result<Captured, Failure> {
        let mut sink = Sink::Memory(Vec::new());
        let captured = self.follow(sandbox, Some(stop), &mut sink).await?;
        let Sink::Memory(stdout) = sink else { return Ok(captured) };
        Ok(Captured { stdout, ..captured })
    }

    async fn follow(
        &self,
        sandbox: &dyn Sandbox,
        stop: Option<&Stop>,
        sink: &mut Sink<'_>,
    ) -> Result<Captured, Failure> {
        let guest = sandbox.guest();
        let id = self.id.to_owned();
        let process = guest.start(&id, self.spec).await?;
        // Beside following it: one that does not read would be waited for.
        let _feed = self.input.clone().map(|input| {
            let (guest, id) = (guest.clone(), id.clone());
            AbortOnDropHandle::new(tokio::spawn(async move { feed(&guest, &id, input).await }))
        });
        let (mut pieces, _pump) = pump(guest.clone(), id.clone(), process);
        let (mut cut, mut seen) = (false, 0);
        let mut stderr = Collector::bounded();
        let exit = loop {
            let piece = tokio::select! {
                biased;
                () = given(stop) => {
                    kill_tree(guest, &id).await;
                    return Err(Failure::Stopped);
                }
                piece = pieces.recv() => piece,
            };
            let lost = || guest::Error::Unavailable("its output broke off".to_owned());
            match piece.unwrap_or_else(|| Err(lost()))? {
                Output::Stdout { offset, data } => {
                    let whole = matches!(sink, Sink::File { .. });
                    if whole && offset > seen {
                        kill_tree(guest, &id).await;
                        return Err(torn().into());
                    }
                    seen = offset + data.len() as u64;
                    let room = self.limit.saturating_sub(sink.len()).min(data.len());
                    cut |= room < data.len();
                    if let Err(failure) = sink.take(&data[..room]).await {
                        kill_tree(guest, &id).await;
                        return Err(failure);
                    }
                    if whole && cut {
                        kill_tree(guest, &id).await;
                        break Exit { code: 128 + KILL, signal: Some(KILL), timed_out: false };
                    }
                }
                Output::Stderr { offset, data } => {
                    seen = offset + data.len() as u64;
                    let at = stderr.total();
                    stderr.push(at, &data).await;
                }
                Output::Exit(exit) => break exit,
            }
        };
        forget(sandbox, &id).await;
        let Exit { code, signal, timed_out } = exit;
        Ok(Captured { code, signal, timed_out, stdout: Vec::new(), cut, stderr: stderr.text() })
    }
}

/// Writes what a process reads, and ends its input. One that has ended, or does not want it, says so by what it gives.
async fn feed(guest: &guest::Client, id: &str, input: bytes::Bytes) {
    for piece in input.chunks(INPUT) {
        if let Err(error) = guest.write_stdin(id, input.slice_ref(piece)).await {
            tracing::debug!(%id, %error, "a process did not take its input");
            return;
        }
    }
    if let Err(error) = guest.close_stdin(id).await {
        tracing::debug!(%id, %error, "the input of a process could not be ended");
    }
}

/// Bytes of an output that was to go to a file are missing.
fn torn() -> Problem {
    Problem::new(Code::DeliveryFailed, "a part of what the sandbox sent was lost on the way")
        .hint("try again")
}
