//! What fits a question: a ranking by words, one by the meaning of the whole and one by the meaning of each word, fused by
//! rank; and a measure of how well each note fits, below which nothing is offered.
//!
//! The measure is the cosine of the meanings, plus twice the share of the question's words that the note has, plus how much
//! these words say. The numbers were chosen with the tuning half of `tests/retrieval.toml` and are checked with the half that was
//! held out.

use std::collections::{BTreeSet, HashMap};

use protocol::{FoundNote, Note, NoteKind, NoteScope, Timestamp};
use store::Notes;

use crate::Error;
use crate::bundled::Bundled;
use crate::embedder::{EmbedError, Embedder, cosine, length, normalise};
use crate::fading::{FADED, freshness};
use crate::words::{content, index, terms};

/// From here on a note is offered.
const OFFERED: f64 = 1.47;
/// Below this not even who asks is told.
const TOLD: f64 = 0.2;
/// How many of each ranking are looked at closely.
const CANDIDATES: usize = 20;
/// Of rank fusion: how little the first places stand out.
const EVENNESS: f64 = 10.0;
/// What the places in each ranking count: by words, by the meaning of the whole, by the meaning of each word.
const COUNTS: [f64; 3] = [1.0, 0.5, 1.0];
/// What the share of words counts, where the cosine counts one.
const SHARE_COUNTS: f64 = 2.0;
/// What a word of weight one in a note of ordinary length adds to how well it fits.
const PER_WORD: f64 = 1.0 / 16.0;
/// Words of an ordinary note. In a longer one a word counts less, as BM25 has it.
const NOTE_WORDS: f64 = 20.0;
/// A question of one or two words is as if it had some more, of this weight: they fit too easily.
const SILENT_WORDS: f64 = 6.0;
/// The length that an ordinary word has in the bundled model: a longer one says more.
const ORDINARY: f64 = 60.0;
/// What is rare among a handful of notes need not be rare: rarity is measured as if there were at least so many.
const LEAST_NOTES: usize = 80;
/// A long question is taken in parts, since the few words that matter would be lost among the others. A part has at least as
/// many words, and ends with a sentence: fewer fit too easily.
const PART_WORDS: usize = 5;
/// Parts that are looked at, from the beginning.
const PARTS: usize = 16;
/// Words of a part that are looked up.
const TERMS: usize = 64;
/// With each doubling of the parts a note must fit better by this much, since each part is one more chance to err.
const PER_DOUBLING: f64 = 0.05;
/// What a faded note keeps of how well it fits.
const FADED_FIT: f64 = 0.6;

/// Who wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// Nobody asked: what is found is put before a model unasked, so only what surely fits.
    Offer,
    /// A person or a model asked, and can judge.
    Asked,
}

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// A prompt or a question.
    pub text: &'a str,
    /// Only notes of these.
    pub scopes: &'a [NoteScope],
    /// Only notes of this kind, where one is named.
    pub kind: Option<NoteKind>,
    /// At most so many.
    pub limit: usize,
    /// Who wants to know.
    pub occasion: Occasion,
    /// The time, by which old notes fade.
    pub now: Timestamp,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// The best first.
    pub found: Vec<FoundNote>,
    /// Why only words were compared, where the embedding model could not be asked.
    pub words_only: Option<EmbedError>,
}

/// A note with its places in the rankings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) note: Note,
    /// How well it fits.
    pub(crate) relevance: f64,
    /// Its place among the others, the higher the better.
    pub(crate) fused: f64,
    /// How near its words are to those of the question.
    each: f64,
    cosine: f64,
    words: Vec<String>,
}

/// What the two ways of searching found by themselves, each the best first.
pub(crate) struct Arms {
    pub(crate) by_words: Vec<(i64, f64)>,
    pub(crate) by_meaning: Vec<(i64, f64)>,
    terms: Vec<Term>,
}

/// A word of the question.
struct Term {
    word: String,
    /// How rare it is among these notes.
    rarity: f64,
    /// How much it says by itself.
    says: f64,
    /// What it means.
    vector: Vec<f32>,
    rows: BTreeSet<i64>,
}

