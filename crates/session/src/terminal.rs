//! Terminals: a person's shell in a session's sandbox, beside the work of a turn. What is typed and printed is in no log.
//! One with a name outlives its connection for a minute, so that a connection that broke can be made again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use guest::wire::PtySize;
use guest::{Output, Process, ProcessSpec};
use protocol::event::SandboxState;
use protocol::{Code, ItemId, Problem};
use sandbox::{Sandbox, WORKSPACE};
use tokio_util::sync::CancellationToken;

use crate::actor::Handle;
use crate::failure::Failure;
use crate::problem;
use crate::runner::Context;

/// A terminal with a name waits this long for somebody to take it up again.
const DETACHED: Duration = Duration::from_secs(60);
/// How long a sandbox that is being made ready for a turn is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most terminals of one session.
const MOST: usize = 16;
/// How much of what a terminal showed is given to whoever takes it up again.
const SHOWN: u64 = 64 * 1024;
/// A shell that was hung up on may tidy up this long.
const HANG_UP: Duration = Duration::from_millis(500);
/// The best shell that there is.
const SHELL: &str = "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";

/// What a terminal is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalSpec {
    /// With a name it can be taken up again.
    pub name: Option<String>,
    /// Characters of a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

/// What comes out of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalOutput {
    /// Bytes for the screen.
    Data(Bytes),
    /// The shell ended, with this code.
    Exit(i32),
}

/// The terminals of one session that are open, or wait to be taken up again, by the ids of their processes.
#[derive(Default)]
pub(crate) struct Terminals(Mutex<HashMap<String, Slot>>);

#[derive(Default)]
struct Slot {
    attached: usize,
    /// Counts the times it was taken up, so that a wait for that knows whether it was in vain.
    taken: u64,
}

impl Terminals {
    /// Whether somebody works in the sandbox.
    pub(crate) fn in_use(&self) -> bool {
        !self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, id: &str) -> Result<(), Problem> {
        let mut slots = self.lock();
        if slots.len() >= MOST && !slots.contains_key(id) {
            return Err(Problem::new(
                Code::RateLimited,
                format!("the session has {MOST} terminals, and that is all it may have"),
            )
            .hint("close one of them"));
        }
        let slot = slots.entry(id.to_owned()).or_default();
        slot.attached += 1;
        slot.taken += 1;
        Ok(())
    }

    /// One connection less; how often it was taken up so far, if that was the last one.
    fn detach(&self, id: &str) -> Option<u64> {
        let mut slots = self.lock();
        let slot = slots.get_mut(id)?;
        slot.attached = slot.attached.saturating_sub(1);
        (slot.attached == 0).then_some(slot.taken)
    }

    /// Forgets a terminal unless somebody has taken it up since.
    fn end(&self, id: &str, taken: u64) -> bool {
        let mut slots = self.lock();
        let over = slots.get(id).is_some_and(|slot| slot.attached == 0 && slot.taken == taken);
        if over {
            slots.remove(id);
        }
        over
    }
}

/// A terminal that is open. Dropping it leaves the shell to whoever opens the same name, for a minute.
pub struct Terminal {
    process: Process,
    connection: Arc<Connection>,
    notices: Vec<String>,
}

/// The way into a terminal.
#[derive(Clone)]
pub struct TerminalInput(Arc<Connection>);

impl Terminal {
    pub(crate) async fn open(
        handle: Handle,
        spec: TerminalSpec,
        closed: CancellationToken,
    ) -> Result<Self, Problem> {
        let size = PtySize { cols: spec.columns.clamp(1, 1000), rows: spec.rows.clamp(1, 1000) };
        let id = process_id(spec.name.as_deref())?;
        let context = Arc::clone(handle.context());
        context.recorder.stream().terminals.attach(&id)?;
        let mut hold = Hold { handle, id, named: spec.name.is_some(), closed, sandbox: None };
        let (sandbox, notices) = ready(&context).await?;
        hold.sandbox = Some(Arc::clone(&sandbox));
        hold.handle.used();
        let process = start(&*sandbox, &hold.id, size).await.map_err(into_problem)?;
        Ok(Self {
            process,
            connection: Arc::new(Connection { guest: sandbox.guest().clone(), hold }),
            notices,
        })
    }

    /// What the person should know of the sandbox that was made for this.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The way in.
    pub fn input(&self) -> TerminalInput {
        TerminalInput(Arc::clone(&self.connection))
    }

    /// What comes next. After an exit or an error nothing does. Nothing is lost when the future is dropped before it is
    /// ready.
    pub async fn next(&mut self) -> Result<TerminalOutput, Problem> {
        match self.process.next().await {
            Ok(Some(Output::Stdout { data, .. } | Output::Stderr { data, .. })) => {
                Ok(TerminalOutput::Data(data))
            }
            Ok(Some(Output::Exit(exit))) => {
                let id = &self.connection.hold.id;
                if let Err(error) = self.connection.guest.forget(id).await {
                    tracing::debug!(%id, %error, "a terminal that ended could not be forgotten");
                }
                Ok(TerminalOutput::Exit(exit.code))
            }
            Ok(None) => Err(Problem::new(Code::SandboxUnavailable, "the terminal has ended")),
            Err(error) => Err(into_problem(error)),
        }
    }
}

impl TerminalInput {
    /// Types; returns when the terminal has taken all of it.
    pub async fn write(&self, data: Bytes) -> Result<(), Problem> {
        self.0.guest.write_stdin(&self.0.hold.id, data).await.map_err(into_problem)
    }

