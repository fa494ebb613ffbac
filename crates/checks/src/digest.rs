//! The report as a model and a terminal read it: one line that says how it went, then what failed, where and why. Short
//! by construction, because every byte of it is paid for in the next model call.

use std::collections::HashMap;

use protocol::{Diagnostic, Excerpt, Report, Severity, TestCase};

use crate::clean::clip;

/// Most entries shown.
const MAX_SHOWN: usize = 30;
/// Most failed tests shown when there are errors too.
const MAX_TESTS_BESIDE_ERRORS: usize = 20;
/// Bounds of one entry's parts, in bytes and lines.
const MAX_MESSAGE: usize = 600;
const MAX_MESSAGE_LINES: usize = 8;
const MAX_VALUE: usize = 300;
const MAX_NAME: usize = 200;
/// Most entries that are shown with the lines around them.
const MAX_SOURCES: usize = 10;

/// The report as a model (and a terminal) reads it: what failed, where, why; short.
pub fn digest(report: &Report) -> String {
    let of = |severity| report.diagnostics.iter().filter(move |found| found.severity == severity);
    let errors = one_per_file_first(of(Severity::Error), |found| found.file.as_deref());
    let warnings = one_per_file_first(of(Severity::Warning), |found| found.file.as_deref());
    let tests = one_per_file_first(report.tests.iter(), |test| test.file.as_deref());

    let headline = headline(report, errors.len(), warnings.len());
    if headline.is_empty() {
        return match report.tail.trim() {
            "" => "no tests or findings; the command printed nothing".to_owned(),
            tail => format!("no tests or findings recognised; the output ends with:\n{tail}"),
        };
    }
    let mut out = headline;
    let tests_shown = if errors.is_empty() { MAX_SHOWN } else { MAX_TESTS_BESIDE_ERRORS };
    let mut room = MAX_SHOWN;
    for test in tests.iter().take(tests_shown) {
        room -= 1;
        write_test(&mut out, test);
        write_source(&mut out, test.source.as_ref().filter(|_| room + MAX_SOURCES >= MAX_SHOWN), test.line);
    }
    for found in errors.iter().chain(&warnings).take(room) {
        room -= 1;
        write_diagnostic(&mut out, found);
        write_source(&mut out, found.source.as_ref().filter(|_| room + MAX_SOURCES >= MAX_SHOWN), found.line);
    }
    let shown = MAX_SHOWN - room;
    let failed = tests.len().max(usize::try_from(report.tests_failed).unwrap_or(usize::MAX));
    let hidden = failed.saturating_add(errors.len() + warnings.len()).saturating_sub(shown);
    if hidden > 0 {
        out.push_str(&format!("\n… and {hidden} more"));
    }
    out
}

/// `2 of 14 tests failed, 1 error`; empty when nothing was parsed.
fn headline(report: &Report, errors: usize, warnings: usize) -> String {
    let (passed, failed, skipped) = (report.tests_passed, report.tests_failed, report.tests_skipped);
    let mut parts = Vec::new();
    match (passed, failed) {
        (0, 0) => {}
        (0, failed) => parts.push(format!("{} failed", count(failed, "test"))),
        (passed, 0) => parts.push(format!("{} passed", count(passed, "test"))),
        (passed, failed) => {
            parts.push(format!("{failed} of {} failed", count(passed.saturating_add(failed), "test")));
        }
    }
    for (number, word) in [(errors, "error"), (warnings, "warning")] {
        if number > 0 {
            parts.push(count(u32::try_from(number).unwrap_or(u32::MAX), word));
        }
    }
    if skipped > 0 {
        parts.push(format!("{skipped} skipped"));
    }
    parts.join(", ")
}

fn count(number: u32, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// Orders by how often the file came before, so that one broken file does not hide the others.
fn one_per_file_first<'a, T>(
    items: impl Iterator<Item = &'a T>,
    file: impl Fn(&T) -> Option<&str>,
) -> Vec<&'a T> {
    let mut before: HashMap<Option<String>, usize> = HashMap::new();
    let mut ranked: Vec<(usize, &T)> = items
        .map(|item| {
            let rank = before.entry(file(item).map(str::to_owned)).or_default();
            *rank += 1;
            (*rank, item)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, item)| item).collect()
}

fn write_test(out: &mut String, test: &TestCase) {
    out.push_str("\nFAILED ");
    out.push_str(&one_line(&test.name, MAX_NAME));
    if let Some(place) = place(test.file.as_deref(), test.line, None) {
        out.push_str(&format!(" at {place}"));
    }
    for line in message_lines(&test.message) {
        out.push_str(&format!("\n  {line}"));
    }
    for (word, value) in [("expected", &test.expected), ("actual", &test.actual)] {
        if let Some(value) = value {
            out.push_str(&format!("\n  {word}: {}", one_line(value, MAX_VALUE)));
        }
    }
}