/// Finds the notes that fit, the best first.
pub(crate) fn recall(notes: &Notes, embedder: &dyn Embedder, query: &Query<'_>) -> Result<Recalled, Error> {
    let mut found: Vec<Ranked> = Vec::new();
    let parts = parts(query.text);
    let of_kind = query.kind.map(|kind| notes.of_kind(kind, query.scopes)).transpose()?;
    let of_kind: Option<BTreeSet<i64>> = of_kind.map(|rows| rows.into_iter().collect());
    if of_kind.as_ref().is_some_and(BTreeSet::is_empty) {
        return Ok(Recalled { found: Vec::new(), words_only: None });
    }
    let texts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (meanings, words_only) = match embedder.embed_queries(&texts) {
        Ok(meanings) => (meanings, None),
        Err(error) => {
            tracing::warn!(%error, "notes are looked for by their words only");
            (Vec::new(), Some(error))
        }
    };
    let wanted = match query.occasion {
        Occasion::Offer => OFFERED + PER_DOUBLING * (parts.len().max(1) as f64).log2(),
        Occasion::Asked => TOLD,
    };
    for (place, part) in parts.iter().enumerate() {
        let meaning = meanings.get(place).map(Vec::as_slice);
        let mut arms = arms(notes, embedder, (part, meaning), query.scopes)?;
        if let Some(rows) = &of_kind {
            arms.by_words.retain(|(row, _)| rows.contains(row));
            arms.by_meaning.retain(|(row, _)| rows.contains(row));
        }
        for ranked in rank(notes, &arms)? {
            match found.iter_mut().find(|other| other.note.id == ranked.note.id) {
                Some(other) if other.relevance < ranked.relevance => *other = ranked,
                Some(_) => {}
                None => found.push(ranked),
            }
        }
    }
    let mut found: Vec<(f64, Ranked)> =
        found.into_iter().filter_map(|ranked| weigh(ranked, query, wanted)).collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let found = found
        .into_iter()
        .take(query.limit)
        .map(|(_, ranked)| FoundNote { why: ranked.why(), relevance: ranked.relevance, note: ranked.note })
        .collect();
    Ok(Recalled { found, words_only })
}

/// Its place with what its age makes of it; none when it does not fit well enough.
fn weigh(mut ranked: Ranked, query: &Query<'_>, wanted: f64) -> Option<(f64, Ranked)> {
    let fresh = freshness(&ranked.note, query.now);
    let kept = FADED_FIT + (1.0 - FADED_FIT) * fresh;
    ranked.relevance *= kept;
    let faded = query.occasion == Occasion::Offer && fresh < FADED;
    (ranked.relevance >= wanted && !faded).then_some((ranked.fused * kept, ranked))
}

/// Asks the full text, and the meanings where it is known what the text means.
pub(crate) fn arms(
    notes: &Notes,
    embedder: &dyn Embedder,
    (text, meaning): (&str, Option<&[f32]>),
    scopes: &[NoteScope],
) -> Result<Arms, Error> {
    let vectors = notes.vectors(embedder.name(), scopes)?;
    let mut by_row: HashMap<i64, f64> = HashMap::new();
    let mut found = Vec::new();
    for word in terms(text).into_iter().take(TERMS) {
        let matches = notes.with_word(&word, scopes)?;
        let (all, having) = (vectors.len().max(LEAST_NOTES) as f64, matches.len() as f64);
        let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
        let sum = Bundled.sum([word.as_str()]);
        // One that the model does not know says as much as an ordinary one.
        let says = sum.as_deref().map_or(1.0, |vector| length(vector) / ORDINARY);
        let mut vector = sum.unwrap_or_default();
        normalise(&mut vector);
        let mut rows = BTreeSet::new();
        for (row, score) in matches {
            *by_row.entry(row).or_default() += score;
            rows.insert(row);
        }
        found.push(Term { word, rarity, says, vector, rows });
    }
    // A note that this model has not seen yet has no meaning that could be compared.
    let seen = |(_, vector): &&(i64, Vec<f32>)| !vector.is_empty();
    let alike = |vector: &[f32], wanted: &[f32]| f64::from(embedder.likeness(cosine(vector, wanted)));
    let by_meaning = meaning.map_or_else(Vec::new, |wanted| {
        vectors.iter().filter(seen).map(|(row, vector)| (*row, alike(vector, wanted))).collect()
    });
    Ok(Arms {
        by_words: best_first(by_row.into_iter().collect()),
        by_meaning: best_first(by_meaning),
        terms: found,
    })
}

/// Looks closely at the first notes of both, and fuses the rankings.
pub(crate) fn rank(notes: &Notes, arms: &Arms) -> Result<Vec<Ranked>, Error> {
    let first =
        |ranking: &[(i64, f64)]| ranking.iter().take(CANDIDATES).map(|(row, _)| *row).collect::<Vec<_>>();
    let (words, meaning) = (first(&arms.by_words), first(&arms.by_meaning));
    let wanted: BTreeSet<i64> = words.iter().chain(&meaning).copied().collect();
    let cosines: HashMap<i64, f64> = arms.by_meaning.iter().copied().collect();
    let mut ranked: Vec<(i64, Ranked)> = notes
        .at(&wanted.into_iter().collect::<Vec<_>>())?
        .into_iter()
        .map(|(row, note)| (row, measure(row, note, &arms.terms, cosines.get(&row).copied())))
        .collect();
    let by_each = best_first(ranked.iter().map(|(row, ranked)| (*row, ranked.each)).collect());
    for (ranking, counts) in [words, meaning, first(&by_each)].into_iter().zip(COUNTS) {
        for (place, row) in (1_u32..).zip(ranking) {
            if let Some((_, ranked)) = ranked.iter_mut().find(|(other, _)| *other == row) {
                ranked.fused += counts / (EVENNESS + f64::from(place));
            }
        }
    }
    ranked.sort_by(|(row, a), (other, b)| b.fused.total_cmp(&a.fused).then(row.cmp(other)));
    Ok(ranked.into_iter().map(|(_, ranked)| ranked).collect())
}

