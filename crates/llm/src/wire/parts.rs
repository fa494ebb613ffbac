//! The parts of an answer while they grow. All formats fold into this, so that order, ids and the deltas that people
//! see are the same whatever the server speaks.

use std::collections::HashSet;

use protocol::chat::{self, Call, Message, Part, Request};

use super::Sink;
use super::endless::{self, Watch};
use crate::client::Delta;

/// The tool of a call that names none. There is none of this name, so the model is told which there are.
const UNNAMED: &str = "unnamed";

/// Letters that are kept of a call that the server could not read.
const UNREADABLE_LIMIT: usize = 2000;

/// The parts so far.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// Where each call stands in `parts`.
    calls: Vec<usize>,
    /// Calls made earlier in the conversation; a derived id counts on from there and so is unique.
    earlier: usize,
    taken: HashSet<String>,
    /// The tools that the model was offered.
    tools: Vec<String>,
    watch: Watch,
}

impl Parts {
    /// No parts yet, after this conversation.
    pub(crate) fn after(request: &Request) -> Self {
        let calls = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { parts } => parts.as_slice(),
            Message::User { .. } | Message::Tools { .. } => &[],
        });
        let taken: Vec<String> = calls
            .filter_map(|part| match part {
                Part::Call(call) => Some(call.id.clone()),
                Part::Text { .. } | Part::Reasoning { .. } => None,
            })
            .collect();
        let tools = request.tools.iter().map(|tool| tool.name.clone()).collect();
        Self { earlier: taken.len(), taken: taken.into_iter().collect(), tools, ..Self::default() }
    }

    /// No parts yet, after the same conversation.
    pub(crate) fn anew(&self) -> Self {
        let Self { earlier, taken, tools, .. } = self;
        Self { earlier: *earlier, taken: taken.clone(), tools: tools.clone(), ..Self::default() }
    }

    /// Adds text.
    pub(crate) fn text(&mut self, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Text { text }) => {
                text.push_str(piece);
                self.watch.grew(text, piece.len(), endless::TEXT);
            }
            _ => {
                self.watch.grew(piece, piece.len(), endless::TEXT);
                self.parts.push(Part::Text { text: piece.to_owned() });
            }
        }
        sink(Delta::Text(piece.to_owned()));
    }

    /// Adds reasoning. A signature closes a piece of reasoning, so what comes after one is a new part.
    pub(crate) fn reasoning(&mut self, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Reasoning { text, signature: None }) => {
                text.push_str(piece);
                self.watch.grew(text, piece.len(), endless::TEXT);
            }
            _ => {
                self.watch.grew(piece, piece.len(), endless::TEXT);
                self.parts.push(Part::Reasoning { text: piece.to_owned(), signature: None });
            }
        }
        sink(Delta::Reasoning(piece.to_owned()));
    }

    /// Signs the reasoning so far; a signature without reasoning stands for reasoning that is not shown.
    pub(crate) fn sign(&mut self, signature: String) {
        if signature.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Reasoning { signature: unsigned @ None, .. }) => *unsigned = Some(signature),
            _ => self.parts.push(Part::Reasoning { text: String::new(), signature: Some(signature) }),
        }
    }

    /// Signs the reasoning as a whole, wherever it stands; a signature may come after what it signs.
    pub(crate) fn sign_whole(&mut self, signature: String) {
        let unsigned = self.parts.iter_mut().find_map(|part| match part {
            Part::Reasoning { signature: unsigned @ None, .. } => Some(unsigned),
            Part::Reasoning { .. } | Part::Text { .. } | Part::Call(_) => None,
        });
        match unsigned {
            Some(unsigned) => *unsigned = Some(signature),
            None => {
                self.parts.insert(0, Part::Reasoning { text: String::new(), signature: Some(signature) });
                self.calls.iter_mut().for_each(|place| *place += 1);
            }
        }
    }

    /// Begins a call and gives its number in this answer.
    pub(crate) fn begin_call(&mut self, id: &str, tool: &str, sink: &mut Sink<'_>) -> usize {
        let index = self.calls.len();
        self.calls.push(self.parts.len());
        self.parts.push(Part::Call(Call {
            id: id.to_owned(),
            tool: tool.to_owned(),
            arguments: String::new(),
        }));
        let tool = Some(tool.to_owned()).filter(|tool| !tool.is_empty());
        sink(Delta::Call { index, tool, arguments: String::new() });
        index
    }

    /// Adds to a call's arguments.
    pub(crate) fn grow_call(&mut self, index: usize, piece: &str, sink: &mut Sink<'_>) {
        if piece.is_empty() {
            return;
        }
        if let Some(Part::Call(call)) = self.calls.get(index).and_then(|place| self.parts.get_mut(*place)) {
            call.arguments.push_str(piece);
            self.watch.grew(&call.arguments, piece.len(), endless::ARGUMENTS);
            sink(Delta::Call { index, tool: None, arguments: piece.to_owned() });
        }
    }

    /// Completes what the beginning of a call left open.
    pub(crate) fn name_call(&mut self, index: usize, id: &str, tool: &str, sink: &mut Sink<'_>) {
        let Some(call) = self.call_mut(index) else { return };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.tool.is_empty() && !tool.is_empty() {
            tool.clone_into(&mut call.tool);
            sink(Delta::Call { index, tool: Some(tool.to_owned()), arguments: String::new() });
        }
    }

    /// Adds a call that the server could not read, with what it says of it in place of arguments: whoever runs calls tells
    /// the model what is wrong with such ones.
    pub(crate) fn broken_call(&mut self, reason: &str, said: &str, sink: &mut Sink<'_>) {
        let words = said.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let tool = words.into_iter().find(|word| self.tools.iter().any(|tool| tool == word));
        let number = self.begin_call("", tool.unwrap_or(chat::UNREADABLE_CALL), sink);
        let said: String = format!("{reason}: {said}").chars().take(UNREADABLE_LIMIT).collect();
        self.grow_call(number, &said, sink);
    }

    /// Adds why the server broke the answer off, in the place where the model would have said why it declines.
    pub(crate) fn declined(&mut self, reason: &str, sink: &mut Sink<'_>) {
        let gap = if matches!(self.parts.last(), Some(Part::Text { .. })) { " " } else { "" };
        self.text(&format!("{gap}[broken off by the model server: {reason}]"), sink);
    }

    /// Whether the answer says the same again and again, so that nothing more is to be expected of it.
    pub(crate) fn is_endless(&self) -> bool {
        self.watch.is_endless()
    }

    /// Whether a whole answer is such a one; calls in it are meant.
    pub(crate) fn only_repeats(&self) -> bool {
        self.is_endless() && self.calls.is_empty()
    }

    /// The number of bytes so far, without signatures.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| match part {
            Part::Text { text } | Part::Reasoning { text, .. } => text.len(),
            Part::Call(call) => call.tool.len() + call.arguments.len(),
        });
        bytes.sum::<usize>() as u64
    }

    /// The number of calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// A call as far as it has come.
    pub(crate) fn call(&self, index: usize) -> Option<&Call> {
        match self.parts.get(*self.calls.get(index)?)? {
            Part::Call(call) => Some(call),
            Part::Text { .. } | Part::Reasoning { .. } => None,
        }
    }

    fn call_mut(&mut self, index: usize) -> Option<&mut Call> {
        match self.parts.get_mut(*self.calls.get(index)?)? {
            Part::Call(call) => Some(call),
            Part::Text { .. } | Part::Reasoning { .. } => None,
        }
    }

    /// The parts, with an id of its own, a name and some arguments for each call.
    pub(crate) fn finish(mut self) -> Vec<Part> {
        let mut number = self.earlier;
        for part in &mut self.parts {
            let Part::Call(call) = part else { continue };
            number += 1;
            if call.tool.trim().is_empty() {
                UNNAMED.clone_into(&mut call.tool);
            }
            if call.arguments.trim().is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
            let mut attempt = number;
            while call.id.is_empty() || !self.taken.insert(call.id.clone()) {
                call.id = format!("call_{attempt}");
                attempt += 1;
            }
        }
        self.parts
    }
}
