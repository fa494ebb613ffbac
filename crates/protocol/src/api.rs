//! Bodies of the HTTP API under `/api/v1`.

use serde::{Deserialize, Serialize};

use crate::budget::Budgets;
use crate::event::Delivery;
use crate::usage::Spend;
use crate::{
    EditFormat, Environment, Event, LineageId, PromptId, SandboxId, SessionId, Timestamp, ToolMode, TurnId,
};

/// `POST /sessions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// Name of the environment.
    pub environment: String,
    /// What is to be done.
    pub prompt: String,
    /// Images that belong to the prompt, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<crate::ImageData>,
    /// Name of the model; the environment's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it may use. A limit that is absent is what the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
    /// Which calls of its model run, wait for a person, or are refused; beside what the environment says, never less strict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<crate::Policy>,
}

/// `PATCH /sessions/{id}`: what is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EditSession {
    /// Its new title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model that works from the next step on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// All that it may use from now on; a limit that is absent here is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
    /// The whole policy of the session from its next call on; an empty one for none. The environment's holds beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<crate::Policy>,
    /// Put it away, or bring it back. What goes on in it goes on, and a new prompt brings it back too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// `POST /sessions/{id}/prompts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatePrompt {
    /// What is to be done.
    #[serde(alias = "text")]
    pub prompt: String,
    /// Stop the turn under way and do this next.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// Images that belong to the prompt, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<crate::ImageData>,
}

/// `PATCH /sessions/{id}/prompts/{prompt}`: only while it waits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EditPrompt {
    /// Its new text.
    #[serde(default, alias = "text", skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Its new place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Place {
    /// The next to be worked on.
    First,
    /// After all others.
    Last,
    /// Right before this one.
    Before(PromptId),
}

/// `PUT /sessions/{id}/queue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetQueue {
    /// Whether waiting prompts stay where they are.
    pub paused: bool,
}

/// The prompts that wait: the answer to every change of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Queue {
    /// Whether they stay where they are.
    pub paused: bool,
    /// Why they stay, where a budget is used up, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The next one first.
    pub prompts: Vec<QueuedPrompt>,
}

/// `POST /sessions/{id}/stop`; the body may be left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StopSession {
    /// Pause the queue too, so that no waiting prompt begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pause: bool,
}

/// `POST /sessions/{id}/deliver`; the body may be left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliverSession {
    /// Push also what looks like a secret: whoever asks has seen that it is none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_secrets: bool,
}

/// `POST /sessions/{id}/approvals/{approval}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decide {
    /// Whether the work may go on.
    pub approved: bool,
    /// What the agent is told with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Run the call that waits with this input in place of what the model wrote. Only with an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Allow all of its kind for the rest of the session: the rules that the request names. Only with an approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// How an approval was decided: by whoever was first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// The approval.
    pub approval: crate::ApprovalId,
    /// Whether the work may go on.
    pub approved: bool,
    /// Who decided.
    pub by: String,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What waited for it.
    #[serde(default)]
    pub gate: crate::Gate,
    /// What the call is run with in place of what the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Whether all of its kind is allowed for the rest of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// An approval that somebody must give or refuse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PendingApproval {
    /// Its id.
    pub id: crate::ApprovalId,
    /// What is asked.
    pub question: String,
    /// What waits for it.
    pub gate: crate::Gate,
    /// Since when.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// The call that waits, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<crate::AskedCall>>,
    /// What was changed until then, since the session began; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Box<crate::DiffSummary>>,
}

/// Answer to `POST /sessions/{id}/prompts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromptCreated {
    /// The prompt's id.
    pub id: PromptId,
    /// Why its turn does not begin by itself, where a budget is used up, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// A session as lists and pages show it. Everything here is a fold over its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// A short title.
    pub title: String,
    /// Name of the environment.
    pub environment: String,
    /// Name of the model.
    pub model: String,
    /// The one status, the same word everywhere.
    pub status: Status,
    /// Why, where a sentence helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When its last event was appended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
    /// Sequence number of its last event.
    pub seq: u64,
    /// The lineage of its log. Send it back with `after`. Absent where an older version wrote the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<LineageId>,
    /// Tokens and money so far.
    pub spend: Spend,
    /// The same for each day and model, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<crate::Spent>,
    /// What of it the turn under way spent, or the last one.
    #[serde(default)]
    pub turn_spend: Spend,
    /// What it may use.
    #[serde(default)]
    pub budgets: Budgets,
    /// What of that is used.
    #[serde(default)]
    pub used: crate::BudgetUse,
    /// Prompts that wait.
    pub queued: Vec<QueuedPrompt>,
    /// Whether they stay there until somebody resumes the queue, or raises a budget that is used up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What somebody must decide before the turn goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
    /// Its own policy, beside the environment's.
    #[serde(default, skip_serializing_if = "crate::Policy::is_empty")]
    pub policy: crate::Policy,
    /// What people allowed for the rest of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<crate::PolicyRule>,
    /// The turn under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The last delivery; of several repositories the one that matters most: one that is under way, or did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The last delivery of each repository, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
    /// Whether a notification is still on its way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notifying: bool,
    /// The sandbox, while there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    /// The session and snapshot that it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The skills that it has, each at the revision that it had when the session began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<crate::PinnedSkill>,
    /// What lists show of it beside.
    #[serde(flatten)]
    pub listing: crate::Listing,
}

