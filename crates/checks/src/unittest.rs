//! The text output of Python's unittest: one block with a traceback per failed test, and the counts at the end.

mod says;

use std::collections::HashSet;

use protocol::{Report, TestCase};

use crate::cases::{Cases, failed};
use crate::{Parser, scan};

/// The parser `unittest`.
pub(crate) struct Unittest;

impl Parser for Unittest {
    fn name(&self) -> &'static str {
        "unittest"
    }

    fn recognises(&self, output: &str) -> bool {
        let mut ruled = false;
        output.lines().any(|line| {
            let found = (ruled && ran(line).is_some()) || (is_rule(line, '=') && line.len() == 70);
            ruled = is_rule(line, '-');
            found
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.finish()
    }
}

/// Where in a block the reader is.
#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Part {
    /// Outside of blocks.
    #[default]
    Outside,
    /// Below the line of equals signs, where the heading comes.
    Heading,
    /// Below the heading, where the test's documentation may stand.
    Documentation,
    /// In the traceback.
    Body,
}

#[derive(Default)]
struct Reader {
    part: Part,
    test: Option<TestCase>,
    /// The line of code of the last frame.
    source: String,
    cases: Cases,
    /// Failures that are not a test's, and are not among those that ran.
    outside_tests: u32,
    /// The tests that ran and failed; one that has parts fails several times.
    ran_and_failed: HashSet<String>,
    /// Names that `-v` tells of tests that should have failed; older versions tell them nowhere else.
    succeeded: Vec<String>,
    named_successes: u32,
    ran: Option<u32>,
    counts: Counts,
}

/// The numbers behind the last word.
#[derive(Default, Clone, Copy)]
struct Counts {
    failed: u32,
    skipped: u32,
    unexpected: u32,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if is_rule(line, '=') {
            self.close();
            self.part = Part::Heading;
            return;
        }
        if let Some(number) = ran(line) {
            self.close();
            self.part = Part::Outside;
            self.ran = Some(self.ran.unwrap_or(0).saturating_add(number));
            return;
        }
        match self.part {
            Part::Outside => self.count(line),
            Part::Heading if line.starts_with(UNEXPECTED) => {
                self.part = Part::Outside;
                self.succeeded(&name(&line[UNEXPECTED.len()..]));
            }
            Part::Heading => {
                let heading = ["FAIL: ", "ERROR: "].iter().find_map(|word| line.strip_prefix(word));
                self.test = heading.map(|heading| failed(&name(heading)));
                self.part = if self.test.is_some() { Part::Documentation } else { Part::Outside };
            }
            Part::Documentation => {
                if is_rule(line, '-') {
                    self.part = Part::Body;
                }
            }
            Part::Body if is_rule(line, '-') => self.close(),
            Part::Body => {
                if let Some(test) = &mut self.test {
                    body(test, &mut self.source, line);
                }
            }
        }
    }

    /// A test that should have failed.
    fn succeeded(&mut self, name: &str) {
        let mut test = failed(name);
        "unexpected success: it is marked as an expected failure, and passed".clone_into(&mut test.message);
        self.ran_and_failed.insert(test.name.clone());
        self.named_successes = self.named_successes.saturating_add(1);
        self.cases.push(test);
    }

    /// `FAILED (failures=2, errors=3, skipped=1, expected failures=1)` or `OK (skipped=1)`.
    fn count(&mut self, line: &str) {
        if let Some(heading) = line.strip_suffix(" ... unexpected success")
            && self.succeeded.len() < crate::MAX_ENTRIES
        {
            self.succeeded.push(name(heading));
            return;
        }
        let list = line.strip_prefix("FAILED (").or_else(|| line.strip_prefix("OK ("));
        let Some(list) = list.and_then(|list| list.strip_suffix(')')) else { return };
        for part in list.split(", ") {
            let Some((word, number)) = part.split_once('=') else { continue };
            let Some((number, _)) = scan::number(number) else { continue };
            if word == "unexpected successes" {
                self.counts.unexpected = self.counts.unexpected.saturating_add(number);
            }
            let field = match word {
                "failures" | "errors" | "unexpected successes" => &mut self.counts.failed,
                "skipped" | "expected failures" => &mut self.counts.skipped,
                _ => continue,
            };
            *field = field.saturating_add(number);
        }
    }

    fn close(&mut self) {
        let Some(mut test) = self.test.take() else { return };
        let source = std::mem::take(&mut self.source);
        if source.starts_with("assert ") {
            // Without a message, only the code says what was wanted.
            if test.message == "AssertionError" {
                scan::push_line(&mut test.message, &source);
            }
        } else if !source.starts_with("self.fail(")
            && let Some(text) =
                test.message.lines().next().and_then(|line| line.strip_prefix("AssertionError: "))
        {
            (test.expected, test.actual) = says::values(text);
        }
        let outside = [".setUpClass", ".tearDownClass", ".setUpModule", ".tearDownModule"];
        if outside.iter().any(|end| test.name.ends_with(end)) {
            self.outside_tests = self.outside_tests.saturating_add(1);
        } else if !self.cases.is_full() {
            let whole = test.name.split_once(' ').map_or(test.name.as_str(), |(whole, _)| whole);
            self.ran_and_failed.insert(whole.to_owned());
        }
        self.cases.push(test);
    }

    fn finish(mut self) -> Report {
        self.close();
        if self.counts.unexpected > self.named_successes {
            let names = std::mem::take(&mut self.succeeded);
            let known = std::mem::take(&mut self.ran_and_failed);
            names.iter().filter(|name| !known.contains(*name)).for_each(|name| self.succeeded(name));
            self.ran_and_failed.extend(known);
        }
        let mut cases = self.cases;
        // Where the output was cut, not all have a name.
        let all_named = cases.failed >= self.counts.failed && !cases.is_full();
        cases.failed = cases.failed.max(self.counts.failed);
        cases.skipped = self.counts.skipped;
        let failed = match u32::try_from(self.ran_and_failed.len()) {
            Ok(failed) if all_named => failed,
            _ => cases.failed.saturating_sub(self.outside_tests),
        };
        cases.passed = self.ran.unwrap_or(0).saturating_sub(failed.saturating_add(cases.skipped));
        cases.report(Vec::new())
    }
}

