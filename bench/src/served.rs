//! Servers in processes of their own: the real program, and whatever says where it listens as the program does.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use sandbox::Driver;
use sandbox::native::Native;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long a server may take until it says where it listens, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// Variables that would lead the program to another model, server or directory.
const FOREIGN: [&str; 8] =
    ["SLIPWAY_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GIT_"];

/// The program beside this one.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let bench = std::env::current_exe()?;
    let slipway = bench.parent().unwrap_or(Path::new(".")).join("slipway");
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    ensure!(
        slipway.is_file(),
        "slipway is not built; build it first: cargo build{release} --package cli (or: make bench)"
    );
    Ok(slipway)
}

/// A directory for the program, with a configuration that has this model and an environment `plain` of this repository.
pub(crate) fn home(model: &str, repo: &str) -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("slipway-bench-").tempdir()?;
    let config = format!(
        "[models.scripted]\nprovider = \"openai-compatible\"\nmodel = \"scripted\"\nbase_url = \"{model}\"\n\
         [environments.plain]\nrepos = [{{ url = \"{repo}\" }}]\n"
    );
    std::fs::write(dir.path().join("slipway.toml"), config)?;
    Ok(dir)
}

/// The program with its data in `dir`, and what `slipway.toml` beside them says.
pub(crate) fn command(slipway: &Path, dir: &Path) -> Command {
    let mut command = Command::new(slipway);
    for (name, _) in std::env::vars_os() {
        let upper = name.to_string_lossy().to_uppercase();
        if FOREIGN.iter().any(|prefix| upper.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.arg("--data-dir").arg(dir.join("data"));
    command.arg("--config").arg(dir.join("slipway.toml"));
    command
}

/// Removes the sandboxes of a server that is gone; they outlive it.
pub(crate) async fn remove_sandboxes(dir: &Path) -> anyhow::Result<()> {
    let driver = Native::open(&dir.join("data/native"))?;
    let found = driver.list().await?;
    let removed = futures_util::stream::iter(found).map(|info| driver.remove(info.id));
    Ok(removed.buffer_unordered(8).try_collect().await?)
}

/// A server in a process of its own. It goes with us.
pub(crate) struct Served {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// When its process was begun.
    pub(crate) began: Instant,
}

/// What a server says when it listens.
#[derive(Deserialize)]
struct Said {
    url: String,
}

impl Served {
    /// Starts `slipway serve`.
    pub(crate) async fn slipway(slipway: &Path, dir: &Path) -> anyhow::Result<Self> {
        let mut command = command(slipway, dir);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]);
        Self::start(command).await
    }

    /// Starts a program that writes a line with its `url` in JSON.
    pub(crate) async fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let began = Instant::now();
        let mut child = command.spawn().context("starting a server")?;
        let stdout = child.stdout.take().context("a child without output")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.context("a server hangs")??;
        let said: Said = serde_json::from_str(&line.context("a server ended at once")?)?;
        let address = said.url.strip_prefix("http://").context("no address")?.parse()?;
        Ok(Self { child, address, began })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("the server has ended")
    }

    /// Asks for something, on a connection of its own.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Sends JSON.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> anyhow::Result<T> {
        self.call(Method::POST, path, serde_json::to_vec(body)?.into()).await
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        let stream = TcpStream::connect(self.address).await.context("reaching a server")?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // How the connection ends is told to whoever waits for the answer.
        drop(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        ensure!(status.is_success(), "{path} was answered with {status}: {}", String::from_utf8_lossy(&text));
        Ok(serde_json::from_slice(&text)?)
    }

    /// Ends it as a crash would.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Ends it as a service manager would.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        let id = i32::try_from(self.id()?).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.context("no process")?, rustix::process::Signal::TERM)?;
        tokio::time::timeout(PATIENCE, self.child.wait()).await.context("a server does not end")??;
        Ok(())
    }
}
