//! A model conversation, free of any provider's wire format. The agent builds a [`Request`]; `llm` sends it and
//! gives back a [`Completion`]. It stands here because the agent must not know HTTP and `llm` must not know agents.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::usage::Usage;

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Instructions.
    pub system: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call, in a fixed order.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer.
    pub max_output_tokens: u32,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From a person or from the platform.
    User {
        /// The text.
        text: String,
    },
    /// From the model.
    Assistant {
        /// Text, reasoning and calls, in order.
        parts: Vec<Part>,
    },
    /// The results of the calls of the assistant message before it: one for each call, in the same order.
    Tools {
        /// The results.
        results: Vec<ToolResult>,
    },
}

/// A part of an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning.
    Reasoning {
        /// The text.
        text: String,
        /// The provider's signature; reasoning without one is not sent back.
        signature: Option<String>,
    },
    /// A call.
    Call(Call),
}

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The model's id of the call.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments, unparsed: they may be broken.
    pub arguments: String,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// What the model reads.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments.
    pub schema: Value,
}

/// A model's whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// Text, reasoning and calls, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// What it used.
    pub usage: Usage,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model had said what it wanted.
    End,
    /// It wants its calls run.
    Tools,
    /// The answer reached its token limit.
    Length,
    /// It declined.
    Refusal,
}
