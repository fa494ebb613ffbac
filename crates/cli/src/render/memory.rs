//! What of the memory an event tells, in a line: notes that a model was given, and what was remembered.

use protocol::{EventBody, ItemKind, Remembered};

use super::text;

/// The line; None for events that tell nothing of it.
pub(crate) fn line(body: &EventBody) -> Option<String> {
    match body {
        EventBody::ItemCompleted { item, .. } => match &item.kind {
            ItemKind::Notice { notes, .. } if !notes.is_empty() => {
                let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
                Some(format!("the agent was given {}", notes.join(", ")))
            }
            _ => None,
        },
        EventBody::MemoryChanged { text: words, remembered } => {
            let what = text::harmless(&text::first_line(words));
            Some(match remembered {
                Some(Remembered::New { id }) => format!("remembered as {id}: {what}"),
                Some(Remembered::Merged { id }) => format!("one with {id} now: {what}"),
                Some(Remembered::Replaced { id, old }) => {
                    let old: Vec<String> = old.iter().map(ToString::to_string).collect();
                    format!("remembered as {id}, in the place of {}: {what}", old.join(", "))
                }
                Some(Remembered::Refused { .. }) | None => what,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use protocol::{Item, ItemId, ItemStatus, NoteId, TurnId};

    use super::*;

    #[test]
    fn what_was_given_and_remembered_is_one_line_each() {
        let kind = ItemKind::Notice { text: "long".into(), notes: vec![NoteId::from_u128(1)] };
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        let given = line(&EventBody::ItemCompleted { turn: TurnId::new(), item: item.clone() }).unwrap();
        assert_eq!(given, "the agent was given mem_00000000000000000000000001");
        let plain = Item { kind: ItemKind::notice("x"), ..item };
        assert_eq!(line(&EventBody::ItemCompleted { turn: TurnId::new(), item: plain }), None);
        let (id, old) = (NoteId::from_u128(2), vec![NoteId::from_u128(1)]);
        let remembered = Some(Remembered::Replaced { id, old });
        let said = line(&EventBody::MemoryChanged { text: "fact\u{1b}[31m\nx".into(), remembered }).unwrap();
        assert!(said.contains("in the place of mem_") && !said.contains(['\u{1b}', '\n']), "{said}");
    }
}
