//! `docker run`, with an engine of our own: its socket, its data and its end are ours, and whatever engine the host has is
//! left alone. The image is the same root file system, imported; there is no network to set up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::{ECHO, Missing, Peer};

const NAME: &str = "docker run";
const IMAGE: &str = "slipway-bench";
/// How long the engine may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The engine. It ends, and what it left goes, with this value.
pub(crate) struct Engine {
    child: Child,
    client: PathBuf,
    host: String,
    dir: PathBuf,
}

/// Starts an engine with the archive as its only image.
pub(crate) fn start(dir: &Path, archive: &Path) -> Result<Engine, Missing> {
    if !rustix::process::geteuid().is_root() {
        return Err(Missing { name: NAME, why: "its engine wants root".to_owned() });
    }
    let (Some(engine), Some(client)) = (super::program("dockerd"), super::program("docker")) else {
        return Err(Missing::package(NAME, "docker.io"));
    };
    Engine::start(&engine, client, &dir.join("docker"), archive)
        .map_err(|error| Missing::because(NAME, &error))
}

impl Engine {
    fn start(engine: &Path, client: PathBuf, dir: &Path, archive: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir(dir)?;
        let host = format!("unix://{}", dir.join("docker.sock").display());
        let log = std::fs::File::create(dir.join("log"))?;
        let child = Command::new(engine)
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--host", &host])
            .arg("--data-root")
            .arg(dir.join("data"))
            .arg("--exec-root")
            .arg(dir.join("exec"))
            .arg("--pidfile")
            .arg(dir.join("pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("running dockerd")?;
        let mut this = Self { child, client, host, dir: dir.to_owned() };
        let began = Instant::now();
        while !this.client(["version"]).output()?.status.success() {
            if let Some(status) = this.child.try_wait()? {
                let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
                bail!("dockerd ended with {status}: {}", log.trim().lines().last().unwrap_or_default());
            }
            ensure!(began.elapsed() < PATIENCE, "dockerd did not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        let imported = this.client(["import"]).arg(archive).arg(IMAGE).output()?;
        ensure!(
            imported.status.success(),
            "docker import failed: {}",
            String::from_utf8_lossy(&imported.stderr).trim()
        );
        Ok(this)
    }

    fn client<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(&self.client);
        command.args(["--host", &self.host]).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn peer(&self) -> Peer {
        let mut arguments: Vec<OsString> = ["--host", &self.host].map(Into::into).into();
        arguments.extend(["run", "--rm", "--network", "none", IMAGE].map(Into::into));
        arguments.extend(ECHO.map(Into::into));
        Peer::new(NAME, self.client.clone(), arguments)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It ends its containers and its containerd only when it is asked to end, not when it is killed.
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        // Whatever was left of it is ended now.
        let _ended = (self.child.kill(), self.child.wait());
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            use std::io::Write as _;
            let _unheard = writeln!(std::io::stderr(), "cannot remove {}: {error}", self.dir.display());
        }
    }
}
