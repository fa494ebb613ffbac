//! Finding the text that an edit means, in four stages from strict to lenient. The first stage that finds anything
//! decides; a later one never widens what an earlier one found. What is outside a match stays byte for byte.

use std::ops::Range;

/// A place in the file and what takes its place.
pub(super) struct Replacement {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

type Stage = fn(&str, &str, &str, &str) -> Vec<Replacement>;

/// Every match of `old`, in order, possibly overlapping. `old` and `new` have plain line ends; the file has `line_end`.
pub(super) fn find(content: &str, old: &str, new: &str, line_end: &str) -> Vec<Replacement> {
    let stages: [Stage; 4] = [exact, trailing, indented, punctuated];
    stages
        .iter()
        .map(|stage| stage(content, old, new, line_end))
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

fn exact(content: &str, old: &str, new: &str, line_end: &str) -> Vec<Replacement> {
    let old = old.replace('\n', line_end);
    occurrences(content, &old)
        .map(|at| Replacement { range: at..at + old.len(), text: new.replace('\n', line_end) })
        .collect()
}

/// Like `match_indices`, but with matches that overlap: they too make an edit ambiguous.
fn occurrences<'a>(content: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + content.get(from..)?.find(wanted)?;
        from = at + content[at..].chars().next().map_or(1, char::len_utf8);
        Some(at)
    })
}

/// Whole lines that are the same apart from white space at their ends.
fn trailing(content: &str, old: &str, new: &str, line_end: &str) -> Vec<Replacement> {
    by_line(content, old, line_end, |there, wanted| {
        let same = there.iter().zip(wanted).all(|(there, wanted)| there.trim_end() == wanted.trim_end());
        same.then(|| new.to_owned())
    })
}

/// Whole lines that are the same apart from an indentation that differs throughout in one way.
fn indented(content: &str, old: &str, new: &str, line_end: &str) -> Vec<Replacement> {
    by_line(content, old, line_end, |there, wanted| {
        if !there.iter().zip(wanted).all(|(there, wanted)| there.trim() == wanted.trim()) {
            return None;
        }
        let pairs: Vec<(&str, &str)> = there
            .iter()
            .zip(wanted)
            .filter(|(there, _)| !there.trim().is_empty())
            .map(|(there, wanted)| (indent(there), indent(wanted)))
            .collect();
        Some(Shift::between(&pairs)?.apply(new))
    })
}

/// Text that is the same once typographic punctuation is made plain. Whole lines that `new` leaves as `old` has them, at its
/// beginning and at its end, stay as the file has them.
fn punctuated(content: &str, old: &str, new: &str, line_end: &str) -> Vec<Replacement> {
    let made_plain = |text: &str| text.chars().map(plain_char).collect::<String>();
    let (plain, wanted) = (made_plain(content), made_plain(&old.replace('\n', line_end)));
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count().min(most);
    let length = |lines: &[&str]| made_plain(&lines.concat().replace('\n', line_end)).len();
    let (from, to) = (length(&old[..before]), length(&old[..old.len() - after]));
    let text = new[before..new.len() - after].concat().replace('\n', line_end);
    let places: Vec<usize> = occurrences(&plain, &wanted).collect();
    // Each character became exactly one, so one walk along both texts finds every place.
    let mut asked: Vec<usize> = places.iter().flat_map(|at| [at + from, at + to]).collect();
    asked.sort_unstable();
    asked.dedup();
    let mut both = plain.char_indices().zip(content.char_indices()).peekable();
    let mut offsets = Vec::with_capacity(asked.len());
    for wanted in &asked {
        while both.next_if(|((at, _), _)| at < wanted).is_some() {}
        offsets.push(both.peek().map_or(content.len(), |(_, (at, _))| *at));
    }
    let offset = |at: usize| asked.binary_search(&at).map_or(content.len(), |index| offsets[index]);
    let replaced = |at: usize| Replacement { range: offset(at + from)..offset(at + to), text: text.clone() };
    places.into_iter().map(replaced).collect()
}

