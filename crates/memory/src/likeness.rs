//! Whether two notes say the same, or the one says otherwise than the other.
//!
//! Vectors alone cannot tell: "use npm" and "never use npm" are as near as two wordings of one thing. So the words are
//! compared, sorted into what is denied, what is a value, what is a name, and the rest. The rule is careful: two notes too
//! many are a smaller harm than one that is lost.

use std::collections::BTreeSet;

use crate::bundled::Bundled;
use crate::embedder::cosine;
use crate::stop_words::is_glue;
use crate::words::content;

/// What two texts are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// They say the same in other words.
    Same,
    /// They speak of the same thing, and differ in a value or in a "not".
    Contrary,
    /// Anything else.
    Other,
}

/// Texts that share this much of their words say the same.
const SAME_WORDS: f64 = 0.8;
/// Of those that share less but this much, the meaning decides.
const MANY_WORDS: f64 = 0.5;
/// How near the meaning must be then.
const SAME_MEANING: f32 = 0.9;
/// What differs in a value or a "not" must share this much of the rest.
const SAME_STATEMENT: f64 = 0.75;

const NEGATIONS: [&str; 10] =
    ["avoid", "cannot", "forbidden", "neither", "never", "no", "nor", "not", "stop", "without"];

/// Small words that say the opposite of each other.
const OPPOSITES: [(&str, &str); 6] =
    [("after", "before"), ("down", "up"), ("in", "out"), ("may", "must"), ("off", "on"), ("over", "under")];

/// What comes after one of these is not what it would be before it: "npm, not yarn", "migrate before the deploy".
const TURNS: [&str; 7] = ["after", "before", "instead", "not", "over", "rather", "than"];

/// A number after one of these is a name: ticket 12 and ticket 13 are two things.
const NAMED_BY_NUMBER: [&str; 12] = [
    "bug", "chapter", "code", "error", "exit", "incident", "issue", "pr", "request", "sqlstate", "status",
    "ticket",
];

/// Compares two texts.
pub(crate) fn compare(old: &str, new: &str) -> Likeness {
    let (a, b) = (Gist::of(old), Gist::of(new));
    let all = a.words.union(&b.words).count();
    let shared = a.words.intersection(&b.words).count();
    if all == 0 {
        return if old.trim() == new.trim() { Likeness::Same } else { Likeness::Other };
    }
    let share = shared as f64 / all as f64;
    if a.words.symmetric_difference(&b.words).any(|word| a.names.contains(word) || b.names.contains(word)) {
        return Likeness::Other;
    }
    let alike = (a.denies == b.denies) != a.opposes(&b);
    match (alike, a.values == b.values) {
        (true, true) if share >= SAME_STATEMENT && a.is_turned(&b) => Likeness::Contrary,
        (true, true) if share >= SAME_WORDS => Likeness::Same,
        (true, true) if share >= MANY_WORDS && meaning(old, new) >= SAME_MEANING => Likeness::Same,
        (false, true) if share >= SAME_STATEMENT => Likeness::Contrary,
        (true, false) if share >= SAME_STATEMENT && a.values.len() == b.values.len() => Likeness::Contrary,
        _ => Likeness::Other,
    }
}

/// A subject in the form that is compared.
pub(crate) fn subject_key(subject: &str) -> String {
    content(subject).iter().map(|word| root(word)).collect::<Vec<_>>().join(" ")
}

fn meaning(a: &str, b: &str) -> f32 {
    let vector = |text: &str| Bundled.of_words(content(text).iter().map(String::as_str));
    cosine(&vector(a), &vector(b))
}

/// A text taken apart.
struct Gist {
    words: BTreeSet<String>,
    /// Those of the words that are names: of code, of things, of people.
    names: BTreeSet<String>,
    /// Numbers and versions, in order.
    values: Vec<String>,
    /// Whether it has an odd number of negations.
    denies: bool,
    /// Which words of [`OPPOSITES`] it has.
    sides: BTreeSet<&'static str>,
    /// The words right after one of [`TURNS`].
    turned: BTreeSet<String>,
}

impl Gist {
    fn of(text: &str) -> Self {
        let mut gist = Self {
            words: BTreeSet::new(),
            names: BTreeSet::new(),
            values: Vec::new(),
            denies: false,
            sides: BTreeSet::new(),
            turned: BTreeSet::new(),
        };
        let mut before = String::new();
        let mut turns = false;
        // The first word of a sentence is no name because of its capital.
        let mut begins = true;
        for token in text.split_whitespace() {
            let word = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '#' && c != '_');
            let lower = word.to_lowercase();
            gist.take(word, &lower, &before, begins);
            let sides = OPPOSITES.iter().flat_map(|(one, other)| [*one, *other]);
            gist.sides.extend(sides.filter(|side| *side == lower));
            if TURNS.contains(&lower.as_str()) {
                turns = true;
            } else if turns && !lower.is_empty() && !is_glue(&lower) {
                gist.turned.insert(root(&lower));
                turns = false;
            }
            begins = token.ends_with(['.', ':', ';', '!', '?']);
            before = lower;
        }
        gist
    }

    /// Whether one says "before" where the other says "after".
    fn opposes(&self, other: &Self) -> bool {
        let has = |gist: &Self, one: &str, not: &str| gist.sides.contains(one) && !gist.sides.contains(not);
        let against = |(one, two): &&(&str, &str)| {
            has(self, one, two) && has(other, two, one) || has(self, two, one) && has(other, one, two)
        };
        OPPOSITES.iter().filter(against).count() % 2 == 1
    }

    /// Whether two things have changed places.
    fn is_turned(&self, other: &Self) -> bool {
        let of = |one: &Self, other: &Self| {
            one.turned.difference(&other.turned).any(|word| other.words.contains(word))
        };
        of(self, other) && of(other, self)
    }

    fn take(&mut self, word: &str, lower: &str, before: &str, begins: bool) {
        if NEGATIONS.contains(&lower) || lower.ends_with("n't") || lower.ends_with("n’t") {
            self.denies = !self.denies;
        } else if is_value(lower) && !NAMED_BY_NUMBER.contains(&before) {
            self.values.push(lower.to_owned());
        } else if !lower.is_empty() && !is_glue(lower) {
            let root = root(lower);
            if is_name(word, begins) {
                self.names.insert(root.clone());
            }
            self.words.insert(root);
        }
    }
}

