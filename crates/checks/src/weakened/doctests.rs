//! Examples in documentation that are tests: `>>>` of Python, and code blocks in the comments of Rust. One that goes while what
//! it explains stays, or that is marked as mere text, takes a test away.

use std::collections::HashMap;

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File, Line};
use super::language::Language;
use super::{finding, quote};

/// What is found in a file.
pub(super) fn found(file: &File<'_>) -> Option<Weakening> {
    if file.old.is_empty() || file.new.is_empty() {
        return None;
    }
    let sides = match Language::of(file.new)? {
        Language::Python => (python(file, Change::Removed), python(file, Change::Added)),
        Language::Rust => (rust(file, Change::Removed), rust(file, Change::Added)),
        _ => return None,
    };
    let (before, now) = sides;
    // What is explained by them must still be there; an example that stands elsewhere now is none that went.
    let all = |side: &Examples<'_>| side.values().map(|(count, _)| count).sum::<usize>();
    if all(&now) >= all(&before) {
        return None;
    }
    let mut gone: Vec<(u32, &str)> = before
        .iter()
        .filter(|(name, (count, _))| now.get(*name).is_some_and(|(left, _)| left < count))
        .filter_map(|(_, (_, first))| *first)
        .collect();
    gone.sort_unstable();
    let (line, text) = gone.first()?;
    let what = format!("an example that is a test is not run any more: {}", quote(text));
    Some(finding(file, Kind::TestRemoved, Some(*line), what))
}

/// How many examples what is defined has, by its name, and where the first is. What has none is there, too.
type Examples<'a> = HashMap<&'a str, (usize, Option<(u32, &'a str)>)>;

fn lines<'a>(file: &'a File<'_>, side: Change) -> impl Iterator<Item = &'a Line<'a>> {
    file.lines().filter(move |line| line.change == side || line.change == Change::Kept)
}

/// Those of Python stand below the name.
fn python<'a>(file: &'a File<'_>, side: Change) -> Examples<'a> {
    let mut found = Examples::from([("", (0, None))]);
    let mut name = "";
    for line in lines(file, side) {
        let text = line.text.trim();
        if let Some(defined) = defines(text, &["def ", "async def ", "class "]) {
            name = defined;
            found.entry(name).or_default();
        } else if text.starts_with(">>>") {
            let (count, first) = found.entry(name).or_default();
            *count += 1;
            first.get_or_insert((line.number, text));
        }
    }
    found
}

/// Those of Rust stand above it.
fn rust<'a>(file: &'a File<'_>, side: Change) -> Examples<'a> {
    let mut found = Examples::from([("", (0, None))]);
    let (mut count, mut first, mut open) = (0, None, false);
    for line in lines(file, side) {
        let text = line.text.trim();
        let inner = text.strip_prefix("//!");
        let comment = inner.or_else(|| text.strip_prefix("///")).map(str::trim);
        if let Some(language) = comment.and_then(|comment| comment.strip_prefix("```")) {
            open = !open;
            let runs = language.split(',').map(str::trim).all(|word| {
                matches!(word, "" | "rust" | "should_panic" | "no_run" | "standalone" | "standalone_crate")
                    || word.starts_with("edition")
            });
            if open && runs {
                if inner.is_some() {
                    let (count, first) = found.entry("").or_default();
                    *count += 1;
                    first.get_or_insert((line.number, text));
                } else {
                    count += 1;
                    first.get_or_insert((line.number, text));
                }
            }
        } else if comment.is_none() && !text.starts_with("#[") && !text.is_empty() {
            open = false;
            let words = ["fn ", "struct ", "enum ", "trait ", "macro_rules! ", "mod ", "type ", "const "];
            if let Some(name) = words.iter().find_map(|word| defines(text, &[word])) {
                let (all, of) = found.entry(name).or_default();
                *all += count;
                *of = of.or(first);
            }
            (count, first) = (0, None);
        }
    }
    found
}

/// The name behind one of these words, at the beginning of a line or behind what makes it public.
fn defines<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    let text = match text.strip_prefix("pub") {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest),
        None => text,
    };
    let text = ["const ", "unsafe ", "async "]
        .iter()
        .fold(text, |text, word| text.strip_prefix(word).filter(|rest| rest.contains("fn ")).unwrap_or(text));
    let rest = words.iter().find_map(|word| text.strip_prefix(word))?;
    let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (length > 0).then(|| &rest[..length])
}
