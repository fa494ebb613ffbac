//! Programs on this machine. They get a cleared environment and a process group of their own, and die with this process,
//! also when it is killed: the kernel sees to that.

use std::os::unix::process::CommandExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process_group, set_parent_process_death_signal};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::Error;
use crate::key::Vault;
use crate::server::Program;
use crate::tail::Tail;

/// Variables of this process that programs get: what they need to be found and to find their own files.
const PASSED_ON: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A program that was started.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
}

/// A running program with all that it started. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its process group.
    group: Option<Pid>,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl Process {
    /// Waits for the program's end. What it started ends with it: that could hold its output open for ever.
    fn watched(mut child: Child) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            let status = child.wait().await;
            kill(group);
            tell.send_replace(Some(status.map_or_else(|error| error.to_string(), how)));
        });
        Self { group, ended }
    }

    /// Waits a little for the end; how it ended.
    pub(crate) async fn ended(&mut self, patience: Duration) -> Option<String> {
        let ended = self.ended.wait_for(Option::is_some);
        tokio::time::timeout(patience, ended).await.ok()?.ok()?.clone()
    }

    /// Lets a program whose input is closed end by itself, and kills what is left.
    pub(crate) async fn end(mut self, patience: Duration) {
        if self.ended(patience).await.is_none() {
            tracing::debug!("an MCP server did not end by itself and is killed");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once it has ended, its number may be another's.
        if self.ended.borrow().is_none() {
            kill(self.group);
        }
    }
}

/// Starts a program.
pub(crate) async fn start(program: &Program, vault: &dyn Vault, tail: &Tail) -> Result<Started, Error> {
    let Some((name, arguments)) = program.command.split_first() else {
        return Err(Error::Unreachable("it has no command".to_owned()));
    };
    let mut command = std::process::Command::new(name);
    command.args(arguments).env_clear().current_dir("/").process_group(0);
    command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    for (name, value) in &program.env {
        command.env(name, value.read(vault)?.as_str());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |why: String| Error::Unreachable(format!("{name} cannot be started: {why}"));
    let mut child = spawn(command).await.map_err(failed)?;
    let (Some(input), Some(output), Some(mut errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed("its pipes are missing".to_owned()));
    };
    let tail = tail.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        // It ends with the program.
        while let Ok(read @ 1..) = errors.read(&mut buffer).await {
            tail.push(&buffer[..read]);
        }
    });
    Ok(Started { process: Process::watched(child), input, output })
}

/// What the thread that starts programs is given.
type Order = (std::process::Command, Handle, oneshot::Sender<Result<Child, String>>);

/// Starts a program from a thread that lives as long as the process. The kernel ends a child with the thread that started
/// it, and threads of a runtime come and go.
async fn spawn(command: std::process::Command) -> Result<Child, String> {
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, wanted) = mpsc::channel::<Order>();
        let thread = std::thread::Builder::new().name("mcp-starter".to_owned());
        let spawned = thread.spawn(move || {
            for (command, runtime, answer) in wanted {
                // Nobody waits for it any more: dropping it ends it.
                drop(answer.send(here(command, &runtime)));
            }
        });
        if let Err(error) = spawned {
            // The orders fail one by one then, and say so.
            tracing::error!(%error, "there is no thread to start MCP servers from");
        }
        orders
    });
    let (answer, started) = oneshot::channel();
    let gone = || "the thread that starts programs is gone".to_owned();
    starter.send((command, Handle::current(), answer)).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

fn here(mut command: std::process::Command, runtime: &Handle) -> Result<Child, String> {
    let parent = getpid();
    // SAFETY: between fork and exec only two system calls are made, and nothing is allocated.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have died before that.
            if getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
        });
    }
    let _inside = runtime.enter();
    tokio::process::Command::from(command).kill_on_drop(true).spawn().map_err(|error| error.to_string())
}

fn kill(group: Option<Pid>) {
    // One that is gone already is as it was wanted.
    if let Some(Err(error)) = group.map(|group| kill_process_group(group, Signal::KILL)) {
        tracing::trace!(%error, "an MCP server was not killed");
    }
}

fn how(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it exited with {code}"),
        None => status.to_string(),
    }
}
