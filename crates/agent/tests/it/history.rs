//! The conversation is the same whether a log is folded at once, or kept at any point and gone on with: for any log, also
//! for one that no session would write.

use std::collections::{HashMap, HashSet};

use agent::history::{CANCELLED, History, INTERRUPTED, STOPPED_HERE, fold};
use proptest::collection::vec;
use proptest::prelude::*;
use protocol::chat::{Call, Message, Part, ToolResult};
use protocol::item::{Output, ToolCall};
use protocol::{
    Actor, Event, EventBody, Item, ItemId, ItemKind, ItemStatus, Outcome, PromptId, Receipt, SessionId,
    Timestamp, TurnId, Usage,
};
use serde_json::json;

const TURN: TurnId = TurnId::from_u128(1);

fn kind() -> impl Strategy<Value = ItemKind> {
    let text = || prop_oneof![Just(""), Just(" "), Just("one"), Just("two")].prop_map(String::from);
    prop_oneof![
        1 => text().prop_map(|text| ItemKind::Prompt { prompt: PromptId::from_u128(1), text, images: Vec::new() }),
        1 => text().prop_map(ItemKind::notice),
        3 => text().prop_map(|text| ItemKind::Message { text }),
        2 => (text(), proptest::option::of(text()))
            .prop_map(|(text, signature)| ItemKind::Reasoning { text, signature }),
        8 => (0..4_u8, proptest::option::of(text())).prop_map(|(call, text)| {
            ItemKind::ToolCall(ToolCall {
                call_id: format!("c{call}"),
                tool: "shell".into(),
                input: json!({"command": call}),
                limit_ms: None,
                output: text.map(|text| Output { bytes: text.len() as u64, text, ..Output::default() }),
                exit_code: None,
                duration_ms: None,
                elapsed_ms: None,
                process: None,
                share: None,
                hooks: Vec::new(),
            })
        }),
    ]
}

fn body() -> impl Strategy<Value = EventBody> {
    let status = prop_oneof![
        Just(ItemStatus::InProgress),
        Just(ItemStatus::Completed),
        Just(ItemStatus::Failed),
        Just(ItemStatus::Cancelled),
        Just(ItemStatus::Interrupted),
    ];
    // Few ids, so that results come late, twice, and before their calls.
    let item = (0..6_u128, status, kind()).prop_map(|(id, status, kind)| Item {
        id: ItemId::from_u128(id),
        status,
        kind,
    });
    let finished = EventBody::TurnFinished {
        turn: TURN,
        outcome: Outcome::Done,
        reason: None,
        receipt: Receipt::default(),
    };
    let used = EventBody::UsageRecorded {
        turn: TURN,
        step: 1,
        model: "scripted".into(),
        usage: Usage::default(),
        cost_usd: None,
        first_token_ms: 0,
        duration_ms: 0,
        elapsed_ms: 0,
    };
    prop_oneof![
        6 => (item, any::<bool>()).prop_map(|(item, whole)| match whole {
            true => EventBody::ItemCompleted { turn: TURN, item },
            false => EventBody::ItemStarted { turn: TURN, item },
        }),
        1 => Just(EventBody::TurnStarted { turn: TURN, prompt: PromptId::from_u128(1) }),
        1 => Just(used),
        1 => Just(finished),
        1 => Just(EventBody::QueueResumed { command: None }),
    ]
}

fn log() -> impl Strategy<Value = Vec<Event>> {
    vec(body(), 0..40).prop_map(|bodies| {
        let event = |(index, body)| Event {
            v: 1,
            session: SessionId::from_u128(1),
            seq: index as u64 + 1,
            at: Timestamp::UNIX_EPOCH,
            actor: Actor::system(),
            body,
        };
        bodies.into_iter().enumerate().map(event).collect()
    })
}

/// The same in two goes over the whole log: first the results, then the rest.
#[derive(Default)]
struct TwoGoes {
    results: HashMap<ItemId, ToolResult>,
    seen: HashSet<ItemId>,
    parts: Vec<Part>,
    messages: Vec<Message>,
    open: Vec<(ItemId, String)>,
}

