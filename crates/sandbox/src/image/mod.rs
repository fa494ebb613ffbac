//! Images: the prebuilt, ready-to-start state of an environment, built in sandboxes from small steps.
//!
//! Every step's result is a layer with a key: of the repository its address, branch and commit; of a set-up step with
//! inputs the command, the content of those inputs, what it can reach and what came before, so that a push re-uses it; of
//! any other step also everything below it. What is there under its key is stacked and not built; so a build is as long as what changed.

mod build;
mod checked;
mod images;
mod inside;
mod key;
mod log;
mod portable;
mod probe;
mod progress;
mod record;
mod retry;
mod step;
mod trial;
mod way_out;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Limits, Stack, base, egress};

pub use checked::{Checked, CheckedOne, pending};
pub use images::{FailedBuild, Images, Reason, Wanted};
pub use inside::copy_in;
pub use retry::wait_after;
pub use trial::Trial;

/// What to build.
#[derive(std::clone::Clone)]
pub struct Recipe {
    /// Name of the environment.
    pub environment: String,
    /// What is below everything.
    pub base: base::Source,
    /// The repository's files at the commit, for bases that are built from it.
    pub checkout: Option<PathBuf>,
    /// The repository; of several what they are called together.
    pub repo: Repo,
    /// The repositories, where each lies in a directory of its own; none where the one there is lies in the workspace itself.
    pub clones: Vec<Clone>,
    /// Set-up steps, in order.
    pub setup: Vec<Step>,
    /// Steps that fill caches, in order.
    pub warm: Vec<Step>,
    /// What runs beside the warm steps.
    pub services: Vec<protocol::Service>,
    /// What each step's sandbox may use.
    pub limits: Limits,
    /// What steps can reach; None for nothing.
    pub egress: Option<Egress>,
    /// What a person should know of the repository, such as submodules that are not fetched.
    pub notes: Vec<String>,
}

impl Recipe {
    /// The directories of the workspace that are repositories.
    pub(crate) fn places(&self) -> Vec<&str> {
        if self.clones.is_empty() {
            return vec!["."];
        }
        self.clones.iter().map(|clone| clone.place.as_str()).collect()
    }

    /// Changes when what is to be done does; the commit and the content of inputs do not count. Needs no bundle.
    pub fn digest(&self) -> String {
        key::recipe(self)
    }
}

/// What the steps of a build can reach.
#[derive(Clone)]
pub struct Egress {
    /// What is allowed.
    pub rules: egress::Rules,
    /// Secrets for it.
    pub secrets: Vec<egress::Secret>,
    /// How it is reached.
    pub outside: Arc<dyn egress::Outside>,
    /// Who is told of decisions.
    pub sink: egress::Sink,
}

/// The repository that an image has.
#[derive(Debug, Clone)]
pub struct Repo {
    /// Its address, without credentials.
    pub url: String,
    /// The branch.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// A bundle with that branch at that commit, on the host.
    pub bundle: PathBuf,
    /// What is laid into the clone.
    pub extras: Extras,
}

/// What the clone of a repository needs beside its commits.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Files of the host, each with its place in the sandbox.
    pub files: Vec<(PathBuf, String)>,
    /// The script that lays them into the clone, in the directory that it is given.
    pub script: String,
    /// What it is, in words that differ where it does.
    pub words: Vec<String>,
}

/// A repository in a directory of the workspace.
#[derive(Debug, Clone)]
pub struct Clone {
    /// The directory, from the workspace.
    pub place: String,
    /// The repository.
    pub repo: Repo,
}

/// A set-up or warm step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The shell command.
    pub run: String,
    /// Its inputs: path, and a digest of the content; None for a file that is not there. Empty: it depends on everything.
    pub inputs: Vec<(String, Option<String>)>,
    /// What a person should know of it, such as an input that is not in the repository.
    pub notes: Vec<String>,
    /// How often it is tried.
    pub attempts: u32,
    /// Wall-clock limit of one attempt.
    pub timeout: Duration,
}

/// An image that is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Name of the environment.
    pub environment: String,
    /// Changes when anything in the image does.
    pub key: String,
    /// What a sandbox of it stands on. The workspace has the repository on its branch, at the commit.
    pub stack: Stack,
    /// The repository's address.
    pub url: String,
    /// The branch.
    pub branch: String,
    /// The commit.
    pub commit: String,
    /// When its build ended.
    pub built_at: Timestamp,
    /// How long it took.
    pub duration_ms: u64,
    /// Bytes of all its layers.
    pub bytes: u64,
    /// What a person should know of it, such as a submodule that could not be fetched.
    #[serde(default)]
    pub notes: Vec<String>,
}
