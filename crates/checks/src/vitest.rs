//! The text output of vitest, with its default and its verbose reporter. Failures are told twice, in the progress and
//! again in detail at the end; the progress counts only when the detail is missing because the output was cut.

use protocol::{Diagnostic, Report, Severity, TestCase};

use crate::cases::{Cases, carried, failed};
use crate::findings::Findings;
use crate::js::{self, Failure};
use crate::js_json::Runner;
use crate::{Parser, scan};

/// What vitest draws its lines with.
const RULE: &str = "⎯⎯⎯";

/// The parser `vitest`.
pub(crate) struct Vitest;

impl Parser for Vitest {
    fn name(&self) -> &'static str {
        "vitest"
    }

    fn recognises(&self, output: &str) -> bool {
        Runner::Vitest.wrote(output)
            || output.lines().any(|line| {
                let text = line.trim_start();
                line.starts_with(" RUN  v")
                    || (line.starts_with(" Test Files  ") && line.ends_with(')'))
                    || (text.starts_with(RULE)
                        && rule_title(text).is_some_and(|title| title.starts_with("Failed ")))
            })
    }

    fn parse(&self, output: &str) -> Report {
        if let Some(report) = Runner::Vitest.report(output) {
            return report;
        }
        let mut reader = Reader::default();
        output.lines().for_each(|line| reader.line(line));
        reader.finish()
    }
}

/// What the lines under way are about.
#[derive(Default)]
enum Block {
    #[default]
    None,
    /// Failed tests with one and the same error.
    Tests(Vec<Failure>),
    /// An error outside of all tests.
    Unhandled(Failure),
}

#[derive(Default)]
struct Reader {
    block: Block,
    cases: Cases,
    /// Failed tests as the progress shows them.
    progress: Cases,
    /// The file above the progress of its tests.
    file: String,
    /// Number of files that failed before their tests ran.
    suites: u32,
    counts: Option<js::Counts>,
    findings: Findings,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix(" FAIL  ") {
            self.begin(name.trim());
            return;
        }
        if line.starts_with(RULE) {
            self.rule(line);
            return;
        }
        if line.starts_with(" Test Files  ") {
            self.close();
            return;
        }
        if let Some(list) = line.strip_prefix("      Tests  ") {
            self.close();
            let (list, _) = list.rsplit_once(" (").unwrap_or((list, ""));
            self.counts = js::counts(list.split(" | ")).or(self.counts);
            return;
        }
        match &mut self.block {
            Block::None => self.progress(line),
            Block::Tests(failures) => {
                // Only the first tells the message of its own while it comes in; the others get a copy at the end.
                if let Some(failure) = failures.first_mut() {
                    detail(failure, line);
                }
            }
            Block::Unhandled(failure) => detail(failure, line),
        }
    }

    /// `FAIL  file > suite > test`; several in a row share the error that follows.
    fn begin(&mut self, name: &str) {
        if let Block::Tests(failures) = &mut self.block
            && failures.first().is_some_and(|first| first.test.message.is_empty())
            && failures.len() < crate::MAX_ENTRIES
        {
            failures.push(Failure::new(name));
            return;
        }
        self.close();
        self.block = Block::Tests(vec![Failure::new(name)]);
    }

    /// A line drawn across: with `[2/4]` it ends a failure, with a title it begins a part of the output.
    fn rule(&mut self, line: &str) {
        match rule_title(line) {
            Some(title) if title.starts_with("Failed ") || title == "Unhandled Errors" => self.close(),
            Some(title) if title.starts_with("Unhandled ") || title.starts_with("Uncaught ") => {
                self.close();
                self.block = Block::Unhandled(Failure::new(title));
            }
            Some(title) if title.starts_with('[') => self.close(),
            // An unadorned line stands above an error's further properties.
            Some(_) | None => {}
        }
    }

    fn close(&mut self) {
        match std::mem::take(&mut self.block) {
            Block::None => {}
            Block::Tests(failures) => {
                let mut told: Option<TestCase> = None;
                for failure in failures {
                    let mut test = failure.finish();
                    if let Some(told) = &told {
                        test.file.clone_from(&told.file);
                        test.line = told.line;
                        test.message.clone_from(&told.message);
                    }
                    if let Some(end) = test.name.find(" [ ") {
                        test.name.truncate(end);
                        test.file.get_or_insert_with(|| test.name.clone());
                        self.suites = self.suites.saturating_add(1);
                    }
                    told.get_or_insert_with(|| test.clone());
                    self.cases.push(test);
                }
            }
            Block::Unhandled(failure) => {
                let test = failure.finish();
                self.findings.push(Diagnostic {
                    severity: Severity::Error,
                    file: test.file,
                    line: test.line,
                    column: None,
                    code: None,
                    message: test.message,
                    ..Diagnostic::default()
                });
            }
        }
    }

    /// ` × file > test 7ms`, or `   × test 7ms` below ` ❯ file (6 tests | 3 failed)`, and `→ why` below it.
    fn progress(&mut self, line: &str) {
        let text = line.trim_start();
        if let Some(rest) = line.strip_prefix(" ❯ ") {
            if let Some((file, _)) = rest.split_once(" (") {
                carried(file).clone_into(&mut self.file);
            }
        } else if let Some(name) = text.strip_prefix("× ").filter(|_| line.starts_with(' ')) {
            let name = name.rsplit_once(' ').filter(|(_, time)| is_time(time)).map_or(name, |(name, _)| name);
            let full = if line.starts_with("  ") && !self.file.is_empty() {
                format!("{} > {name}", self.file)
            } else {
                name.to_owned()
            };
            self.progress.push(failed(&full));
        } else if let Some(why) = text.strip_prefix("→ ").filter(|_| line.starts_with("  "))
            && let Some(test) = self.progress.last_mut()
        {
            scan::push_line(&mut test.message, why);
        }
    }

    fn finish(mut self) -> Report {
        self.close();
        let mut cases = if self.cases.none_failed() { self.progress } else { self.cases };
        if let Some(counts) = self.counts {
            counts.settle(&mut cases, self.suites);
        }
        cases.report(self.findings.into_vec())
    }
}

