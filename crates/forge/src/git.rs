//! Running the `git` program. Every invocation goes through here and is hardened the same way: a clean environment,
//! no hooks, no remote helpers, no terminal to ask a question on, a time limit that ends all of git's processes, and a
//! bound on what is read from it.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use crate::{confined, group};

/// The time limit of work on local objects.
pub(crate) const SHORT: Duration = Duration::from_secs(60);
/// The time limit of work that moves a whole history or crosses a network.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// How much of git's standard error is kept; the rest is read and thrown away.
const STDERR_KEPT: u64 = 64 * 1024;
/// Unless told otherwise, more output than this is a failure.
const STDOUT_BOUND: usize = 16 * 1024 * 1024;
/// How long git and what it started may take to remove their lock files after they were told to end, before they are
/// killed.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// How often it is looked whether they have ended.
const LOOK: Duration = Duration::from_millis(10);

/// Settings that hold for every invocation, whatever the host's or a repository's configuration says.
const HARDENED: [&str; 8] = [
    "core.hooksPath=/dev/null",
    "protocol.ext.allow=never",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    LARGE[0],
    LARGE[1],
];

/// Larger files are streamed, not held in memory, and compared as binary files; others are not compared many at a time.
pub(crate) const LARGE: [&str; 2] = ["core.bigFileThreshold=32m", "pack.windowMemory=256m"];

/// What git may see of the host's environment: enough for credential helpers, ssh agents and proxies to work.
const KEPT_ENVIRONMENT: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "GNUPGHOME",
    "KRB5CCNAME",
];

/// Why an invocation gave no result at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("git is not installed: install it and try again")]
    NoGit,
    #[error("cannot run git: {0}")]
    Start(io::Error),
    #[error("git {what} was stopped because it took longer than {} s", limit.as_secs())]
    TimedOut { what: &'static str, limit: Duration },
    #[error("git {what} gave more than {bound} bytes of output")]
    TooMuch { what: &'static str, bound: usize },
}

/// What to do when git prints more than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    Fail,
    Cut,
}

/// What a finished git said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// The output was longer than the bound; what is here is its beginning.
    pub(crate) cut: bool,
}

impl Output {
    /// Git did what it was asked, as far as it was allowed to say.
    pub(crate) fn success(&self) -> bool {
        self.cut || self.status.success()
    }

    /// The standard output as text without the final newline.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
}

/// One invocation of git.
#[derive(Debug)]
pub(crate) struct Git {
    program: OsString,
    command: &'static str,
    global: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Vec<u8>,
    limit: Duration,
    bound: usize,
    overflow: Overflow,
    /// Held until git and everything it started have ended.
    running: Option<Running>,
    /// Open also in git and in everything it starts.
    inherited: Vec<OwnedFd>,
    confined: bool,
    /// Where its output goes instead of to us.
    says_to: Option<OwnedFd>,
}

/// A git that runs, and what it says.
struct Spawned {
    child: Child,
    stdout: Receiver,
    stderr: Receiver,
}

/// Nothing is ever sent through it: its other end sees when nobody holds it any more.
pub(crate) type Running = mpsc::Sender<Infallible>;

impl Git {
    fn new(command: &'static str, limit: Duration) -> Self {
        Self {
            program: "git".into(),
            command,
            global: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            limit,
            bound: STDOUT_BOUND,
            overflow: Overflow::Fail,
            running: None,
            inherited: Vec::new(),
            confined: false,
            says_to: None,
        }
    }

    /// Works on a repository of ours and on nothing else, so the host's git configuration has no say.
    pub(crate) fn local(command: &'static str, repository: &Path) -> Self {
        Self::new(command, SHORT)
            .inside(repository)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
    }

    /// Talks to someone else's repository; the host's configuration counts, because credential helpers live there.
    pub(crate) fn remote(command: &'static str) -> Self {
        Self::new(command, LONG)
    }

    /// Names the repository outright, which also keeps git from searching for one.
    pub(crate) fn inside(mut self, repository: &Path) -> Self {
        let mut option = OsString::from("--git-dir=");
        option.push(repository);
        self.global.push(option);
        self
    }

