//! How a model is worked with: how it calls tools, and how it changes files. What suits a frontier model is too much for
//! a small one, so each model has a profile.

use serde::{Deserialize, Serialize};

/// How a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ToolMode {
    /// With the calls of its provider's format.
    #[default]
    Native,
    /// With one JSON object for each step, held to a schema.
    JsonStep,
    /// With whole files and commands in fenced blocks, in a fresh context for each round.
    Fenced,
}

impl ToolMode {
    /// The word in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::JsonStep => "json_step",
            Self::Fenced => "fenced",
        }
    }
}

/// How a model changes files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EditFormat {
    /// With a patch of one or more files.
    Patch,
    /// By replacing a piece of text.
    #[default]
    Replace,
    /// By writing the whole file.
    Whole,
}

impl EditFormat {
    /// The word in configurations.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Patch => "patch",
            Self::Replace => "replace",
            Self::Whole => "whole",
        }
    }
}
