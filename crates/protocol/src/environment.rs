//! An environment: the named recipe from which sandboxes are started. The same keys stand in `slipway.toml`, in a
//! repository's `.slipway.toml` and in the API.

use serde::{Deserialize, Serialize};

/// A named recipe: repositories, base, set-up steps and checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Environment {
    /// The repositories, first the main one.
    #[serde(default)]
    pub repos: Vec<Repo>,
    /// `host`; later `oci:NAME` or `tar:PATH`.
    #[serde(default = "Environment::default_base")]
    pub base: String,
    /// Commands that prepare the workspace, in order.
    #[serde(default)]
    pub setup: Vec<SetupStep>,
    /// Commands that must pass before a turn may finish `done`.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Name of the model used when none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent is told about this environment, beside the repository's own instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Environment {
    fn default_base() -> String {
        "host".to_owned()
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self {
            repos: Vec::new(),
            base: Self::default_base(),
            setup: Vec::new(),
            checks: Vec::new(),
            model: None,
            instructions: None,
        }
    }
}

/// A repository of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Repo {
    /// A URL or a path on the host.
    pub url: String,
    /// The branch that sessions start from; the remote's default branch when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// One command that prepares the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupStep {
    /// The shell command.
    pub run: String,
    /// Files whose content decides whether the step's result can be re-used.
    #[serde(default)]
    pub inputs: Vec<String>,
}

/// A command with a parser that must pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// A short name, such as `test`.
    pub name: String,
    /// The shell command; it passes when it exits with 0.
    pub run: String,
    /// Name of the parser, or `auto`.
    #[serde(default = "Check::default_parser")]
    pub parser: String,
}

impl Check {
    fn default_parser() -> String {
        "auto".to_owned()
    }
}
