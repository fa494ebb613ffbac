//! Pull requests: how an environment wants them, what a person can ask about one, and who signed in at a forge.

use serde::{Deserialize, Serialize};

use crate::event::ReviewState;

/// How an environment's pull requests are opened and looked after.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PullRequestRules {
    /// What its body is written from, in Markdown with parts such as `{what}` and `{checks}`; all parts in order when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Whether it is opened as a draft.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// Labels that it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Who is asked for a review, by the name that they have at the forge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// How often in a session a failed check of the forge becomes a prompt by itself; 0 for never.
    #[serde(skip_serializing_if = "is_zero")]
    pub fix_checks: u32,
}

impl PullRequestRules {
    /// Whether nothing is said, for leaving it out.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether it is never; serde gives a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// `GET /sessions/{id}/pull-request`: the pull request as the forge has it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PullRequest {
    /// The directory of the workspace that its repository lies in; absent where it is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Its number.
    pub number: u64,
    /// Where people look at it.
    pub url: String,
    /// What became of it.
    pub state: ReviewState,
    /// Whether it is marked as not ready for review.
    pub draft: bool,
    /// Its title.
    pub title: String,
    /// The branch with the work.
    pub branch: String,
    /// The commit at its tip.
    pub commit: String,
    /// The forge's own checks of that commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ForgeCheck>,
}

/// A check that the forge's own machinery made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForgeCheck {
    /// What it is called there.
    pub name: String,
    /// How far it is.
    pub state: ForgeCheckState,
    /// Where people read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How far a check of a forge is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ForgeCheckState {
    /// It went well, or does not count.
    Passed,
    /// It has no result yet.
    Pending,
    /// It did not go well.
    Failed,
}

impl ForgeCheckState {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Pending => "pending",
            Self::Failed => "failed",
        }
    }
}

/// `PATCH /sessions/{id}/pull-request`: what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EditPullRequest {
    /// Its new title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its new body, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Write the body anew from what the session is now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub describe: bool,
    /// Whether it is a draft.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<bool>,
    /// Labels that it gets beside those it has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Who else is asked for a review, by the name that they have at the forge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reviewers: Vec<String>,
    /// What is said below it, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Close it without merging it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
}

/// A forge at which whoever asks can sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForgeLogin {
    /// Its name in the configuration.
    pub forge: String,
    /// `github`, `gitlab` or `gitea`.
    pub kind: String,
    /// Where it is.
    pub url: String,
    /// Whether one signs in there with a code in a browser; otherwise with a token that was made there.
    pub device: bool,
    /// Who they are there, once they have signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
}

/// `GET /logins`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForgeLogins {
    /// The forges of the configuration, by name.
    pub logins: Vec<ForgeLogin>,
}

/// `PUT /logins/{forge}`: a token that was made at the forge.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetLogin {
    /// The token.
    pub token: String,
}

/// Answer to `POST /logins/{forge}/device`: the code that a person types in at the forge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceLogin {
    /// Names this attempt at `POST /logins/{forge}/device/{attempt}`.
    pub attempt: String,
    /// What is typed in.
    pub code: String,
    /// Where it is typed in.
    pub url: String,
    /// How long the code is good for.
    pub expires_s: u64,
    /// How long to wait between two looks whether it was typed in.
    pub interval_s: u64,
}

/// Answer to `POST /logins/{forge}/device/{attempt}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceState {
    /// Who they are at the forge, once the code was typed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// How long to wait before the next look.
    pub interval_s: u64,
}

impl std::fmt::Debug for SetLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SetLogin(…)")
    }
}

/// Answer to `POST /hooks/{forge}`: what was made of what the forge told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HookTaken {
    /// Whether something came of it.
    pub taken: bool,
    /// What, or why nothing did.
    pub what: String,
    /// The session that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<crate::SessionId>,
}
