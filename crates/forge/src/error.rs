//! What can go wrong, in the words that a person reads. No variant ever carries a URL with credentials in it.

use crate::git::Failure;

/// What git could not do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository cannot be reached or is not one.
    #[error("cannot read the repository {url}: {detail}")]
    Unavailable {
        /// The repository, without credentials.
        url: String,
        /// Why, and what to do about it.
        detail: String,
    },
    /// The repository can be read but lacks the branch.
    #[error("the repository {url} has no branch \"{branch}\"; it has: {}", known.join(", "))]
    NoBranch {
        /// The repository, without credentials.
        url: String,
        /// The branch that was asked for.
        branch: String,
        /// Some of the branches that are there.
        known: Vec<String>,
    },
    /// The repository has no branch at all.
    #[error("the repository {url} has no commits")]
    Empty {
        /// The repository, without credentials.
        url: String,
    },
    /// The work breaks a rule of ours; the sentence says which.
    #[error("the work was not accepted: {0}")]
    Refused(String),
    /// The remote did not take the branch.
    #[error("could not push {branch} to {url}: {detail}")]
    Push {
        /// The repository, without credentials.
        url: String,
        /// The branch that was to be pushed.
        branch: String,
        /// The remote's reason, shortened.
        detail: String,
    },
    /// The `git` program is missing.
    #[error("git is not installed: install it and try again")]
    NoGit,
    /// The host's disk or the `git` program failed.
    #[error("{0}")]
    Io(String),
}

/// What is said of a git that did not end by itself; the number of the signal follows.
pub(crate) const KILLED: &str = "was killed by signal";

/// What is said of a login that a forge could not give now.
pub(crate) const LATER: &str = "it may work later";

/// What git and servers say when it is the network or the server's bad moment, and nobody's mistake.
const PASSING: [&str; 18] = [
    "Could not resolve host",
    "Failed to connect",
    "Couldn't connect",
    "Connection refused",
    "Connection reset",
    "onnection timed out",
    "peration timed out",
    "Network is unreachable",
    "early EOF",
    "hung up unexpectedly",
    "URL returned error: 5",
    // The words of git-lfs.
    "connection refused",
    "no such host",
    "i/o timeout",
    "Server error",
    "took longer than",
    KILLED,
    LATER,
];

impl Error {
    /// Whether the same may work a little later, without anybody's doing.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { detail, .. } | Self::Push { detail, .. } => {
                PASSING.iter().any(|sign| detail.contains(sign))
            }
            Self::NoBranch { .. } | Self::Empty { .. } | Self::Refused(_) | Self::NoGit | Self::Io(_) => {
                false
            }
        }
    }

    /// A failed file operation, with what was being done.
    pub(crate) fn io(doing: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::Io(format!("cannot {doing}: {error}"))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoGit => Self::NoGit,
            Failure::Start(_) | Failure::TimedOut { .. } | Failure::TooMuch { .. } => {
                Self::Io(failure.to_string())
            }
        }
    }
}
