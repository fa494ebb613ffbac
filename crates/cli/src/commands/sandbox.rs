//! `slipway sandbox`: one command in a fresh sandbox, and what sandboxes there are.

use std::io::Write;
use std::time::{Duration, Instant};

use ::sandbox::native::Native;
use ::sandbox::{Driver, End, Life, Limits, Owner, Spec, State};
use anyhow::Context as _;
use guest::wire::PtySize;
use guest::{Output, ProcessSpec};
use protocol::SandboxId;
use protocol::event::LimitKind;
use session::{LimitHit, SetUp};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Context;
use super::one_off::{Furnished, Plan};
use super::tail::Tail;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{print, style, table, terminal};

/// Sandboxes: run one command in one, list and remove them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sandbox {
    /// Run one command in a fresh sandbox and exit with its code
    ///
    /// However it ends, nothing is left behind. Without --env the sandbox has the machine's own system, an empty workspace
    /// and no network. With it, it is what a session of that environment would begin with: repository at the tip of its
    /// branch, services, secrets, and what its egress allows. The values of secrets are read by this command, from its own
    /// variables and files; those of a server stay there. A limit that it comes to and what it was refused are told on
    /// standard error; with --json as events, each on a line of its own, and every connection that was let through too.
    Run(Run),
    /// List sandboxes: of sessions, of builds, kept ready, and of commands
    Ls,
    /// Remove a sandbox, at once and with all that runs in it
    ///
    /// A session whose sandbox is removed goes on from its last snapshot, or from the work that git keeps.
    Rm {
        /// The sandbox
        #[arg(value_parser = sandbox_id)]
        sandbox: SandboxId,
    },
}

/// Run one command in a fresh sandbox and exit with its code.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Environment to run it in: from its image, or, when none was built, with its repository cloned and set up first
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// End it after this many seconds, with exit code 124 [default: wall_clock_s of the limits]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<f64>,
    /// The command with its arguments; a shell is started only if it is the command: sh -c '…'
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

fn sandbox_id(text: &str) -> Result<SandboxId, String> {
    text.parse().map_err(|error| format!("{error}; list them with: slipway sandbox ls"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let wanted = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0);
    wanted.ok_or_else(|| "give a number of seconds above 0, such as 30 or 0.5".to_owned())
}

/// Exit code of a command whose time was up, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// Exit code of a command that was killed: 128 and the number of the signal.
const KILLED: u8 = 137;

/// Exit code of a program whose reader went away: 128 and the number of the signal.
const BROKEN_PIPE: u8 = 141;

/// Id of the one process.
const PROCESS: &str = "run";

impl Sandbox {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        match self {
            Self::Run(run) => run.run(&context).await,
            Self::Ls => list(&context).await,
            Self::Rm { sandbox } => remove(&context, sandbox).await,
        }
    }
}

/// Sandboxes of commands are apart from those of the server, which removes what it does not know.
fn one_off(context: &Context) -> anyhow::Result<Native> {
    Ok(Native::open(&context.config.server.data_dir.join("one-off"))?)
}

fn drivers(context: &Context) -> anyhow::Result<[Native; 2]> {
    Ok([Native::open(&context.config.server.data_dir.join("native"))?, one_off(context)?])
}

async fn list(context: &Context) -> anyhow::Result<Exit> {
    let mut sandboxes = Vec::new();
    for driver in drivers(context)? {
        sandboxes.extend(driver.list().await?);
    }
    if context.json {
        print::json(&serde_json::json!({ "sandboxes": sandboxes }))?;
    } else if sandboxes.is_empty() {
        style::note("no sandboxes");
    } else {
        let rows = sandboxes.iter().map(|info| {
            vec![
                info.id.to_string(),
                info.state.as_str().to_owned(),
                info.pid.map_or_else(String::new, |pid| pid.to_string()),
                info.owner.as_ref().map_or_else(String::new, ToString::to_string),
            ]
        });
        print::line(&table::format(&["sandbox", "state", "pid", "whose"], rows))?;
    }
    Ok(Exit::Done)
}

async fn remove(context: &Context, id: SandboxId) -> anyhow::Result<Exit> {
    for driver in drivers(context)? {
        if driver.list().await?.iter().any(|info| info.id == id) {
            driver.remove(id).await?;
            style::note(&format!("removed {id}"));
            return Ok(Exit::Done);
        }
    }
    Err(Usage(anyhow::anyhow!("there is no sandbox {id}; list them with: slipway sandbox ls")).into())
}

