//! Runs a build program: with few variables, no shell, its output told line by line, and nothing left of it afterwards.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::progress::Progress;
use crate::Error;

/// What a build program needs to know of us: where things are, and how to get out.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "REGISTRY_AUTH_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

const LINE: usize = 2000;
const TAIL: usize = 2048;

/// A program in one of the directories.
pub(super) fn find(programs: &OsStr, name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|stat| stat.is_file() && stat.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(programs).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(is_program)
}

/// Ends a program with everything it started, unless it ended before.
struct Group(Option<rustix::process::Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = rustix::process::kill_process_group(group, rustix::process::Signal::KILL)
        {
            tracing::debug!(%error, "a build program is gone already");
        }
    }
}

/// How a program ended.
pub(super) struct Ended {
    pub(super) success: bool,
    /// The end of its output.
    pub(super) tail: String,
}

/// Runs a program to its end, or for as long as it may.
pub(super) async fn run(
    program: &Path,
    arguments: &[OsString],
    longest: Duration,
    progress: Option<&Progress<'_>>,
) -> Result<Ended, Error> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(Error::io(program))?;
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let mut group = Group(pid);
    let tail = std::sync::Mutex::new(String::new());
    let line = |line: &str| {
        let mut tail = tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tail.push_str(line);
        tail.push('\n');
        if tail.len() > 2 * TAIL {
            let from = tail.ceil_char_boundary(tail.len() - TAIL);
            *tail = tail.split_off(from);
        }
        drop(tail);
        if let Some(progress) = progress {
            progress.say(line);
        }
    };
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let work = async {
        tokio::try_join!(lines(out, &line), lines(err, &line))?;
        child.wait().await
    };
    let ended = tokio::time::timeout(longest, work).await;
    let Ok(ended) = ended else {
        return Err(Error::Build {
            message: format!("{} did not end within {} s", program.display(), longest.as_secs()),
            hint: "make the build shorter, or build the image elsewhere and use oci:NAME".to_owned(),
        });
    };
    let status = ended.map_err(Error::io(program))?;
    group.0 = None;
    let tail = tail.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Ended { success: status.success(), tail })
}

/// Splits output into lines; one that is too long becomes several.
async fn lines(source: Option<impl AsyncRead + Unpin>, tell: &impl Fn(&str)) -> std::io::Result<()> {
    let Some(mut source) = source else { return Ok(()) };
    let mut buffer = [0; 8192];
    let mut line = Vec::new();
    loop {
        let got = source.read(&mut buffer).await?;
        for byte in &buffer[..got] {
            if *byte != b'\n' && *byte != b'\r' {
                line.push(*byte);
            }
            if (*byte == b'\n' || *byte == b'\r' || line.len() >= LINE) && !line.is_empty() {
                tell(&clean(&line));
                line.clear();
            }
        }
        if got == 0 {
            if !line.is_empty() {
                tell(&clean(&line));
            }
            return Ok(());
        }
    }
}

/// Without what would do something to a terminal.
fn clean(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|c| *c == '\t' || !c.is_control()).collect()
}
