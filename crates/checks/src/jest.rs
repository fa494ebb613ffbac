//! jest's output, with and without `--verbose`: one block per failed test below the file's `FAIL` line; also its JSON.

use std::collections::HashSet;

use protocol::Report;

use crate::Parser;
use crate::cases::{Cases, carried};
use crate::js::{self, Failure};
use crate::js_json::Runner;

/// The parser `jest`.
pub(crate) struct Jest;

impl Parser for Jest {
    fn name(&self) -> &'static str {
        "jest"
    }

    fn recognises(&self, output: &str) -> bool {
        Runner::Jest.wrote(output)
            || output.lines().any(|line| {
                (line.starts_with("Test Suites: ") && line.ends_with(" total")) || line.starts_with("  ● ")
            })
    }

    fn parse(&self, output: &str) -> Report {
        if let Some(report) = Runner::Jest.report(output) {
            return report;
        }
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    file: String,
    failure: Option<Failure>,
    cases: Cases,
    /// Names told already; a long run repeats its failures in a summary at the end.
    known: HashSet<String>,
    /// Number of files that failed before their tests ran.
    suites: u32,
    counts: Option<js::Counts>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(title) = line.strip_prefix("  ● ") {
            self.begin(title.trim());
        } else if let Some(file) = result(line) {
            self.close();
            self.file = carried(file_name(file)).to_owned();
        } else if let Some(list) = line.strip_prefix("Tests: ") {
            self.close();
            self.counts = js::counts(list.split(", ")).or(self.counts);
        } else if !line.is_empty() && !line.starts_with(' ') {
            self.close();
        } else if let Some(failure) = &mut self.failure {
            detail(failure, line.strip_prefix("    ").unwrap_or(""));
        }
    }

    fn begin(&mut self, title: &str) {
        self.close();
        match title {
            "Console" => {}
            "Test suite failed to run" => {
                let mut failure = Failure::new(&self.file);
                failure.test.file = Some(self.file.clone()).filter(|file| !file.is_empty());
                self.failure = Some(failure);
            }
            title if self.file.is_empty() => self.failure = Some(Failure::new(title)),
            title => self.failure = Some(Failure::new(&format!("{} › {title}", self.file))),
        }
    }

    fn close(&mut self) {
        let Some(failure) = self.failure.take() else { return };
        let test = failure.finish();
        if self.cases.is_full() || self.known.insert(test.name.clone()) {
            self.suites = self.suites.saturating_add(u32::from(test.name == self.file));
            self.cases.push(test);
        }
    }

    fn finish(mut self) -> Report {
        self.close();
        let mut cases = self.cases;
        if let Some(counts) = self.counts {
            counts.settle(&mut cases, self.suites);
        }
        cases.report(Vec::new())
    }
}

/// A line of a failure, without the block's indentation.
fn detail(failure: &mut Failure, line: &str) {
    if let Some(place) = js::frame(line) {
        failure.frame(&place);
    } else if js::is_excerpt(line) {
        // What stands below the code is the stack; the message was above it.
        failure.in_stack = true;
    } else if !failure.in_stack {
        if let Some(value) = line.strip_prefix("Expected: ") {
            failure.test.expected = Some(value.trim().to_owned());
        } else if let Some(value) = line.strip_prefix("Received: ") {
            failure.test.actual = Some(value.trim().to_owned());
        } else {
            failure.say(line);
        }
    }
}

/// What follows `FAIL` or `PASS`; on a terminal the word has a space on each side.
fn result(line: &str) -> Option<&str> {
    let line = line.strip_prefix(' ').unwrap_or(line);
    line.strip_prefix("FAIL ").or_else(|| line.strip_prefix("PASS "))
}

/// The file of `FAIL src/a.test.js (5.2 s)`; a project's name may stand before it.
fn file_name(text: &str) -> &str {
    let text = text.trim();
    let text = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((file, _)) => file,
        None => text,
    };
    text.rsplit_once(' ').map_or(text, |(_, file)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_at_the_end_tells_nothing_twice() {
        let block = "FAIL unit src/a.test.js (5.2 s)\n  ● adds up\n\n    Expected: 5\n    Received: 3\n";
        let text =
            format!("{block}\nSummary of all failing tests\n{block}\nTests:       1 failed, 1 total\n");
        let report = Jest.parse(&text);
        assert_eq!((report.tests.len(), report.tests_failed), (1, 1));
        assert_eq!(report.tests[0].name, "src/a.test.js › adds up");
    }
}
