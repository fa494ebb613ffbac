//! What a restore did.

use serde::{Deserialize, Serialize};

use crate::SessionId;

/// What a restore added, and what it left alone because it was there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RestoreReport {
    /// Sessions that were added.
    pub sessions: Vec<SessionId>,
    /// Sessions that were there already and stayed as they are.
    pub sessions_left: Vec<SessionId>,
    /// Environments that were added.
    pub environments: Vec<String>,
    /// Environments that were there already and stayed as they are.
    pub environments_left: Vec<String>,
    /// Repositories whose mirror was added, without credentials.
    pub mirrors: Vec<String>,
    /// Repositories whose mirror was there; it got the work that it did not have.
    pub mirrors_left: Vec<String>,
    /// Sessions whose log was damaged already when the backup was made: they go up to the damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<SessionId>,
    /// How many idempotency keys were added: what was done for one of these is not done again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keys: u64,
    /// Whether secrets here have other placeholders than where the backup was made. Those here stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placeholders_left: bool,
    /// Secrets that were added, still sealed: they are of use with the key that they were sealed with, which no backup has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Secrets that were there already and stayed as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets_left: Vec<String>,
    /// Those of the added secrets that cannot be opened with the key here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets_closed: Vec<String>,
    /// How many notes of the memory were added. Those that were there stay as they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
