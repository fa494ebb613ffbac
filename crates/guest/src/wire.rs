//! Messages between the control plane and the guest.
//!
//! Every body is JSON, except files and standard input, which are raw bytes, and the output of a process, which is a
//! stream of frames. An answer that is not 2xx carries a [`Failure`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Generation of the protocol, told by `GET /health`.
pub const VERSION: u32 = 1;

/// Header that carries the whole size of a file of which a range is sent.
pub const FILE_SIZE: &str = "x-file-size";

/// Variable that names the process in the environment of everything it starts.
pub const PROCESS_VARIABLE: &str = "SLIPWAY_PROCESS";

/// A command to start. `PUT /processes/{id}`; the same id twice attaches to the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSpec {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside the sandbox's own.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Killed after this long, with everything it started, also what left its session and cleared its variables.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Run on a terminal of this size; standard error then comes with standard output.
    #[serde(default)]
    pub pty: Option<PtySize>,
    /// Keep standard input open for `write_stdin`; otherwise it is empty.
    #[serde(default)]
    pub stdin: bool,
}

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtySize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; 128 + signal when it was killed by one.
    pub code: i32,
    /// The signal that ended it.
    #[serde(default)]
    pub signal: Option<i32>,
    /// Whether its time limit ended it.
    #[serde(default)]
    pub timed_out: bool,
}

/// One process the guest knows. `GET /processes` lists them by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessState {
    /// The id the caller chose.
    pub id: String,
    /// Its number inside the sandbox.
    pub pid: i32,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Bytes of combined output so far.
    pub output: u64,
    /// How long its main process runs, or ran. Guests before this one do not say.
    #[serde(default)]
    pub ran_ms: Option<u64>,
    /// How it ended; absent while it runs.
    #[serde(default)]
    pub exit: Option<Exit>,
}

/// The answer to a signal. Guests before this one answered with nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signalled {
    /// How many processes it reached; none are left of a tree that it reached none of.
    pub reached: usize,
}

/// The answer of `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The [`VERSION`] the guest speaks.
    pub version: u32,
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; seen in listings only, because a path asked for by name is followed.
    Symlink,
    /// A device, a pipe or a socket.
    Other,
}

/// One directory entry or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// Name (in a listing) or path.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure it is.
    pub code: FailureCode,
    /// What happened, in words for a person.
    pub message: String,
}

/// The kinds of [`Failure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCode {
    /// There is no such file or process.
    NotFound,
    /// The request cannot be done as it was asked.
    Refused,
    /// The guest itself cannot go on.
    Unavailable,
}