/// How a test is headed that should have failed.
const UNEXPECTED: &str = "UNEXPECTED SUCCESS: ";

/// A line of a traceback: frames tell the place, and what stands below the last of them is the message.
fn body(test: &mut TestCase, source: &mut String, line: &str) {
    if let Some(frame) = scan::python_frame(line) {
        source.clear();
        if !frame.file.contains("/lib/python") && !frame.file.contains("site-packages/") {
            (test.file, test.line) = (Some(frame.file.to_owned()), Some(frame.line));
        }
        test.message.clear();
    } else if line.starts_with("Traceback (most recent call last)") {
        test.message.clear();
    } else if let Some(code) = line.strip_prefix("    ") {
        if source.is_empty() {
            code[..code.floor_char_boundary(crate::MAX_TEXT)].clone_into(source);
        }
    } else if !line.trim().is_empty() {
        scan::push_line(&mut test.message, line.trim_end());
    }
}

/// The full name in `test_a (shop.Till.test_a) (n=1)`; before Python 3.11 the brackets held no method.
fn name(heading: &str) -> String {
    let Some((method, rest)) = heading.split_once(" (") else { return heading.to_owned() };
    let Some((class, parameters)) = rest.split_once(')') else { return heading.to_owned() };
    let loader = class.starts_with("unittest.loader.");
    let whole = class.strip_suffix(method).is_some_and(|rest| rest.ends_with('.'));
    match (loader, whole) {
        (true, _) => method.to_owned(),
        (false, true) => format!("{class}{parameters}"),
        (false, false) => format!("{class}.{method}{parameters}"),
    }
}

fn is_rule(line: &str, of: char) -> bool {
    line.len() >= 40 && line.chars().all(|c| c == of)
}

/// Reads `Ran 7 tests in 0.001s`.
fn ran(line: &str) -> Option<u32> {
    let (number, rest) = scan::number(line.strip_prefix("Ran ")?)?;
    (rest.starts_with(" test in ") || rest.starts_with(" tests in ")).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_versions_name_a_test_the_same() {
        assert_eq!(name("test_a (shop.Till.test_a) (n=1)"), "shop.Till.test_a (n=1)");
        assert_eq!(name("test_a (shop.Till)"), "shop.Till.test_a");
        assert_eq!(name("test_broken (unittest.loader._FailedTest)"), "test_broken");
        assert_eq!(name("odd (é"), "odd (é");
    }
}
