//! The conversation as a fold over the log: what the model is sent is built from events and nothing else. It gives
//! exactly the messages that the turn holds while it runs, so a restarted server goes on where the old one stopped.

use std::collections::{HashMap, HashSet};

use protocol::chat::{Call, Message, Part, ToolResult};
use protocol::item::ToolCall;
use protocol::{Event, EventBody, Item, ItemId, ItemKind, ItemStatus};

use crate::answer::{self, calls_of};
use crate::tools::replayed_arguments;

/// The result of a call that was under way when the server or the sandbox went away.
pub const INTERRUPTED: &str = "interrupted: the platform restarted while this ran; its effects may be partial, look before you repeat it";
/// The result of a call that a person stopped.
pub const CANCELLED: &str = "cancelled: a person stopped the turn while this ran; its effects may be partial, look before you repeat it";
/// Stands at the end of an answer that was broken off.
pub const STOPPED_HERE: &str = " [stopped here]";

/// The messages that these events of one session stand for, oldest first. Calls without a result (the server died)
/// get one that says so, so that calls and results always pair.
pub fn fold(events: &[Event]) -> Vec<Message> {
    let mut fold = Fold { results: results(events), ..Fold::default() };
    for event in events {
        fold.apply(&event.body);
    }
    fold.close_step();
    fold.messages
}

/// Results for the calls of the last message, if it has any: the given ones, and `otherwise` for the rest.
pub(crate) fn answer_open_calls(messages: &mut Vec<Message>, given: &[Option<ToolResult>], otherwise: &str) {
    let Some(last) = messages.last() else { return };
    let results: Vec<ToolResult> = calls_of(last)
        .enumerate()
        .map(|(index, call)| match given.get(index) {
            Some(Some(result)) => result.clone(),
            Some(None) | None => {
                ToolResult { call_id: call.id.clone(), text: otherwise.to_owned(), is_error: true }
            }
        })
        .collect();
    if !results.is_empty() {
        messages.push(Message::Tools { results });
    }
}

/// The first result of each call, wherever it stands in the log. A second one, from a server that came too late, does
/// not count.
fn results(events: &[Event]) -> HashMap<ItemId, (String, ItemStatus)> {
    let mut results = HashMap::new();
    for event in events {
        if let EventBody::ItemCompleted { item, .. } = &event.body
            && let ItemKind::ToolCall(call) = &item.kind
        {
            results.entry(item.id).or_insert_with(|| (result_text(call, item.status), item.status));
        }
    }
    results
}

fn result_text(call: &ToolCall, status: ItemStatus) -> String {
    match (&call.output, status) {
        (Some(output), _) => output.text.clone(),
        (None, ItemStatus::Cancelled) => CANCELLED.to_owned(),
        (None, ItemStatus::Interrupted) => INTERRUPTED.to_owned(),
        (None, ItemStatus::InProgress | ItemStatus::Completed | ItemStatus::Failed) => String::new(),
    }
}

#[derive(Default)]
struct Fold {
    results: HashMap<ItemId, (String, ItemStatus)>,
    messages: Vec<Message>,
    /// The parts of the step that is not closed yet.
    parts: Vec<Part>,
    /// Its calls, in order.
    calls: Vec<(ItemId, String)>,
    started: HashSet<ItemId>,
}

impl Fold {
    fn apply(&mut self, body: &EventBody) {
        match body {
            EventBody::ItemStarted { item, .. } => match &item.kind {
                ItemKind::ToolCall(call) => self.call(item.id, call),
                ItemKind::Prompt { .. }
                | ItemKind::Message { .. }
                | ItemKind::Reasoning { .. }
                | ItemKind::Report(_)
                | ItemKind::Notice { .. } => {}
            },
            EventBody::ItemCompleted { item, .. } => self.completed(item),
            EventBody::UsageRecorded { .. }
            | EventBody::TurnStarted { .. }
            | EventBody::TurnFinished { .. } => self.close_step(),
            EventBody::SessionCreated { .. }
            | EventBody::SessionRenamed { .. }
            | EventBody::PromptQueued { .. }
            | EventBody::PromptEdited { .. }
            | EventBody::PromptRemoved { .. }
            | EventBody::PromptMoved { .. }
            | EventBody::QueuePaused { .. }
            | EventBody::QueueResumed {}
            | EventBody::TurnStopping { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalResolved { .. }
            | EventBody::PlanUpdated { .. }
            | EventBody::RetryScheduled { .. }
            | EventBody::SandboxChanged { .. }
            | EventBody::SnapshotTaken { .. }
            | EventBody::EgressDecided(_)
            | EventBody::LimitExceeded { .. }
            | EventBody::ServiceChanged { .. }
            | EventBody::DeliveryUpdated(_)
            | EventBody::NotificationUpdated(_)
            | EventBody::MemoryChanged { .. }
            | EventBody::ErrorRaised { .. } => {}
        }
    }

    fn completed(&mut self, item: &Item) {
        let whole = item.status == ItemStatus::Completed;
        match &item.kind {
            ItemKind::Prompt { text, .. } | ItemKind::Notice { text } => {
                self.close_step();
                self.messages.push(Message::User { text: text.clone() });
            }
            ItemKind::Message { text } if whole => self.parts.push(Part::Text { text: text.clone() }),
            ItemKind::Message { text } if text.trim().is_empty() => {}
            ItemKind::Message { text } => {
                self.parts.push(Part::Text { text: format!("{text}{STOPPED_HERE}") });
            }
            ItemKind::Reasoning { text, signature } if whole => {
                self.parts.push(Part::Reasoning { text: text.clone(), signature: signature.clone() });
            }
            // Half a thought has no valid signature, and providers refuse it.
            ItemKind::Reasoning { .. } => {}
            ItemKind::ToolCall(call) => self.call(item.id, call),
            // What a check found reaches the model through the check tool's result or a notice.
            ItemKind::Report(_) => {}
        }
    }

    /// A call takes its place when it is first seen; what comes later under the same id is its result.
    fn call(&mut self, item: ItemId, call: &ToolCall) {
        if self.started.insert(item) {
            self.calls.push((item, call.call_id.clone()));
            self.parts.push(Part::Call(Call {
                id: call.call_id.clone(),
                tool: call.tool.clone(),
                arguments: replayed_arguments(&call.input),
            }));
        }
    }

    fn close_step(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        self.messages.extend(answer::message(std::mem::take(&mut self.parts)));
        if !calls.is_empty() {
            let results = calls.into_iter().map(|(item, call_id)| self.result(item, call_id)).collect();
            self.messages.push(Message::Tools { results });
        }
    }
    fn result(&self, item: ItemId, call_id: String) -> ToolResult {
        match self.results.get(&item) {
            Some((text, status)) => {
                ToolResult { call_id, text: text.clone(), is_error: *status != ItemStatus::Completed }
            }
            None => ToolResult { call_id, text: INTERRUPTED.to_owned(), is_error: true },
        }
    }
}
