//! Finds in a diff what makes checks say less: tests that were deleted or are skipped, assertions that are gone, findings
//! that are silenced, thresholds and rules that were loosened, commands whose failure is ignored. It says what to look at;
//! whether there is a good reason is for a person to judge.

mod config;
mod diff;
mod tests_in;

use std::collections::{HashMap, HashSet};

use protocol::{Weakening, WeakeningKind as Kind};

use self::diff::{Change, File, Line};
use self::tests_in::Language;

/// Most findings given.
const MAX_FOUND: usize = 50;
/// Most bytes of the code that a finding quotes.
const MAX_QUOTE: usize = 120;
/// How many lines around a mark its test is looked for in.
const NEAR: usize = 12;

/// What in a unified diff makes checks say less.
pub fn weakened(diff: &str) -> Vec<Weakening> {
    let files = diff::parse(diff);
    let tests = Tests::of(&files);
    let mut found = Vec::new();
    for file in &files {
        of_tests(file, &tests, &mut found);
        silenced(file, &mut found);
        of_checks(file, &mut found);
    }
    if found.len() > MAX_FOUND {
        // A test that is gone says more than a finding that is silenced, wherever in the diff it stands.
        found.sort_by_key(|one| one.kind);
        found.truncate(MAX_FOUND);
    }
    found
}

/// The names of tests that the diff adds and removes, anywhere in it: one that moved is in both.
#[derive(Default)]
struct Tests<'a> {
    added: HashSet<&'a str>,
    removed: HashSet<&'a str>,
}

impl<'a> Tests<'a> {
    fn of(files: &'a [File<'a>]) -> Self {
        let mut tests = Self::default();
        for file in files {
            let Some(language) = Language::of(file.path()) else { continue };
            for hunk in &file.hunks {
                for (change, set) in
                    [(Change::Added, &mut tests.added), (Change::Removed, &mut tests.removed)]
                {
                    set.extend(definitions(language, hunk, change).map(|(name, _)| name));
                }
            }
        }
        tests
    }

    /// Whether the diff brings this test into the world.
    fn is_new(&self, name: &str) -> bool {
        self.added.contains(name) && !self.removed.contains(name)
    }
}

/// Tests that begin on changed lines of this kind.
fn definitions<'a>(
    language: Language,
    hunk: &'a [Line<'a>],
    change: Change,
) -> impl Iterator<Item = (&'a str, &'a Line<'a>)> {
    side(language, hunk, change).filter(move |(_, line)| line.change == change)
}

/// Tests as the file has them with the added lines, or had them with the removed ones.
fn side<'a>(
    language: Language,
    hunk: &'a [Line<'a>],
    change: Change,
) -> impl Iterator<Item = (&'a str, &'a Line<'a>)> {
    let mut marked = false;
    hunk.iter().filter(move |line| line.change == change || line.change == Change::Kept).filter_map(
        move |line| {
            if language.marks_test(line.text) {
                marked = true;
                return None;
            }
            let name = language.test_name(line.text)?;
            let is_test = !language.by_attribute() || std::mem::take(&mut marked);
            is_test.then_some((name, line))
        },
    )
}