impl TwoGoes {
    fn fold(events: &[Event]) -> Vec<Message> {
        let mut it = Self::default();
        for event in events {
            if let EventBody::ItemCompleted { item, .. } = &event.body
                && let ItemKind::ToolCall(call) = &item.kind
            {
                let text = match (&call.output, item.status) {
                    (Some(output), _) => output.text.clone(),
                    (None, ItemStatus::Cancelled) => CANCELLED.into(),
                    (None, ItemStatus::Interrupted) => INTERRUPTED.into(),
                    (None, _) => String::new(),
                };
                let is_error = item.status != ItemStatus::Completed;
                it.results.entry(item.id).or_insert(ToolResult {
                    call_id: String::new(),
                    text,
                    is_error,
                    images: Vec::new(),
                });
            }
        }
        for event in events {
            match &event.body {
                EventBody::ItemStarted { item, .. } if matches!(item.kind, ItemKind::ToolCall(_)) => {
                    it.take(item)
                }
                EventBody::ItemCompleted { item, .. } => it.take(item),
                EventBody::UsageRecorded { .. }
                | EventBody::TurnStarted { .. }
                | EventBody::TurnFinished { .. } => it.close(),
                _ => {}
            }
        }
        it.close();
        it.messages
    }

    fn take(&mut self, item: &Item) {
        let whole = item.status == ItemStatus::Completed;
        match &item.kind {
            ItemKind::Prompt { text, .. } | ItemKind::Notice { text, .. } => {
                self.close();
                self.messages.push(Message::user(text.clone()));
            }
            ItemKind::Message { text } if whole => self.parts.push(Part::Text { text: text.clone() }),
            ItemKind::Message { text } if !text.trim().is_empty() => {
                self.parts.push(Part::Text { text: format!("{text}{STOPPED_HERE}") });
            }
            ItemKind::Reasoning { text, signature } if whole => {
                self.parts.push(Part::Reasoning { text: text.clone(), signature: signature.clone() });
            }
            ItemKind::ToolCall(call) if self.seen.insert(item.id) => {
                self.open.push((item.id, call.call_id.clone()));
                let (id, tool) = (call.call_id.clone(), call.tool.clone());
                self.parts.push(Part::Call(Call { id, tool, arguments: call.input.to_string() }));
            }
            _ => {}
        }
    }

    fn close(&mut self) {
        let parts: Vec<Part> = std::mem::take(&mut self.parts)
            .into_iter()
            .filter(|part| match part {
                Part::Text { text } => !text.trim().is_empty(),
                Part::Reasoning { text, signature } => !text.trim().is_empty() || signature.is_some(),
                Part::Call(_) => true,
            })
            .collect();
        if parts.iter().any(|part| !matches!(part, Part::Reasoning { .. })) {
            self.messages.push(Message::Assistant { parts });
        }
        let none = || ToolResult {
            call_id: String::new(),
            text: INTERRUPTED.into(),
            is_error: true,
            images: Vec::new(),
        };
        let results: Vec<ToolResult> = std::mem::take(&mut self.open)
            .into_iter()
            .map(|(item, call_id)| {
                let known = self.results.get(&item).cloned().unwrap_or_else(none);
                ToolResult { call_id, ..known }
            })
            .collect();
        if !results.is_empty() {
            self.messages.push(Message::Tools { results });
        }
    }
}

proptest! {
    #[test]
    fn any_log_is_folded_in_one_go_as_in_two(events in log()) {
        prop_assert_eq!(fold(&events), TwoGoes::fold(&events));
    }

    #[test]
    fn a_history_that_was_kept_goes_on_as_if_it_had_not_been(events in log(), at in 0..40_usize) {
        let at = at.min(events.len());
        let mut history = History::default();
        events[..at].iter().for_each(|event| history.apply(event));
        let kept = serde_json::to_vec(&history).unwrap();
        let mut history: History = serde_json::from_slice(&kept).unwrap();
        events[at..].iter().for_each(|event| history.apply(event));
        prop_assert_eq!(history.into_messages(), fold(&events));
    }
}