/// A line of a failure told in detail.
fn detail(failure: &mut Failure, line: &str) {
    if let Some(place) = js::frame(line) {
        failure.frame(&place);
    } else if line.starts_with("Caused by: ") {
        failure.say(line);
    } else if !failure.in_stack && !js::is_excerpt(line) {
        values(failure, line);
        if !matches!(line, "- Expected" | "+ Received") {
            failure.say(line);
        }
    }
}

/// The two sides of a comparison, where each is one line: `- 5` and `+ 3`.
fn values(failure: &mut Failure, line: &str) {
    let test = &mut failure.test;
    if let Some(value) = line.strip_prefix("- ").filter(|value| *value != "Expected") {
        if !value.starts_with(' ') {
            test.expected = Some(value.to_owned());
        }
    } else if let Some(value) = line.strip_prefix("+ ").filter(|value| *value != "Received")
        && !value.starts_with(' ')
    {
        test.actual = Some(value.to_owned());
    }
}

/// The title in a line drawn across.
fn rule_title(line: &str) -> Option<&str> {
    let title = line.trim_matches(|c: char| c == '⎯' || c == ' ');
    (!title.is_empty()).then_some(title)
}

fn is_time(word: &str) -> bool {
    scan::number(word).is_some_and(|(_, unit)| matches!(unit, "ms" | "s") || unit.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_output_still_names_what_failed() {
        let report = Vitest.parse(" RUN  v3.2.7 /home/dev/web\n\n ❯ a.test.ts (2 tests | 1 failed) 16ms\n   × till > adds up 7ms\n     → expected 3 to be 5\n");
        assert_eq!(report.tests[0].name, "a.test.ts > till > adds up");
        assert_eq!(report.tests[0].message, "expected 3 to be 5");
    }

    #[test]
    fn tests_with_the_same_error_share_it() {
        let report =
            Vitest.parse(" FAIL  a.test.ts > one\n FAIL  a.test.ts > two\nError: gone\n ❯ a.test.ts:3:1\n");
        assert_eq!(report.tests_failed, 2);
        assert!(report.tests.iter().all(|test| test.message == "Error: gone" && test.line == Some(3)));
    }
}