fn of_tests(file: &File<'_>, tests: &Tests<'_>, found: &mut Vec<Weakening>) {
    let Some(language) = Language::of(file.path()) else { return };
    let removed: Vec<(&str, &Line<'_>)> =
        file.hunks.iter().flat_map(|hunk| definitions(language, hunk, Change::Removed)).collect();
    let gone: Vec<&(&str, &Line<'_>)> =
        removed.iter().filter(|(name, _)| !tests.added.contains(name)).collect();
    if file.new.is_empty() {
        let moved = !removed.is_empty() && gone.is_empty();
        if tests_in::is_test_path(file.old) && !moved {
            let count = gone.len();
            let what = match count {
                0 => "the file was deleted".to_owned(),
                1 => format!("the file was deleted, with the test {}", gone[0].0),
                _ => format!("the file was deleted, with {count} tests"),
            };
            found.push(finding(file, Kind::TestFileDeleted, None, what));
        }
        return;
    }
    for hunk in &file.hunks {
        removed_tests(file, language, hunk, tests, found);
        skipped_tests(file, language, hunk, tests, found);
        removed_assertions(file, language, hunk, tests, found);
    }
}

fn removed_tests(
    file: &File<'_>,
    language: Language,
    hunk: &[Line<'_>],
    tests: &Tests<'_>,
    found: &mut Vec<Weakening>,
) {
    let now: HashSet<&str> = side(language, hunk, Change::Added).map(|(name, _)| name).collect();
    let functions = || {
        let lines = hunk.iter().filter(|line| line.change != Change::Removed);
        lines.filter_map(|line| Some((language.test_name(line.text)?, line.number)))
    };
    let mut gone = Vec::new();
    for (name, line) in side(language, hunk, Change::Removed).filter(|(name, _)| !now.contains(name)) {
        if let Some((_, number)) = functions().find(|(function, _)| *function == name) {
            // The attribute is gone and the function stays: nothing runs it any more.
            let what = format!("{name} is no test any more");
            found.push(finding(file, Kind::TestSkipped, Some(number), what));
        } else if !tests.added.contains(name) {
            gone.push((name, line.number));
        }
    }
    // As many new ones in the same place are the old ones with other names.
    let come = definitions(language, hunk, Change::Added).filter(|(name, _)| tests.is_new(name)).count();
    if gone.len() > come {
        for (name, number) in gone {
            found.push(finding(
                file,
                Kind::TestRemoved,
                Some(number),
                format!("the test {name} was removed"),
            ));
        }
    }
}

fn skipped_tests(
    file: &File<'_>,
    language: Language,
    hunk: &[Line<'_>],
    tests: &Tests<'_>,
    found: &mut Vec<Weakening>,
) {
    let now: Vec<&Line<'_>> = hunk.iter().filter(|line| line.change != Change::Removed).collect();
    let mut before =
        counted(hunk.iter().filter(|line| line.change == Change::Removed), |text| language.skip(text));
    for (at, line) in now.iter().enumerate().filter(|(_, line)| line.change == Change::Added) {
        if let Some(word) = language.only(line.text) {
            let had =
                hunk.iter().any(|old| old.change == Change::Removed && language.only(old.text).is_some());
            if !had {
                let what = format!("{}… leaves the other tests out", word.trim_end_matches('('));
                found.push(finding(file, Kind::TestsNarrowed, Some(line.number), what));
            }
        }
        let Some(word) = language.skip(line.text) else { continue };
        if take(&mut before, word) {
            continue;
        }
        let name = test_around(language, &now, at);
        if name.is_some_and(|name| tests.is_new(name)) {
            continue;
        }
        let mark = word.trim_end_matches(['(', '[', ' ']);
        let what = match name {
            Some(name) => format!("{name} is not run, or may fail: {mark}"),
            None => format!("tests are not run, or may fail: {}", quote(line.text)),
        };
        found.push(finding(file, Kind::TestSkipped, Some(line.number), what));
    }
}

/// The test that a mark belongs to: the one on its line, the one below an attribute, or the one it stands in.
fn test_around<'a>(language: Language, lines: &[&'a Line<'a>], at: usize) -> Option<&'a str> {
    let name = |line: &&'a Line<'a>| language.test_name(line.text);
    let above = lines[at].text.trim_start().starts_with(['@', '#']);
    let below = || lines[at..].iter().take(NEAR).find_map(name);
    let before = || lines[..=at].iter().rev().find_map(name);
    if above { below() } else { name(&lines[at]).or_else(before) }
}

fn removed_assertions(
    file: &File<'_>,
    language: Language,
    hunk: &[Line<'_>],
    tests: &Tests<'_>,
    found: &mut Vec<Weakening>,
) {
    let in_test = tests_in::is_test_path(file.path());
    for block in blocks(hunk) {
        for line in
            block.iter().filter(|line| line.change == Change::Added && language.asserts_nothing(line.text))
        {
            let what = format!("this checks nothing: {}", quote(line.text));
            found.push(finding(file, Kind::AssertionRemoved, Some(line.number), what));
        }
        // Where a whole test goes or comes, that says it all.
        let rewritten =
            block.iter().any(|line| line.change != Change::Kept && language.test_name(line.text).is_some());
        let of =
            |change| block.iter().filter(move |line| line.change == change && language.asserts(line.text));
        let (gone, come) = (of(Change::Removed).count(), of(Change::Added).count());
        let elsewhere =
            hunk.iter().filter(|line| line.change == Change::Added && language.asserts(line.text)).count();
        let rust_test = language == Language::Rust && hunk.iter().any(|line| language.marks_test(line.text));
        if gone > come.max(elsewhere)
            && !rewritten
            && (in_test || rust_test)
            && !tests.removed_all(hunk, language)
            && let Some(first) = of(Change::Removed).next()
        {
            let what = match gone - come {
                1 => format!("an assertion was removed: {}", quote(first.text)),
                more => format!("{more} assertions were removed, the first: {}", quote(first.text)),
            };
            found.push(finding(file, Kind::AssertionRemoved, Some(first.number), what));
        }
    }
}

impl Tests<'_> {
    /// Whether the removed lines of a hunk are those of tests that were removed or moved as a whole.
    fn removed_all(&self, hunk: &[Line<'_>], language: Language) -> bool {
        definitions(language, hunk, Change::Removed).next().is_some()
    }
}

fn silenced(file: &File<'_>, found: &mut Vec<Weakening>) {
    if file.new.is_empty() || Language::of(file.path()).is_none() && !file.path().ends_with(".sh") {
        return;
    }
    let mut before = counted(file.lines().filter(|line| line.change == Change::Removed), config::silencer);
    for line in file.lines().filter(|line| line.change == Change::Added) {
        if let Some(word) = config::silencer(line.text)
            && !take(&mut before, word)
        {
            let what = format!("a finding is silenced: {}", quote(line.text));
            found.push(finding(file, Kind::FindingSilenced, Some(line.number), what));
        }
    }
}

fn of_checks(file: &File<'_>, found: &mut Vec<Weakening>) {
    let Some(role) = config::role(file.path()) else { return };
    if file.new.is_empty() {
        found.push(finding(file, Kind::CheckChanged, None, "the file was deleted".to_owned()));
        return;
    }
    let begun = found.len();
    let mut before = counted(file.lines().filter(|line| line.change == Change::Removed), config::ignored);
    for line in file.lines().filter(|line| line.change == Change::Added) {
        if let Some(word) = config::ignored(line.text)
            && !take(&mut before, word)
        {
            let what = format!("a failure counts for nothing: {}", quote(line.text));
            found.push(finding(file, Kind::FailureIgnored, Some(line.number), what));
        }
    }
    for block in file.hunks.iter().flat_map(|hunk| blocks(hunk)) {
        for (kind, line, what) in config::loosened(file, block) {
            found.push(finding(file, kind, Some(line), what));
        }
    }
    // A new file changes no check that was there; and what was told above is not told again in general.
    if found.len() > begun || file.old.is_empty() {
        return;
    }
    let changed = file.lines().find(|line| {
        let removed = line.change == Change::Removed;
        let rules = role == config::Role::Rules && line.change == Change::Added;
        let stricter = removed && config::tightened(file, line);
        (removed || rules) && !stricter && config::says_what_is_checked(role, file.path(), line.text)
    });
    if let Some(line) = changed {
        let what = format!("what is checked was changed: {}", quote(line.text));
        found.push(finding(file, Kind::CheckChanged, Some(line.number), what));
    }
}

/// The runs of changed lines of a hunk.
fn blocks<'a>(hunk: &'a [Line<'a>]) -> impl Iterator<Item = &'a [Line<'a>]> {
    hunk.split(|line| line.change == Change::Kept).filter(|block| !block.is_empty())
}

/// How often each mark is on these lines.
fn counted<'a>(
    lines: impl Iterator<Item = &'a Line<'a>>,
    mark: impl Fn(&str) -> Option<&'static str>,
) -> HashMap<&'static str, usize> {
    let mut counted = HashMap::new();
    for word in lines.filter_map(|line| mark(line.text)) {
        *counted.entry(word).or_default() += 1;
    }
    counted
}

/// Takes one of what was there before: a mark that only moved is not a new one.
fn take(before: &mut HashMap<&'static str, usize>, word: &'static str) -> bool {
    match before.get_mut(word).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            true
        }
        None => false,
    }
}

fn finding(file: &File<'_>, kind: Kind, line: Option<u32>, what: String) -> Weakening {
    Weakening { kind, file: file.path().to_owned(), line, what }
}

fn quote(text: &str) -> String {
    let mut text = crate::clean(text.trim());
    crate::clean::clip(&mut text, MAX_QUOTE);
    text
}

#[cfg(test)]
mod tests;
