//! Tests that are run with less: loops over a part of their cases, properties with fewer or chosen examples, and assumptions
//! that leave out what would fail.

use std::collections::{HashMap, HashSet};

use protocol::WeakeningKind as Kind;

use super::diff::{Change, File, Line};
use super::quote;

/// What takes a part of a list.
const PARTS: [&str; 18] = [
    ".filter(",
    ".slice(",
    ".splice(",
    ".take(",
    ".skip(",
    ".head(",
    ".limit(",
    ".first(",
    ".step_by(",
    ".Where(",
    ".Take(",
    ".Skip(",
    "islice(",
    "filter(",
    "[:",
    "[0:",
    "[1:",
    " if ",
];
/// Settings of how many examples are tried.
pub(super) const COUNTS: [&str; 12] = [
    "max_examples",
    "with_cases",
    "cases",
    "numRuns",
    "num_runs",
    "min_tests",
    "minSuccessful",
    "QuickCheckMaxCount",
    "trials",
    "iterations",
    "RepeatedTest",
    "range",
];
/// What leaves examples out, or chooses them.
pub(super) const CHOSEN: [&str; 10] = [
    "prop_assume!(",
    "assume(",
    "fc.pre(",
    "just(",
    "Just(",
    "fc.constant(",
    "st.nothing(",
    "max_size=0",
    "Gen.const(",
    "TestResult::discard(",
];

pub(super) type Told = (Kind, u32, String);

/// What is found in the changes of a file with tests.
pub(super) fn found(file: &File<'_>) -> Option<Told> {
    let told = |line: &Line<'_>, what: String| (Kind::AssertionRemoved, line.number, what);
    for block in file.hunks.iter().flat_map(|hunk| super::blocks(hunk)) {
        let of = |change: Change| block.iter().filter(move |line| line.change == change);
        let loops = |change| of(change).filter(|line| is_loop(line.text));
        for (was, is) in loops(Change::Removed).zip(loops(Change::Added)) {
            if let Some(part) = inserted(was.text, is.text)
                && PARTS.iter().any(|word| part.contains(word.trim_end()))
            {
                let what = format!("it goes over a part only: {} was {}", quote(is.text), quote(was.text));
                return Some(told(is, what));
            }
        }
        let mut was: HashMap<&str, f64> = HashMap::new();
        for (key, number) in of(Change::Removed).filter_map(|line| counted(line.text)) {
            was.entry(key).or_insert(number);
        }
        let fewer = of(Change::Added).find_map(|line| {
            let (key, number) = counted(line.text)?;
            was.get(key).filter(|was| number < **was).map(|was| (line, *was))
        });
        if let Some((line, was)) = fewer {
            return Some((
                Kind::RuleLoosened,
                line.number,
                format!("fewer examples are tried: {} had {was}", quote(line.text)),
            ));
        }
        // A new property may assume what it likes.
        let begins = of(Change::Added).any(|line| {
            let text = line.text.trim_start();
            ["def test", "fn ", "it(", "test(", "#[test]"].iter().any(|word| text.starts_with(word))
        });
        if begins {
            continue;
        }
        let words = |change| {
            let of = of(change);
            of.flat_map(|line| {
                CHOSEN.iter().filter(|word| line.text.contains(**word)).map(move |word| (*word, line))
            })
        };
        let had: HashSet<&str> = words(Change::Removed).map(|(word, _)| word).collect();
        if let Some((_, line)) = words(Change::Added).find(|(word, _)| !had.contains(word)) {
            let what = format!("what is tried leaves something out: {}", quote(line.text));
            return Some(told(line, what));
        }
    }
    None
}

fn is_loop(text: &str) -> bool {
    let text = text.trim_start();
    ["for ", "for(", "while "].iter().any(|word| text.starts_with(word))
        || [".each(", ".forEach(", "parametrize(", ".for(", "subTest("].iter().any(|word| text.contains(word))
}

/// What stands in a line that was not in it before, where the rest is the same.
fn inserted<'a>(was: &str, is: &'a str) -> Option<&'a str> {
    let (was, is) = (was.trim(), is.trim());
    let begin = was
        .char_indices()
        .zip(is.chars())
        .find(|((_, a), b)| a != b)
        .map_or(was.len().min(is.len()), |((at, _), _)| at);
    let end: usize = was[begin..]
        .chars()
        .rev()
        .zip(is[begin..].chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    (begin + end == was.len() && is.len() > was.len()).then(|| is.get(begin..is.len() - end)).flatten()
}

/// The number of examples on a line, with the word that it stands behind.
fn counted(text: &str) -> Option<(&'static str, f64)> {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    COUNTS.iter().find_map(|key| {
        let (before, rest) = dense.split_once(key)?;
        if before.ends_with(|c: char| c.is_alphanumeric()) {
            return None;
        }
        let rest = rest.strip_prefix(['=', ':', '('])?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((*key, rest[..end].parse().ok()?))
    })
}
