//! How a model's context became shorter, as the log keeps it.

use serde::{Deserialize, Serialize};

use crate::TurnId;

/// How the model's context became shorter. With the events before it, this says exactly what the model is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Compaction {
    /// The turn.
    pub turn: TurnId,
    /// What was done.
    pub level: CompactionLevel,
    /// What began with this event or later stays as it is; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<u64>,
    /// The most bytes that each of the last results has, which the model had not read yet and which were too long together;
    /// absent when they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<u64>,
    /// What the model reads in place of what came before; absent when only outputs were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Tokens of the context before, as far as they can be told.
    pub tokens_before: u64,
    /// The same afterwards.
    pub tokens_after: u64,
}

/// How much of a context is given up; each level gives up more than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CompactionLevel {
    /// Old outputs of tools are left out.
    Masked,
    /// The older part became a summary.
    Summarised,
    /// All of it was left behind: the model begins again with the prompt and the state of the work.
    Fresh,
}
