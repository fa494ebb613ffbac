//! What the host remembers of a session's workspace beside the log: where it began, and which commits it keeps of it.
//! One small JSON file, replaced as a whole. Branches, commits and trees are joint names (`joint`): those of each repository.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use protocol::{Check, Problem, Service, SessionId, SetupStep, SnapshotId, TurnId};
use serde::{Deserialize, Serialize};

use crate::{joint, problem};

/// The content of `workspace.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The branch that the session started from.
    pub(crate) source: String,
    /// The commit that the session started from.
    pub(crate) base: String,
    /// The session's own branch.
    pub(crate) branch: String,
    /// Where it goes, without credentials: a line for each repository.
    pub(crate) remote: String,
    /// The commit of the last turn that was done: what can be delivered.
    pub(crate) tip: Option<String>,
    /// The commit that holds the work as the last turn left it.
    pub(crate) kept: Option<String>,
    /// The commit that was last looked through before it left, or that a person let go as it is.
    #[serde(default)]
    pub(crate) cleared: Option<String>,
    /// Whether `kept` is work in progress on top of the branch.
    pub(crate) unfinished: bool,
    /// The repositories in which it is, by their numbers, where there are several.
    #[serde(default)]
    pub(crate) unfinished_in: Vec<usize>,
    /// Set-up steps, checks and instructions as they were resolved when the session began.
    pub(crate) setup: Vec<SetupStep>,
    pub(crate) checks: Vec<Check>,
    pub(crate) instructions: String,
    /// Whose work is kept and in no commit of the branch yet.
    #[serde(default)]
    pub(crate) shared_by: Vec<String>,
    /// The working tree as the turn under way found it.
    pub(crate) found: Option<Found>,
    /// The working tree as the first turn found it. None before that, and where git could not read it.
    #[serde(default)]
    pub(crate) began: Option<String>,
    /// What runs beside the work.
    #[serde(default)]
    pub(crate) services: Vec<Service>,
    /// What a person must approve, as the repository wants it.
    #[serde(default)]
    pub(crate) approve: Vec<protocol::Gate>,
    /// The policy that the repository wants beside the environment's.
    #[serde(default)]
    pub(crate) policy: protocol::Policy,
    /// Those of each repository where there are several.
    #[serde(default)]
    pub(crate) policies: Vec<protocol::Policy>,
    /// MCP servers that the repository adds.
    #[serde(default)]
    pub(crate) mcp: Vec<protocol::McpProgram>,
    /// The last snapshot.
    #[serde(default)]
    pub(crate) frozen: Option<Frozen>,
    /// What ran in the sandbox when it was stopped, by name: it does not run in the next one.
    #[serde(default)]
    pub(crate) running: Vec<String>,
    /// What the set-up left in the workspace that git neither tracks nor ignores, as patterns of its ignore files. It was
    /// there before the work began, so it is no part of it. None before the first turn.
    #[serde(default)]
    pub(crate) products: Option<Vec<String>>,
    /// Files that were too large to be kept, and of which that was said.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    /// The repository's own hooks.
    #[serde(default)]
    pub(crate) hooks: Vec<protocol::Hook>,
    /// What the base has become, once that was merged into the workspace: the work begins there when it has it.
    #[serde(default)]
    pub(crate) onto: Option<String>,
    /// Merges that left conflicts which are not known to be resolved.
    #[serde(default)]
    pub(crate) merges: Vec<super::conflicts::Merge>,
    /// What git does with the files of each repository by the will of people. Empty before the first turn.
    #[serde(default)]
    pub(crate) grounds: Vec<super::ground::Ground>,
    /// Whether the repository has folders for skills.
    #[serde(default)]
    pub(crate) has_skills: bool,
}

impl Saved {
    /// Whether what is kept of a repository is work in progress on top of its branch.
    pub(super) fn is_unfinished(&self, number: usize) -> bool {
        self.unfinished && (self.unfinished_in.contains(&number) || joint::split(&self.base).count() == 1)
    }

    /// The commit that the repository's skills are taken from, if it has some.
    pub(crate) fn skills_at(&self) -> Option<String> {
        self.has_skills.then(|| self.base.clone())
    }
}

/// A snapshot of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frozen {
    pub(crate) snapshot: SnapshotId,
    /// What was kept when it was taken. Work that was kept later is not in the snapshot.
    pub(crate) kept: Option<String>,
}

/// The working tree at the beginning of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) turn: TurnId,
    pub(crate) tree: String,
}

/// The file, and what it says.
pub(crate) struct Record {
    path: PathBuf,
    saved: Mutex<Option<Saved>>,
}

impl Record {
    /// Reads the file of a session's directory; a missing one means that there was no workspace yet.
    pub(crate) fn open(dir: &Path, session: SessionId) -> Self {
        let path = dir.join("workspace.json");
        let saved = match std::fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(saved) => Some(saved),
                // The kept commit is in the mirror and a turn starts from the repository again; that is better than
                // a session that cannot be used.
                Err(error) => {
                    tracing::error!(%session, path = %path.display(), %error, "a workspace file is damaged");
                    None
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::error!(%session, path = %path.display(), %error, "a workspace file cannot be read");
                None
            }
        };
        Self { path, saved: Mutex::new(saved) }
    }

    /// What is known.
    pub(crate) fn get(&self) -> Option<Saved> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it, on disk first.
    pub(crate) fn put(&self, saved: Saved) -> Result<(), Problem> {
        write(&self.path, &saved)?;
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved);
        Ok(())
    }
}

/// Writes what is known of a workspace, as a whole.
fn write(path: &Path, saved: &Saved) -> Result<(), Problem> {
    let write = || -> std::io::Result<()> {
        use std::io::Write as _;
        let dir = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&serde_json::to_vec_pretty(saved)?)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| problem::file(path, &error))
}

/// What is known of a workspace in the directory of a session, for one that does not have an actor yet.
pub(crate) fn begin_with(dir: &Path, saved: &Saved) -> Result<(), Problem> {
    write(&dir.join("workspace.json"), saved)
}

/// Keeps what is known of a workspace with one of its snapshots, for sessions that are forked from it.
pub(crate) fn keep_with(dir: &Path, snapshot: SnapshotId, saved: &Saved) -> Result<(), Problem> {
    write(&dir.join(format!("{snapshot}.json")), saved)
}

/// What was known of a workspace when the snapshot was taken; None when nobody knows any more.
pub(crate) fn known_with(dir: &Path, snapshot: SnapshotId) -> Option<Saved> {
    let path = dir.join(format!("{snapshot}.json"));
    let read = std::fs::read(&path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    read.inspect_err(
        |error| tracing::debug!(path = %path.display(), %error, "nothing is known of a snapshot"),
    )
    .ok()
}
