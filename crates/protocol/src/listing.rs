//! What a list of sessions shows of each, how it is asked for, and how many there are of each kind.

use serde::{Deserialize, Serialize};

use crate::{Session, Status, Timestamp};

/// Where a session stands in the inbox. It follows from the session, and is the same everywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionGroup {
    /// A person must do something: decide, look, give more, or resume.
    NeedsYou,
    /// Work is under way or about to be.
    Working,
    /// Nothing is left to do.
    #[default]
    Finished,
}

impl SessionGroup {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Working => "working",
            Self::Finished => "finished",
        }
    }
}

/// Where a session came from, as whoever made it said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SessionOrigin {
    /// A program that did not say more.
    #[default]
    Api,
    /// The web app.
    Web,
    /// The command line.
    Cli,
    /// A thread in Slack.
    Slack,
    /// A pull request, an issue or a comment.
    Forge,
    /// The browser's extension.
    Extension,
    /// Another agent.
    Agent,
}

impl SessionOrigin {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Api, Self::Web, Self::Cli, Self::Slack, Self::Forge, Self::Extension, Self::Agent];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Web => "web",
            Self::Cli => "cli",
            Self::Slack => "slack",
            Self::Forge => "forge",
            Self::Extension => "extension",
            Self::Agent => "agent",
        }
    }

    /// Whether nobody said more, for leaving it out.
    pub fn is_api(&self) -> bool {
        *self == Self::Api
    }
}

/// Somebody who asked for something in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionAuthor {
    /// Their name.
    pub name: String,
    /// How many prompts are theirs.
    pub prompts: u32,
    /// When the last of them came.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_prompt_at: Timestamp,
}

/// How much is different.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeCounts {
    /// Files.
    pub files: u32,
    /// Lines added.
    pub insertions: u32,
    /// Lines removed.
    pub deletions: u32,
}

/// What a list shows beside what pages do. Absent where an older version wrote it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Listing {
    /// Where it stands in the inbox.
    pub group: SessionGroup,
    /// Where it came from.
    pub origin: SessionOrigin,
    /// The session that it belongs to: of a fork, the one that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<crate::SessionId>,
    /// The branch that it began from; absent where that is the repository's own default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its own branch, once it was on its way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Who asked for something, the first one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authors: Vec<SessionAuthor>,
    /// Whether it was put away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// When the turn under way began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub turn_started_at: Option<Timestamp>,
    /// When the last turn ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
    /// How long the last turn that ended took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// When a turn was done for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub done_at: Option<Timestamp>,
    /// What differs from where it began, as the last turn left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
    /// The last result of each check of the turn under way, or of the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<crate::event::CheckOutcome>,
    /// When its branch first reached the remote.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub delivered_at: Option<Timestamp>,
    /// When its pull request was opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub opened_at: Option<Timestamp>,
    /// When its pull request was merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub merged_at: Option<Timestamp>,
    /// When its pull request was closed without being merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub closed_at: Option<Timestamp>,
}

/// Which sessions; all that are not archived where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Words that must all occur in the title or a prompt, whatever their case.
    pub q: Option<String>,
    /// Only this part of the inbox.
    pub group: Option<SessionGroup>,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those of this environment.
    pub environment: Option<String>,
    /// Only those that this model works on.
    pub model: Option<String>,
    /// Only those in which this person asked for something.
    pub author: Option<String>,
    /// Only those that came from there.
    pub origin: Option<SessionOrigin>,
    /// Only those that belong to this session.
    pub parent: Option<crate::SessionId>,
    /// Whether those that were put away are among them.
    pub archived: Archived,
    /// Most sessions of the page, up to 1000.
    pub limit: Option<usize>,
    /// Where the page begins: `next_cursor` of the one before it.
    pub cursor: Option<String>,
}

/// Whether sessions that were put away are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Archived {
    /// Only the others.
    #[default]
    False,
    /// Only those.
    True,
    /// All of them.
    All,
}

/// How many sessions there are in each part of the inbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupCounts {
    /// Those that need a person.
    pub needs_you: u64,
    /// Those that are worked on.
    pub working: u64,
    /// The rest.
    pub finished: u64,
}

/// `GET /sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionList {
    /// The last changed first.
    pub sessions: Vec<Session>,
    /// Ask again with this as `cursor` for those that come after them; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How many there are in each part of the inbox, whichever part and page was asked for.
    #[serde(default)]
    pub counts: GroupCounts,
}
