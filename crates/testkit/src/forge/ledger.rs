//! What the forge has and what it was asked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::server::On;

/// A request and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What was asked for.
    pub on: On,
    /// The query or the body.
    pub asked: Value,
    /// The header `Idempotency-Key`.
    pub key: Option<String>,
    /// The header with the signature.
    pub signature: Option<String>,
    /// The status that was decided on, also if it was never sent.
    pub status: u16,
    /// Whether something is there now that was not there before.
    pub acted: bool,
}

/// A pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// `owner/name` of its repository.
    pub repository: String,
    /// The branch with the work.
    pub branch: String,
    /// The branch that it goes into.
    pub base: String,
    /// The commit that it had when it was opened, or last while it was open.
    pub commit: String,
    /// Its title.
    pub title: String,
    /// Its body.
    pub body: String,
    /// Whether it is open.
    pub open: bool,
}

/// Everything that the forge has.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The directories of the repositories by `owner/name`.
    pub(super) repositories: BTreeMap<String, PathBuf>,
    pub(super) pull_requests: Vec<PullRequest>,
    /// Notifications by key, with how often each came.
    pub(super) received: BTreeMap<String, (Value, usize)>,
    pub(super) entries: Vec<Entry>,
    pub(super) violations: Vec<String>,
}
