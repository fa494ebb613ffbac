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
        source: NoteSource { author: Actor::user("ana"), session: None, seq: None },
        used_at: None,
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
    let lines = vec![
        round_trip(&NoteList { notes: vec![note, plain] }),
        round_trip(&new),
        round_trip(&edit),
        round_trip(&Remembered::New { id }),
        round_trip(&Remembered::Merged { id }),
        round_trip(&Remembered::Replaced { id, old }),
        round_trip(&Remembered::Refused { by: id }),
        round_trip(&FoundNotes { found: vec![found] }),
        round_trip(&RestoreReport { notes: 2, ..RestoreReport::default() }),
    ];
    compare("memory.jsonl", lines);
}