/// How well one note fits.
fn measure(row: i64, note: Note, terms: &[Term], cosine: Option<f64>) -> Ranked {
    let cosine = cosine.unwrap_or_default();
    let had: Vec<&Term> = terms.iter().filter(|term| term.rows.contains(&row)).collect();
    let weight = |term: &Term| term.rarity * term.says;
    let all: f64 = terms.iter().map(weight).sum();
    let share = had.iter().map(|term| weight(term)).sum::<f64>() / (all + SILENT_WORDS);
    // BM25 for words that are there once, with its usual constants.
    let words = index(&note.text).len() as f64;
    let of_length = 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * words / NOTE_WORDS));
    let strength = had.iter().map(|term| term.rarity * of_length).sum::<f64>() * PER_WORD;
    let each = by_each_word(&note.text, row, terms);
    let words = had.iter().map(|term| term.word.clone()).collect();
    Ranked { note, relevance: cosine + SHARE_COUNTS * share + strength, each, fused: 0.0, cosine, words }
}

/// How near the words of a question are to the nearest of a note's, on average; what says more counts more.
fn by_each_word(text: &str, row: i64, terms: &[Term]) -> f64 {
    let words: BTreeSet<String> = content(text).into_iter().collect();
    let vectors: Vec<Vec<f32>> = words.iter().map(|word| Bundled.of_words([word.as_str()])).collect();
    let nearest = |term: &Term| {
        if term.rows.contains(&row) {
            return 1.0;
        }
        vectors.iter().map(|vector| f64::from(cosine(vector, &term.vector))).fold(0.0, f64::max)
    };
    let all: f64 = terms.iter().map(|term| term.says).sum();
    if all > 0.0 { terms.iter().map(|term| term.says * nearest(term)).sum::<f64>() / all } else { 0.0 }
}

fn best_first(mut ranking: Vec<(i64, f64)>) -> Vec<(i64, f64)> {
    ranking.sort_by(|(row, a), (other, b)| b.total_cmp(a).then(row.cmp(other)));
    ranking
}

/// A short question as it is, a long one in parts of whole sentences. The beginning of a very long one.
fn parts(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let (mut part, mut words) = (String::new(), 0);
    for sentence in sentences(text) {
        part.push_str(sentence);
        words += terms(sentence).len();
        if words >= PART_WORDS {
            parts.push(std::mem::take(&mut part));
            words = 0;
        }
        if parts.len() == PARTS {
            return parts;
        }
    }
    match parts.last_mut() {
        Some(last) => last.push_str(&part),
        None => parts.push(part),
    }
    parts
}

/// A text in sentences. The dot of "it.rs" ends none.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut before = ' ';
        let ends = |c: char, before: char| {
            c == '\n' || (c.is_whitespace() && matches!(before, '.' | '?' | '!' | ';'))
        };
        let end = rest.char_indices().find_map(|(at, c)| {
            let end = ends(c, before).then_some(at + c.len_utf8());
            before = c;
            end
        });
        let (sentence, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!sentence.is_empty()).then_some(sentence)
    })
}

impl Ranked {
    fn why(&self) -> String {
        let mut why = Vec::new();
        if !self.words.is_empty() {
            why.push(format!("has {}", self.words.join(", ")));
        }
        why.push(format!("meaning {:.2}", self.cosine));
        why.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_question_is_taken_in_parts() {
        assert_eq!(parts("One short question. And another?"), ["One short question. And another?"]);
        let words = |from: usize| (from..from + 8).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
        let text = format!("{}. {}. Thanks! {} in src/it.rs. Bye.", words(0), words(8), words(16));
        let taken = parts(&text);
        assert_eq!(taken.len(), 3, "{taken:?}");
        assert_eq!(taken.concat(), text);
        assert!(taken[2].ends_with("it.rs. Bye."), "{taken:?}");
        let long: String = (0..100).map(|n| format!("{}.\n", words(n))).collect();
        assert_eq!(parts(&long).len(), PARTS);
    }
}
