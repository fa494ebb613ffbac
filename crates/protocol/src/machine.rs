//! What events say of a sandbox: how it is, what it was let through, and which of its limits it came to.

use serde::{Deserialize, Serialize};

use crate::SandboxId;

/// State of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SandboxState {
    /// There is none yet: the image that it starts from is being built. The detail says which step is under way.
    Building,
    /// It is being made.
    Creating,
    /// The workspace is being prepared: clone and set-up steps.
    Preparing,
    /// It takes reads; writes wait until the workspace is at the tip of its branch.
    Syncing,
    /// It takes commands.
    Ready,
    /// It was stopped on purpose.
    Stopped,
    /// It died.
    Lost,
}

/// Connections out of a sandbox that were decided alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressDecision {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The host that was asked for; an address where no name is known.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether they were let through.
    pub allowed: bool,
    /// The rule that let them through, or why they were refused.
    pub rule: String,
    /// How many connections began, or how often it was asked. 0 where more bytes went over connections that were told
    /// before, so that connections and bytes can be summed.
    pub connections: u32,
    /// Bytes out of the sandbox, since this was last told.
    #[serde(default)]
    pub sent: u64,
    /// Bytes into the sandbox, since this was last told.
    #[serde(default)]
    pub received: u64,
}

/// The limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LimitKind {
    /// Memory of all processes.
    Memory,
    /// Processes and threads.
    Processes,
    /// Open files of one process.
    OpenFiles,
    /// Bytes on disk.
    DiskBytes,
    /// Files and directories on disk.
    DiskInodes,
    /// Bytes in `/dev/shm`.
    SharedMemory,
    /// Its life.
    WallClock,
}

/// How a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ServiceState {
    /// It does not run.
    Down,
    /// It was started again and is up.
    Up,
}
