//! The words that every part of Slipway speaks: ids, commands, durable and ephemeral events, items, and API bodies.
//!
//! This crate is serde and nothing else: no runtime, no HTTP, no SQL. What is on the wire is versioned by
//! [`VERSION`], additive, and pinned by the golden files in `tests/golden`.

pub mod api;
pub mod backup;
pub mod budget;
pub mod chat;
mod compaction;
pub mod delivery;
pub mod egress;
pub mod environment;
pub mod ephemeral;
pub mod error;
pub mod event;
pub mod files;
pub mod id;
pub mod image;
pub mod item;
pub mod listing;
pub mod machine;
pub mod mcp;
pub mod memory;
pub mod mistake;
pub mod money;
pub mod notification;
pub mod picture;
pub mod policy;
pub mod profile;
pub mod pull_request;
pub mod report;
pub mod review;
pub mod secret;
pub mod settings;
pub mod socket;
pub mod statistics;
pub mod team;
pub mod usage;

pub use api::*;
pub use backup::RestoreReport;
pub use budget::{Budget, BudgetKind, BudgetScope, BudgetUse, BudgetWarning, Budgets, Used};
pub use egress::Egress;
pub use environment::{
    Check, Environment, Gate, Probe, Repo, Restart, SandboxLimits, Secret, Service, SetupStep,
};
pub use error::{Code, Problem};
pub use event::{
    Actor, ActorKind, EgressDecision, Ephemeral, EphemeralBody, Event, EventBody, LimitKind, Outcome,
    Receipt, Work,
};
pub use files::*;
pub use id::{
    ApprovalId, CommandId, ItemId, LineageId, NoteId, PromptId, SandboxId, SessionId, SnapshotId, TurnId,
    UserId,
};
pub use image::*;
pub use item::{Item, ItemKind, ItemStatus};
pub use jiff::Timestamp;
pub use listing::*;
pub use mcp::{McpMissing, McpProgram, McpTool, McpUse};
pub use memory::*;
pub use mistake::{Mistake, Mistakes};
pub use money::Usd;
pub use notification::{Notification, NotificationKind, NotificationState};
pub use picture::{IMAGE_LIMIT, IMAGE_PATH, IMAGES_PER_PROMPT, ImageData, ImageFile, ImageKind};
pub use policy::{AskedCall, DiffSummary, FileChange, Permission, Policy, PolicyRule};
pub use profile::{EditFormat, ToolMode};
pub use pull_request::*;
pub use report::{
    Changes, Diagnostic, Excerpt, Finding, KnownCheck, Report, Severity, TestCase, TestStatus, Weakening,
    WeakeningKind,
};
pub use review::*;
pub use secret::{SecretList, SetSecret, StoredSecret};
pub use settings::*;
pub use socket::{ClientMessage, ServerBody, ServerMessage};
pub use statistics::*;
pub use team::{Hook, HookDeed, HookPoint, HookRun, PinnedSkill, SkillSource};
pub use usage::{Spend, Spent, Usage};

/// Version of the event envelope. A new meaning gets a new event type; the version changes only if the envelope does.
pub const VERSION: u8 = 1;

/// Outputs longer than this are stored in a file beside the log and referenced from the item.
pub const INLINE_OUTPUT_LIMIT: usize = 32 * 1024;
