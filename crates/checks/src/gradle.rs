//! Gradle: the errors of the Java and Kotlin compilers that it runs, its test results, and what went wrong with the build
//! itself.

use protocol::{Diagnostic, Report, Severity, TestCase};

use crate::cases::{Cases, failed};
use crate::findings::Findings;
use crate::{Parser, javac, js, places, scan};

/// The parser `gradle`.
pub(crate) struct Gradle;

impl Parser for Gradle {
    fn name(&self) -> &'static str {
        "gradle"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            line.starts_with("> Task :")
                || line.starts_with("BUILD FAILED in ")
                || line.starts_with("BUILD SUCCESSFUL in ")
                || line == "FAILURE: Build failed with an exception."
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        places::lines(output).for_each(|line| reader.line(line));
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    findings: Findings,
    /// The compiler's finding that may still be explained.
    last: Option<Diagnostic>,
    failure: Option<TestCase>,
    cases: Cases,
    /// What the lines of counts say, summed up over the projects of a build.
    counts: Option<(u32, u32, u32)>,
    /// What went wrong with the build, and whether more lines of it come.
    wrong: Vec<Diagnostic>,
    in_wrong: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(found) = javac::compiler(without_task(line)).or_else(|| kotlin(line)) {
            self.close();
            self.last = Some(found);
        } else if let Some((name, outcome)) = result(line) {
            self.close();
            match outcome {
                "PASSED" => self.cases.pass(),
                "SKIPPED" => self.cases.skip(),
                _ => self.failure = Some(failed(&name)),
            }
        } else if let Some((run, failed, skipped)) = counts(line) {
            self.close();
            let before = self.counts.unwrap_or_default();
            self.counts = Some((
                before.0.saturating_add(run),
                before.1.saturating_add(failed),
                before.2.saturating_add(skipped),
            ));
        } else if line == "* What went wrong:" || line == "* Where:" {
            self.close();
            self.in_wrong = true;
        } else if self.in_wrong {
            self.went_wrong(line);
        } else if let Some(test) = &mut self.failure {
            if line.starts_with("    ") {
                tell(test, line);
            } else if !line.is_empty() {
                self.close();
            }
        } else if let Some(found) = &mut self.last {
            javac::explain(found, line);
        }
    }

    /// A line of what went wrong; the next heading ends it.
    fn went_wrong(&mut self, line: &str) {
        if line.starts_with("* ") || line.starts_with("BUILD FAILED") {
            self.in_wrong = false;
            return;
        }
        let text = line.trim();
        if text.is_empty() {
            return;
        }
        if let Some((file, number)) = script(text) {
            self.wrong.push(places::found(Severity::Error, file, number, ""));
        } else if let Some(last) = self.wrong.last_mut() {
            scan::push_line(&mut last.message, text);
        } else {
            self.wrong.push(Diagnostic { message: text.to_owned(), ..Diagnostic::default() });
        }
        self.wrong.truncate(crate::MAX_ENTRIES);
    }

    fn close(&mut self) {
        self.last.take().into_iter().for_each(|found| self.findings.push(found));
        if let Some(mut test) = self.failure.take() {
            javac::values(&mut test);
            self.cases.push(test);
        }
    }

    fn finish(mut self) -> Report {
        self.close();
        let mut cases = self.cases;
        if let Some((run, failed, skipped)) = self.counts {
            cases.failed = cases.failed.max(failed);
            cases.skipped = cases.skipped.max(skipped);
            cases.passed = run.saturating_sub(cases.failed.saturating_add(cases.skipped));
        }
        let mut diagnostics = self.findings.into_vec();
        // That a task failed says nothing more where it is known what failed in it.
        if cases.none_failed() && !diagnostics.iter().any(|found| found.severity == Severity::Error) {
            diagnostics.extend(self.wrong);
            diagnostics.truncate(crate::MAX_ENTRIES);
        }
        cases.report(diagnostics)
    }
}

/// Older versions print the task's name and then, on the same line, what the compiler says.
fn without_task(line: &str) -> &str {
    let Some(at) = line.strip_prefix(':').and_then(|rest| rest.find('/')) else { return line };
    let (task, rest) = line.split_at(at + 1);
    let named = task.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.".contains(&byte));
    if named { rest } else { line }
}

/// `shop.TillTest > addsUp() FAILED`, also with nested classes and the words of a parametrised test.
fn result(line: &str) -> Option<(String, &str)> {
    let (name, outcome) = line.rsplit_once(' ')?;
    if !matches!(outcome, "FAILED" | "PASSED" | "SKIPPED") || line.starts_with([' ', '>', ':']) {
        return None;
    }
    let (class, method) = name.split_once(" > ")?;
    let class_name = !class.is_empty() && !class.contains(char::is_whitespace);
    // JUnit 5 puts the method's brackets behind its name, JUnit 4 does not.
    class_name.then(|| (format!("{class} > {}", method.trim_end().trim_end_matches("()")), outcome))
}

