//! What becomes of a session's branch outside: the push, and the pull request.

use serde::{Deserialize, Serialize};

use crate::{CommandId, PromptId, Timestamp};

/// Branch and commits on their way to the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// How far it is.
    pub state: DeliveryState,
    /// The directory of the workspace that the repository lies in; absent where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
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
    /// What people made of the pull request, once the forge told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<Review>,
}

impl Delivery {
    /// Whether the other is this one, but for what people made of it.
    pub fn differs_in_review_only(&self, other: &Self) -> bool {
        Self { review: None, ..self.clone() } == Self { review: None, ..other.clone() }
    }
}

/// What people made of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Review {
    /// What became of it.
    pub state: ReviewState,
    /// When that was, by the forge's clock. What comes later and is older changes nothing.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Whether it is marked as not ready for review.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
}

/// What became of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ReviewState {
    /// It is there to be merged.
    Open,
    /// Somebody decided against it.
    Closed,
    /// Its commits are in the base.
    Merged,
}

/// Something that is said below a pull request: that a prompt from there was taken, and what came of it. The whole of it each
/// time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reply {
    /// Follows from what it answers, so that it is the same however often it is sent.
    pub key: String,
    /// How far it is.
    pub state: ReplyState,
    /// The prompt that it belongs to.
    pub prompt: PromptId,
    /// Where the repository is, without credentials.
    pub remote: String,
    /// The pull request's number.
    pub number: u64,
    /// The thread that it goes into, as the forge names it; below the pull request itself when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What is said, in Markdown; empty as long as the turn is not over.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// How often it was tried without success.
    #[serde(default)]
    pub attempts: u32,
    /// Why the last attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ReplyState {
    /// It is said when the prompt's turn is over.
    Awaited,
    /// It is to be said.
    Intended,
    /// It is there.
    Sent,
    /// It was tried as often as may be, or refused.
    Failed,
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
