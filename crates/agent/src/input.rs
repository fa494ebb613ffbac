//! What a turn is given: what it begins with, and what happens while it runs.

use protocol::chat::{Completion, Image, Message};
use protocol::{Check, EditFormat, McpTool, Report, ToolMode};

use crate::history::Past;
use crate::mode::FileText;
use crate::tools::Offers;

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
    /// How the model is worked with.
    pub profile: Profile,
    /// What this turn is about: the prompt's own text.
    pub task: String,
    /// The prompts of the turns before this one, back to the last that was done: they are still to be done.
    pub unfinished: Vec<String>,
    /// The turns before this one.
    pub earlier: Vec<Past>,
    /// Which of the tools there are that not every session has.
    pub offers: Offers,
    /// How many of the messages the last answer's server counted, and the tokens that they were.
    pub measured: Option<(usize, u64)>,
    /// The tools of MCP servers, as the log has them for this turn.
    pub mcp: Vec<McpTool>,
}

/// How a model is worked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Tokens of request and answer together.
    pub context: u64,
    /// Most tokens of one answer that the model gives.
    pub max_output: Option<u32>,
    /// How it calls tools.
    pub tool_mode: ToolMode,
    /// How it changes files.
    pub edit_format: EditFormat,
    /// Whether its server may drop what it cannot read without a word. Only of such a one is it believed that it read less than
    /// it was sent: others report what they like.
    pub cuts_in_silence: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            context: 128_000,
            max_output: None,
            tool_mode: ToolMode::default(),
            edit_format: EditFormat::default(),
            cuts_in_silence: false,
        }
    }
}

/// When a turn has had enough.
#[derive(Debug, Clone)]
pub struct Limits {
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
    /// Another model is to be called instead.
    ModelChanged {
        /// How it is worked with.
        profile: Profile,
    },
    /// The request was longer than the model can read.
    Overflowed {
        /// What went wrong and what to do.
        message: String,
        /// Tokens of request and answer that its server takes, where it said so.
        takes: Option<u64>,
    },
    /// The context was made shorter; without messages it could not be.
    Compacted {
        /// The conversation, as the log gives it now.
        messages: Option<Vec<Message>>,
    },
    /// The workspace was looked at.
    Surveyed {
        /// Its files, with the text of those that matter most.
        files: Vec<FileText>,
        /// The repository's instructions for directories of these files, from the root on.
        guides: Vec<String>,
    },
    /// Something was recorded that the model should read, beside what the turn itself says.
    Noticed {
        /// What the model reads.
        text: String,
    },
    /// A tool ended: what the model reads, and whether it failed.
    ToolEnded {
        /// The call.
        call_id: String,
        /// What the model reads.
        text: String,
        /// Whether it failed.
        is_error: bool,
        /// What the model sees with it.
        images: Vec<Image>,
    },
    /// MCP servers offer other tools from here on.
    ToolsListed {
        /// All of them, as the log has them now.
        tools: Vec<McpTool>,
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
#[derive(Debug, Clone, Default)]
pub struct CheckResult {
    /// The check's name.
    pub name: String,
    /// Whether its command exited with 0.
    pub passed: bool,
    /// What its output says.
    pub report: Report,
    /// The report as the model reads it.
    pub digest: String,
    /// Whether only the part was run that the changes touch.
    pub partial: bool,
    /// How many of its failures are known to be older than the turn.
    pub failed_before: usize,
}
