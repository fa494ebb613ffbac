//! Isolated machines behind one small interface, and what they start from.
//!
//! A [`Driver`] makes and finds sandboxes and keeps the immutable layers that they stand on; a [`Sandbox`] is reached only
//! through its guest. Above the driver, each on its own: [`base`] brings in what is below everything, [`image`] builds an
//! environment's image step by step, [`pool`] keeps started sandboxes ready, [`snapshot`] freezes workspaces, [`service`]
//! starts what runs beside the work, [`egress`] decides on every connection out, and [`gc`] keeps all of it within its
//! disk budget. The native driver ([`native::Native`]) needs nothing but a Linux kernel. What it holds, and what not, is in
//! `docs/threat-model.md`.

pub mod base;
mod base64;
pub mod doctor;
pub mod egress;
mod end;
mod error;
pub mod gc;
pub mod image;
pub mod layer;
pub mod native;
pub mod pool;
pub mod service;
pub mod shell;
pub mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use protocol::SandboxId;
use serde::{Deserialize, Serialize};

pub use end::End;
pub use error::Error;
pub use layer::{Archive, Base, Layer, LayerId, Stack};

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
    /// What it may write to disk, all files together.
    pub disk_bytes: u64,
    /// Files and directories it may make.
    pub inodes: u64,
    /// Life of the sandbox; None for as long as it is wanted. It begins when the sandbox is given to whoever it is for.
    pub wall_clock: Option<Duration>,
    /// Whether programs inside may make user namespaces, and mount what they like in those.
    pub user_namespaces: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpus: std::thread::available_parallelism().map_or(2.0, |cores| cores.get() as f64),
            memory_bytes: 8 << 30,
            processes: 4096,
            open_files: 65536,
            disk_bytes: 20 << 30,
            inodes: 2_000_000,
            wall_clock: None,
            user_namespaces: false,
        }
    }
}

impl Limits {
    /// What `/dev/shm` holds. It is memory that may count as nobody's, so it is not all there is.
    pub fn shared_bytes(&self) -> u64 {
        self.memory_bytes / 4
    }
}

/// The key of the configuration that raises a limit.
pub fn limit_key(limit: protocol::event::LimitKind) -> &'static str {
    use protocol::event::LimitKind;
    match limit {
        // What there is for sharing is a part of the memory.
        LimitKind::Memory | LimitKind::SharedMemory => "memory_mb",
        LimitKind::Processes => "processes",
        LimitKind::OpenFiles => "open_files",
        LimitKind::DiskBytes => "disk_mb",
        LimitKind::DiskInodes => "inodes",
        LimitKind::WallClock => "wall_clock_s",
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its id.
    pub id: SandboxId,
    /// What it stands on.
    pub stack: Stack,
    /// What it may use.
    pub limits: Limits,
    /// How long it lives.
    pub life: Life,
    /// Whether there is a way out.
    pub network: Network,
    /// Whose it is.
    pub owner: Owner,
}

impl Spec {
    /// A new sandbox with the usual limits and without a network.
    pub fn new(stack: Stack, life: Life, owner: Owner) -> Self {
        Self { id: SandboxId::new(), stack, limits: Limits::default(), life, network: Network::None, owner }
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

/// Whether a sandbox has a way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback and nothing else.
    None,
    /// Every connection and every question for a name ends at sockets that [`Sandbox::sockets`] hands out; there is no
    /// other route. Until somebody takes them up, connections wait.
    Egress,
}

/// Whose a sandbox is. Kept with it, so that a restarted server knows what it finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// One command's.
    OneOff,
    /// A session's, by its id.
    Session(protocol::SessionId),
    /// Ready for whoever comes first: the environment, and the key of the image it stands on.
    Pool {
        /// The environment.
        environment: String,
        /// [`image::Image::key`].
        image: String,
    },
    /// It builds an image of this environment.
    Build(String),
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OneOff => f.write_str("one command"),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Pool { environment, .. } => write!(f, "pool of {environment}"),
            Self::Build(environment) => write!(f, "build of {environment}"),
        }
    }
}

/// How a sandbox's changes become a layer.
#[derive(Debug, Clone, Copy)]
pub enum Save<'a> {
    /// While it runs: it is frozen for as long as looking at its files takes, and what changed is copied. What the layer
    /// `like` (the last one saved of this sandbox) has in the same state is shared with it instead.
    Live {
        /// The last layer that was saved of this sandbox.
        like: Option<&'a LayerId>,
    },
    /// It is ended, and what it wrote becomes the layer without being copied. The sandbox is gone afterwards.
    Stop {
        /// Paths whose changes are left out.
        without: &'a [&'a str],
    },
}

