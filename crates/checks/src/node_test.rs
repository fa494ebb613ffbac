//! The output of `node --test`: the spec reporter, which tells every failure again at the end, the dot reporter, which tells
//! them only there, and the TAP reporter. Why a file failed that could not be loaded is only in what it printed.

mod spoken;

use std::collections::HashMap;

use protocol::{Report, TestCase};

use crate::cases::Cases;
use crate::js::{self, Failure};
use crate::tap::Tap;
use crate::{MAX_ENTRIES, Parser, scan};

pub(crate) use spoken::{Spoken, is_of_file};

/// Where the dot reporter's failures begin.
const DOT_LIST: &str = "Failed tests:";

/// The parser `node-test`.
pub(crate) struct NodeTest;

impl Parser for NodeTest {
    fn name(&self) -> &'static str {
        "node-test"
    }

    fn recognises(&self, output: &str) -> bool {
        let mut dotted = false;
        output.lines().any(|line| {
            if dotted && line == DOT_LIST {
                return true;
            }
            dotted = is_dots(line) || dotted && line.is_empty();
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
    /// What the files printed before their results.
    spoken: Spoken,
    /// Files that failed, by name, with what they printed; the list at the end does not have that.
    files: HashMap<String, TestCase>,
    /// The list at the end has begun.
    in_list: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if line == "✖ failing tests:" || line == DOT_LIST {
            self.close();
            self.in_list = true;
        } else if is_dots(line) && self.failure.is_none() {
            let passed = line.bytes().filter(|byte| *byte == b'.').count();
            self.passed = self.passed.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
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
            if !self.failure.as_ref().is_some_and(|failure| js::is_script(&failure.test.name)) {
                self.spoken.result();
            }
        } else if let Some(failure) = &mut self.failure {
            let text = line.get(self.indent + 2..).filter(|_| line.starts_with(' ')).unwrap_or("");
            if line.is_empty() || line.starts_with(' ') {
                detail(failure, text);
            } else {
                self.close();
                self.say(line);
            }
        } else {
            self.say(line);
        }
    }

    fn say(&mut self, line: &str) {
        if !self.in_list {
            self.spoken.line(line);
        }
    }

    fn count(&mut self, text: &str) {
        let Some((word, count)) = text.split_once(' ') else { return };
        let Some((count, _)) = scan::number(count) else {
            self.say(text);
            return;
        };
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
        if is_of_file(&test) {
            match self.files.get(&test.name) {
                Some(known) => test.clone_from(known),
                None => self.spoken.tell(&mut test, ""),
            }
            if self.files.len() < MAX_ENTRIES {
                self.files.insert(test.name.clone(), test.clone());
            }
        }
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
        let found = self.spoken.findings(&cases);
        cases.report(found)
    }
}

/// The frames are absolute and the place of the test is relative to the project, which tells where the project is.
fn settle_place(test: &mut TestCase, (file, line): (String, u32)) {
    let Some(absolute) = test.file.clone() else {
        (test.file, test.line) = (Some(file), Some(line));
        return;
    };
    // What fails while it loads is often another file, below the same folder.
    let root = [&absolute, &test.name]
        .into_iter()
        .find_map(|path| path.strip_suffix(file.as_str()).filter(|root| root.ends_with('/')))
        .map(str::to_owned);
    if let Some(root) = root {
        test.message = test.message.replace(&root, "");
        test.file = absolute.strip_prefix(&root).map(str::to_owned).or(Some(absolute));
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

/// Whether the line is of the dot reporter, one character for each test.
fn is_dots(line: &str) -> bool {
    !line.is_empty() && line.bytes().all(|byte| matches!(byte, b'.' | b'X'))
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
