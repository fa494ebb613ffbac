//! A model conversation, free of any provider's wire format. The agent builds a [`Request`]; `llm` sends it and
//! gives back a [`Completion`]. It stands here because the agent must not know HTTP and `llm` must not know agents.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::picture::ImageFile;
use crate::usage::Usage;

/// One model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Instructions.
    pub system: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call, in a fixed order.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer.
    pub max_output_tokens: u32,
    /// Whether it has to call a tool.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The shape that the text of the answer must have; free text without one.
    #[serde(default)]
    pub answer: Option<AnswerSchema>,
    /// How much chance there is in the answer, from 0; what the server is set to without one.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The same for all calls of one conversation, so that a provider finds its cache again.
    #[serde(default)]
    pub cache_key: Option<String>,
}

/// Whether a model has to call a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// None, although they are listed: the prompt stays as it was, and so does its cache.
    Never,
}

/// The shape of an answer that is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerSchema {
    /// A word for it, in letters, digits and `_`.
    pub name: String,
    /// JSON schema of an object.
    pub schema: Value,
}

/// An image. Conversations are kept and copied without its bytes, which are read when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its file.
    #[serde(flatten)]
    pub file: ImageFile,
    /// The bytes in base64, as every wire format wants them; empty until they are read, and where they cannot be.
    #[serde(skip)]
    pub data: Arc<str>,
}

impl From<&ImageFile> for Image {
    fn from(file: &ImageFile) -> Self {
        Self { file: file.clone(), data: Arc::default() }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// From a person or from the platform.
    User {
        /// The text.
        text: String,
        /// Images that belong to it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
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

impl Message {
    /// A message that is only text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }
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
    /// What the model sees with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

/// The tool of a call that a model's server could not read, where what it says of it names none.
pub const UNREADABLE_CALL: &str = "unreadable_call";

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
    /// The conversation and the answer so far are all that the model can read.
    Window,
    /// It declined.
    Refusal,
}
