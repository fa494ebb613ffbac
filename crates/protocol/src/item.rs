//! Items: the things a conversation is made of. Events are few; the variety is here.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::picture::ImageFile;
use crate::report::{Changes, Report};
use crate::{ItemId, NoteId, PromptId};

/// One thing in the conversation. `item.completed` carries the whole item; what came before it was provisional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Item {
    /// Its id.
    pub id: ItemId,
    /// Where it is in its life.
    pub status: ItemStatus,
    /// What it is.
    #[serde(flatten)]
    pub kind: ItemKind,
}

impl ItemKind {
    /// Something the platform tells the model.
    pub fn notice(text: impl Into<String>) -> Self {
        Self::Notice { text: text.into(), notes: Vec::new() }
    }
}

/// Where an item is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ItemStatus {
    /// Work on it goes on.
    InProgress,
    /// It ended as it should.
    Completed,
    /// It ended with an error.
    Failed,
    /// The server or the sandbox went away in the middle; its effects may be partial.
    Interrupted,
    /// A person stopped it.
    Cancelled,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ItemKind {
    /// What a person asked.
    Prompt {
        /// The prompt.
        prompt: PromptId,
        /// Its text.
        text: String,
        /// Its images.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageFile>,
    },
    /// What the model says.
    Message {
        /// The text so far, or the whole text when completed.
        text: String,
    },
    /// What the model thinks.
    Reasoning {
        /// The text.
        text: String,
        /// The provider's signature, needed to send the reasoning back to it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool the model called.
    ToolCall(ToolCall),
    /// A check that was run.
    Report(CheckReport),
    /// Something the platform tells the model, such as a nudge or an interruption.
    Notice {
        /// The text.
        text: String,
        /// The notes of the memory that it gives the model.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
        notes: Vec<NoteId>,
    },
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCall {
    /// The model's own id of the call.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments; a string when the model's JSON was broken.
    pub input: Value,
    /// When it is ended, in milliseconds after it began to run; absent where nothing ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// What came out, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The exit code, for commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How long the turn had been under way when it ended, without the time in which it waited for a person or no server ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    /// The process in the background that it started or looked after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<BackgroundProcess>,
    /// What it cost of the model's tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// What hooks did to it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<crate::HookRun>,
}

/// A command that runs in the background, as a call left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BackgroundProcess {
    /// What the model calls it: `p1`, `p2`, ….
    pub id: String,
    /// The call that started it.
    pub item: ItemId,
    /// Bytes of its output so far that the model was given, or told that they are missing.
    pub seen: u64,
    /// Whether it still ran.
    pub running: bool,
}

/// What a call has of the tokens of its turn. Estimated: models report tokens for whole answers and requests only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Share {
    /// Of the tokens of the answer that made it, those that its name and arguments were.
    pub written: u64,
    /// Tokens that its result adds to the next request, once it has one.
    #[serde(default)]
    pub read: u64,
    /// What both cost in dollars, where the model's price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Text output of a tool or check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Output {
    /// The text as the model sees it: whole, or head and tail.
    pub text: String,
    /// Bytes of the whole output.
    pub bytes: u64,
    /// Name of the file beside the log that holds more of the output, when it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// What the model sees with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageFile>,
}

/// A check that was run, with its parsed report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckReport {
    /// The check's name.
    pub check: String,
    /// Its command.
    pub command: String,
    /// When it is ended, in milliseconds after it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Whether it passed; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The exit code; absent while it runs and when it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What its output says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// What is new, fixed and left since the check ran before, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Whether only the part of the check was run that the changed files touch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}
