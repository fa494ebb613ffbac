//! The conversation as a fold over the log: what the model is sent is built from events and nothing else. It gives
//! exactly the messages that the turn holds while it runs, so a restarted server goes on where the old one stopped.

use std::collections::BTreeMap;

use protocol::chat::{Call, Image, Message, Part, ToolResult};
use protocol::event::{Compaction, CompactionLevel};
use protocol::item::ToolCall;
use protocol::{Event, EventBody, IMAGE_PATH, ImageFile, Item, ItemId, ItemKind, ItemStatus, Outcome};
use serde::{Deserialize, Serialize};

use crate::answer::{self, calls_of};
use crate::compaction;
use crate::tools::{self, replayed_arguments};

/// The result of a call that was under way when the server or the sandbox went away.
pub const INTERRUPTED: &str = "interrupted: the platform restarted while this ran; its effects may be partial, look before you repeat it";
/// The result of a call that a person stopped.
pub const CANCELLED: &str = "cancelled: a person stopped the turn while this ran; its effects may be partial, look before you repeat it";
/// The result of a call that waited for a person when a person stopped the turn: nobody decided on it, or answered.
pub const NOT_BEGUN: &str =
    "not run: a person stopped the turn while this waited for a person, so nothing of it was done";
/// Stands at the end of an answer that was broken off.
pub const STOPPED_HERE: &str = " [stopped here]";

/// The code that a kept [`History`] follows from: one that other code made is not to be used.
pub const SOURCES: [&[u8]; 4] = [
    include_bytes!("history.rs"),
    include_bytes!("answer.rs"),
    include_bytes!("compaction.rs"),
    include_bytes!("tools/arguments.rs"),
];

/// The messages that these events of one session stand for, oldest first. Calls without a result (the server died)
/// get one that says so, so that calls and results always pair.
pub fn fold(events: &[Event]) -> Vec<Message> {
    let mut history = History::default();
    events.iter().for_each(|event| history.apply(event));
    history.into_messages()
}

/// Results for the calls of the last message, if it has any: the given ones, and `otherwise` for the rest.
pub(crate) fn answer_open_calls(messages: &mut Vec<Message>, given: &[Option<ToolResult>], otherwise: &str) {
    let Some(last) = messages.last() else { return };
    let results: Vec<ToolResult> = calls_of(last)
        .enumerate()
        .map(|(index, call)| match given.get(index) {
            Some(Some(result)) => result.clone(),
            Some(None) | None => failed(call.id.clone(), otherwise),
        })
        .collect();
    if !results.is_empty() {
        messages.push(Message::Tools { results });
    }
}

/// A conversation as far as its log was read. It can be kept, and go on later with the events that came since.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    messages: Vec<Message>,
    /// The event that each message began with.
    starts: Vec<u64>,
    /// Every prompt so far, with its event.
    prompts: Vec<(u64, String)>,
    /// Every turn so far.
    turns: Vec<Past>,
    /// Messages of the last answer's request with that answer, and the tokens that its server counted.
    measured: Option<(usize, u64)>,
    /// The event that the step which is not closed began with.
    began: u64,
    /// The parts of the step that is not closed yet.
    parts: Vec<Part>,
    /// Its calls, in order.
    open: Vec<ItemId>,
    /// Every call so far.
    calls: BTreeMap<ItemId, Known>,
}

/// A turn in a few words, for a model that is not sent the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// What was asked.
    pub prompt: String,
    /// What the model said last.
    pub said: String,
    /// Files that it wrote, in the order in which it first did.
    pub changed: Vec<String>,
    /// How it ended: the outcome, and why where it was not done. Empty while it goes on.
    pub ended: String,
}

impl Past {
    /// Most files that are kept by name.
    const FILES: usize = 20;
    /// Most characters of what was asked and said.
    const WORDS: usize = 600;

    fn is_done(&self) -> bool {
        self.ended == Outcome::Done.as_str()
    }

