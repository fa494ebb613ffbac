//! What a run of a check changed: which findings are new, fixed or left since the run before, and which were there before
//! the turn began. A finding is known again by its test or by its file and words, not by its line, which edits move.

use std::collections::{HashMap, HashSet};

use protocol::{Changes, Diagnostic, Finding, Report, Severity, TestCase, TestStatus};

use crate::clean::{clip, tail};
use crate::{MAX_ENTRIES, digest};

/// Most findings that each list of [`Changes`] holds.
const MAX_LISTED: usize = 100;
/// Most bytes of a finding's words.
const MAX_WORDS: usize = 200;
/// Most findings that a model is told of in one line each.
const MAX_LINES: usize = 15;
/// Most bytes that are kept of the end of an output that names no finding.
const MAX_KEPT_TAIL: usize = 1024;

/// What is known of a check from before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// What the run before said; None where there was none.
    pub last: Option<&'a Report>,
    /// What a run said before the turn changed anything; None where there was none.
    pub before_turn: Option<&'a Report>,
}

impl Known<'_> {
    /// The same where the check has not run in this turn: what it said before the turn began is then the run before. What it
    /// failed of must be known for that.
    pub fn from_the_beginning(self) -> Self {
        let before = self.before_turn.filter(|before| !failed_without_a_word(before));
        Self { last: self.last.or(before), ..self }
    }
}

/// What changed since the run before; None where there was none.
pub fn changes(now: &Report, known: Known<'_>) -> Option<Changes> {
    let last = known.last?;
    let mut left = counted(last);
    let old: HashSet<Key> = known.before_turn.map(|report| keys(report).collect()).unwrap_or_default();
    let mut changes = Changes::default();
    for entry in entries(now) {
        let key = entry.key();
        let listed = Finding { before_turn: old.contains(&key), ..entry.listed() };
        match left.get_mut(&key).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                changes.remaining.push(listed);
            }
            None => changes.new.push(listed),
        }
    }
    // From the end, so that of equal ones the last are those that are gone.
    let gone: Vec<Entry<'_>> = entries(last).collect();
    for entry in gone.into_iter().rev() {
        if let Some(count) = left.get_mut(&entry.key()).filter(|count| **count > 0) {
            *count -= 1;
            changes.fixed.push(entry.listed());
        }
    }
    changes.fixed.reverse();
    for list in [&mut changes.new, &mut changes.fixed, &mut changes.remaining] {
        list.truncate(MAX_LISTED);
    }
    Some(changes)
}

/// Whether a check that fails now without a word did so before the turn began.
pub fn is_as_silent(now: &Report, before_turn: &Report) -> bool {
    entries(now).next().is_none() && failed_without_a_word(before_turn)
}

/// The findings of a report that are known to have been there before the turn began, and how many there are in all.
pub fn failed_before(now: &Report, before_turn: &Report) -> (usize, usize) {
    let mut old = counted(before_turn);
    let mut both = 0;
    let mut all = 0;
    for key in keys(now) {
        all += 1;
        if let Some(count) = old.get_mut(&key).filter(|count| **count > 0) {
            *count -= 1;
            both += 1;
        }
    }
    (both, all)
}

/// How many failed tests and diagnostics a report has.
pub fn count(report: &Report) -> usize {
    let counted = usize::try_from(report.tests_failed).unwrap_or(usize::MAX);
    entries(report).count().max(counted)
}

/// The report with only what its findings are known again by, so that it is small enough to be kept.
pub fn outline(report: &Report) -> Report {
    let test = |test: &TestCase| TestCase {
        name: test.name.clone(),
        status: test.status,
        file: test.file.clone(),
        line: test.line,
        message: Entry::Test(test).listed().message,
        ..TestCase::default()
    };
    let found = |found: &Diagnostic| Diagnostic {
        message: found.message.lines().next().unwrap_or_default().to_owned(),
        end_line: None,
        end_column: None,
        source: None,
        ..found.clone()
    };
    let tests: Vec<TestCase> = report.tests.iter().filter(|test| failed(test)).map(test).collect();
    let diagnostics: Vec<Diagnostic> =
        report.diagnostics.iter().filter(|found| counts(found)).map(found).collect();
    let named = !tests.is_empty() || !diagnostics.is_empty();
    let tail = if named { String::new() } else { tail(&report.tail, MAX_KEPT_TAIL).to_owned() };
    Report { tests, diagnostics, tail, ..report.clone() }
}

/// Whether more failed than a report keeps.
pub fn is_cut(report: &Report) -> bool {
    let kept = entries(report).filter(|entry| matches!(entry, Entry::Test(_))).count();
    kept >= MAX_ENTRIES
        || report.diagnostics.len() >= MAX_ENTRIES
        || usize::try_from(report.tests_failed).unwrap_or(usize::MAX) > kept.max(1)
}

