//! Tests in languages that are not taken apart: Elixir, Dart, Lua, Perl, Haskell and others, and scripts of a shell. Their
//! lines are read one by one: files that are gone, assertions that became fewer, and words that skip.

use std::collections::HashSet;

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File, Line};
use super::language::{self, Language};
use super::{finding, quote};

/// Endings of such files.
const ENDINGS: [&str; 26] = [
    "exs", "ex", "dart", "lua", "t", "pl", "pm", "hs", "zig", "clj", "cljs", "cljc", "erl", "ml", "r", "R",
    "jl", "nim", "cr", "fs", "vb", "ps1", "sh", "bash", "m", "mm",
];
/// Words that begin an assertion on a line, with what follows them.
pub(super) const ASSERTIONS: [&str; 22] = [
    "assert",
    "refute",
    "expect",
    "should",
    "is(",
    "is_deeply(",
    "isnt(",
    "ok(",
    "like(",
    "cmp_ok(",
    "(is ",
    "(testing",
    "@test ",
    "check ",
    "check(",
    "REQUIRE",
    "XCTAssert",
    "exit 1",
    "return 1",
    "[ ",
    "[[ ",
    "|| fail",
];
/// Words that keep a test from being run, or its failure from counting.
pub(super) const SKIPS: [&str; 19] = [
    "@tag :skip",
    "@tag skip:",
    "@moduletag :skip",
    "@moduletag skip:",
    "skip: true",
    "skip: '",
    "skip: \"",
    "SkipZigTest",
    "skip_all",
    "plan skip",
    "@test_skip",
    "@test_broken",
    "xit ",
    "xit(",
    "xdescribe",
    "pendingWith",
    "pending(",
    "^:skip",
    "testthat::skip",
];

/// Whether a file has tests in such a language.
fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    if Language::of(path).is_some() || !ENDINGS.contains(&ending) {
        return false;
    }
    let mut parts = stem.split(['_', '-', '.']);
    matches!(ending, "t" | "zig")
        || language::in_test_folder(path)
        || parts.any(|part| matches!(part, "test" | "tests" | "spec"))
        || ["Test", "Tests", "Spec"].iter().any(|end| stem.ends_with(end))
}

/// What in such files asks for less than before.
pub(super) fn found(files: &[File<'_>], found: &mut Vec<Weakening>) {
    // A file of the same name that is new is one that moved.
    let new: HashSet<&str> = files
        .iter()
        .filter(|file| file.old.is_empty() && is_test(file.new))
        .map(|file| name(file.new))
        .collect();
    files.iter().for_each(|file| of_file(file, &new, found));
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn of_file(file: &File<'_>, new: &HashSet<&str>, found: &mut Vec<Weakening>) {
    if file.old.is_empty() || !is_test(file.old) {
        return;
    }
    let words = |change: Change| file.lines().filter(move |line| line.change == change);
    if !is_test(file.new) {
        if !new.contains(name(file.old)) {
            let what = match file.new {
                "" => "the file was deleted".to_owned(),
                _ => format!("{} was renamed, and does not look like one with tests any more", file.old),
            };
            found.push(finding(file, Kind::TestFileDeleted, None, what));
        }
        return;
    }
    if let Some((line, word)) = file.hunks.iter().flat_map(|hunk| super::blocks(hunk)).find_map(skipped) {
        let what = format!("tests are not run, or may fail: {word}");
        found.push(finding(file, Kind::TestSkipped, Some(line), what));
        return;
    }
    let checks = |change: Change| words(change).filter(|line| is_assertion(line.text)).count();
    if let Some(line) = words(Change::Removed)
        .find(|line| is_assertion(line.text))
        .filter(|_| checks(Change::Added) < checks(Change::Removed))
    {
        let what = format!("an assertion was removed: {}", quote(line.text));
        found.push(finding(file, Kind::AssertionRemoved, Some(line.number), what));
        return;
    }
    if let Some(line) = words(Change::Added)
        .find(|line| is_assertion(line.text) && super::config::ignored(line.text).is_some())
        .filter(|_| words(Change::Removed).any(|line| is_assertion(line.text)))
    {
        let what = format!("a failure counts for nothing: {}", quote(line.text));
        found.push(finding(file, Kind::FailureIgnored, Some(line.number), what));
        return;
    }
    let strict = words(Change::Removed).find(|line| {
        let text = line.text.trim();
        text.starts_with("set -e") || text.starts_with("set -o errexit")
    });
    if let Some(line) = strict.filter(|_| !words(Change::Added).any(|line| line.text.contains("set -"))) {
        let what = format!("a failure counts for nothing: {} was removed", quote(line.text));
        found.push(finding(file, Kind::FailureIgnored, Some(line.number), what));
    }
}

/// The word in a run of changed lines that skips a test which was there before. A new test that is skipped takes nothing away.
fn skipped(block: &[Line<'_>]) -> Option<(u32, &'static str)> {
    let of = |change: Change| block.iter().filter(move |line| line.change == change);
    let gone: HashSet<&str> = of(Change::Removed).map(|line| line.text.trim()).collect();
    let is_new = |line: &Line<'_>| {
        let text = line.text.trim_start().trim_start_matches('(');
        let begins = ["test", "it ", "it(", "deftest", "feature"].iter().any(|word| text.starts_with(word));
        begins.then(|| !gone.contains(line.text.trim()))
    };
    let had = |word: &&&str| gone.iter().any(|text| text.contains(**word));
    let words: Vec<&'static str> = SKIPS.iter().filter(|word| !had(word)).copied().collect();
    let added: Vec<&Line<'_>> = of(Change::Added).collect();
    // For each line whether the test that begins after it is new: those are skipped from above.
    let mut below = vec![false; added.len()];
    let mut next = false;
    for (at, line) in added.iter().enumerate().rev() {
        next = is_new(line).unwrap_or(next);
        below[at] = next;
    }
    let mut above = false;
    added.iter().zip(below).find_map(|(line, below)| {
        above = is_new(line).unwrap_or(above);
        let word = words.iter().find(|word| line.text.contains(**word))?;
        let new = if word.starts_with(['@', '^']) { below } else { above };
        (!new).then_some((line.number, *word))
    })
}

fn is_assertion(line: &str) -> bool {
    let text = line.trim_start();
    let comment = ["#", "--", "//", ";", "%"].iter().any(|mark| text.starts_with(mark));
    !comment && ASSERTIONS.iter().any(|word| text.contains(word))
}
