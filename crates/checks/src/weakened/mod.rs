//! Finds in a diff what makes checks say less: tests that were deleted or are skipped, assertions that are gone, findings
//! that are silenced, thresholds and rules that were loosened, commands whose failure is ignored. It says what to look at;
//! whether there is a good reason is for a person to judge.

mod adapted;
mod assertion;
mod body;
mod compare;
mod config;
mod data;
mod diff;
mod disguised;
mod doctests;
mod elsewhere;
mod fewer;
mod find;
mod language;
mod mask;
mod narrowed;
mod replaced;
mod rigged;
mod rows;
mod side;
mod slack;
mod wiring;

use std::collections::{HashMap, HashSet};

use protocol::{Weakening, WeakeningKind as Kind};

use self::compare::Sides;
use self::diff::{Change, File, Line};
use self::language::Language;

/// Most findings given; of more their number is.
const MAX_FOUND: usize = 50;
/// Most bytes of the code that a finding quotes.
const MAX_QUOTE: usize = 120;

/// What in a unified diff makes checks say less. The more context the diff has, the more is seen: with whole files every test
/// is compared with what it was.
pub fn weakened(diff: &str) -> Vec<Weakening> {
    let files = diff::parse(diff);
    let mut found = Vec::new();
    let sides: Vec<Sides<'_>> = files.iter().map(Sides::of).collect();
    compare::compare(&sides, &mut found);
    drop(sides);
    let told: HashSet<String> = found.iter().map(|one| one.file.clone()).collect();
    for file in &files {
        let begun = found.len();
        unreadable(file, &mut found);
        silenced(file, &mut found);
        of_checks(file, &files, &mut found);
        if found.len() == begun && !told.contains(file.path()) {
            wiring::found(file, &mut found);
        }
    }
    elsewhere::found(&files, &mut found);
    disguised::found(&files, &mut found);
    let told: HashSet<String> = found.iter().map(|one| one.file.clone()).collect();
    for file in files.iter().filter(|file| !told.contains(file.path())) {
        found.extend(rigged::found(file).or_else(|| doctests::found(file)));
    }
    data::found(&files, &mut found);
    cut(&mut found);
    found
}

/// Tests that failed before, and of which the diff changes what they ask for: that makes them pass whatever the code does. The
/// names are those of reports.
pub fn adapted(diff: &str, failed: &[String]) -> Vec<Weakening> {
    if failed.is_empty() {
        return Vec::new();
    }
    let files = diff::parse(diff);
    let sides: Vec<Sides<'_>> = files.iter().map(Sides::of).collect();
    let mut found = adapted::found(&sides, failed);
    cut(&mut found);
    found
}

/// Leaves as many as are kept, and says how many more there are.
fn cut(found: &mut Vec<Weakening>) {
    if found.len() <= MAX_FOUND {
        return;
    }
    // A test that is gone says more than a finding that is silenced, wherever in the diff it stands.
    found.sort_by_key(|one| one.kind);
    let left_out = found.split_off(MAX_FOUND);
    let mut files: Vec<&str> = left_out.iter().map(|one| one.file.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    let places = match files.as_slice() {
        [one] => format!("in {one}"),
        [first, ..] => format!("in {} files, {first} among them", files.len()),
        [] => String::new(),
    };
    let what = format!("{} more like these are not listed: {places}", left_out.len());
    found.push(Weakening { kind: Kind::NotLookedAt, file: "the diff".to_owned(), line: None, what });
}

/// Files of tests that nothing can be seen in.
fn unreadable(file: &File<'_>, found: &mut Vec<Weakening>) {
    if file.new.is_empty() || !language::is_test_path(file.new) {
        return;
    }
    if file.binary {
        let what = "git takes it for binary, so nothing in it was looked at".to_owned();
        found.push(finding(file, Kind::NotLookedAt, None, what));
    } else if let Some(line) =
        file.lines().find(|line| line.change == Change::Added && line.text.contains('\0'))
    {
        let what = "a NUL byte can keep tools from reading the tests".to_owned();
        found.push(finding(file, Kind::TestSkipped, Some(line.number), what));
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

fn of_checks(file: &File<'_>, files: &[File<'_>], found: &mut Vec<Weakening>) {
    let begun = found.len();
    found.extend(narrowed::narrowed(file, files));
    let Some(role) = config::role(file.path()) else { return };
    if file.new.is_empty() {
        found.push(finding(file, Kind::CheckChanged, None, "the file was deleted".to_owned()));
        return;
    }
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
    let can_leave_out = config::can_leave_out(file);
    let now = config::settings(file.lines().filter(|line| line.change == Change::Added));
    let changed = file.lines().find(|line| {
        let removed = line.change == Change::Removed;
        let rules = role == config::Role::Rules && line.change == Change::Added;
        let stricter = removed && config::tightened(&now, line);
        let left_out = can_leave_out && line.change == Change::Added && config::leaves_out(line.text);
        left_out
            || (removed || rules) && !stricter && config::says_what_is_checked(role, file.path(), line.text)
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
mod before_after;
#[cfg(test)]
mod disguises;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod forms_of_settings;
#[cfg(test)]
mod gamed;
#[cfg(test)]
mod linear;
#[cfg(test)]
mod tests;
