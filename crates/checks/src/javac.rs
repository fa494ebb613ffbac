//! Java: javac's errors with the lines that explain them, Maven's way to print them, and the test results of its surefire
//! plugin.

use std::collections::HashSet;

use protocol::{Diagnostic, Report, Severity, TestCase};

use crate::cases::{Cases, failed};
use crate::findings::Findings;
use crate::{Parser, js, places, scan, words};

/// The parser `javac`.
pub(crate) struct Javac;

impl Parser for Javac {
    fn name(&self) -> &'static str {
        "javac"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            compiler(line).is_some()
                || maven(line).is_some()
                || summary(line).is_some()
                || line.starts_with("[INFO] BUILD ")
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
    /// Maven prints its findings as they come and again at the end.
    known: HashSet<String>,
    cases: Cases,
    failure: Option<TestCase>,
    counts: Option<(u32, u32, u32)>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(found) = compiler(line).or_else(|| maven(line)) {
            self.close();
            self.last = Some(found);
        } else if let Some(name) = test_failure(line) {
            self.close();
            self.failure = Some(failed(&name));
        } else if line.starts_with('[') {
            self.close();
            // Each class has a line of counts of its own, which names the class; the last line has none.
            self.counts = summary(line).or(self.counts);
        } else if let Some(test) = &mut self.failure {
            if line.trim().is_empty() {
                self.close();
            } else if let Some(place) = js::frame(line) {
                if test.line.is_none() && !is_library(line) {
                    (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
                }
            } else if !line.starts_with("\tat ") && test.line.is_none() {
                scan::push_line(&mut test.message, line.trim_end());
            }
        } else if let Some(found) = &mut self.last {
            explain(found, line);
        }
    }

    fn close(&mut self) {
        if let Some(found) = self.last.take() {
            let headline = found.message.lines().next().unwrap_or_default();
            let key = format!("{:?} {:?} {:?} {headline}", found.file, found.line, found.column);
            if self.known.insert(key) {
                self.findings.push(found);
            }
        }
        if let Some(mut test) = self.failure.take() {
            values(&mut test);
            self.cases.push(test);
        }
    }

    fn finish(mut self) -> Report {
        self.close();
        let mut cases = self.cases;
        if let Some((run, failed, skipped)) = self.counts {
            cases.failed = cases.failed.max(failed);
            cases.passed = run.saturating_sub(cases.failed.saturating_add(skipped));
            cases.skipped = skipped;
        }
        cases.report(self.findings.into_vec())
    }
}

/// How lines begin that explain a finding, in the languages of the JDK.
const EXPLAINS: [&str; 12] = [
    "symbol:",
    "location:",
    "reason:",
    "Symbol:",
    "Ort:",
    "Position:",
    "シンボル:",
    "場所:",
    "理由:",
    "符号:",
    "位置:",
    "原因:",
];

/// The lines below a finding of the compiler: the code, a caret that tells the column, and what it means.
pub(crate) fn explain(found: &mut Diagnostic, line: &str) {
    let text = line.trim();
    if text == "^" {
        found.column = u32::try_from(line.len()).ok().or(found.column);
    } else if EXPLAINS.iter().any(|word| text.starts_with(word)) {
        scan::push_line(&mut found.message, text);
    }
}

/// `shop/Till.java:8: error: ';' expected`, and `warning: [rawtypes] found raw type: List`.
pub(crate) fn compiler(line: &str) -> Option<Diagnostic> {
    let place = scan::place(line).filter(|place| is_java(place.file) && place.column.is_none())?;
    let (severity, message) = words::leading(place.rest.strip_prefix(": ")?)?;
    if severity == Severity::Note {
        return None;
    }
    let lint = message.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (code, message) = lint.map_or((None, message), |(code, message)| (Some(code.to_owned()), message));
    Some(Diagnostic { code, ..places::found(severity, place.file, place.line, message) })
}

