//! How good the retrieval is, measured with `tests/retrieval.toml`: how often a right note is among the first five, for the
//! fusion and for each of its arms, and how often something is offered where nothing fits.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use protocol::{Actor, Note, NoteId, NoteKind, NoteScope, NoteSource, Timestamp};
use store::{NoteKeys, Notes};

use crate::recall::{Occasion, Query, arms, recall};
use crate::words::index;
use crate::{Bundled, Embedder};

const FIRST: usize = 5;

/// Every second text is tried within a long one, too.
const LONG: usize = 2;

#[derive(serde::Deserialize)]
struct Set {
    notes: Vec<(String, NoteKind, String)>,
    tuning: Half,
    held_out: Half,
}

#[derive(serde::Deserialize)]
struct Half {
    queries: Vec<(String, Vec<String>)>,
    nothing: Vec<String>,
}

/// The notes of the set in a memory, with their names.
struct Bench {
    set: Set,
    notes: Notes,
    names: HashMap<NoteId, String>,
    scopes: [NoteScope; 1],
    _dir: tempfile::TempDir,
}

/// What one half of the set gives.
#[derive(Debug)]
struct Measured {
    asked: usize,
    fused: usize,
    words: usize,
    meaning: usize,
    offered: usize,
    in_vain: usize,
    nothing: usize,
    /// Of what was offered where something fits: all of it, and what does not fit.
    given: usize,
    wrong: usize,
    /// Prompts of all that are given something that does not fit.
    misled: usize,
    /// Of every second: the same with three sentences around it that have nothing to do with any note.
    long_offered: usize,
    long_in_vain: usize,
}