    /// Changes the size.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), Problem> {
        let size = PtySize { cols: columns.clamp(1, 1000), rows: rows.clamp(1, 1000) };
        self.0.guest.resize(&self.0.hold.id, size).await.map_err(into_problem)
    }

    /// Hangs up; the exit follows.
    pub async fn close(&self) {
        hang_up(&self.0.guest, &self.0.hold.id).await;
    }
}

struct Connection {
    guest: guest::Client,
    hold: Hold,
}

/// Keeps a terminal, and with it the sandbox, in use.
struct Hold {
    handle: Handle,
    id: String,
    named: bool,
    closed: CancellationToken,
    /// None before there is one.
    sandbox: Option<Arc<dyn Sandbox>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(taken) = self.handle.recorder().stream().terminals.detach(&self.id) else { return };
        let over = Over {
            handle: self.handle.clone(),
            id: std::mem::take(&mut self.id),
            taken,
            wait: if self.named && self.sandbox.is_some() { DETACHED } else { Duration::ZERO },
            sandbox: self.sandbox.take(),
        };
        let closed = self.closed.clone();
        match tokio::runtime::Handle::try_current() {
            // A server that ends leaves the sandbox, and the shell in it, to the next one.
            Ok(runtime) => drop(runtime.spawn(async move {
                tokio::select! {
                    () = over.end() => {}
                    () = closed.cancelled() => {}
                }
            })),
            Err(error) => tracing::debug!(%error, "a terminal was left as it is"),
        }
    }
}

/// A terminal that nobody is connected to.
struct Over {
    handle: Handle,
    id: String,
    taken: u64,
    wait: Duration,
    sandbox: Option<Arc<dyn Sandbox>>,
}

impl Over {
    async fn end(self) {
        tokio::time::sleep(self.wait).await;
        if !self.handle.recorder().stream().terminals.end(&self.id, self.taken) {
            return;
        }
        if let Some(sandbox) = self.sandbox {
            hang_up(sandbox.guest(), &self.id).await;
            crate::process::forget(&*sandbox, &self.id).await;
        }
        // The clock of an idle sandbox begins now.
        self.handle.used();
    }
}

/// A sandbox that takes commands: the one that is there, or one that is made like a turn would make it.
async fn ready(context: &Arc<Context>) -> Result<(Arc<dyn Sandbox>, Vec<String>), Problem> {
    let stream = Arc::clone(context.recorder.stream());
    let wait = async {
        loop {
            let news = stream.news();
            let is_ready =
                stream.with_state(|state| matches!(state.sandbox(), Some((_, SandboxState::Ready))));
            if is_ready && let Some(held) = context.workspace.attached(&context.recorder).await {
                return Some(held.sandbox);
            }
            // A turn that waits for a person needs no sandbox, so none will come.
            let session = stream.with_state(|state| state.to_session());
            if session.is_none_or(|session| session.turn.is_none() || session.approval.is_some()) {
                return None;
            }
            news.await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(Some(sandbox)) => return Ok((sandbox, Vec::new())),
        Ok(None) => {}
        Err(_) => {
            return Err(Problem::new(Code::SandboxUnavailable, "the sandbox is still being made ready")
                .hint("the session's events tell how far it is; open the terminal when it is ready"));
        }
    }
    // Half a sandbox would be of no use, so this goes on to its end even if the person does not wait for it.
    let context = Arc::clone(context);
    let made = tokio::spawn(async move { context.workspace.ensure_for_person(&context.recorder).await });
    match made.await {
        Ok(made) => made.map_err(Failure::into_problem),
        Err(error) => {
            tracing::error!(%error, "a sandbox for a terminal was not made");
            Err(Problem::new(Code::Internal, "slipway made a mistake and could not make the sandbox")
                .hint("this is a fault of slipway: report it with the server's log"))
        }
    }
}

/// Starts the shell, or takes it up if it runs.
async fn start(sandbox: &dyn Sandbox, id: &str, size: PtySize) -> Result<Process, guest::Error> {
    let guest = sandbox.guest();
    let known = guest.processes().await?.into_iter().find(|process| process.id == id);
    match known {
        Some(running) if running.exit.is_none() => {
            let process = guest.attach(id, running.output.saturating_sub(SHOWN)).await?;
            guest.resize(id, size).await?;
            return Ok(process);
        }
        Some(_) => guest.forget(id).await?,
        None => {}
    }
    let spec = ProcessSpec {
        argv: ["sh", "-c", SHELL].map(str::to_owned).to_vec(),
        env: [("TERM".to_owned(), "xterm-256color".to_owned())].into(),
        cwd: Some(WORKSPACE.to_owned()),
        timeout_ms: None,
        pty: Some(size),
        stdin: true,
    };
    guest.start(id, &spec).await
}

async fn hang_up(guest: &guest::Client, id: &str) {
    const HUP: i32 = 1;
    const KILL: i32 = 9;
    for (signal, wait) in [(HUP, HANG_UP), (KILL, Duration::ZERO)] {
        // It may be gone already, which is what was wanted.
        if let Err(error) = guest.signal(id, signal).await {
            tracing::debug!(%id, signal, %error, "a signal was not delivered");
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

fn process_id(name: Option<&str>) -> Result<String, Problem> {
    let Some(name) = name else { return Ok(format!("terminal-{}", ItemId::new())) };
    let plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_".contains(&letter);
    if !(1..=32).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(Problem::new(Code::BadRequest, "this cannot be the name of a terminal")
            .hint("use 1 to 32 letters, digits, '-' and '_'"));
    }
    Ok(format!("terminal-{name}"))
}

fn into_problem(error: guest::Error) -> Problem {
    problem::guest(&error)
}