fn plain_char(char: char) -> char {
    match char {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{00a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// Tries every run of lines as long as `old`; `fit` gives the text that takes its place.
fn by_line(
    content: &str,
    old: &str,
    line_end: &str,
    fit: impl Fn(&[&str], &[&str]) -> Option<String>,
) -> Vec<Replacement> {
    // Lines of white space alone are everywhere, so they say nothing about the place that is meant.
    if old.trim().is_empty() {
        return Vec::new();
    }
    let wanted: Vec<&str> = old.lines().collect();
    let mut starts = Vec::new();
    let mut there = Vec::new();
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        starts.push(at);
        there.push(line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line)));
        at += line.len();
    }
    let mut found = Vec::new();
    for (first, window) in there.windows(wanted.len()).enumerate() {
        let Some(text) = fit(window, &wanted) else { continue };
        let last = first + wanted.len() - 1;
        let end = if old.ends_with('\n') {
            starts.get(last + 1).copied().unwrap_or(content.len())
        } else {
            starts[last] + there[last].len()
        };
        found.push(Replacement { range: starts[first]..end, text: text.replace('\n', line_end) });
    }
    found
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// How the file's indentation differs from the model's.
enum Shift<'a> {
    /// The file has this much more.
    More(&'a str),
    /// The file has this much less.
    Less(&'a str),
    /// The file has one tab where the model wrote this many spaces.
    Tabs(usize),
    /// The file has this many spaces where the model wrote one tab.
    Spaces(usize),
}

impl<'a> Shift<'a> {
    /// The one shift that explains every pair of the file's and the model's indentation.
    fn between(pairs: &[(&'a str, &'a str)]) -> Option<Self> {
        let (there, wanted) = *pairs.first()?;
        if let Some(more) = there.strip_suffix(wanted)
            && pairs.iter().all(|(there, wanted)| there.strip_prefix(more) == Some(*wanted))
        {
            return Some(Self::More(more));
        }
        if let Some(less) = wanted.strip_suffix(there)
            && pairs.iter().all(|(there, wanted)| wanted.strip_prefix(less) == Some(*there))
        {
            return Some(Self::Less(less));
        }
        let width = |tabs: &str, spaces: &str| {
            let only = tabs.bytes().all(|byte| byte == b'\t') && spaces.bytes().all(|byte| byte == b' ');
            (only && !tabs.is_empty() && spaces.len().is_multiple_of(tabs.len()))
                .then(|| spaces.len() / tabs.len())
        };
        let agreed = |widths: Vec<Option<usize>>| {
            let first = widths.first().copied().flatten().filter(|width| *width > 0)?;
            widths.iter().all(|width| *width == Some(first)).then_some(first)
        };
        let indented = || pairs.iter().filter(|(there, wanted)| !(there.is_empty() && wanted.is_empty()));
        agreed(indented().map(|(there, wanted)| width(there, wanted)).collect()).map(Self::Tabs).or_else(
            || agreed(indented().map(|(there, wanted)| width(wanted, there)).collect()).map(Self::Spaces),
        )
    }

    fn apply(&self, text: &str) -> String {
        text.split('\n').map(|line| self.apply_to_line(line)).collect::<Vec<_>>().join("\n")
    }

    fn apply_to_line(&self, line: &str) -> String {
        if line.trim().is_empty() {
            return line.to_owned();
        }
        let (indent, rest) = (indent(line), line.trim_start());
        match self {
            Self::More(more) => format!("{more}{line}"),
            Self::Less(less) => format!("{}{rest}", indent.strip_prefix(less).unwrap_or_default()),
            Self::Tabs(width) => {
                let spaces = indent.bytes().take_while(|byte| *byte == b' ').count();
                let kept = &indent[spaces / width * width..];
                format!("{}{kept}{rest}", "\t".repeat(spaces / width))
            }
            Self::Spaces(width) => format!("{}{rest}", indent.replace('\t', &" ".repeat(*width))),
        }
    }
}
