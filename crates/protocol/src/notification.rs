//! What people and programs outside are told of a session: that a turn finished, or that it waits for a person.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Outcome, TurnId};

/// A notification on its way to the configured address; the whole of it each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Notification {
    /// Follows from what it tells of, so that it is the same however often it is sent.
    pub key: String,
    /// How far it is.
    pub state: NotificationState,
    /// What it tells of.
    pub kind: NotificationKind,
    /// The turn.
    pub turn: TurnId,
    /// The session's title.
    pub title: String,
    /// How the turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why the turn ended so, or what a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What a person must decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The branch that the turn delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The pull request, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// How often it was tried without success.
    #[serde(default)]
    pub attempts: u32,
    /// Why the last attempt did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a notification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NotificationState {
    /// It is to be sent.
    Intended,
    /// The receiver confirmed it.
    Sent,
    /// It was tried as often as may be, or refused.
    Failed,
}

/// What a notification tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum NotificationKind {
    /// A turn finished.
    #[serde(rename = "turn.finished")]
    TurnFinished,
    /// A turn waits for a person.
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
}
