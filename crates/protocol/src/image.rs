//! What the API says of images, warm sandboxes, snapshots and what takes up disk.

use serde::{Deserialize, Serialize};

use crate::{SandboxId, SessionId, SnapshotId, Timestamp, TurnId};

/// `GET /environments/{name}/image`, and the answer to `POST /environments/{name}/build`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageStatus {
    /// How far it is.
    pub state: ImageState,
    /// The image that sessions start from: the last one that was built without an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<ImageInfo>,
    /// The steps of the build under way, or of the last one.
    #[serde(default)]
    pub steps: Vec<StepStatus>,
    /// Why the last build failed; the image before it stays in use. Without an image, also why it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Sandboxes that are ready to be claimed.
    #[serde(default)]
    pub warm: u32,
    /// Whether the environment was changed since the current image was built: sessions then do without it until it is
    /// built again.
    #[serde(default)]
    pub outdated: bool,
}

/// How far an image is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ImageState {
    /// It was never built, or was removed to make room.
    #[default]
    None,
    /// It is being built.
    Building,
    /// It is ready.
    Ready,
    /// The last build failed.
    Failed,
}

/// An image that is ready to be started from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageInfo {
    /// Changes when anything in the image does.
    pub key: String,
    /// The branch.
    pub branch: String,
    /// The commit that is checked out in it.
    pub commit: String,
    /// When its build ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub built_at: Timestamp,
    /// Seconds since then.
    pub age_s: u64,
    /// Bytes of all its layers.
    pub bytes: u64,
    /// How long its build took.
    pub duration_ms: u64,
    /// How the environment's checks went on it, before any session changed anything. They run when it is ready, so nobody
    /// waits for them; empty where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ImageCheck>,
}

/// A check that is run once on an image, so that sessions can tell what failed before they began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageCheck {
    /// The check's name.
    pub name: String,
    /// Its command.
    pub run: String,
    /// How far it is, or how it went.
    pub state: ImageCheckState,
    /// What failed: tests and diagnostics, at least one where it failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// Why nothing is known, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far a check on an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ImageCheckState {
    /// It waits for those before it.
    Pending,
    /// It runs.
    Running,
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It could not be run to its end, so nobody knows what fails.
    Unknown,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A step of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepStatus {
    /// What it does: `base`, `clone`, or the command.
    pub title: String,
    /// What kind of step it is.
    pub kind: StepKind,
    /// How far it is.
    pub state: StepState,
    /// How long it took.
    #[serde(default)]
    pub duration_ms: u64,
    /// How long one attempt of it may take; absent where nothing ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Bytes of its layer.
    #[serde(default)]
    pub bytes: u64,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: u32,
    /// The end of its output; all of it is in the build's log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// What a person should know of it, such as an input that is not in the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StepKind {
    /// What is below the workspace.
    Base,
    /// The repository.
    Clone,
    /// A set-up step.
    Setup,
    /// A step that fills caches.
    Warm,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum StepState {
    /// It waits for those before it.
    Pending,
    /// It runs.
    Running,
    /// It ran.
    Built,
    /// A layer with the same key was there.
    Cached,
    /// It failed.
    Failed,
}

/// Answer to `POST /environments/{name}/warm`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WarmStatus {
    /// Sandboxes that are ready now.
    pub ready: u32,
    /// Sandboxes that are being made.
    pub starting: u32,
}

/// `POST /sessions/{id}/fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkSession {
    /// What is to be done.
    pub prompt: String,
    /// Images that belong to the prompt, at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<crate::ImageData>,
    /// Where to begin; the last snapshot when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    /// Name of the model; that of the session when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A frozen workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotInfo {
    /// Its id.
    pub id: SnapshotId,
    /// The session.
    pub session: SessionId,
    /// The turn after which it was taken.
    pub turn: TurnId,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub taken_at: Timestamp,
    /// Bytes that it holds.
    pub bytes: u64,
    /// Whether a process that could not be stopped may have written while it was taken. Then its files can be of different
    /// moments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blurred: bool,
}

/// `GET /sessions/{id}/snapshots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotList {
    /// Oldest first.
    pub snapshots: Vec<SnapshotInfo>,
}

/// A host that sandboxes of an environment were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedHost {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Why.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// The last time.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_at: Timestamp,
}

/// `GET /environments/{name}/egress`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressStatus {
    /// What is allowed.
    pub egress: crate::Egress,
    /// What was refused, latest first.
    pub refused: Vec<RefusedHost>,
    /// What else whoever changed it should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `POST /environments/{name}/egress/decisions`: what was decided for a sandbox that is not the server's, such as that of a
/// command. What was refused is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NoteEgress {
    /// The decisions, oldest first.
    pub decisions: Vec<crate::EgressDecision>,
}

/// `POST /environments/{name}/egress`: allows more, also in sandboxes that run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AllowEgress {
    /// Rules to add, such as `registry.npmjs.org` or `*.example.com:8443`.
    pub allow: Vec<String>,
}

/// `POST /gc`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CollectGarbage {
    /// Only say what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Answer to `POST /gc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GarbageReport {
    /// Whether nothing was removed because it was only asked for.
    pub dry_run: bool,
    /// Bytes that layers, snapshots and sandboxes take up, before.
    pub used_bytes: u64,
    /// Bytes they may take up.
    pub budget_bytes: u64,
    /// Bytes that were, or would be, freed.
    pub freed_bytes: u64,
    /// What was, or would be, removed, and what stays.
    pub entries: Vec<GarbageEntry>,
}

/// One thing on disk, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GarbageEntry {
    /// `layer`, `snapshot`, `image`, `sandbox`, or `copy` of files from before an upgrade.
    pub kind: String,
    /// Its id or name.
    pub id: String,
    /// Bytes.
    pub bytes: u64,
    /// Whether it goes.
    pub remove: bool,
    /// Why it goes or stays.
    pub reason: String,
}

/// A sandbox as `slipway sandbox ls` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxInfo {
    /// Its id.
    pub id: SandboxId,
    /// `starting`, `running`, `frozen` or `ended`.
    pub state: String,
    /// Whose it is: a session, the pool of an environment, or a build.
    pub owner: String,
}