fn write_diagnostic(out: &mut String, found: &Diagnostic) {
    let word = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    out.push('\n');
    out.push_str(word);
    if let Some(code) = &found.code {
        out.push_str(&format!("[{}]", one_line(code, MAX_NAME)));
    }
    if let Some(place) = place(found.file.as_deref(), found.line, found.column) {
        out.push_str(&format!(" {place}"));
    }
    out.push(':');
    let mut lines = message_lines(&found.message).into_iter();
    if let Some(first) = lines.next() {
        out.push_str(&format!(" {first}"));
    }
    for line in lines {
        out.push_str(&format!("\n  {line}"));
    }
}

/// The lines around the place, the place marked.
fn write_source(out: &mut String, source: Option<&Excerpt>, place: Option<u32>) {
    let Some(source) = source else { return };
    for (number, line) in (source.first..).zip(source.text.lines()) {
        let mark = if Some(number) == place { '>' } else { ' ' };
        out.push_str(format!("\n  {mark}{number:>5} | {line}").trim_end());
    }
}

fn place(file: Option<&str>, line: Option<u32>, column: Option<u32>) -> Option<String> {
    let mut place = one_line(file?, MAX_NAME);
    for number in [line, line.and(column)].into_iter().flatten() {
        place.push_str(&format!(":{number}"));
    }
    Some(place)
}

/// The first lines of a message, without empty ones.
fn message_lines(message: &str) -> Vec<String> {
    let mut short = message.to_owned();
    clip(&mut short, MAX_MESSAGE);
    let mut lines = short.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let mut kept: Vec<String> = lines.by_ref().take(MAX_MESSAGE_LINES).map(str::to_owned).collect();
    if lines.next().is_some() {
        kept.push("…".to_owned());
    }
    kept
}

/// A value on one line.
fn one_line(text: &str, max: usize) -> String {
    let mut short = text.to_owned();
    clip(&mut short, max);
    short.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TestStatus;

    fn test(name: &str, file: &str, line: u32) -> TestCase {
        TestCase {
            name: name.to_owned(),
            status: TestStatus::Failed,
            file: Some(file.to_owned()),
            line: Some(line),
            message: "it broke".to_owned(),
            expected: Some("5".to_owned()),
            actual: Some("3".to_owned()),
            ..TestCase::default()
        }
    }

    fn found(severity: Severity, file: &str, line: u32) -> Diagnostic {
        Diagnostic {
            severity,
            file: Some(file.to_owned()),
            line: Some(line),
            column: Some(1),
            code: Some("E1".to_owned()),
            message: "bad".to_owned(),
            ..Diagnostic::default()
        }
    }

    #[test]
    fn failed_tests_come_before_errors_and_errors_before_warnings() {
        let report = Report {
            tests: vec![test("a::b", "src/lib.rs", 7)],
            tests_failed: 1,
            tests_passed: 13,
            tests_skipped: 2,
            diagnostics: vec![found(Severity::Warning, "w.rs", 1), found(Severity::Error, "e.rs", 2)],
            ..Report::default()
        };
        insta::assert_snapshot!(digest(&report), @r"
        1 of 14 tests failed, 1 error, 1 warning, 2 skipped
        FAILED a::b at src/lib.rs:7
          it broke
          expected: 5
          actual: 3
        error[E1] e.rs:2:1: bad
        warning[E1] w.rs:1:1: bad
        ");
    }

    #[test]
    fn every_file_has_its_turn_and_the_rest_is_counted() {
        let mut report = Report::default();
        report.diagnostics.extend((1..=40).map(|line| found(Severity::Error, "noisy.rs", line)));
        report.diagnostics.push(found(Severity::Error, "quiet.rs", 1));
        let text = digest(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "41 errors");
        assert_eq!(lines[2], "error[E1] quiet.rs:1:1: bad");
        assert_eq!(lines.len(), 1 + 30 + 1);
        assert_eq!(lines[31], "… and 11 more");
    }

    #[test]
    fn many_failed_tests_leave_room_for_errors() {
        let report = Report {
            tests: (0..40).map(|n| test("t", "a.py", n)).collect(),
            tests_failed: 40,
            diagnostics: vec![found(Severity::Error, "e.py", 2)],
            ..Report::default()
        };
        let text = digest(&report);
        assert!(text.contains("error[E1] e.py:2:1: bad"), "{text}");
        assert!(text.ends_with("… and 20 more"), "{text}");
    }

    #[test]
    fn every_entry_is_bounded() {
        let long = "word\n".repeat(10_000);
        let mut huge = test(&long, &long, 1);
        huge.message.clone_from(&long);
        huge.expected = Some(long.clone());
        huge.actual = Some(long.clone());
        let report = Report { tests: vec![huge; 500], tests_failed: 500, ..Report::default() };
        let text = digest(&report);
        assert!(text.len() < 30 * 2_000, "{}", text.len());
    }

    #[test]
    fn without_findings_the_tail_speaks() {
        let report = Report { tail: "make: nothing\n".to_owned(), ..Report::default() };
        assert_eq!(digest(&report), "no tests or findings recognised; the output ends with:\nmake: nothing");
        assert_eq!(digest(&Report::default()), "no tests or findings; the command printed nothing");
        let passed = Report { tests_passed: 1, tail: "long".to_owned(), ..Report::default() };
        assert_eq!(digest(&passed), "1 test passed");
    }
}