    /// One more setting for this invocation.
    pub(crate) fn setting(mut self, setting: impl Into<OsString>) -> Self {
        self.global.push("-c".into());
        self.global.push(setting.into());
        self
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn bound(mut self, bound: usize, overflow: Overflow) -> Self {
        self.bound = bound;
        self.overflow = overflow;
        self
    }

    /// Lets somebody wait for the end of git also when nobody waits for its result any more.
    pub(crate) fn running(mut self, running: Running) -> Self {
        self.running = Some(running);
        self
    }

    /// Leaves a file open in git and in everything it starts. A lock on it lasts as long as any of them, also when this
    /// process is killed.
    pub(crate) fn inherits(mut self, file: impl Into<OwnedFd>) -> Self {
        self.inherited.push(file.into());
        self
    }

    /// Bounds the memory and the time of git and of everything it starts: it reads what came out of a sandbox.
    pub(crate) fn confined(mut self) -> Self {
        self.confined = true;
        self.setting(confined::ONE_THREAD)
    }

    /// Sends its output to another process; none of it comes here.
    pub(crate) fn says_to(mut self, into: OwnedFd) -> Self {
        self.says_to = Some(into);
        self
    }

    /// Runs to the end, whatever the exit status. Git is ended when the caller stops waiting.
    pub(crate) async fn run(mut self) -> Result<Output, Failure> {
        let spawned = self.spawn()?;
        let (still_wanted, given_up) = oneshot::channel::<()>();
        tracing::debug!(command = self.command, "git");
        let supervisor = tokio::spawn(supervise(spawned, self, given_up));
        let result = match supervisor.await {
            Ok(result) => result,
            Err(error) => Err(Failure::Start(io::Error::other(error))),
        };
        drop(still_wanted);
        result
    }

    /// Runs and takes any exit status but success as an error of the host.
    pub(crate) async fn succeed(self) -> Result<Output, crate::Error> {
        let command = self.command;
        let output = self.run().await?;
        if output.success() {
            return Ok(output);
        }
        Err(crate::Error::Io(format!("git {command} failed: {}", crate::remote::reason(&output.stderr))))
    }

    fn spawn(&mut self) -> Result<Spawned, Failure> {
        let mut command = Command::new(&self.program);
        command.env_clear();
        for name in KEPT_ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GCM_INTERACTIVE", "never")
            .env("GIT_ALLOW_PROTOCOL", "file:http:https:ssh")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .envs(self.env.drain(..));
        for setting in HARDENED {
            command.arg("-c").arg(setting);
        }
        command.args(self.global.drain(..)).arg("--no-pager").arg(self.command).args(self.args.drain(..));
        let (stdout, says) = io::pipe().map_err(Failure::Start)?;
        let (stderr, complains) = io::pipe().map_err(Failure::Start)?;
        let mut inherited = std::mem::take(&mut self.inherited);
        if !inherited.is_empty() {
            // Git may outlive this process then, and must not die of a word that nobody reads.
            for end in [&stdout, &stderr] {
                inherited.push(end.try_clone().map_err(Failure::Start)?.into());
            }
        }
        let says = self.says_to.take().unwrap_or_else(|| says.into());
        command.current_dir("/").stdout(says).stderr(complains).kill_on_drop(true);
        command.stdin(if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        let confined = self.confined.then_some(self.limit);
        // SAFETY: setsid, fcntl and those for limits are async-signal-safe and touch no memory of ours.
        unsafe {
            // A session of its own takes away the terminal, so that ssh cannot ask for a password on it, and makes a
            // process group that the time limit can end as a whole.
            command.pre_exec(move || {
                rustix::process::setsid()?;
                inherited.iter().try_for_each(|file| fcntl_setfd(file, FdFlags::empty()))?;
                confined.map_or(Ok(()), confined::confine)
            });
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::NoGit,
            _ => Failure::Start(error),
        })?;
        let reads = |end: io::PipeReader| Receiver::from_owned_fd(end.into()).map_err(Failure::Start);
        Ok(Spawned { child, stdout: reads(stdout)?, stderr: reads(stderr)? })
    }
}

/// Feeds, reads and waits for one git; runs as a task of its own so that an abandoned git still ends in order.
async fn supervise(spawned: Spawned, git: Git, given_up: oneshot::Receiver<()>) -> Result<Output, Failure> {
    let what = git.command;
    let Spawned { mut child, stdout, stderr: pipe } = spawned;
    let stderr = Arc::new(Mutex::new(Vec::new()));
    let mut stderr_reader = tokio::spawn(drain(pipe, stderr.clone()));

    let work = async {
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut pipe) = stdin
                && let Err(error) = pipe.write_all(&git.stdin).await
            {
                // Git may rightly end before it has read everything; its exit status tells.
                tracing::debug!(command = what, %error, "git closed its input early");
            }
        };
        let read = async {
            let mut bytes = Vec::new();
            stdout.take(git.bound as u64 + 1).read_to_end(&mut bytes).await?;
            Ok::<_, io::Error>(bytes)
        };
        let (bytes, ()) = tokio::join!(read, feed);
        let status = child.wait().await?;
        Ok::<_, io::Error>((bytes?, status))
    };

    let (mut stdout, status) = tokio::select! {
        done = work => done.map_err(Failure::Start)?,
        () = tokio::time::sleep(git.limit) => {
            end(&mut child).await;
            return Err(Failure::TimedOut { what, limit: git.limit });
        }
        _ = given_up => {
            end(&mut child).await;
            return Err(Failure::Start(io::Error::from(io::ErrorKind::Interrupted)));
        }
    };

    // A daemon that git's ssh left behind may hold the pipe open for ever; what was said until now is enough.
    if tokio::time::timeout(GRACE, &mut stderr_reader).await.is_err() {
        stderr_reader.abort();
    }
    let said = std::mem::take(&mut *stderr.lock().unwrap_or_else(PoisonError::into_inner));
    let cut = stdout.len() > git.bound;
    if cut && git.overflow == Overflow::Fail {
        return Err(Failure::TooMuch { what, bound: git.bound });
    }
    stdout.truncate(git.bound);
    Ok(Output { status, stdout, stderr: String::from_utf8_lossy(&said).into_owned(), cut })
}

