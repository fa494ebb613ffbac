//! What a team brings to a session: skills, with the revision that a session uses, and hooks, with what each did to a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where skills of an environment come from: a git repository at a revision, or a directory of the server's machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SkillSource {
    /// A git repository: a URL, or a path on the server's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A commit, a branch or a tag of the repository; its default branch when absent. What it names when a session begins is
    /// what that session uses to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// A directory on the server's machine, instead of a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The folder in it that has the skills, each in a folder of its own; the root when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// A skill that a session has, as it was when the session began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PinnedSkill {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Where it is from: `repository`, or the address or directory of the environment's source.
    pub source: String,
    /// Its folder there.
    pub folder: String,
    /// The commit it was taken from; absent for a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What is in its folder: git's id of it, or a sum of a directory's files.
    pub tree: String,
    /// Where its files are in the sandbox.
    pub place: String,
}

/// A program in the sandbox that is asked before a call of the model, or shown it afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hook {
    /// When it is run.
    pub on: HookPoint,
    /// The tools it is for: names with `|` between them; `*` stands for any part of a name.
    pub tool: String,
    /// The shell command. It is run in the workspace with the call as JSON on its input.
    pub run: String,
    /// Wall-clock limit in seconds; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<u64>,
}

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HookPoint {
    /// Before the call: it can veto or rewrite it.
    Before,
    /// After the call: it can replace what the model reads, or add to it.
    After,
}

/// What a hook did to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HookRun {
    /// When it was run.
    pub on: HookPoint,
    /// Its command.
    pub run: String,
    /// What it did.
    pub did: HookDeed,
    /// Why, as it said itself, or how it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments before it rewrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// How long it took.
    pub duration_ms: u64,
}

/// What a hook can do to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum HookDeed {
    /// It let it be.
    Passed,
    /// It vetoed the call, or failed before it, which counts as a veto.
    Vetoed,
    /// It gave the call other arguments.
    Rewrote,
    /// It replaced what the model reads.
    Replaced,
    /// It added to what the model reads.
    Added,
    /// It failed after the call, and the result is as it was.
    Failed,
}

impl HookDeed {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Vetoed => "vetoed",
            Self::Rewrote => "rewrote",
            Self::Replaced => "replaced",
            Self::Added => "added",
            Self::Failed => "failed",
        }
    }
}
