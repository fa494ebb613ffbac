//! An event as a row of the log, and back. What is appended is encoded and decoded again before it is written: the event
//! that a caller gets is the one that every later reader gets, and nothing enters a log that cannot be read.

use protocol::{Actor, ActorKind, Event, EventBody, SessionId, Timestamp, VERSION};

use crate::chain::Chain;
use crate::log::Draft;

/// A draft that can be written.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) actor: Actor,
    pub(crate) body: EventBody,
    pub(crate) data: String,
}

impl Encoded {
    pub(crate) fn new(draft: Draft) -> Result<Self, String> {
        let name = draft.body.name();
        let unfit = |why: &dyn std::fmt::Display| format!("a {name} event cannot be stored: {why}");
        let text = serde_json::to_string(&draft.body).map_err(|e| unfit(&e))?;
        let data = text
            .strip_prefix(&format!("{{\"type\":\"{name}\",\"data\":"))
            .and_then(|rest| rest.strip_suffix('}'))
            .ok_or_else(|| unfit(&"it is not written as a type and its data"))?
            .to_owned();
        let body = decode_body(name, &data).map_err(|e| unfit(&e))?;
        Ok(Self { actor: draft.actor, body, data })
    }

    /// Bytes of its texts, and more than its numbers take anywhere.
    pub(crate) fn size(&self) -> usize {
        const NUMBERS: usize = 128;
        self.data.len() + self.actor.id.len() + self.body.name().len() + NUMBERS
    }

    /// The event, now that it has its place.
    pub(crate) fn into_event(self, session: SessionId, seq: u64, at: Timestamp) -> Event {
        Event { v: VERSION, session, seq, at, actor: self.actor, body: self.body }
    }
}

/// A row of the `events` table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    pub(crate) actor_kind: String,
    pub(crate) actor: String,
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Row {
    pub(crate) fn hash(&self, previous: u64) -> u64 {
        link(previous, self.seq, self.at, [&self.actor_kind, &self.actor, &self.name, &self.data])
    }

    /// None when this program does not know such an event.
    pub(crate) fn into_event(self, session: SessionId) -> Option<Event> {
        Some(Event {
            v: VERSION,
            session,
            seq: self.seq,
            at: Timestamp::from_microsecond(self.at).ok()?,
            actor: Actor { kind: actor_kind(&self.actor_kind)?, id: self.actor },
            body: decode_body(&self.name, &self.data).ok()?,
        })
    }
}

/// The checksum of one event: `texts` are the actor's kind and id, the type and the data.
pub(crate) fn link(previous: u64, seq: u64, at: i64, texts: [&str; 4]) -> u64 {
    let start = Chain::after(previous).number(seq).number(at.cast_unsigned());
    texts.iter().fold(start, |chain, text| chain.text(text)).finish()
}

pub(crate) fn actor_word(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::User => "user",
        ActorKind::Agent => "agent",
        ActorKind::System => "system",
    }
}

fn actor_kind(word: &str) -> Option<ActorKind> {
    [ActorKind::User, ActorKind::Agent, ActorKind::System].into_iter().find(|kind| actor_word(*kind) == word)
}

fn decode_body(name: &str, data: &str) -> serde_json::Result<EventBody> {
    serde_json::from_str(&format!("{{\"type\":\"{name}\",\"data\":{data}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::event::Delivery;
    use protocol::{BudgetKind, BudgetScope, BudgetWarning, TurnId, Usage};

    fn usage(cost_usd: Option<f64>) -> EventBody {
        EventBody::UsageRecorded {
            turn: TurnId::from_u128(1),
            step: 1,
            model: "m".into(),
            usage: Usage::default(),
            cost_usd,
            first_token_ms: 1,
            duration_ms: 2,
            elapsed_ms: 3,
        }
    }

    fn encode(body: EventBody) -> Result<Encoded, String> {
        Encoded::new(Draft { actor: Actor::system(), body })
    }

    #[test]
    fn a_tuple_variant_has_its_data_too() {
        let body = EventBody::DeliveryUpdated(Delivery {
            repository: None,
            state: protocol::event::DeliveryState::Pushed,
            branch: "b".into(),
            commit: None,
            remote: "r".into(),
            url: None,
            number: None,
            error: None,
            command: None,
            review: None,
        });
        let encoded = encode(body.clone()).unwrap();
        assert_eq!(encoded.data, r#"{"state":"pushed","branch":"b","remote":"r"}"#);
        assert_eq!(encoded.body, body);
    }

    #[test]
    fn an_event_that_could_not_be_read_back_is_refused() {
        let body = EventBody::BudgetWarned(BudgetWarning {
            turn: TurnId::from_u128(1),
            scope: BudgetScope::Turn,
            kind: BudgetKind::Usd,
            used: f64::NAN,
            limit: 1.0,
        });
        let error = encode(body).unwrap_err();
        assert!(error.starts_with("a budget.warned event cannot be stored"), "{error}");
    }

    proptest! {
        #[test]
        fn money_comes_back_as_it_was(cost in proptest::num::f64::NORMAL) {
            prop_assert_eq!(encode(usage(Some(cost))).unwrap().body, usage(Some(cost)));
        }

        #[test]
        fn text_comes_back_as_it_was(text: String) {
            let body = EventBody::MemoryChanged { text, remembered: None };
            prop_assert_eq!(encode(body.clone()).unwrap().body, body);
        }
    }
}