impl Bench {
    fn new() -> Self {
        let set: Set = toml::from_str(include_str!("../tests/retrieval.toml")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::open(&dir.path().join("memory.db")).unwrap();
        let scope = NoteScope::repository("https://forge.example/harbour.git");
        let mut names = HashMap::new();
        for (name, kind, text) in &set.notes {
            let id = NoteId::new();
            let note = Note {
                id,
                scope: scope.clone(),
                kind: *kind,
                subject: None,
                text: text.clone(),
                source: NoteSource::by(Actor::user("ana")),
                made_at: Timestamp::UNIX_EPOCH,
                changed_at: Timestamp::UNIX_EPOCH,
                uses: 0,
                useful: 0,
                used_at: None,
                replaced_by: None,
            };
            let vector = Bundled.embed(&[text]).unwrap().remove(0);
            let keys = NoteKeys { words: index(text).join(" "), model: Bundled.name().to_owned(), vector };
            notes.add(&note, &keys, &[]).unwrap();
            names.insert(id, name.clone());
        }
        Self { set, notes, names, scopes: [scope], _dir: dir }
    }

    fn recall(&self, text: &str, occasion: Occasion) -> Vec<String> {
        let query = Query {
            text,
            scopes: &self.scopes,
            kind: None,
            limit: FIRST,
            occasion,
            now: Timestamp::UNIX_EPOCH,
        };
        let found = recall(&self.notes, &Bundled, &query).unwrap().found;
        found.iter().map(|found| self.names[&found.note.id].clone()).collect()
    }

    /// What each arm finds by itself: the one by words, and the one by meaning.
    fn alone(&self, text: &str) -> [Vec<String>; 2] {
        let meaning = Bundled.embed_query(text).unwrap();
        let arms = arms(&self.notes, &Bundled, (text, Some(&meaning)), &self.scopes).unwrap();
        [arms.by_words, arms.by_meaning].map(|ranking| {
            let rows: Vec<i64> = ranking.iter().take(FIRST).map(|(row, _)| *row).collect();
            let notes = self.notes.at(&rows).unwrap();
            notes.iter().map(|(_, note)| self.names[&note.id].clone()).collect()
        })
    }

    fn measure(&self, half: &Half) -> Measured {
        let Half { queries, nothing } = half;
        let right = |wanted: &[String], found: &[String]| found.iter().any(|name| wanted.contains(name));
        let hits = |occasion| {
            queries.iter().filter(|(text, wanted)| right(wanted, &self.recall(text, occasion))).count()
        };
        let arms: Vec<_> = queries.iter().map(|(text, wanted)| (self.alone(text), wanted)).collect();
        let alone = |arm: usize| arms.iter().filter(|(found, wanted)| right(wanted, &found[arm])).count();
        let long = |text: &str, at: usize| {
            let other = |n: usize| &nothing[(at + n) % nothing.len()];
            let text = format!("{}. {}. {text}. {}.", other(1), other(2), other(3));
            self.recall(&text, Occasion::Offer)
        };
        let given: Vec<(Vec<String>, &Vec<String>)> =
            queries.iter().map(|(text, wanted)| (self.recall(text, Occasion::Offer), wanted)).collect();
        let wrong = |(found, wanted): &(Vec<String>, &Vec<String>)| {
            found.iter().filter(|name| !wanted.contains(name)).count()
        };
        let in_vain = nothing.iter().filter(|text| !self.recall(text, Occasion::Offer).is_empty()).count();
        Measured {
            given: given.iter().map(|(found, _)| found.len()).sum(),
            wrong: given.iter().map(wrong).sum(),
            misled: given.iter().filter(|given| wrong(given) > 0).count() + in_vain,
            long_offered: (0..)
                .zip(queries)
                .step_by(LONG)
                .filter(|(at, (text, wanted))| right(wanted, &long(text, *at)))
                .count(),
            long_in_vain: (0..)
                .zip(nothing)
                .step_by(LONG)
                .filter(|(at, text)| !long(text, *at).is_empty())
                .count(),
            asked: queries.len(),
            fused: hits(Occasion::Asked),
            words: alone(0),
            meaning: alone(1),
            offered: hits(Occasion::Offer),
            in_vain,
            nothing: nothing.len(),
        }
    }
}

/// What is promised: fusion beats both of its arms, and fewer than one prompt in twenty is given something that does not fit,
/// whether or not something else would.
fn check(measured: &Measured) {
    assert!(measured.fused > measured.words && measured.fused > measured.meaning, "{measured:?}");
    assert!(measured.in_vain * 20 < measured.nothing, "{measured:?}");
    assert!(measured.misled * 20 < measured.asked + measured.nothing, "{measured:?}");
    // Where notes are given to a prompt that has some, most of them are the right ones.
    assert!(measured.wrong * 2 < measured.given, "{measured:?}");
    assert!(measured.long_in_vain * 20 * LONG < measured.nothing, "{measured:?}");
    // A threshold that lets nothing through would be under five per cent, too.
    assert!(
        measured.offered * 8 > measured.asked && measured.long_offered * 8 * LONG > measured.asked,
        "{measured:?}"
    );
}

#[test]
fn the_set_is_whole() {
    let bench = Bench::new();
    let names: Vec<&String> = bench.set.notes.iter().map(|(name, ..)| name).collect();
    assert!(bench.names.len() == names.len() && names.len() >= 60);
    for half in [&bench.set.tuning, &bench.set.held_out] {
        assert!(half.queries.iter().flat_map(|(_, wanted)| wanted).all(|name| names.contains(&name)));
        assert!(half.queries.len() >= 60 && half.nothing.len() >= 60);
    }
    // Nothing is asked twice, not even in the other half.
    let halves = [&bench.set.tuning, &bench.set.held_out];
    let asked = halves.iter().flat_map(|half| half.queries.iter().map(|(text, _)| text).chain(&half.nothing));
    let mut seen = std::collections::HashSet::new();
    for text in asked {
        assert!(seen.insert(index(text)), "asked twice: {text}");
    }
}

/// A check that nothing can fail says nothing.
#[test]
fn a_worse_retrieval_does_not_pass() {
    let good = || Measured {
        asked: 80,
        fused: 50,
        words: 45,
        meaning: 41,
        offered: 13,
        in_vain: 1,
        nothing: 80,
        given: 19,
        wrong: 6,
        misled: 7,
        long_offered: 7,
        long_in_vain: 1,
    };
    check(&good());
    let fails = |worse: Measured| std::panic::catch_unwind(|| check(&worse)).is_err();
    assert!(fails(Measured { fused: 45, ..good() }), "no better than words alone");
    assert!(fails(Measured { meaning: 50, ..good() }), "no better than meaning alone");
    assert!(fails(Measured { in_vain: 4, ..good() }), "five per cent");
    assert!(fails(Measured { misled: 8, ..good() }), "five per cent of all");
    assert!(fails(Measured { wrong: 10, ..good() }), "more wrong than right");
    assert!(fails(Measured { offered: 10, ..good() }), "nothing is ever given");
    assert!(fails(Measured { long_in_vain: 2, ..good() }), "in long prompts");
}

#[test]
fn the_tuning_half_is_found() {
    let bench = Bench::new();
    check(&bench.measure(&bench.set.tuning));
}

#[test]
fn the_half_that_was_held_out_is_found() {
    let bench = Bench::new();
    check(&bench.measure(&bench.set.held_out));
}