/// `[ERROR] /home/dev/shop/Till.java:[5,18] incompatible types: …`.
fn maven(line: &str) -> Option<Diagnostic> {
    let (severity, rest) = match line.strip_prefix("[ERROR] ") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("[WARNING] ")?),
    };
    let (file, rest) = rest.split_once(":[")?;
    let (number, rest) = scan::number(rest)?;
    let (column, rest) = rest.strip_prefix(',').and_then(scan::number)?;
    let message = rest.strip_prefix("] ")?.trim();
    is_java(file)
        .then(|| Diagnostic { column: Some(column), ..places::found(severity, file, number, message) })
}

fn is_java(file: &str) -> bool {
    [".java", ".kt", ".scala", ".groovy"].iter().any(|ending| file.ends_with(ending))
}

/// `[ERROR] shop.TillTest.addsUp -- Time elapsed: 0.01 s <<< FAILURE!`, of older versions `addsUp(shop.TillTest)  Time …`.
fn test_failure(line: &str) -> Option<String> {
    let text = line.strip_prefix("[ERROR] ").unwrap_or(line);
    let (text, _) = text.split_once("<<< FAILURE!").or_else(|| text.split_once("<<< ERROR!"))?;
    let (name, _) = text.split_once("Time elapsed: ")?;
    let name = name.trim().trim_end_matches("--").trim_end();
    if name.is_empty() || name.starts_with("Tests run: ") {
        return None;
    }
    Some(match name.strip_suffix(')').and_then(|name| name.split_once('(')) {
        Some((method, class)) if !class.is_empty() => format!("{class}.{method}"),
        _ => name.to_owned(),
    })
}

/// `[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1` as run, failed and skipped; not the line of one class.
fn summary(line: &str) -> Option<(u32, u32, u32)> {
    let (_, list) = line.split_once("] Tests run: ").filter(|(level, _)| level.starts_with('['))?;
    let mut numbers = list.split(", ").map(|part| {
        let digits = part.rsplit_once(": ").map_or(part, |(_, digits)| digits);
        scan::number(digits).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
    });
    let (run, failures) = (numbers.next()??, numbers.next()??);
    let (errors, skipped) = (numbers.next()??, numbers.next()??);
    numbers.next().is_none().then(|| (run, failures.saturating_add(errors), skipped))
}

/// Whether the frame is of the language's or a test library.
pub(crate) fn is_library(line: &str) -> bool {
    let frame = line.trim_start().strip_prefix("at ").unwrap_or_default();
    let frame = frame.rsplit_once("//").map_or(frame, |(_, frame)| frame);
    let frame = frame.strip_prefix("java.base/").unwrap_or(frame);
    const LIBRARIES: [&str; 8] =
        ["java.", "javax.", "jdk.", "sun.", "org.junit.", "junit.", "org.assertj.", "org.hamcrest."];
    LIBRARIES.iter().any(|library| frame.starts_with(library))
}

/// Fills in what was compared from JUnit's `expected: <5> but was: <3>`.
pub(crate) fn values(test: &mut TestCase) {
    let Some((_, rest)) = test.message.split_once("expected:") else { return };
    let Some((expected, actual)) = rest.split_once("but was:") else { return };
    let value = |text: &str| {
        let text = text.lines().next().unwrap_or_default().trim();
        text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).map(str::to_owned)
    };
    (test.expected, test.actual) = (value(expected), value(actual));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_of_counts_is_the_sum() {
        assert_eq!(summary("[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1"), Some((4, 2, 1)));
        assert_eq!(
            summary(
                "[ERROR] Tests run: 4, Failures: 1, Errors: 1, Skipped: 1, Time elapsed: 0.1 s -- in shop.TillTest"
            ),
            None
        );
    }

    #[test]
    fn old_and_new_versions_name_a_test_the_same() {
        for line in [
            "[ERROR] shop.TillTest.addsUp -- Time elapsed: 0.01 s <<< FAILURE!",
            "addsUp(shop.TillTest)  Time elapsed: 0.01 sec  <<< FAILURE!",
        ] {
            assert_eq!(test_failure(line).as_deref(), Some("shop.TillTest.addsUp"));
        }
    }
}