impl Run {
    async fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let wall_clock = match self.timeout {
            Some(seconds) => {
                let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
                Some(limit.ok_or_else(|| {
                    Usage(anyhow::anyhow!("--timeout wants a number of seconds above 0, not {seconds}"))
                })?)
            }
            None => None,
        };
        let plan = Plan::make(context, self.env.as_deref()).await?;
        let driver = &plan.driver;
        sweep(driver).await?;
        let missing = driver.cgroups().missing();
        if !missing.is_empty() {
            style::note(&format!(
                "no control groups for {}: each process is limited, but not all of them together (see: slipway doctor)",
                missing.join(", ")
            ));
        }
        // The guest keeps the time of the command; the monitor, which nothing inside can slow down, that of the sandbox.
        let mut limits = plan.limits(context);
        limits.wall_clock =
            [limits.wall_clock, wall_clock.map(|limit| limit + GRACE)].into_iter().flatten().min();
        let life_ends = limits.wall_clock.map(|limit| Instant::now() + limit);
        let network = plan.network;
        let mut spec = Spec {
            limits: limits.clone(),
            network,
            ..Spec::new(plan.stack.clone(), Life::Tied, Owner::OneOff)
        };
        // Signals are caught before there is anything to clean up.
        let mut signals = Interrupts::catch()?;
        let mut sandbox = driver.create(&spec).await?;
        let mut furnished = plan.furnish(context, &*sandbox, SetUp::Run).await;
        if let Ok(Furnished::NotSetUp) = furnished {
            drop(sandbox);
            driver.remove(spec.id).await?;
            spec.id = SandboxId::new();
            sandbox = driver.create(&spec).await?;
            furnished = plan.furnish(context, &*sandbox, SetUp::Leave).await;
        }
        let mut said = Tail::default();
        let work = async {
            let Furnished::Ready(way_out) = furnished? else {
                anyhow::bail!("the workspace could not be set up");
            };
            let exit = self.follow(sandbox.guest(), wall_clock, &mut signals, &mut said).await;
            if let Some(way_out) = way_out {
                way_out.finish(context).await;
            }
            exit
        };
        let mut exit = work.await;
        if exit
            .as_ref()
            .is_err_and(|error| matches!(error.downcast_ref(), Some(guest::Error::Unavailable(_))))
        {
            let time_is_up = life_ends.is_some_and(|end| Instant::now() >= end);
            let end =
                if time_is_up { Some(End::Limit(LimitKind::WallClock)) } else { ended(&*sandbox).await };
            exit = match end.and_then(End::limit) {
                Some(LimitKind::WallClock) if limits.wall_clock != plan.limits(context).wall_clock => {
                    self.tell_timeout();
                    Ok(Exit::Command(TIMED_OUT))
                }
                Some(limit) => {
                    tell(context, spec.id, &LimitHit::new(&limits, limit));
                    Ok(Exit::Command(if limit == LimitKind::WallClock { TIMED_OUT } else { KILLED }))
                }
                None => {
                    let reason = end.map_or("it does not answer".to_owned(), |end| end.to_string());
                    Err(anyhow::anyhow!("the sandbox ended before the command did: {reason}"))
                }
            };
        } else {
            let failed = !matches!(exit, Ok(Exit::Done | Exit::Command(0)));
            let complaint = if failed { said.text() } else { String::new() };
            for hit in reached(&*sandbox, &limits, &complaint).await {
                tell(context, spec.id, &hit);
            }
        }
        let id = spec.id;
        drop(sandbox);
        // Not before every trace is gone does the command end.
        driver.remove(id).await?;
        exit
    }

    async fn follow(
        &self,
        guest: &guest::Client,
        wall_clock: Option<Duration>,
        signals: &mut Interrupts,
        said: &mut Tail,
    ) -> anyhow::Result<Exit> {
        let terminal = terminal::Raw::enter_if_interactive()?;
        *said = Tail::new(terminal.is_some());
        let spec = ProcessSpec {
            argv: self.command.clone(),
            timeout_ms: wall_clock.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            pty: terminal.as_ref().map(|raw| raw.size()),
            stdin: true,
            env: terminal.iter().map(|_| ("TERM".to_owned(), terminal::name())).collect(),
            ..ProcessSpec::default()
        };
        let mut process = match guest.start(PROCESS, &spec).await {
            Err(guest::Error::Refused(reason)) => {
                drop(terminal);
                style::error(&reason);
                // As a shell has it: the command cannot be run.
                return Ok(Exit::Command(127));
            }
            other => other?,
        };
        let input = tokio::spawn(forward_input(guest.clone()));
        let (writer, written) = writer();
        let give_up = wall_clock.map(|limit| tokio::time::Instant::now() + limit + GRACE / 2);
        let mut pending = None;
        let mut signalled = false;
        let result = loop {
            tokio::select! {
                output = process.next(), if pending.is_none() => match output? {
                    Some(Output::Exit(exit)) => break exit,
                    None => return Err(guest::Error::Unavailable("its output ended".to_owned()).into()),
                    piece => {
                        piece.iter().for_each(|piece| said.note(piece));
                        pending = piece;
                    }
                },
                permit = writer.reserve(), if pending.is_some() => match (permit, pending.take()) {
                    (Ok(permit), Some(piece)) => permit.send(piece),
                    // A reader that went away ends the command, as it would without a sandbox.
                    _ => break guest::Exit { code: 1, signal: None, timed_out: false },
                },
                number = signals.next() => {
                    // A command that does not listen, or a reader that does not read: the second time is enough.
                    if signalled {
                        return Ok(Exit::Command(u8::try_from(128 + number).unwrap_or(1)));
                    }
                    signalled = true;
                    guest.signal(PROCESS, number).await?;
                }
                () = resized(terminal.as_ref()) => guest.resize(PROCESS, size(terminal.as_ref())).await?,
                () = until(give_up) => break guest::Exit { code: 1, signal: None, timed_out: true },
            }
        };
        input.abort();
        drop(terminal);
        if result.timed_out {
            self.tell_timeout();
            return Ok(Exit::Command(TIMED_OUT));
        }
        drop(writer);
        match written.await? {
            // Whoever read it has seen enough; a program without a sandbox would end of this, without a word.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Exit::Command(BROKEN_PIPE)),
            Err(error) => Err(error).context("cannot write the command's output"),
            Ok(()) => Ok(Exit::Command(u8::try_from(result.code).unwrap_or(1))),
        }
    }

    fn tell_timeout(&self) {
        let seconds = self.timeout.unwrap_or_default();
        style::error(&format!("the command was ended after {seconds} s\n  give it longer with --timeout"));
    }
}

