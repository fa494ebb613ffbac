//! The output of `node --test`: the spec reporter, which tells every failure again at the end, and the TAP reporter.

use protocol::{Report, TestCase};

use crate::cases::Cases;
use crate::js::{self, Failure};
use crate::tap::Tap;
use crate::{Parser, scan};

/// The parser `node-test`.
pub(crate) struct NodeTest;

impl Parser for NodeTest {
    fn name(&self) -> &'static str {
        "node-test"
    }

    fn recognises(&self, output: &str) -> bool {
        output.lines().any(|line| {
            line == "✖ failing tests:"
                || ["ℹ ", "# "]
                    .iter()
                    .any(|mark| line.strip_prefix(mark).is_some_and(|rest| rest.starts_with("duration_ms ")))
        })
    }

    fn parse(&self, output: &str) -> Report {
        if Tap.recognises(output) && !output.lines().any(|line| line.starts_with("ℹ ")) {
            return Tap.parse(output);
        }
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    /// Failures where they happened.
    inline: Cases,
    /// Failures as the list at the end tells them, with their places.
    listed: Cases,
    failure: Option<Failure>,
    indent: usize,
    /// The place in `test at file:line:column`, which is where the test begins.
    at: Option<(String, u32)>,
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if line == "✖ failing tests:" {
            self.close();
        } else if let Some(place) = line.strip_prefix("test at ").and_then(scan::place) {
            self.close();
            self.at = Some((place.file.to_owned(), place.line));
        } else if let Some(rest) = line.strip_prefix("ℹ ") {
            self.close();
            self.count(rest);
        } else if let Some((indent, text)) = result(line) {
            self.close();
            self.indent = indent;
            let failure =
                text.strip_prefix("✖ ").map(split_time).filter(|(_, rest)| !rest.contains("# TODO"));
            self.failure = failure.map(|(name, _)| Failure::new(name));
        } else if let Some(failure) = &mut self.failure {
            let text = line.get(self.indent + 2..).filter(|_| line.starts_with(' ')).unwrap_or("");
            if line.is_empty() || line.starts_with(' ') {
                detail(failure, text);
            } else {
                self.close();
            }
        }
    }

    fn count(&mut self, text: &str) {
        let Some((word, count)) = text.split_once(' ') else { return };
        let Some((count, _)) = scan::number(count) else { return };
        let field = match word {
            "pass" => &mut self.passed,
            "fail" | "cancelled" => &mut self.failed,
            "skipped" | "todo" => &mut self.skipped,
            _ => return,
        };
        *field = field.saturating_add(count);
    }

    fn close(&mut self) {
        let Some(failure) = self.failure.take() else { return };
        let mut test = failure.finish();
        if let Some(at) = self.at.take() {
            settle_place(&mut test, at);
            self.listed.push(test);
        } else if !test.message.is_empty() {
            // A suite that failed only because its tests did says nothing of its own.
            self.inline.push(test);
        }
    }

    fn finish(mut self) -> Report {
        self.close();
        let mut cases = if self.listed.none_failed() { self.inline } else { self.listed };
        (cases.passed, cases.skipped) = (self.passed, self.skipped);
        cases.failed = cases.failed.max(self.failed);
        cases.report(Vec::new())
    }
}

/// The frames are absolute and the place of the test is relative to the project, which tells where the project is.
fn settle_place(test: &mut TestCase, (file, line): (String, u32)) {
    if let Some(absolute) = &test.file
        && let Some(root) = absolute.strip_suffix(file.as_str()).filter(|root| root.ends_with('/'))
    {
        test.message = test.message.replace(root, "");
        test.file = Some(file);
    } else if test.file.is_none() {
        (test.file, test.line) = (Some(file), Some(line));
    }
}

/// A line of a failure, without the block's indentation.
fn detail(failure: &mut Failure, line: &str) {
    if let Some(place) = js::frame(line) {
        failure.frame(&place);
    } else if line.trim_start().starts_with("at ") && line.starts_with("    ") {
        failure.in_stack = true;
    } else if failure.in_stack {
        let text = line.trim();
        if let Some(value) = text.strip_prefix("actual: ") {
            failure.test.actual = Some(value.trim_end_matches(',').to_owned());
        } else if let Some(value) = text.strip_prefix("expected: ") {
            failure.test.expected = Some(value.trim_end_matches(',').to_owned());
        }
    } else {
        failure.say(line);
    }
}

/// A line with a test's result: how far it is indented, and what it says.
fn result(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches(' ');
    let marked = ["✖ ", "✔ ", "﹣ ", "▶ "].iter().any(|mark| text.starts_with(mark));
    marked.then(|| (line.len() - text.len(), text))
}

/// Splits `name (1.5ms) # TODO` at the time.
fn split_time(text: &str) -> (&str, &str) {
    match text.rsplit_once(" (") {
        Some((name, rest)) if rest.contains("ms)") => (name, rest),
        _ => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_output_still_tells_what_failed() {
        let report = NodeTest.parse("▶ till\n  ✖ adds up (2.5ms)\n    Error: gone\n        at f (/home/dev/a.js:3:4)\n\n✖ till (13ms)\n");
        assert_eq!(report.tests.len(), 1);
        let test = &report.tests[0];
        assert_eq!(
            (test.name.as_str(), test.message.as_str(), test.line),
            ("adds up", "Error: gone", Some(3))
        );
    }
}
