//! The client against a real daemon, which runs in a process of its own because it reaps every child it has: this
//! binary runs itself again, and the test named `daemon` becomes it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on has failed the test that called it")]

mod files;
mod lifecycle;
mod output;
mod terminal;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use guest::daemon::{Config, run};
use guest::{Client, Error, Exit, Output, Process, ProcessSpec};

/// Where the daemon's processes start, in the daemon's environment.
const HOME: &str = "GUEST_TEST_HOME";

/// Who runs the binary again as the daemon.
enum Runner {
    /// Nobody: it is one process among others.
    Plain,
    /// `unshare`, so that it is pid 1 of a pid namespace, without capabilities.
    Init,
}

/// A running daemon and the directory it works in.
struct Daemon {
    directory: tempfile::TempDir,
    child: Child,
    client: Client,
    runner: Runner,
}

impl Daemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("guest.sock");
        Self::start_as(Runner::Plain, directory, socket)
    }

    fn start_as_init() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("guest.sock");
        Self::start_as(Runner::Init, directory, socket)
    }

    /// The socket is handed over listening, so the first request can be made at once.
    fn start_as(runner: Runner, directory: tempfile::TempDir, socket: PathBuf) -> Self {
        let listener = UnixListener::bind(short(directory.path(), &socket)).unwrap();
        let program = std::env::current_exe().unwrap();
        let mut command = match runner {
            Runner::Plain => Command::new(program),
            Runner::Init => {
                let mut command = Command::new("unshare");
                command.args([
                    "--user",
                    "--map-root-user",
                    "--pid",
                    "--fork",
                    "--mount-proc",
                    "--kill-child",
                ]);
                command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]).arg(program);
                command
            }
        };
        command
            .args(["--exact", "daemon", "--nocapture"])
            .env(HOME, directory.path())
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null());
        // SAFETY: prctl with integers is a plain system call.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn().unwrap();
        Self { directory, child, client: Client::unix(socket), runner }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill takes no pointers, and the child was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// The most memory it ever used.
    fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Some tests end it themselves.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(match self.runner {
                Runner::Plain => libc::SIGTERM,
                // `unshare` itself ignores requests to end, and takes its child with it when it is killed.
                Runner::Init => libc::SIGKILL,
            });
            drop(self.child.wait());
        }
    }
}

/// `bind` has the same limit as `connect`; a detour through a link keeps the test's own path short.
fn short(directory: &Path, socket: &Path) -> PathBuf {
    if socket.as_os_str().len() < 108 {
        return socket.to_owned();
    }
    let link = directory.join("short");
    std::os::unix::fs::symlink(socket.parent().unwrap(), &link).unwrap();
    link.join(socket.file_name().unwrap())
}

/// Not a test: what the other tests run as their daemon.
#[test]
fn daemon() {
    let Ok(cwd) = std::env::var(HOME) else { return };
    let listener = UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let config = Config {
        env: vec![("PATH".into(), std::env::var("PATH").unwrap()), ("FROM_CONFIG".into(), "yes".into())],
        cwd,
    };
    run(listener, config).unwrap();
}

fn argv(argv: &[&str]) -> ProcessSpec {
    ProcessSpec { argv: argv.iter().map(ToString::to_string).collect(), ..ProcessSpec::default() }
}

fn sh(script: &str) -> ProcessSpec {
    argv(&["sh", "-c", script])
}

/// Everything a process said.
#[derive(Debug, Default)]
struct Said {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    exit: Option<Exit>,
}

impl Said {
    fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    fn code(&self) -> i32 {
        self.exit.as_ref().unwrap().code
    }
}

async fn listen(mut process: Process) -> Result<Said, Error> {
    let mut said = Said::default();
    while let Some(output) = process.next().await? {
        match output {
            Output::Stdout { data, .. } => said.stdout.extend_from_slice(&data),
            Output::Stderr { data, .. } => said.stderr.extend_from_slice(&data),
            Output::Exit(exit) => said.exit = Some(exit),
        }
    }
    Ok(said)
}

/// Reads until standard output ends with `text`.
async fn until(process: &mut Process, text: &str) {
    let mut seen = Vec::new();
    while !seen.ends_with(text.as_bytes()) {
        match process.next().await.unwrap() {
            Some(Output::Stdout { data, .. }) => seen.extend_from_slice(&data),
            other => panic!("after {:?} came {other:?}", String::from_utf8_lossy(&seen)),
        }
    }
}

async fn type_line(client: &Client, id: &str, line: &'static str) {
    client.write_stdin(id, Bytes::from_static(line.as_bytes())).await.unwrap();
}