/// `4 tests completed, 2 failed, 1 skipped`.
fn counts(line: &str) -> Option<(u32, u32, u32)> {
    let mut parts = line.split(", ");
    let (run, rest) = scan::number(parts.next()?)?;
    if !matches!(rest, " tests completed" | " test completed") {
        return None;
    }
    let mut counts = (run, 0, 0);
    for part in parts {
        match scan::number(part) {
            Some((number, " failed")) => counts.1 = number,
            Some((number, " skipped")) => counts.2 = number,
            _ => {}
        }
    }
    Some(counts)
}

/// A line below a failed test: the exception, with the place behind it or in the frames that follow.
fn tell(test: &mut TestCase, line: &str) {
    let text = line.trim();
    if let Some(place) = js::frame(line).filter(|_| text.starts_with("at ")) {
        if test.line.is_none() && !javac::is_library(line) {
            (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
        }
    } else if let Some((what, place)) = text.rsplit_once(" at ").and_then(|(what, place)| {
        scan::place(place).filter(|place| place.rest.is_empty()).map(|place| (what, place))
    }) {
        scan::push_line(&mut test.message, what);
        if test.line.is_none() {
            (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
        }
    } else if test.line.is_none() && !text.starts_with("at ") {
        scan::push_line(&mut test.message, text);
    }
}

/// Kotlin's `e: file:///home/dev/Till.kt:3:5 Unresolved reference` and, before 1.8, `e: /home/dev/Till.kt: (3, 5): …`.
fn kotlin(line: &str) -> Option<Diagnostic> {
    let (severity, rest) = match line.strip_prefix("e: ") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("w: ")?),
    };
    let rest = rest.strip_prefix("file://").unwrap_or(rest);
    if let Some((file, rest)) = rest.split_once(": (") {
        let (number, rest) = scan::number(rest)?;
        let (column, rest) = scan::number(rest.strip_prefix(", ")?)?;
        let message = rest.strip_prefix("): ")?;
        return Some(Diagnostic { column: Some(column), ..places::found(severity, file, number, message) });
    }
    let place =
        scan::place(rest).filter(|place| place.file.ends_with(".kt") || place.file.ends_with(".kts"))?;
    let found = places::found(severity, place.file, place.line, place.rest.trim_start_matches([':', ' ']));
    Some(Diagnostic { column: place.column, ..found })
}

/// `Build file '/home/dev/build.gradle' line: 3`.
fn script(text: &str) -> Option<(&str, u32)> {
    let (file, rest) = text.strip_prefix("Build file '")?.split_once("' line: ")?;
    Some((file, scan::number(rest)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_exceptions_and_short_ones_tell_the_same() {
        let short = "shop.TillTest > addsUp FAILED\n    java.lang.AssertionError at TillTest.java:5\n\nBUILD FAILED in 1s\n";
        let full = "TillTest > addsUp() FAILED\n    org.opentest4j.AssertionFailedError: expected: <5> but was: <4>\n        at app//org.junit.jupiter.api.Assertions.fail(Assertions.java:3)\n        at app//shop.TillTest.addsUp(TillTest.java:5)\n\n1 test completed, 1 failed\n";
        for text in [short, full] {
            let report = Gradle.parse(text);
            assert_eq!((report.tests_failed, report.tests[0].line), (1, Some(5)), "{text}");
        }
        let test = &Gradle.parse(full).tests[0];
        assert_eq!((test.expected.as_deref(), test.actual.as_deref()), (Some("5"), Some("4")));
    }

    #[test]
    fn kotlin_of_both_ages_is_read() {
        for line in ["e: file:///a/Till.kt:3:5 no", "e: /a/Till.kt: (3, 5): no"] {
            let found = kotlin(line).unwrap();
            assert_eq!(
                (found.file.as_deref(), found.line, found.column, found.message.as_str()),
                (Some("/a/Till.kt"), Some(3), Some(5), "no")
            );
        }
    }

    #[test]
    fn a_build_that_cannot_begin_says_why() {
        let text = "FAILURE: Build failed with an exception.\n\n* Where:\nBuild file '/a/build.gradle' line: 2\n\n* What went wrong:\nCould not find method tset() for arguments.\n\n* Try:\nRun with --stacktrace\n\nBUILD FAILED in 1s\n";
        let found = Gradle.parse(text).diagnostics;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "Could not find method tset() for arguments.");
        assert_eq!((found[0].file.as_deref(), found[0].line), (Some("/a/build.gradle"), Some(2)));
    }
}