/// Makes and finds sandboxes, and keeps the layers they stand on.
///
/// Implementers owe: `create` returns only when the guest takes commands, and leaves nothing behind when it fails;
/// `remove` succeeds when there is nothing to remove; a sandbox with a life of its own survives this process; a layer is
/// either whole or not there, never changes, and is not removed while a sandbox stands on it. The suite in
/// `tests/conformance` says the rest.
#[async_trait::async_trait]
pub trait Driver: Send + Sync {
    /// `native`, …
    fn name(&self) -> &'static str;
    /// Changes when what [`Base::Host`] shows does, as far as that can be told at once.
    fn host_key(&self) -> String {
        "host".to_owned()
    }
    /// Starts a sandbox.
    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error>;
    /// Finds a running sandbox again, after a restart of the server.
    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error>;
    /// Why a sandbox that no longer runs ended, as long as its remains are there; None while it runs, and where there is
    /// nothing of it.
    async fn ended(&self, _id: SandboxId) -> Option<End> {
        None
    }
    /// Everything this driver has, running or not, oldest first.
    async fn list(&self) -> Result<Vec<Info>, Error>;
    /// Ends it and removes every trace.
    async fn remove(&self, id: SandboxId) -> Result<(), Error>;
    /// Gives a running sandbox to another owner; the time of its life begins anew.
    async fn give(&self, id: SandboxId, owner: &Owner) -> Result<(), Error>;
    /// What a sandbox changed since it started becomes an immutable layer. One of that name that is there already is left
    /// as it is, so that a save that was interrupted can be repeated.
    async fn save(&self, id: SandboxId, layer: &LayerId, how: Save<'_>) -> Result<Layer, Error>;
    /// Every layer, by id.
    async fn layers(&self) -> Result<Vec<Layer>, Error>;
    /// One layer.
    async fn layer(&self, id: &LayerId) -> Result<Option<Layer>, Error>;
    /// Unpacks an archive into a layer; one that is there already is left as it is.
    async fn import(&self, layer: &LayerId, archive: &Archive) -> Result<Layer, Error>;
    /// Makes one layer that shows what these, topmost first, show together. What they hold is shared, not copied.
    async fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<Layer, Error>;
    /// Removes a layer; [`Error::InUse`] while a sandbox stands on it.
    async fn remove_layer(&self, id: &LayerId) -> Result<(), Error>;
    /// Bytes on disk of everything this driver keeps. A driver whose layers share files counts each once; this sum of all
    /// layers does not, and leaves out what sandboxes wrote.
    async fn disk_used(&self) -> Result<u64, Error> {
        Ok(self.layers().await?.iter().map(|layer| layer.bytes).sum())
    }
}

/// One running isolated machine.
#[async_trait::async_trait]
pub trait Sandbox: Send + Sync {
    /// Its id.
    fn id(&self) -> SandboxId;
    /// The way in.
    fn guest(&self) -> &guest::Client;
    /// What it stands on.
    fn stack(&self) -> &Stack;
    /// Why it ended, once it has; None while it runs.
    async fn ended(&self) -> Option<End>;
    /// What it uses, and which limits it came to.
    async fn usage(&self) -> Result<Usage, Error>;
    /// The sockets at which its connections out end; None without a network.
    async fn sockets(&self) -> Result<Option<egress::Sockets>, Error>;
}

/// What a sandbox uses. What this host cannot tell is None.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Memory of all processes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Processor time.
    pub cpu_ms: Option<u64>,
    /// Bytes on disk.
    pub disk_bytes: Option<u64>,
    /// Files and directories on disk.
    pub inodes: Option<u64>,
    /// Processes that were killed because memory ran out.
    pub memory_hits: u64,
    /// Times that a process could not be made because there were too many.
    pub process_hits: u64,
    /// Times that the disk limit was reached.
    pub disk_hits: u64,
    /// Times that the limit of files and directories was reached.
    pub inode_hits: u64,
    /// Times that a process was seen with as many open files as it may have. One that closes them at once is not seen.
    #[serde(default)]
    pub open_file_hits: u64,
    /// Times that `/dev/shm` was seen full. What is freed at once is not seen.
    #[serde(default)]
    pub shared_memory_hits: u64,
}

/// State of a sandbox as its driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being made; or whoever made it died over it.
    Starting,
    /// It takes commands.
    Running,
    /// It is frozen, for a snapshot.
    Frozen,
    /// It ended; its directory is still there.
    Ended,
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Frozen => "frozen",
            Self::Ended => "ended",
        }
    }
}

/// A sandbox in a list.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// Its id.
    pub id: SandboxId,
    /// How it is.
    pub state: State,
    /// Pid 1 of the sandbox, as the host sees it.
    pub pid: Option<u32>,
    /// Whose it is; None while nobody can tell.
    pub owner: Option<Owner>,
    /// What it stands on; None while nobody can tell.
    pub stack: Option<Stack>,
}