/// Whether a report from before is of a check that failed and did not say of what.
fn failed_without_a_word(before: &Report) -> bool {
    entries(before).next().is_none() && *before != Report::default()
}

/// The report as a model reads it that knows the run before: how it went, what is new in full, the rest in one line each.
pub fn digest_since(now: &Report, known: Known<'_>) -> String {
    let whole = digest(now);
    let mut text = match changes(now, known) {
        Some(changes) if !(changes.new.is_empty() && changes.fixed.is_empty()) => {
            told(now, known, &changes, &whole)
        }
        Some(changes) if !changes.remaining.is_empty() => {
            let (head, rest) = whole.split_once('\n').unwrap_or((&whole, ""));
            format!("{head}; the same as in the run before\n{rest}")
        }
        _ => whole,
    };
    if known.last.is_some_and(|last| is_cut(last) || is_cut(now)) {
        text.push_str(
            "\nMore fails than is kept of a run: what is called new or fixed may only have come into view, or gone out of it.",
        );
    }
    if let Some(before) = known.before_turn {
        match failed_before(now, before) {
            (both, all) if both < all && is_cut(before) => text.push_str(&format!(
                "\n{both} of these {all} are known to have failed before this turn began; more failed then than is kept, so of the others it is not known."
            )),
            (0, 0) if failed_without_a_word(before) => {
                text.push_str("\nThis check failed before this turn began, too.");
            }
            (0, 0) => {}
            (0, _) if failed_without_a_word(before) => text.push_str(
                "\nThis check failed before this turn began, too; whether of the same is not known.",
            ),
            (0, _) => text.push_str("\nNone of this failed before this turn began."),
            (both, all) if both == all => text.push_str("\nAll of this failed before this turn began."),
            (both, all) => {
                text.push_str(&format!("\n{both} of these {all} failed before this turn began:"));
                list(&mut text, entries_in(now, before).map(|entry| entry.listed()));
                text.push_str(&format!("\n{} broken by this turn:", all - both));
                list(&mut text, entries_not_in(now, before).map(|entry| entry.listed()));
            }
        }
    }
    text
}

fn told(now: &Report, known: Known<'_>, changes: &Changes, whole: &str) -> String {
    let head = whole.lines().next().unwrap_or_default();
    let mut text = format!(
        "{head}; since the run before: {} new, {} fixed, {} remaining",
        changes.new.len(),
        changes.fixed.len(),
        changes.remaining.len()
    );
    if changes.new.is_empty() {
        // What is left is all there is to work on, so it is told in full.
        text.push_str(whole.strip_prefix(head).unwrap_or_default());
    } else {
        text.push_str("\nNew:");
        let fresh = digest(&only_new(now, known));
        text.push_str(fresh.split_once('\n').map_or("", |(head, _)| &fresh[head.len()..]));
        if !changes.remaining.is_empty() {
            text.push_str("\nStill there:");
            list(&mut text, changes.remaining.iter().cloned());
        }
    }
    if !changes.fixed.is_empty() {
        text.push_str("\nFixed:");
        list(&mut text, changes.fixed.iter().cloned());
    }
    text
}

/// The report without what was there in the run before.
fn only_new(now: &Report, known: Known<'_>) -> Report {
    let mut left = known.last.map(counted).unwrap_or_default();
    let mut is_new = |key: Key| match left.get_mut(&key).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    let tests: Vec<TestCase> =
        now.tests.iter().filter(|test| failed(test) && is_new(Entry::Test(test).key())).cloned().collect();
    let diagnostics = now.diagnostics.iter();
    let diagnostics: Vec<Diagnostic> =
        diagnostics.filter(|found| counts(found) && is_new(Entry::Found(found).key())).cloned().collect();
    let tests_failed = u32::try_from(tests.len()).unwrap_or(u32::MAX);
    Report { tests, tests_failed, diagnostics, ..Report::default() }
}

fn list(text: &mut String, findings: impl Iterator<Item = Finding>) {
    let mut findings = findings.peekable();
    for _ in 0..MAX_LINES {
        let Some(finding) = findings.next() else { return };
        text.push_str("\n- ");
        text.push_str(&line(&finding));
    }
    let more = findings.count();
    if more > 0 {
        text.push_str(&format!("\n… and {more} more"));
    }
}

/// A finding in one line.
pub fn line(finding: &Finding) -> String {
    let mut place = finding.file.clone().unwrap_or_default();
    if let Some(number) = finding.line.filter(|_| !place.is_empty()) {
        place.push_str(&format!(":{number}"));
    }
    let parts = [finding.test.as_deref().unwrap_or_default(), &place, &finding.message];
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(": ")
}

