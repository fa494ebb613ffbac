//! Isolated machines behind one small interface.
//!
//! A [`Driver`] makes and finds sandboxes; a [`Sandbox`] is reached only through its guest. The native driver
//! ([`native::Native`]) needs nothing but a Linux kernel. What it holds, and what not, is in `docs/threat-model.md`.

pub mod doctor;
mod error;
pub mod native;

use std::sync::Arc;
use std::time::Duration;

use protocol::SandboxId;

pub use error::Error;

/// Where the workspace is inside every sandbox.
pub const WORKSPACE: &str = "/workspace";

/// What a sandbox may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Processors; 1.5 is one and a half.
    pub cpus: f64,
    /// Memory of all processes together.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Life of the sandbox; None for as long as it is wanted.
    pub wall_clock: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(2.0, |cores| cores.get() as f64),
            memory_bytes: 8 << 30,
            processes: 4096,
            open_files: 65536,
            wall_clock: None,
        }
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its id.
    pub id: SandboxId,
    /// What is below the workspace.
    pub base: Base,
    /// What it may use.
    pub limits: Limits,
    /// How long it lives.
    pub life: Life,
}

/// What is below the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// The host's own system directories and toolchains, read-only.
    Host,
}

impl std::str::FromStr for Base {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "host" => Ok(Self::Host),
            other => Err(Error::Unsupported {
                message: format!("the base \"{other}\" is not supported"),
                hint: "use base = \"host\": the host's toolchains, read-only".to_owned(),
            }),
        }
    }
}

/// How long a sandbox lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Until it is removed; it outlives this process.
    Own,
    /// As long as the [`Sandbox`] value: however this process ends, nothing is left behind.
    Tied,
}

/// Makes and finds sandboxes.
///
/// Implementers owe: `create` returns only when the guest takes commands, and leaves nothing behind when it fails;
/// `remove` succeeds when there is nothing to remove; a sandbox with a life of its own survives this process.
#[async_trait::async_trait]
pub trait Driver: Send + Sync {
    /// `native`, …
    fn name(&self) -> &'static str;
    /// Starts a sandbox.
    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error>;
    /// Finds a running sandbox again, after a restart of the server.
    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error>;
    /// Everything this driver has, running or not, oldest first.
    async fn list(&self) -> Result<Vec<Info>, Error>;
    /// Ends it and removes every trace.
    async fn remove(&self, id: SandboxId) -> Result<(), Error>;
}

/// One running isolated machine.
#[async_trait::async_trait]
pub trait Sandbox: Send + Sync {
    /// Its id.
    fn id(&self) -> SandboxId;
    /// The way in.
    fn guest(&self) -> &guest::Client;
    /// Why it ended, once it has; None while it runs.
    async fn ended(&self) -> Option<String>;
}

/// A sandbox in a list.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Info {
    /// Its id.
    pub id: SandboxId,
    /// Whether it runs.
    pub running: bool,
    /// Pid 1 of the sandbox, as the host sees it.
    pub pid: Option<u32>,
}
