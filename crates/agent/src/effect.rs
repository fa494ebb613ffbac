//! What a turn asks for. The session performs effects in the order in which they are given and records each of them.

use protocol::Outcome;
use protocol::chat::Request;

use crate::tools::Invocation;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model and give back `Answered` or `ModelFailed`.
    CallModel(Request),
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
