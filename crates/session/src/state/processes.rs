//! The commands that the session's calls left running in the background: what each is called, how much of its output the
//! model has seen, and in which sandbox it is.

use protocol::item::ToolCall;
use protocol::{ItemId, SandboxId};
use serde::{Deserialize, Serialize};

use super::State;

/// Most commands that are remembered beside those that run.
const REMEMBERED: usize = 32;

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Processes {
    /// How many there were.
    count: u32,
    /// Oldest first.
    known: Vec<Background>,
}

/// A command in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Background {
    /// What the model calls it.
    pub(crate) id: String,
    /// The call that started it, which is its name in the sandbox.
    pub(crate) item: ItemId,
    pub(crate) command: String,
    /// Bytes of its output that the model knows of.
    pub(crate) seen: u64,
    /// Whether it ran when it was last looked at.
    pub(crate) running: bool,
    sandbox: Option<SandboxId>,
}

impl State {
    /// The commands in the background, oldest first, each with whether its sandbox is the one that there is now.
    pub(crate) fn background(&self) -> Vec<(Background, bool)> {
        let here = self.sandbox.map(|(id, _)| id);
        let known = self.processes.known.iter().cloned();
        let with_place = |process: Background| {
            let is_here = process.sandbox.is_some() && process.sandbox == here;
            (process, is_here)
        };
        known.map(with_place).collect()
    }

    /// What the next command in the background is called.
    pub(crate) fn next_background(&self) -> String {
        format!("p{}", self.processes.count.saturating_add(1))
    }

    /// Takes in what a call left of a command in the background.
    pub(super) fn note_background(&mut self, call: &ToolCall) {
        let Some(left) = &call.process else { return };
        let sandbox = self.sandbox.map(|(id, _)| id);
        let Processes { count, known } = &mut self.processes;
        match known.iter_mut().find(|process| process.id == left.id) {
            Some(process) => {
                process.seen = process.seen.max(left.seen);
                process.running &= left.running;
            }
            None => {
                *count = count.saturating_add(1);
                let command = call.input.get("command").or_else(|| call.input.get("cmd"));
                let command = command.and_then(|command| command.as_str()).unwrap_or_default().to_owned();
                let (id, item) = (left.id.clone(), left.item);
                let (seen, running) = (left.seen, left.running);
                known.push(Background { id, item, command, seen, running, sandbox });
            }
        }
        if known.len() > REMEMBERED
            && let Some(ended) = known.iter().position(|process| !process.running)
        {
            known.remove(ended);
        }
    }
}
