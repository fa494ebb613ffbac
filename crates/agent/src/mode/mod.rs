//! How a model is asked and how its answers are read: one small trait, one file for each way. The turn and the log hold
//! the same conversation in all of them, so that a session can go on with a model that is asked in another way.

mod blocks;
mod fenced;
mod json_step;
mod lead;
mod native;

use std::fmt;

use protocol::ToolMode;
use protocol::chat::{Call, Completion, Message, Request, Stop, ToolSpec};

use crate::history::Past;

pub(crate) use json_step::{as_data, is_step};

/// What a request is made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// Who the agent is, what is checked, and the environment's own words.
    pub(crate) system: &'a str,
    /// What the model may call now.
    pub(crate) tools: &'a [ToolSpec],
    /// The conversation.
    pub(crate) messages: &'a [Message],
    /// What is to be done.
    pub(crate) task: &'a str,
    /// The prompts that it is made of, the turn's own last.
    pub(crate) prompts: &'a [String],
    /// The turns before this one, for models that are not sent the conversation.
    pub(crate) earlier: &'a [Past],
    /// The workspace, for models that are shown it anew in each round.
    pub(crate) files: &'a [FileText],
    /// The repository's instructions for directories of these files.
    pub(crate) guides: &'a [String],
    /// The round, from 0.
    pub(crate) round: u32,
    /// Most bytes of the task, for models that are told it anew in each round.
    pub(crate) task_room: usize,
    /// Most bytes of what happened last.
    pub(crate) room: usize,
    /// Most tokens of the answer.
    pub(crate) max_output_tokens: u32,
}

/// A file of the workspace, as far as a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    /// Relative to the workspace.
    pub path: String,
    /// Its text; absent where only its name is shown.
    pub text: Option<String>,
}

/// A way to work with a model.
pub(crate) trait Mode: fmt::Debug + Send + Sync {
    /// The next request.
    fn request(&self, view: &View<'_>) -> Request;

    /// An answer with its calls as calls. Doing it twice changes nothing.
    fn read(&self, view: &View<'_>, completion: Completion) -> Completion;

    /// What a model is told whose answer was read, has words and no call, and is no end of the work either.
    fn unread(&self, _words: &str, _stop: Stop) -> Option<&'static str> {
        None
    }

    /// Why a call is not run that is written as it should be.
    fn refuses(&self, _call: &Call) -> Option<String> {
        None
    }

    /// What a model is told after the results of an answer with these words: what of it was not done.
    fn left_out(&self, _view: &View<'_>, _words: &str, _stop: Stop) -> Option<String> {
        None
    }

    /// What is called to end the work, where that is a call.
    fn ends_with(&self) -> Option<&'static str> {
        None
    }

    /// Whether each round has a fresh context, made from the task, the files and what happened last.
    fn in_rounds(&self) -> bool {
        false
    }

    /// Whether calls come in the provider's own way.
    fn is_native(&self) -> bool {
        false
    }

    /// After how many repetitions a model is told, and after how many the turn ends.
    fn patience(&self) -> (usize, usize) {
        (2, 5)
    }
}

/// The mode of this name.
pub(crate) fn of(mode: ToolMode) -> &'static dyn Mode {
    match mode {
        ToolMode::Native => &native::Native,
        ToolMode::JsonStep => &json_step::JsonStep,
        ToolMode::Fenced => &fenced::Fenced,
    }
}
