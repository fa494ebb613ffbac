//! What a turn is given: what it begins with, and what happens while it runs.

use protocol::chat::{Completion, Message};
use protocol::{Check, Report};

/// What a turn begins with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The conversation so far, ending with this turn's prompt (and, on resume, what this turn did already).
    pub messages: Vec<Message>,
    /// Instructions of the environment and of the repository (AGENTS.md).
    pub instructions: String,
    /// Names and commands of the checks.
    pub checks: Vec<Check>,
    /// When the turn has had enough.
    pub limits: Limits,
}

/// When a turn has had enough.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Steps before it is out of budget.
    pub steps: u32,
    /// Check rounds without progress before it escalates.
    pub rounds: u32,
    /// Most tokens of one answer.
    pub max_output_tokens: u32,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Begin, or go on after a restart.
    Begin,
    /// The model answered.
    Answered(Completion),
    /// The model could not be reached or used, after every retry.
    ModelFailed {
        /// What went wrong and what to do.
        message: String,
    },
    /// A tool ended: what the model reads, and whether it failed.
    ToolEnded {
        /// The call.
        call_id: String,
        /// What the model reads.
        text: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// The gate before `done` was run.
    Verified(Verification),
    /// A person stopped the turn.
    Stop,
}

/// What the gate found.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Whether the workspace differs from how the turn found it.
    pub changed: bool,
    /// Every check that was run.
    pub checks: Vec<CheckResult>,
}

/// One check of the gate.
#[derive(Debug, Clone)]
pub struct CheckResult {
    /// The check's name.
    pub name: String,
    /// Whether its command exited with 0.
    pub passed: bool,
    /// What its output says.
    pub report: Report,
    /// The report as the model reads it.
    pub digest: String,
}
