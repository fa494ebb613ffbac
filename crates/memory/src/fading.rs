//! How old and unused notes fade. What a person wrote stays as it is; what an agent wrote counts for less the longer nobody
//! had a use for it, until it is only found by who asks for it. Nothing is removed.

use protocol::{ActorKind, Note, Timestamp};

/// After as many days without use an agent's note counts half.
const HALF_LIFE_DAYS: f64 = 60.0;

/// Being useful makes a note live longer, up to this many times.
const LONGEST_LIFE: f64 = 8.0;

/// After as many uses it matters whether they were of use: a note that is offered in vain does not stay young by it.
const PATIENCE: u64 = 5;

/// A note below this is given only to who asks.
pub(crate) const FADED: f64 = 1.0 / 16.0;

const DAY_SECONDS: f64 = 86_400.0;

/// How much a note still counts: 1 for a fresh one or a person's, towards 0 for an agent's that is old and unused.
pub fn freshness(note: &Note, now: Timestamp) -> f64 {
    if note.source.author.kind == ActorKind::User {
        return 1.0;
    }
    let in_vain = note.uses >= PATIENCE && note.useful == 0;
    let used = note.used_at.filter(|_| !in_vain);
    let last = used.map_or(note.changed_at, |used| used.max(note.changed_at));
    let days = now.duration_since(last).as_secs_f64().max(0.0) / DAY_SECONDS;
    let life = HALF_LIFE_DAYS * (1.0 + note.useful as f64).min(LONGEST_LIFE);
    (-days / life).exp2()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{Actor, NoteId, NoteKind, NoteScope, NoteSource};

    use super::*;

    fn at(date: &str) -> Timestamp {
        format!("{date}T00:00:00Z").parse().unwrap()
    }

    fn note(author: Actor) -> Note {
        Note {
            id: NoteId::from_u128(1),
            scope: NoteScope::environment("shop"),
            kind: NoteKind::Fact,
            subject: None,
            text: "text".to_owned(),
            source: NoteSource::by(author),
            made_at: at("2026-01-01"),
            changed_at: at("2026-01-01"),
            uses: 0,
            useful: 0,
            used_at: None,
            replaced_by: None,
        }
    }

    #[test]
    fn an_agents_note_fades_and_a_persons_does_not() {
        let now = at("2026-03-02");
        assert!((freshness(&note(Actor::agent("m")), now) - 0.5).abs() < 1e-9);
        assert_eq!(freshness(&note(Actor::user("ana")), now), 1.0);
        assert!(freshness(&note(Actor::agent("m")), at("2026-12-31")) < FADED);
        // A clock that went back makes nothing young.
        assert_eq!(freshness(&note(Actor::agent("m")), at("2025-01-01")), 1.0);
    }

    #[test]
    fn use_keeps_a_note_young_and_use_in_vain_does_not() {
        let now = at("2026-03-02");
        let used = Note { uses: 4, used_at: Some(now), ..note(Actor::agent("m")) };
        assert_eq!(freshness(&used, now), 1.0);
        let in_vain = Note { uses: 5, ..used.clone() };
        assert!((freshness(&in_vain, now) - 0.5).abs() < 1e-9);
        let useful = Note { useful: 1, ..in_vain };
        assert_eq!(freshness(&useful, now), 1.0);
        assert!(freshness(&useful, at("2026-05-01")) > freshness(&used, at("2026-05-01")));
    }
}
