//! What a model did that could not be used, counted. It is answered so that the model can do better; how often it happened
//! says whether the model suits the work.

use serde::{Deserialize, Serialize};

/// Something unusable that a model did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Mistake {
    /// It called a tool that does not exist.
    UnknownTool,
    /// It called a tool with arguments that cannot be used.
    BrokenArguments,
    /// It said nothing.
    EmptyAnswer,
    /// It said the same again and again within one answer.
    EndlessAnswer,
    /// It made the same calls again and again, alone or in turns, and they gave nothing new.
    RepeatedCalls,
}

/// How often each mistake was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Mistakes {
    /// Calls of tools that do not exist.
    pub unknown_tool: u32,
    /// Calls whose arguments could not be used.
    pub broken_arguments: u32,
    /// Answers that said nothing.
    pub empty_answer: u32,
    /// Answers that said the same again and again.
    pub endless_answer: u32,
    /// Steps in which calls were repeated in vain.
    pub repeated_calls: u32,
}

impl Mistakes {
    /// Counts one more.
    pub fn count(&mut self, mistake: Mistake) {
        let counter = match mistake {
            Mistake::UnknownTool => &mut self.unknown_tool,
            Mistake::BrokenArguments => &mut self.broken_arguments,
            Mistake::EmptyAnswer => &mut self.empty_answer,
            Mistake::EndlessAnswer => &mut self.endless_answer,
            Mistake::RepeatedCalls => &mut self.repeated_calls,
        };
        *counter = counter.saturating_add(1);
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