/// Why a sandbox that does not answer ended. A monitor needs a moment to write that down.
async fn ended(sandbox: &dyn ::sandbox::Sandbox) -> Option<End> {
    for _ in 0..100 {
        let end = sandbox.ended().await;
        if end.is_some() {
            return end;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

/// The limits that a sandbox that still runs came to, and those that a failed command complained of: a program that may open
/// no more files mostly ends before anybody counts them.
async fn reached(sandbox: &dyn ::sandbox::Sandbox, limits: &Limits, complaint: &str) -> Vec<LimitHit> {
    match sandbox.usage().await {
        Ok(usage) => session::limits_reached(limits, &::sandbox::Usage::default(), &usage, complaint),
        Err(error) => {
            // The command is over and has its code; this would only have explained it.
            tracing::debug!(sandbox = %sandbox.id(), %error, "what a sandbox used cannot be told");
            Vec::new()
        }
    }
}

/// Says which limit was reached. Standard output is the command's own, so JSON goes to standard error too.
fn tell(context: &Context, sandbox: SandboxId, hit: &LimitHit) {
    match serde_json::to_string(&hit.event(sandbox)) {
        Ok(event) if context.json => style::say(&event),
        // An event that cannot be written is still told.
        Ok(_) | Err(_) => style::error(&hit.message),
    }
}

/// Between the end of a command's time and the end of its sandbox.
const GRACE: Duration = Duration::from_secs(6);

/// Removes what commands left that were killed before there was a monitor to clean up; a sandbox that is just being made
/// is younger.
async fn sweep(driver: &Native) -> anyhow::Result<()> {
    for info in driver.list().await? {
        if info.state == State::Ended
            && info.owner.as_ref().is_none_or(|owner| *owner == Owner::OneOff)
            && info.id.age().is_some_and(|age| age > Duration::from_secs(60))
        {
            driver.remove(info.id).await?;
        }
    }
    Ok(())
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes output from a thread of its own, so that a reader that does not read holds up nothing else.
fn writer() -> (mpsc::Sender<Output>, JoinHandle<std::io::Result<()>>) {
    let (sender, mut pieces) = mpsc::channel(1);
    let writing = tokio::task::spawn_blocking(move || {
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Output::Stdout { data, .. } => write_all(&mut std::io::stdout(), &data)?,
                Output::Stderr { data, .. } => write_all(&mut std::io::stderr(), &data)?,
                Output::Exit(_) => {}
            }
        }
        Ok(())
    });
    (sender, writing)
}

fn size(terminal: Option<&terminal::Raw>) -> PtySize {
    terminal.map_or(PtySize { cols: 80, rows: 24 }, terminal::Raw::size)
}

async fn resized(terminal: Option<&terminal::Raw>) {
    match terminal {
        Some(raw) => raw.resized().await,
        None => std::future::pending().await,
    }
}

fn write_all(to: &mut impl Write, data: &[u8]) -> std::io::Result<()> {
    to.write_all(data)?;
    to.flush()
}

/// Passes standard input on, and its end.
async fn forward_input(guest: guest::Client) -> Result<(), guest::Error> {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                guest.write_stdin(PROCESS, bytes::Bytes::copy_from_slice(&buffer[..length])).await?
            }
        }
    }
    guest.close_stdin(PROCESS).await
}
