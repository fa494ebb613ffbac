//! Memory on the wire: what is written, what is found, and what becomes of a note.

use protocol::*;

use super::{at, compare, round_trip};

#[test]
fn notes_are_written_as_they_always_were() {
    let note = Note {
        id: NoteId::from_u128(30),
        scope: NoteScope::repository("https://forge.example/shop.git"),
        kind: NoteKind::ErrorPattern,
        subject: Some("package manager".to_owned()),
        text: "npm breaks the lockfile".to_owned(),
        source: NoteSource {
            author: Actor::agent("main"),
            session: Some(SessionId::from_u128(1)),
            seq: Some(7),
            turn: None,
        },
        made_at: at(),
        changed_at: at(),
        uses: 3,
        useful: 1,
        used_at: Some(at()),
        replaced_by: Some(NoteId::from_u128(31)),
    };
    let plain = Note {
        subject: None,
        kind: NoteKind::Fact,
        scope: NoteScope::person("ana"),
        source: NoteSource::by(Actor::user("ana")),
        used_at: None,
        replaced_by: None,
        ..note.clone()
    };
    let of_a_turn = Note {
        source: NoteSource { turn: Some(TurnId::from_u128(3)), ..note.source.clone() },
        replaced_by: None,
        ..note.clone()
    };
    let new = NewNote {
        scope: NoteScope::environment("shop"),
        kind: NoteKind::Decision,
        subject: None,
        text: "pnpm only".to_owned(),
    };
    let edit = EditNote { text: Some("pnpm".to_owned()), kind: None, subject: Some(String::new()) };
    let (id, old) = (NoteId::from_u128(32), vec![NoteId::from_u128(30)]);
    let found = FoundNote { note: plain.clone(), relevance: 1.5, why: "has npm; meaning 0.50".to_owned() };
    let changed = EventBody::MemoryChanged {
        text: "fact (package manager): pnpm only".to_owned(),
        remembered: Some(Remembered::New { id }),
    };
    let given = Item {
        id: ItemId::from_u128(40),
        status: ItemStatus::Completed,
        kind: ItemKind::Notice { text: "From the memory: …".to_owned(), notes: vec![id] },
    };
    let lines = vec![
        round_trip(&NoteList { notes: vec![note, plain] }),
        round_trip(&new),
        round_trip(&edit),
        round_trip(&Remembered::New { id }),
        round_trip(&Remembered::Merged { id }),
        round_trip(&Remembered::Replaced { id, old }),
        round_trip(&Remembered::Refused { by: id }),
        round_trip(&FoundNotes { found: vec![found], words_only: None }),
        round_trip(&RestoreReport { notes: 2, ..RestoreReport::default() }),
        round_trip(&of_a_turn),
        round_trip(&FoundNotes { found: Vec::new(), words_only: Some("the endpoint is down".to_owned()) }),
        round_trip(&changed),
        round_trip(&given),
        round_trip(&Environment { memory: false, ..Environment::default() }),
    ];
    compare("memory.jsonl", lines);
}
