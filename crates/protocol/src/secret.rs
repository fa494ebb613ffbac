//! Secrets that the server keeps: they are set and removed by name, and a value never comes back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// `PUT /secrets/{name}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetSecret {
    /// The value: text of 1 to 65536 bytes without NUL.
    pub value: String,
}

impl fmt::Debug for SetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetSecret(…)")
    }
}

/// A secret as people may see it: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredSecret {
    /// Its name.
    pub name: String,
    /// When it was last set; absent when it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub set_at: Option<Timestamp>,
    /// Models that have it as their key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Environments whose sandboxes use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// Why it cannot be used, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// `GET /secrets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretList {
    /// By name: those that are set, and those that something wants and that are not.
    pub secrets: Vec<StoredSecret>,
}