/// A number, a version, or an amount with a short unit.
fn is_value(word: &str) -> bool {
    let number = word.strip_prefix('v').unwrap_or(word);
    let unit = number.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | ':' | '_'));
    number.starts_with(|c: char| c.is_ascii_digit())
        && unit.len() <= 3
        && unit.chars().all(char::is_alphabetic)
}

fn is_name(word: &str, begins: bool) -> bool {
    let odd = |c: char| c.is_ascii_digit() || matches!(c, '_' | '#' | '/' | '.' | ':' | '@' | '-');
    let inner_capital = word.chars().skip(1).any(char::is_uppercase);
    let capital = !begins && word.starts_with(char::is_uppercase);
    capital || inner_capital || word.contains(odd)
}

/// A word without the ending that it has in this sentence. Rough, and the same for both texts.
fn root(word: &str) -> String {
    let cut = ["ing", "ed", "es", "s"]
        .into_iter()
        .filter(|ending| word.len() >= ending.len() + 3 && !word.ends_with("ss"))
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    cut.strip_suffix('e').filter(|cut| cut.len() >= 3).unwrap_or(cut).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_the_same_are_the_same() {
        for (a, b) in [
            ("The storefront is installed with pnpm.", "storefront is installed with pnpm"),
            ("Run the tests with `just test`", "Running tests: run the test with `just test`."),
            ("Never deploy on Fridays", "We never deploy on a Friday."),
            ("Use npm, not yarn", "Here one uses npm and not yarn."),
            ("Run migrations before the deploy", "The migrations are run before each deploy"),
            ("The flag is on in staging", "In staging the flag is on"),
        ] {
            assert_eq!(compare(a, b), Likeness::Same, "{a} | {b}");
            assert_eq!(compare(b, a), Likeness::Same, "{b} | {a}");
        }
    }

    #[test]
    fn another_value_or_a_not_is_contrary() {
        for (a, b) in [
            ("The API listens on port 8080", "The API listens on port 9090"),
            ("The web front end needs Node 20", "The web front end needs Node 22."),
            ("CI has 8 GB of memory", "CI has 16 GB of memory"),
            ("Deploy on Fridays", "Do not deploy on Fridays"),
            ("Snapshots are committed", "Snapshots aren't committed"),
            ("The cache is cleared by hand after v1.2", "The cache is cleared by hand after v2.0"),
            ("Clear the cache before the deploy", "Clear the cache after the deploy"),
            ("The feature flag is on in staging", "The feature flag is off in staging"),
            ("Reviews must be done by two people", "Reviews may be done by two people"),
            ("Use npm, not yarn", "Use yarn, not npm"),
            ("Install with yarn instead of npm", "Install with npm instead of yarn"),
            ("Run migrations before the deploy", "Run the deploy before migrations"),
        ] {
            assert_eq!(compare(a, b), Likeness::Contrary, "{a} | {b}");
            assert_eq!(compare(b, a), Likeness::Contrary, "{b} | {a}");
        }
    }

    #[test]
    fn what_speaks_of_something_else_stays() {
        for (a, b) in [
            ("The API listens on port 8080", "The worker listens on port 8081"),
            ("Ana reviews payments", "Jonas reviews payments"),
            ("Ticket 12 was caused by a slow disk", "Ticket 13 was caused by a slow disk"),
            ("error E0277 is fixed by importing SumMoney", "error E0599 is fixed by importing SumMoney"),
            ("`parse_date` takes UTC", "`parse_time` takes UTC"),
            ("exit code 137 is lack of memory", "exit code 139 is lack of memory"),
            ("Staging is refreshed on Mondays", "Production is never refreshed"),
            ("", "text"),
            ("the", "a"),
        ] {
            assert_eq!(compare(a, b), Likeness::Other, "{a} | {b}");
            assert_eq!(compare(b, a), Likeness::Other, "{b} | {a}");
        }
    }

    #[test]
    fn subjects_are_compared_by_their_words() {
        assert_eq!(subject_key("Package manager"), subject_key("the package-managers"));
        assert_ne!(subject_key("test command"), subject_key("build command"));
    }
}
