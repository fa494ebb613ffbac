//! What people look at before work goes out: where its sandboxes connected to, and what would be delivered.

use serde::{Deserialize, Serialize};

use crate::event::Delivery;
use crate::{Problem, Timestamp};

/// `GET /sessions/{id}/egress`: where the session's sandboxes wanted to connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressLog {
    /// The last used first.
    pub hosts: Vec<EgressHost>,
    /// Whether there were more than are remembered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// What was decided for a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressHost {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The rule that decided, or why it was refused.
    pub rule: String,
    /// How many connections.
    pub connections: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// The first time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub first_at: Timestamp,
    /// The last time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_at: Timestamp,
}

/// `GET /sessions/{id}/delivery`: what a delivery would do now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryPreview {
    /// The session's branch; empty before it has one.
    pub branch: String,
    /// The branch that it is to be merged into.
    pub base: String,
    /// Where it goes, without credentials.
    pub remote: String,
    /// The commit that would be pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Title of the pull request.
    pub title: String,
    /// Its text, in Markdown.
    pub body: String,
    /// Whether a pull request is opened with it, or only the branch is pushed.
    pub pull_request: bool,
    /// Why nothing can be delivered now, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The last delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}
