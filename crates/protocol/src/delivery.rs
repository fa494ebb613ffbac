//! What becomes of a session's branch outside: the push, and the pull request.

use serde::{Deserialize, Serialize};

use crate::CommandId;

/// Branch and commits on their way to the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// How far it is.
    pub state: DeliveryState,
    /// The session's branch.
    pub branch: String,
    /// The commit at its tip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Where it goes, without credentials.
    pub remote: String,
    /// The pull request, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The pull request's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The command that asked for it, where it had an idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandId>,
}

/// How far a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DeliveryState {
    /// It is about to be pushed.
    Intended,
    /// The remote has the branch.
    Pushed,
    /// The remote has the branch, and its pull request is about to be opened.
    Opening,
    /// The pull request is there.
    Opened,
    /// It did not work.
    Failed,
    /// The push or the pull request was asked for, and nobody knows whether it is there.
    Unknown,
}

impl DeliveryState {
    /// Whether something is still to be done without being asked.
    pub fn is_pending(self) -> bool {
        match self {
            Self::Intended | Self::Opening => true,
            Self::Pushed | Self::Opened | Self::Failed | Self::Unknown => false,
        }
    }
}
