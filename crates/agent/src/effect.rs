//! What a turn asks for. The session performs effects in the order in which they are given and records each of them.

use protocol::chat::Request;
use protocol::event::CompactionLevel;
use protocol::{Mistake, Outcome};

use crate::tools::Invocation;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model and give back `Answered`, `Overflowed`, `ModelChanged` or `ModelFailed`.
    CallModel(Request),
    /// Make the context shorter, record how, and give back `Compacted`. See [`crate::compaction`].
    Compact {
        /// How much is given up.
        level: CompactionLevel,
        /// Tokens of the context as it is.
        tokens: u64,
        /// Bytes that the conversation may have beside the prompts in force.
        room: u64,
        /// How many of the last prompts are in force.
        prompts: usize,
    },
    /// The conversation is too long for the model and cannot be made shorter: let another one go on and give back
    /// `ModelChanged`, or `ModelFailed` where there is none.
    ChangeModel {
        /// What went wrong and what to do.
        reason: String,
    },
    /// Look at the files of the workspace and give back `Surveyed`.
    Survey {
        /// Words among which the names of files that matter may be.
        hints: String,
        /// Most bytes of all texts together.
        room: usize,
    },
    /// Run a tool and give back `ToolEnded`. Several in one batch run in order.
    RunTool {
        /// The call.
        call_id: String,
        /// What to run.
        tool: Invocation,
    },
    /// The call cannot be run (unknown tool, broken arguments); it is recorded with this text as its failed result. No
    /// input follows.
    RejectTool {
        /// The call.
        call_id: String,
        /// The tool's name as the model wrote it.
        tool: String,
        /// The arguments as the model wrote them.
        arguments: String,
        /// What the model reads.
        text: String,
    },
    /// Record that the model did something that could not be used. No input follows.
    Mistake {
        /// What it did.
        mistake: Mistake,
    },
    /// Tell people what was learned about the model's server. No input follows.
    Note {
        /// What was learned, what is done about it, and what they can do.
        text: String,
    },
    /// Say this to the model as a user message; recorded as a notice. No input follows.
    Tell {
        /// What the model reads.
        text: String,
    },
    /// See whether files changed and run the checks if so; give back `Verified`.
    Verify,
    /// The turn is over.
    Finish {
        /// How it ended.
        outcome: Outcome,
        /// Why, in a sentence, unless it is done.
        reason: Option<String>,
    },
}