async fn drain(mut pipe: impl AsyncRead + Unpin, into: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(n @ 1..) = pipe.read(&mut chunk).await {
        let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
        let room = (STDERR_KEPT as usize).saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..n.min(room)]);
    }
}

/// Ends git and everything it started: first politely, so that lock files are removed, then by force. Git itself is waited
/// for last: until then the number of its group cannot be another's.
async fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let Some(group) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
    for signal in [Signal::TERM, Signal::KILL] {
        if let Err(error) = kill_process_group(group, signal) {
            tracing::debug!(%error, "cannot signal git");
        }
        if tokio::time::timeout(GRACE, group::ended(group, LOOK)).await.is_ok() {
            break;
        }
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        tracing::warn!(pid = group.as_raw_nonzero().get(), "git did not end after it was killed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[tokio::test]
    async fn a_missing_program_is_told_apart() {
        let mut git = Git::remote("version");
        git.program = "/nonexistent/git".into();
        assert!(matches!(git.run().await, Err(Failure::NoGit)));
    }

    /// A server that takes a connection and never answers. Gives its URL, word of the first connection, and a task that
    /// ends only when the helper that git started has let go of that connection.
    fn silent_server() -> (String, oneshot::Receiver<()>, tokio::task::JoinHandle<()>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x.git", listener.local_addr().unwrap());
        let (tell, connected) = oneshot::channel();
        let task = tokio::task::spawn_blocking(move || {
            let (mut stream, _) = listener.accept().unwrap();
            tell.send(()).ok();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).ok();
        });
        (url, connected, task)
    }

    #[tokio::test]
    async fn a_server_that_never_answers_ends_in_the_time_limit() {
        let (url, _connected, let_go) = silent_server();
        let git = Git::remote("ls-remote").args(["--", &url]).limit(Duration::from_secs(1));
        assert!(matches!(git.run().await, Err(Failure::TimedOut { what: "ls-remote", .. })));
        let_go.await.unwrap();
    }

    #[tokio::test]
    async fn git_ends_when_nobody_waits_for_it_any_more() {
        let (url, connected, let_go) = silent_server();
        tokio::select! {
            result = Git::remote("ls-remote").args(["--", &url]).run() => panic!("{result:?}"),
            word = connected => word.unwrap(),
        }
        let_go.await.unwrap();
    }

    #[tokio::test]
    async fn what_git_started_ends_too_when_it_is_deaf() {
        let dir = tempfile::tempdir().unwrap();
        let (pids, script) = (dir.path().join("pids"), dir.path().join("serve"));
        // Git dies of the polite signal, and these two do not.
        let deaf = format!(
            "#!/bin/sh\ntrap '' TERM\nsleep 98764 &\necho $! $$ > {}.new\nmv {0}.new {0}\nwait\n",
            pids.display()
        );
        std::fs::write(&script, deaf).unwrap();
        let (running, mut ended) = mpsc::channel(1);
        let command = format!("--upload-pack=sh {}", script.display());
        let git = Git::remote("ls-remote").args([command.as_str(), "/tmp"]).running(running);
        let begun = async {
            while !pids.exists() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            result = git.run() => panic!("{result:?}"),
            () = begun => {}
        }
        assert!(ended.recv().await.is_none());
        for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(state.is_empty() || state.contains(") Z"), "{pid} is left: {state}");
        }
    }

    #[tokio::test]
    async fn output_is_bounded() {
        let git = || Git::remote("help").arg("-a");
        assert!(matches!(
            git().bound(10, Overflow::Fail).run().await,
            Err(Failure::TooMuch { bound: 10, .. })
        ));
        let output = git().bound(10, Overflow::Cut).run().await.unwrap();
        assert!(output.cut && output.success());
        assert_eq!(output.stdout.len(), 10);
    }
}