    fn wrote(&mut self, call: &ToolCall) {
        let Some(path) = call.input.get("path").and_then(serde_json::Value::as_str) else { return };
        let known = self.changed.iter().any(|changed| changed == path);
        if tools::changes_files(&call.tool) && !known && self.changed.len() < Self::FILES {
            self.changed.push(path.to_owned());
        }
    }
}

/// The beginning of a text.
fn beginning(text: &str) -> String {
    text.trim().chars().take(Past::WORDS).collect()
}

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Its result, until that has its place.
    result: ToolResult,
    /// Whether the result was in the log. The first one counts; a second one, from a server that came too late, does not.
    answered: bool,
    /// Where the result stands: the message, and the place in it.
    place: Option<(usize, usize)>,
}

impl History {
    /// Takes in the next event of the log.
    pub fn apply(&mut self, event: &Event) {
        if self.parts.is_empty() {
            self.began = event.seq;
        }
        match &event.body {
            EventBody::ItemStarted { item, .. } => match &item.kind {
                ItemKind::ToolCall(call) => {
                    self.call(item.id, call);
                }
                ItemKind::Prompt { .. }
                | ItemKind::Message { .. }
                | ItemKind::Reasoning { .. }
                | ItemKind::Report(_)
                | ItemKind::Notice { .. } => {}
            },
            EventBody::ItemCompleted { item, .. } => self.completed(item, event.seq),
            // A summary or a title is no part of the conversation.
            EventBody::UsageRecorded { step: 0, .. } => {}
            EventBody::UsageRecorded { usage, .. } => {
                self.close_step();
                // The results of the calls were not counted with the answer.
                let calls = usize::from(matches!(self.messages.last(), Some(Message::Tools { .. })));
                self.measured = (usage.prompt() > 0).then(|| (self.messages.len() - calls, usage.total()));
            }
            EventBody::TurnStarted { .. } => self.close_step(),
            EventBody::TurnFinished { outcome, reason, .. } => {
                self.close_step();
                if let Some(turn) = self.turns.last_mut() {
                    let why = reason.as_ref().map(|reason| format!(": {reason}"));
                    turn.ended = beginning(&format!("{}{}", outcome.as_str(), why.unwrap_or_default()));
                }
            }
            EventBody::ContextCompacted(compaction) => self.compact(compaction),
            // Another model counts in other tokens.
            EventBody::ModelChanged { .. } => self.measured = None,
            EventBody::SessionCreated { .. }
            | EventBody::SessionRenamed { .. }
            | EventBody::SessionRestored { .. }
            | EventBody::SessionArchived { .. }
            | EventBody::SessionUnarchived { .. }
            | EventBody::BudgetChanged { .. }
            | EventBody::BudgetWarned(_)
            | EventBody::PromptQueued { .. }
            | EventBody::PromptEdited { .. }
            | EventBody::PromptRemoved { .. }
            | EventBody::PromptMoved { .. }
            | EventBody::QueuePaused { .. }
            | EventBody::QueueResumed { .. }
            | EventBody::TurnStopping { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalResolved { .. }
            | EventBody::PolicyChanged { .. }
            | EventBody::PlanUpdated { .. }
            | EventBody::RetryScheduled { .. }
            | EventBody::MistakeMade { .. }
            | EventBody::ChecksPassed { .. }
            | EventBody::WorkJudged { .. }
            | EventBody::ChecksKnown { .. }
            | EventBody::SandboxChanged { .. }
            | EventBody::SnapshotTaken { .. }
            | EventBody::EgressDecided(_)
            | EventBody::LimitExceeded { .. }
            | EventBody::ServiceChanged { .. }
            | EventBody::DeliveryUpdated(_)
            | EventBody::NotificationUpdated(_)
            | EventBody::ReplyUpdated(_)
            | EventBody::ToolsListed { .. }
            | EventBody::MemoryChanged { .. }
            | EventBody::SkillsPinned { .. }
            | EventBody::ErrorRaised { .. } => {}
        }
    }

    fn completed(&mut self, item: &Item, seq: u64) {
        let whole = item.status == ItemStatus::Completed;
        match &item.kind {
            ItemKind::Prompt { text, images, .. } => {
                self.close_step();
                self.prompts.push((seq, with_images(text, images)));
                self.turns.push(Past { prompt: beginning(text), ..Past::default() });
                self.said(text, images, seq);
            }
            ItemKind::Notice { text, .. } => {
                self.close_step();
                self.said(text, &[], seq);
            }
            ItemKind::Message { text } if whole => {
                if let Some(turn) = self.turns.last_mut().filter(|_| !text.trim().is_empty()) {
                    turn.said = beginning(text);
                }
                self.parts.push(Part::Text { text: text.clone() });
            }
            ItemKind::Message { text } if text.trim().is_empty() => {}
            ItemKind::Message { text } => {
                self.parts.push(Part::Text { text: format!("{text}{STOPPED_HERE}") });
            }
            ItemKind::Reasoning { text, signature } if whole => {
                self.parts.push(Part::Reasoning { text: text.clone(), signature: signature.clone() });
            }
            // Half a thought has no valid signature, and providers refuse it.
            ItemKind::Reasoning { .. } => {}
            ItemKind::ToolCall(call) => {
                if let Some(turn) = self.turns.last_mut().filter(|_| whole) {
                    turn.wrote(call);
                }
                self.result(item, call);
            }
            // What a check found reaches the model through the check tool's result or a notice.
            ItemKind::Report(_) => {}
        }
    }

    fn said(&mut self, text: &str, images: &[ImageFile], seq: u64) {
        let images = images.iter().map(Image::from).collect();
        self.messages.push(Message::User { text: text.to_owned(), images });
        self.starts.push(seq);
    }

    /// A call takes its place when it is first seen; what comes later under the same id is its result.
    fn call(&mut self, item: ItemId, call: &ToolCall) -> &mut Known {
        self.calls.entry(item).or_insert_with(|| {
            self.open.push(item);
            self.parts.push(Part::Call(Call {
                id: call.call_id.clone(),
                tool: call.tool.clone(),
                arguments: replayed_arguments(&call.input),
            }));
            let result = failed(call.call_id.clone(), INTERRUPTED);
            Known { result, answered: false, place: None }
        })
    }

    /// The result of a call. It belongs after the call, wherever it stands in the log.
    fn result(&mut self, item: &Item, call: &ToolCall) {
        let known = self.call(item.id, call);
        if std::mem::replace(&mut known.answered, true) {
            return;
        }
        let (text, is_error) = (result_text(call, item.status), item.status != ItemStatus::Completed);
        let result = match known.place {
            None => Some(&mut known.result),
            Some((message, place)) => match self.messages.get_mut(message) {
                Some(Message::Tools { results }) => results.get_mut(place),
                Some(Message::User { .. } | Message::Assistant { .. }) | None => None,
            },
        };
        if let Some(result) = result {
            (result.text, result.is_error) = (text, is_error);
            result.images = call.output.iter().flat_map(|output| &output.images).map(Image::from).collect();
        }
    }

    fn close_step(&mut self) {
        self.messages.extend(answer::message(std::mem::take(&mut self.parts)));
        let message = self.messages.len();
        let open = std::mem::take(&mut self.open);
        let results: Vec<ToolResult> = open
            .iter()
            .enumerate()
            .filter_map(|(place, item)| {
                let known = self.calls.get_mut(item)?;
                known.place = Some((message, place));
                Some(std::mem::replace(&mut known.result, failed(String::new(), "")))
            })
            .collect();
        if !results.is_empty() {
            self.messages.push(Message::Tools { results });
        }
        self.starts.resize(self.messages.len(), self.began);
    }

    /// Makes the conversation shorter, as the log says.
    pub(crate) fn compact(&mut self, compaction: &Compaction) {
        self.close_step();
        let first_kept = |keep_from| self.starts.partition_point(|start| *start < keep_from);
        let kept = compaction.keep_from.map_or(self.messages.len(), first_kept);
        match compaction.level {
            CompactionLevel::Masked => compaction::mask_before(&mut self.messages, kept),
            CompactionLevel::Summarised | CompactionLevel::Fresh => {
                let text = compaction.text.clone().unwrap_or_default();
                self.messages.splice(..kept, [Message::user(text)]);
                // It stands before everything that is kept, so that the starts stay in order.
                self.starts.splice(..kept, [0]);
            }
        }
        if let Some(most) = compaction.unread {
            compaction::shorten_unread(&mut self.messages, usize::try_from(most).unwrap_or(usize::MAX));
        }
        // The rate of the old context is not that of the new one, and its results have their places elsewhere.
        self.measured = None;
        self.calls.values_mut().for_each(|known| known.answered = true);
    }

    /// The messages of every step that is closed.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The event that each of the messages began with.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The messages that began before this event.
    pub(crate) fn before(&self, seq: u64) -> &[Message] {
        &self.messages[..self.starts.partition_point(|start| *start < seq)]
    }

    /// The messages since the last prompt, with it.
    pub fn since_prompt(&self) -> &[Message] {
        let seq = self.prompts.last().map_or(0, |(seq, _)| *seq);
        &self.messages[self.starts.partition_point(|start| *start < seq)..]
    }

    /// The prompts that came before this event; all without one.
    pub(crate) fn prompts_before(&self, seq: Option<u64>) -> Vec<&str> {
        let before = self.prompts.iter().take_while(|(at, _)| seq.is_none_or(|seq| *at < seq));
        before.map(|(_, text)| text.as_str()).collect()
    }

    /// The turn that is under way, or was last.
    pub fn current(&self) -> Option<&Past> {
        self.turns.last()
    }

    /// The turns before the one that is under way.
    pub fn earlier(&self) -> &[Past] {
        self.turns.split_last().map_or(&[], |(_, earlier)| earlier)
    }

    /// The prompts of the turns before the one that is under way, back to the last that was done.
    pub fn unfinished(&self) -> Vec<String> {
        let open = self.earlier().iter().rev().take_while(|turn| !turn.is_done()).count();
        let earlier = self.prompts.split_last().map_or(&[][..], |(_, earlier)| earlier);
        let first = earlier.len().saturating_sub(open);
        earlier[first..].iter().map(|(_, text)| text.clone()).collect()
    }

    /// The skills that the conversation has loaded, in order.
    pub fn loaded_skills(&self) -> Vec<String> {
        let calls = self.messages.iter().flat_map(calls_of).filter(|call| tools::loads_skill(&call.tool));
        let mut names: Vec<String> = Vec::new();
        for call in calls {
            let input = tools::recorded_input(&call.arguments);
            let name = input.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
            if !name.is_empty() && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// How many of the messages the last answer's server counted, and the tokens that they were.
    pub fn measured(&self) -> Option<(usize, u64)> {
        self.measured
    }

    /// The messages, with the step that is not closed yet as the last.
    pub fn into_messages(mut self) -> Vec<Message> {
        self.close_step();
        self.messages
    }
}

/// A prompt for a context that is without its images.
fn with_images(text: &str, images: &[ImageFile]) -> String {
    let mut whole = text.to_owned();
    for image in images {
        whole.push_str(&format!("\n[With it came an image: {}]", seen_again(image)));
    }
    whole
}

/// What an image is, and how a model gets to see it again.
pub(crate) fn seen_again(image: &ImageFile) -> String {
    format!("{}; the read tool shows it: path \"{IMAGE_PATH}{}\"", image.describe(), image.name)
}

fn failed(call_id: String, text: &str) -> ToolResult {
    ToolResult { call_id, text: text.to_owned(), is_error: true, images: Vec::new() }
}

fn result_text(call: &ToolCall, status: ItemStatus) -> String {
    match (&call.output, status) {
        (Some(output), _) => output.text.clone(),
        (None, ItemStatus::Cancelled) => CANCELLED.to_owned(),
        (None, ItemStatus::Interrupted) => INTERRUPTED.to_owned(),
        (None, ItemStatus::InProgress | ItemStatus::Completed | ItemStatus::Failed) => String::new(),
    }
}
