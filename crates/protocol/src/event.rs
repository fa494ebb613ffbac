//! Events. Durable ones have a gap-free sequence number and are in the log before anyone sees them; ephemeral ones
//! are never stored. A small set of types named `noun.verbed`; the variety is in the items.

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetWarning, Budgets};
pub use crate::compaction::{Compaction, CompactionLevel};
use crate::item::{Item, ItemStatus};
use crate::mistake::{Mistake, Mistakes};
use crate::report::{KnownCheck, Weakening};
use crate::usage::{Spend, Usage};
use crate::{
    ApprovalId, Code, CommandId, ItemId, LineageId, PromptId, SandboxId, SessionId, SnapshotId, Timestamp,
    TurnId,
};

pub use crate::delivery::{Delivery, DeliveryState, Reply, ReplyState, Review, ReviewState};
pub use crate::ephemeral::{Channel, Ephemeral, EphemeralBody};
pub use crate::machine::{EgressDecision, LimitKind, SandboxState, ServiceState};

/// A durable event with its envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Version of the envelope.
    pub v: u8,
    /// The session.
    pub session: SessionId,
    /// Place in the session's log: 1, 2, 3, … without a gap.
    pub seq: u64,
    /// When it was appended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Who caused it.
    pub actor: Actor,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// Who caused something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    /// What kind of actor.
    pub kind: ActorKind,
    /// A user's id or name, the model's name, or the part of the system.
    pub id: String,
}

impl Actor {
    /// A person.
    pub fn user(id: impl Into<String>) -> Self {
        Self { kind: ActorKind::User, id: id.into() }
    }

    /// The agent, with its model's name.
    pub fn agent(id: impl Into<String>) -> Self {
        Self { kind: ActorKind::Agent, id: id.into() }
    }

    /// The platform.
    pub fn system() -> Self {
        Self { kind: ActorKind::System, id: "slipway".to_owned() }
    }
}

/// Kinds of actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ActorKind {
    /// A person.
    User,
    /// The agent.
    Agent,
    /// The platform.
    System,
}