/// What a finding is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key(String);

#[derive(Clone, Copy)]
enum Entry<'a> {
    Test(&'a TestCase),
    Found(&'a Diagnostic),
}

impl Entry<'_> {
    fn key(self) -> Key {
        match self {
            Self::Test(test) => Key(format!("test {}", test.name)),
            Self::Found(found) => {
                let first = found.message.lines().next().unwrap_or_default();
                // A message may name lines and sizes, which move with every edit.
                let words: Vec<&str> =
                    first.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
                let file = found.file.as_deref().unwrap_or_default();
                Key(format!("{file} {} {}", found.code.as_deref().unwrap_or_default(), words.join("#")))
            }
        }
    }

    fn listed(self) -> Finding {
        let short = |text: &str| {
            let mut text = text.lines().next().unwrap_or_default().trim().to_owned();
            clip(&mut text, MAX_WORDS);
            text
        };
        match self {
            Self::Test(test) => Finding {
                file: test.file.clone(),
                line: test.line,
                test: Some(short(&test.name)),
                message: short(&test.message),
                before_turn: false,
            },
            Self::Found(found) => Finding {
                file: found.file.clone(),
                line: found.line,
                test: None,
                message: short(&found.message),
                before_turn: false,
            },
        }
    }
}

fn failed(test: &TestCase) -> bool {
    test.status == TestStatus::Failed
}

fn counts(found: &Diagnostic) -> bool {
    found.severity != Severity::Note
}

fn entries(report: &Report) -> impl Iterator<Item = Entry<'_>> {
    let tests = report.tests.iter().filter(|test| failed(test)).map(Entry::Test);
    tests.chain(report.diagnostics.iter().filter(|found| counts(found)).map(Entry::Found))
}

fn keys(report: &Report) -> impl Iterator<Item = Key> {
    entries(report).map(Entry::key)
}

fn counted(report: &Report) -> HashMap<Key, usize> {
    let mut counted = HashMap::new();
    keys(report).for_each(|key| *counted.entry(key).or_default() += 1);
    counted
}

/// The findings of the first report that are also in the second.
fn entries_in<'a>(now: &'a Report, before: &Report) -> impl Iterator<Item = Entry<'a>> {
    let mut old = counted(before);
    entries(now).filter(move |entry| match old.get_mut(&entry.key()).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            true
        }
        None => false,
    })
}

