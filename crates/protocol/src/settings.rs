//! Who uses the server.

use serde::{Deserialize, Serialize};

/// Where a person is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PersonSource {
    /// The one who runs the server: its own token, or no token on its own machine.
    Local,
    /// A token of the configuration file.
    Config,
}

/// `GET /me`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Me {
    /// The name that everything is done under.
    pub name: String,
    /// Where it is from.
    pub source: PersonSource,
    /// Whether the server demands a token.
    pub needs_token: bool,
    /// Version of the program.
    pub version: String,
    /// Which server this is: another one, or the same one started again, has another.
    pub instance: String,
}

/// `GET /settings`: what the configuration says, as far as people may see it. Values of tokens and keys are not among it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settings {
    /// Whether the server demands a token.
    pub needs_token: bool,
    /// What turns and sessions may use where nobody says otherwise.
    pub budgets: crate::Budgets,
    /// Those who are known, by name.
    pub people: Vec<Person>,
    /// What addresses of the server's pages begin with, for links in pull requests; absent where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// Somebody who uses the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Person {
    /// The name that everything is done under.
    pub name: String,
    /// Whom their commits are by, such as `Ann Example <ann@example.com>`.
    pub author: String,
    /// Whether there is a token of their own.
    pub token: bool,
}

/// `POST /models/{name}/test`: what a model turned out to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelTest {
    /// Its name.
    pub model: String,
    /// Whether it can be used.
    pub works: bool,
    /// Why not, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the first piece of an answer took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// What it does and does not do, one sentence each.
    #[serde(default)]
    pub findings: Vec<ModelFinding>,
    /// What the test cost, as far as prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Lines for the model's part of the configuration that would fit it better.
    #[serde(default)]
    pub settings: Vec<String>,
}

/// One thing that a test found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelFinding {
    /// Whether it is as it should be.
    pub good: bool,
    /// What it is.
    pub text: String,
}