/// What happened, durably.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EventBody {
    /// The session exists. Always the first event.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// Name of the environment.
        environment: String,
        /// The recipe as it was when the session was made; later edits of the environment do not reach in here.
        recipe: Box<crate::Environment>,
        /// A short title.
        title: String,
        /// Name of the model.
        model: String,
        /// Where it was forked from; the events of that session up to there follow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<crate::ForkedFrom>,
        /// What its turns and all of it may use.
        #[serde(default, skip_serializing_if = "Budgets::is_unlimited")]
        budgets: Budgets,
        /// Where it came from, as whoever made it said.
        #[serde(default, skip_serializing_if = "crate::SessionOrigin::is_api")]
        origin: crate::SessionOrigin,
    },
    /// Lists show it no more, unless they are asked for what was put away. What goes on in it goes on.
    #[serde(rename = "session.archived")]
    SessionArchived {
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// Lists show it again.
    #[serde(rename = "session.unarchived")]
    SessionUnarchived {
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// The title changed.
    #[serde(rename = "session.renamed")]
    SessionRenamed {
        /// The new title.
        title: String,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// Another model works from here on.
    #[serde(rename = "model.changed")]
    ModelChanged {
        /// Its name.
        model: String,
        /// The one before it.
        from: String,
        /// Only for the rest of this turn, because the one before it failed; for good when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
        /// Why, where nobody asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// The session may use more or less.
    #[serde(rename = "budget.changed")]
    BudgetChanged {
        /// What it may use now; not what is added.
        budgets: Budgets,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// Most of a budget is used. Comes once for each limit that is neared; again when it was raised and is neared again.
    #[serde(rename = "budget.warned")]
    BudgetWarned(BudgetWarning),
    /// The log was put back from a backup, in which it ended before this event. What followed there is not what follows
    /// here.
    #[serde(rename = "session.restored")]
    SessionRestored {
        /// The log's lineage from here on.
        lineage: LineageId,
    },
    /// A prompt waits for its turn.
    #[serde(rename = "prompt.queued")]
    PromptQueued {
        /// Its id.
        prompt: PromptId,
        /// Its text.
        text: String,
        /// It comes before all others that wait, and the turn under way is stopped for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
        /// Its images. They stay when it is edited.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<crate::ImageFile>,
    },
    /// A waiting prompt was changed.
    #[serde(rename = "prompt.edited")]
    PromptEdited {
        /// Its id.
        prompt: PromptId,
        /// Its new text.
        text: String,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// A waiting prompt was taken out of the queue.
    #[serde(rename = "prompt.removed")]
    PromptRemoved {
        /// Its id.
        prompt: PromptId,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// A waiting prompt has another place in the queue.
    #[serde(rename = "prompt.moved")]
    PromptMoved {
        /// Its id.
        prompt: PromptId,
        /// The prompt that it comes before; the last place when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<PromptId>,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// Waiting prompts stay where they are until the queue is resumed.
    #[serde(rename = "queue.paused")]
    QueuePaused {
        /// Why.
        reason: String,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// The queue goes on.
    #[serde(rename = "queue.resumed")]
    QueueResumed {
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// Work on a prompt began.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// The prompt it works on.
        prompt: PromptId,
    },
    /// Somebody stopped the turn: no more work is begun, and `turn.finished` follows.
    #[serde(rename = "turn.stopping")]
    TurnStopping {
        /// The turn.
        turn: TurnId,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// The turn is over. Comes exactly once for each turn.
    #[serde(rename = "turn.finished")]
    TurnFinished {
        /// The turn.
        turn: TurnId,
        /// How it ended.
        outcome: Outcome,
        /// Why, in a sentence, unless it is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What was done.
        receipt: Receipt,
    },
    /// An item came into being. It comes once more for a call that waited for a person, when that begins to run, with what it
    /// is run with.
    #[serde(rename = "item.started")]
    ItemStarted {
        /// The turn it belongs to.
        turn: TurnId,
        /// The item.
        item: Item,
    },
    /// An item is final.
    #[serde(rename = "item.completed")]
    ItemCompleted {
        /// The turn it belongs to.
        turn: TurnId,
        /// The whole item.
        item: Item,
    },
    /// A person must decide before the turn goes on.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// The approval.
        approval: ApprovalId,
        /// The turn that waits.
        turn: TurnId,
        /// What is asked.
        question: String,
        /// What waits for it.
        #[serde(default)]
        gate: crate::Gate,
        /// The call that waits, where it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<Box<crate::AskedCall>>,
        /// What was changed until then, since the session began; absent where that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<Box<crate::DiffSummary>>,
    },
    /// A person decided.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// The approval.
        approval: ApprovalId,
        /// Whether the work may go on.
        approved: bool,
        /// What the person said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// What the call is run with in place of what the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<serde_json::Value>,
        /// Whether all of its kind is allowed for the rest of the session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        all: bool,
    },
    /// The session's own policy is another one. What people allowed for the rest of the session stays allowed.
    #[serde(rename = "policy.changed")]
    PolicyChanged {
        /// The whole policy.
        policy: crate::Policy,
        /// The command that did it, where it had an idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<CommandId>,
    },
    /// The plan changed.
    #[serde(rename = "plan.updated")]
    PlanUpdated {
        /// The turn.
        turn: TurnId,
        /// The whole plan.
        items: Vec<PlanItem>,
    },
    /// A model call used this much.
    #[serde(rename = "usage.recorded")]
    UsageRecorded {
        /// The turn.
        turn: TurnId,
        /// The step, from 1; 0 for a call that is no step of the work, such as one for a summary or a title.
        step: u32,
        /// The model's name in our configuration.
        model: String,
        /// Tokens.
        usage: Usage,
        /// Price in dollars, when it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// From sending the request to the first byte of the answer.
        first_token_ms: u64,
        /// From sending the request to the last byte of the answer.
        duration_ms: u64,
        /// How long the turn had been under way then, without the time in which it waited for a person or no server ran.
        #[serde(default)]
        elapsed_ms: u64,
    },
    /// What the model is sent of the conversation became shorter. The log keeps everything.
    #[serde(rename = "context.compacted")]
    ContextCompacted(Compaction),
    /// Something failed and is tried again.
    #[serde(rename = "retry.scheduled")]
    RetryScheduled {
        /// The turn.
        turn: TurnId,
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How many attempts there are at most.
        attempts: u32,
        /// Why.
        reason: String,
        /// Wait before it.
        delay_ms: u64,
        /// When it comes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
        wake_at: Option<Timestamp>,
    },
    /// The work passed every check, and was the same before and after they ran. Work that is as it was then, and was
    /// handed over, is not checked again.
    #[serde(rename = "checks.passed")]
    ChecksPassed {
        /// The turn.
        turn: TurnId,
        /// Git's id of the tree of files that was checked.
        tree: String,
        /// The tree with what the checks left behind, which is not delivered; absent where that is the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left: Option<String>,
        /// The checks; none where the session has none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<String>,
    },
    /// A model that had no part in the work read it, after its checks passed and before it was handed over.
    #[serde(rename = "work.judged")]
    WorkJudged {
        /// The turn.
        turn: TurnId,
        /// What it found.
        #[serde(flatten)]
        judgement: Judgement,
    },
    /// What the checks said before the turn changed anything, known from where the session began: they were run once on the
    /// environment's image, which is of the same commit. Recorded when a check is first run in the turn.
    #[serde(rename = "checks.known")]
    ChecksKnown {
        /// The turn.
        turn: TurnId,
        /// The commit.
        commit: String,
        /// The checks of which something is known.
        checks: Vec<KnownCheck>,
    },
    /// The model did something that could not be used. It was told, and it is counted.
    #[serde(rename = "mistake.made")]
    MistakeMade {
        /// The turn.
        turn: TurnId,
        /// What it did.
        mistake: Mistake,
    },
    /// The sandbox is in another state.
    #[serde(rename = "sandbox.changed")]
    SandboxChanged {
        /// The sandbox.
        sandbox: SandboxId,
        /// The new state.
        state: SandboxState,
        /// Why, or how long it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// How long the change took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        /// When what goes on now is ended, in milliseconds from here; absent where nothing ends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_ms: Option<u64>,
    },
    /// The workspace was frozen.
    #[serde(rename = "snapshot.taken")]
    SnapshotTaken {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The turn after which it was taken.
        turn: TurnId,
        /// Bytes that it holds beside what others hold too.
        #[serde(default)]
        bytes: u64,
        /// How long taking it took.
        #[serde(default)]
        duration_ms: u64,
        /// Whether a process that could not be stopped may have written meanwhile. Then its files can be of different
        /// moments.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        blurred: bool,
    },
    /// Connections out of the sandbox were allowed or refused. One event tells of all of one kind within a short time.
    #[serde(rename = "egress.decided")]
    EgressDecided(EgressDecision),
    /// The sandbox came to one of its limits.
    #[serde(rename = "limit.exceeded")]
    LimitExceeded {
        /// The sandbox.
        sandbox: SandboxId,
        /// Which limit.
        limit: LimitKind,
        /// What happened and how to raise it.
        message: String,
    },
    /// A service of the sandbox ended by itself, or runs again.
    #[serde(rename = "service.changed")]
    ServiceChanged {
        /// The sandbox.
        sandbox: SandboxId,
        /// Its name.
        service: String,
        /// How it is now.
        state: ServiceState,
        /// How it ended, with the end of its output; or what is done about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The branch moved on its way to the remote.
    #[serde(rename = "delivery.updated")]
    DeliveryUpdated(Delivery),
    /// A notification moved on its way to whoever is told.
    #[serde(rename = "notification.updated")]
    NotificationUpdated(crate::Notification),
    /// What is said below a pull request came this far.
    #[serde(rename = "reply.updated")]
    ReplyUpdated(Reply),
    /// The tools of MCP servers that the turn offers from here on, all of them. They stay as they are until the next such
    /// event, whatever the servers offer meanwhile.
    #[serde(rename = "tools.listed")]
    ToolsListed {
        /// The turn.
        turn: TurnId,
        /// The tools, in the order in which the model has them; empty where they are as before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<crate::McpTool>,
        /// Servers that the turn does without.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        missing: Vec<crate::McpMissing>,
        /// The tools are those of the last such event that had any.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        as_before: bool,
    },
    /// Something was remembered or forgotten.
    #[serde(rename = "memory.changed")]
    MemoryChanged {
        /// What.
        text: String,
        /// What became of a note that was to be remembered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remembered: Option<crate::Remembered>,
    },
    /// The skills that the session has from here on, each at one revision.
    #[serde(rename = "skills.pinned")]
    SkillsPinned {
        /// The skills, in the order in which the model is told of them.
        skills: Vec<crate::PinnedSkill>,
    },
    /// Something went wrong that a person should know of.
    #[serde(rename = "error.raised")]
    ErrorRaised {
        /// A stable code.
        code: Code,
        /// What happened.
        message: String,
        /// What to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

impl EventBody {
    /// The command that caused it, where that had an idempotency key and is told by the event.
    pub fn command(&self) -> Option<CommandId> {
        match self {
            Self::PromptEdited { command, .. }
            | Self::PromptRemoved { command, .. }
            | Self::PromptMoved { command, .. }
            | Self::QueuePaused { command, .. }
            | Self::QueueResumed { command }
            | Self::SessionRenamed { command, .. }
            | Self::SessionArchived { command }
            | Self::SessionUnarchived { command }
            | Self::ModelChanged { command, .. }
            | Self::BudgetChanged { command, .. }
            | Self::PolicyChanged { command, .. }
            | Self::TurnStopping { command, .. } => *command,
            Self::DeliveryUpdated(delivery) => delivery.command,
            _ => None,
        }
    }

    /// The type's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionCreated { .. } => "session.created",
            Self::SessionRenamed { .. } => "session.renamed",
            Self::SessionRestored { .. } => "session.restored",
            Self::SessionArchived { .. } => "session.archived",
            Self::SessionUnarchived { .. } => "session.unarchived",
            Self::ModelChanged { .. } => "model.changed",
            Self::BudgetChanged { .. } => "budget.changed",
            Self::BudgetWarned(_) => "budget.warned",
            Self::PromptQueued { .. } => "prompt.queued",
            Self::PromptEdited { .. } => "prompt.edited",
            Self::PromptRemoved { .. } => "prompt.removed",
            Self::PromptMoved { .. } => "prompt.moved",
            Self::QueuePaused { .. } => "queue.paused",
            Self::QueueResumed { .. } => "queue.resumed",
            Self::TurnStarted { .. } => "turn.started",
            Self::TurnStopping { .. } => "turn.stopping",
            Self::TurnFinished { .. } => "turn.finished",
            Self::ItemStarted { .. } => "item.started",
            Self::ItemCompleted { .. } => "item.completed",
            Self::ApprovalRequested { .. } => "approval.requested",
            Self::ApprovalResolved { .. } => "approval.resolved",
            Self::PolicyChanged { .. } => "policy.changed",
            Self::PlanUpdated { .. } => "plan.updated",
            Self::UsageRecorded { .. } => "usage.recorded",
            Self::ContextCompacted(_) => "context.compacted",
            Self::RetryScheduled { .. } => "retry.scheduled",
            Self::ChecksPassed { .. } => "checks.passed",
            Self::WorkJudged { .. } => "work.judged",
            Self::ChecksKnown { .. } => "checks.known",
            Self::MistakeMade { .. } => "mistake.made",
            Self::SandboxChanged { .. } => "sandbox.changed",
            Self::SnapshotTaken { .. } => "snapshot.taken",
            Self::EgressDecided(_) => "egress.decided",
            Self::LimitExceeded { .. } => "limit.exceeded",
            Self::ServiceChanged { .. } => "service.changed",
            Self::DeliveryUpdated(_) => "delivery.updated",
            Self::NotificationUpdated(_) => "notification.updated",
            Self::ReplyUpdated(_) => "reply.updated",
            Self::MemoryChanged { .. } => "memory.changed",
            Self::SkillsPinned { .. } => "skills.pinned",
            Self::ToolsListed { .. } => "tools.listed",
            Self::ErrorRaised { .. } => "error.raised",
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// The work is finished and every check passed.
    Done,
    /// The agent could not get the checks to pass, or needs a person.
    Escalated,
    /// A person stopped it.
    Cancelled,
    /// Something broke that was not the agent's work.
    Failed,
    /// The budget was used up.
    OutOfBudget,
}

impl Outcome {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Escalated => "escalated",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::OutOfBudget => "out_of_budget",
        }
    }
}

/// What a turn did, written when it finishes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    /// Steps taken: model calls whose answer was used.
    pub steps: u32,
    /// Tool calls that ran to their end.
    pub tools_completed: u32,
    /// Tool calls that were asked for and did not run, or were broken off.
    #[serde(default)]
    pub tools_skipped: u32,
    /// Files that differ from the base.
    #[serde(default)]
    pub files_changed: u32,
    /// Lines added.
    #[serde(default)]
    pub insertions: u32,
    /// Lines removed.
    #[serde(default)]
    pub deletions: u32,
    /// The commit that holds the work as the turn left it; absent where nothing was ever kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What ran to its end, in order, where the turn is not done; the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<Work>,
    /// What was asked for and did not run, or was broken off; the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Work>,
    /// The last result of each check of this turn: name and whether it passed.
    #[serde(default)]
    pub checks: Vec<CheckOutcome>,
    /// Where the turn's changes make checks say less; the first fifty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<Weakening>,
    /// What the model for judgements found last, where the configuration names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// How often the model did something that could not be used.
    #[serde(default, skip_serializing_if = "Mistakes::is_empty")]
    pub mistakes: Mistakes,
    /// Tokens and money of this turn.
    pub spend: Spend,
    /// How long it was under way, without the time in which it waited for a person or no server ran.
    pub duration_ms: u64,
    /// Time in model calls.
    #[serde(default)]
    pub model_ms: u64,
    /// Time in tools and checks.
    #[serde(default)]
    pub tools_ms: u64,
}

/// What a model that had no part in some work says of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Judgement {
    /// The model's name in our configuration.
    pub model: String,
    /// In one word.
    pub verdict: Verdict,
    /// Why, in a few sentences.
    pub words: String,
}

/// Whether work does what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Verdict {
    /// It does.
    Good,
    /// Something is missing, wrong, or was not asked for.
    Doubtful,
}

/// A piece of a turn's work, for its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Work {
    /// The item.
    pub item: ItemId,
    /// What it is, in a few words: the tool with its command or file, or the check.
    pub what: String,
    /// How it ended.
    pub status: ItemStatus,
}

/// The last result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckOutcome {
    /// The check's name.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
}

/// One line of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanItem {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// How far a line of the plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PlanState {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Finished.
    Completed,
    /// Not needed.
    Skipped,
    /// It did not work.
    Failed,
}