/// Those that are not.
fn entries_not_in<'a>(now: &'a Report, before: &Report) -> impl Iterator<Item = Entry<'a>> {
    let mut old = counted(before);
    entries(now).filter(move |entry| match old.get_mut(&entry.key()).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of more failures than are kept, the one that comes into view when another is mended was not broken by anybody.
    #[test]
    fn what_only_came_into_view_is_not_called_broken() {
        let failing = |range: std::ops::Range<usize>| {
            let test = |n: usize| TestCase {
                name: format!("test_{n}"),
                status: TestStatus::Failed,
                ..TestCase::default()
            };
            let tests: Vec<TestCase> = range.clone().map(test).take(MAX_ENTRIES).collect();
            Report { tests, tests_failed: u32::try_from(range.len()).unwrap(), ..Report::default() }
        };
        let (before, now) = (failing(0..700), failing(1..700));
        assert!(is_cut(&before) && !is_cut(&failing(0..499)));
        let known = Known { last: Some(&before), before_turn: Some(&before) };
        let told = digest_since(&now, known);
        assert!(told.contains("499 of these 500 are known to have failed before this turn began"), "{told}");
        assert!(!told.contains("broken by this turn"), "{told}");
        assert!(told.contains("may only have come into view"), "{told}");
        let (before, now) = (failing(0..3), failing(1..5));
        let told = digest_since(&now, Known { last: Some(&before), before_turn: Some(&before) });
        assert!(told.contains("2 broken by this turn") && !told.contains("come into view"), "{told}");
    }

    fn report(tests: &[&str], errors: &[(&str, u32, &str)]) -> Report {
        let test = |name: &&str| TestCase {
            name: (*name).into(),
            message: format!("{name} went wrong\nat length"),
            ..TestCase::default()
        };
        let error = |(file, line, message): &(&str, u32, &str)| Diagnostic {
            file: Some((*file).into()),
            line: Some(*line),
            message: (*message).into(),
            ..Diagnostic::default()
        };
        Report {
            tests: tests.iter().map(test).collect(),
            tests_failed: u32::try_from(tests.len()).unwrap(),
            diagnostics: errors.iter().map(error).collect(),
            ..Report::default()
        }
    }

    fn names(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(line).collect()
    }

    #[test]
    fn what_moved_is_the_same() {
        let last = report(&["a", "b"], &[("x.rs", 3, "no value on line 3"), ("x.rs", 9, "gone")]);
        let now = report(&["b", "c"], &[("x.rs", 5, "no value on line 5"), ("y.rs", 1, "gone")]);
        let changes = changes(&now, Known { last: Some(&last), before_turn: None }).unwrap();
        assert_eq!(names(&changes.new), ["c: c went wrong", "y.rs:1: gone"]);
        assert_eq!(names(&changes.fixed), ["a: a went wrong", "x.rs:9: gone"]);
        assert_eq!(names(&changes.remaining), ["b: b went wrong", "x.rs:5: no value on line 5"]);
    }

    #[test]
    fn equal_findings_are_counted() {
        let last = report(&[], &[("x", 1, "unused"), ("x", 2, "unused")]);
        let now = report(&[], &[("x", 1, "unused"), ("x", 2, "unused"), ("x", 3, "unused")]);
        let more = changes(&now, Known { last: Some(&last), before_turn: None }).unwrap();
        assert_eq!((more.new.len(), more.fixed.len(), more.remaining.len()), (1, 0, 2));
        let fewer = changes(&last, Known { last: Some(&now), before_turn: None }).unwrap();
        assert_eq!((fewer.new.len(), fewer.fixed.len(), fewer.remaining.len()), (0, 1, 2));
    }

    #[test]
    fn the_model_reads_the_new_in_full_and_the_rest_in_lines() {
        let last = report(&["a", "b"], &[]);
        let now = report(&["b", "c"], &[]);
        let text = digest_since(&now, Known { last: Some(&last), before_turn: Some(&last) });
        assert_eq!(
            text,
            "2 tests failed; since the run before: 1 new, 1 fixed, 1 remaining\nNew:\nFAILED c\n  c went wrong\n  at length\nStill there:\n- b: b went wrong\nFixed:\n- a: a went wrong\n1 of these 2 failed before this turn began:\n- b: b went wrong\n1 broken by this turn:\n- c: c went wrong"
        );
    }

    #[test]
    fn what_is_left_alone_is_told_in_full() {
        let (last, now) = (report(&["a", "b"], &[]), report(&["b"], &[]));
        let text = digest_since(&now, Known { last: Some(&last), before_turn: None });
        assert!(
            text.contains("FAILED b\n  b went wrong\n  at length")
                && text.ends_with("Fixed:\n- a: a went wrong"),
            "{text}"
        );
        let same = digest_since(&now, Known { last: Some(&now), before_turn: Some(&now) });
        assert!(same.starts_with("1 test failed; the same as in the run before\nFAILED b"), "{same}");
        assert!(same.ends_with("All of this failed before this turn began."), "{same}");
    }

    #[test]
    fn without_a_run_before_it_is_the_digest() {
        let now = report(&["b"], &[]);
        assert_eq!(changes(&now, Known::default()), None);
        let clean = digest_since(&now, Known { last: None, before_turn: Some(&Report::default()) });
        assert!(clean.ends_with("\nNone of this failed before this turn began."), "{clean}");
        assert_eq!(digest_since(&now, Known::default()), digest(&now));
    }

    #[test]
    fn what_failed_before_without_a_word_is_not_taken_for_what_passed() {
        let silent = Report { parser: "fallback".into(), tail: "no such file".into(), ..Report::default() };
        let known = Known { last: None, before_turn: Some(&silent) };
        let now = report(&["b"], &[]);
        assert!(digest_since(&now, known).ends_with("too; whether of the same is not known."));
        assert!(digest_since(&silent, known).ends_with("\nThis check failed before this turn began, too."));
        assert_eq!(changes(&now, known.from_the_beginning()), None, "nobody knows what is new");
        let passed = Report::default();
        let known = Known { last: None, before_turn: Some(&passed) };
        assert_eq!(changes(&now, known.from_the_beginning()).unwrap().new.len(), 1);
    }

    #[test]
    fn an_outline_is_small_and_everything_is_known_again_by_it() {
        let mut whole = report(&["a", "b"], &[("x.rs", 3, "no value on line 3\nand much more")]);
        whole.tests[0].source = Some(protocol::Excerpt { first: 1, text: "source".into() });
        whole.tests.push(TestCase { name: "c".into(), status: TestStatus::Passed, ..TestCase::default() });
        whole.tail = "the end\n".repeat(1000);
        let outline = outline(&whole);
        assert_eq!(failed_before(&whole, &outline), (3, 3));
        assert_eq!(count(&outline), 3);
        let text = format!("{outline:?}");
        assert!(!text.contains("source: Some") && !text.contains("much more") && !text.contains("the end"));
        let silent = Report { tail: "word\n".repeat(1000), ..Report::default() };
        assert!(super::outline(&silent).tail.len() <= MAX_KEPT_TAIL);
    }
}