impl Session {
    /// The last delivery of each repository, however many there are.
    pub fn all_deliveries(&self) -> &[Delivery] {
        if self.deliveries.is_empty() { self.delivery.as_slice() } else { &self.deliveries }
    }
}

/// Where a session was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkedFrom {
    /// The session.
    pub session: SessionId,
    /// Its snapshot.
    pub snapshot: crate::SnapshotId,
}

/// A prompt that waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueuedPrompt {
    /// Its id.
    pub id: PromptId,
    /// Its text.
    pub text: String,
    /// Who asked.
    pub author: String,
    /// Who else wrote at its text, in the order in which they first did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub editors: Vec<String>,
    /// Its images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<crate::ImageFile>,
}

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Status {
    /// A prompt waits and no turn has begun.
    Queued,
    /// A turn is under way.
    Working,
    /// A person must decide.
    Waiting,
    /// The last turn finished and its checks passed.
    Done,
    /// The last turn needs a person to look.
    Escalated,
    /// The last turn broke.
    Failed,
    /// The last turn was stopped.
    Cancelled,
    /// The last turn used up its budget.
    OutOfBudget,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Escalated => "escalated",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::OutOfBudget => "out_of_budget",
        }
    }
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventPage {
    /// In order.
    pub events: Vec<Event>,
    /// Ask again with `after` set to this; equal to the last event's `seq`.
    pub next_after: u64,
    /// Whether more events are in the log now.
    pub more: bool,
    /// The lineage of the log. Send it back with `after`. Absent where the log is too damaged to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<LineageId>,
}

/// `GET /sessions/{id}/diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diff {
    /// The commit that the session began from.
    pub base: String,
    /// A unified diff from the base to the workspace as it is.
    pub patch: String,
    /// Files that differ.
    pub files: u32,
    /// Lines added.
    pub insertions: u32,
    /// Lines removed.
    pub deletions: u32,
}

/// Answer to `POST /sessions/{id}/stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stopped {
    /// The turn that is being stopped; absent when none was under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Whether a delivery is being stopped that belongs to no turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivery: bool,
}

/// `PUT /environments/{name}` takes an [`Environment`]; lists give it with its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamedEnvironment {
    /// Its name.
    pub name: String,
    /// Where it is written down.
    pub source: EnvironmentSource,
    /// How far its image is, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<crate::ImageStatus>,
    /// The recipe.
    #[serde(flatten)]
    pub recipe: Environment,
}

/// Where an environment is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EnvironmentSource {
    /// In `slipway.toml`; edit it there.
    Config,
    /// In the catalogue; made by `env add` or the API.
    Catalogue,
}

/// `GET /environments`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnvironmentList {
    /// By name.
    pub environments: Vec<NamedEnvironment>,
}

/// A configured model, without its key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// The name used in `--model`.
    pub name: String,
    /// Such as `anthropic`, `openai` or `openai-compatible`.
    pub provider: String,
    /// The provider's own name of the model.
    pub model: String,
    /// Whether it is used when none is asked for.
    pub default: bool,
    /// Whether there is a key for it, or it needs none.
    #[serde(default)]
    pub key: bool,
    /// Tokens that it can read and write in one call; 0 where an older version does not tell.
    #[serde(default)]
    pub context: u64,
    /// Whether that number is a cautious guess.
    #[serde(default)]
    pub context_assumed: bool,
    /// Most tokens of one answer; 0 where an older version does not tell.
    #[serde(default)]
    pub max_output: u32,
    /// How it is made to act.
    #[serde(default)]
    pub tool_mode: ToolMode,
    /// How it changes files.
    #[serde(default)]
    pub edit_format: EditFormat,
    /// Whether it sees images; one that does not is told of them in words.
    #[serde(default)]
    pub images: bool,
    /// How long it may send nothing before a call of it is given up; 0 where an older version does not tell.
    #[serde(default)]
    pub idle_ms: u64,
    /// What it costs; absent where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<ModelPrice>,
    /// The models that take over, in order, when it fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The tasks that the configuration gives to it, such as `title`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
}

/// Dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelPrice {
    /// Of the prompt.
    pub input: f64,
    /// Of the answer and of reasoning.
    pub output: f64,
    /// Of prompt tokens read from a cache; like `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Of prompt tokens written to a cache; like `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// `GET /models`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// By name.
    pub models: Vec<Model>,
}

/// `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always `ok` when it answers.
    pub status: String,
    /// Version of the program.
    pub version: String,
    /// Which server this is: another one, or the same one started again, has another.
    #[serde(default)]
    pub instance: String,
}

/// `GET /spend`: what all sessions spent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SpendReport {
    /// All of it.
    pub total: Spend,
    /// For each day and model, oldest first.
    pub spent: Vec<crate::Spent>,
}
