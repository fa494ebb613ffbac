//! What the files that Node's runner runs have printed. Of a file that failed outside of its tests (it does not compile, a module
//! is not there, it threw) the runner says no more than that; why is in the lines before the result.

use std::collections::VecDeque;

use protocol::{Diagnostic, Severity, TestCase};

use crate::cases::Cases;
use crate::findings::Findings;
use crate::traces::{Raised, Traces};
use crate::{js, places, scan};

/// Most lines that are told where nothing was raised.
const MAX_LINES: usize = 8;
/// Most errors that are kept until a result.
const MAX_RAISED: usize = 32;

/// Whether the test is a file of which the runner knows only that it failed.
pub(crate) fn is_of_file(test: &TestCase) -> bool {
    js::is_script(&test.name) && matches!(test.message.trim(), "test failed" | "'test failed'")
}

/// What was printed since the last result.
#[derive(Default)]
pub(crate) struct Spoken {
    traces: Traces,
    raised: VecDeque<Raised>,
    last: VecDeque<String>,
    /// What happened after a test had ended, which is no test's failure.
    late: Findings,
}

impl Spoken {
    /// Takes a line that a file printed.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(found) = late(line) {
            self.late.push(found);
            return;
        }
        self.traces.line(line);
        self.gather();
        if !line.trim().is_empty() {
            if self.last.len() == MAX_LINES {
                self.last.pop_front();
            }
            let mut text = String::new();
            scan::push_line(&mut text, line.trim_end());
            self.last.push_back(text);
        }
    }

    /// A test came to its end. What was printed is about it, but for what ended a process: that comes before the results of the
    /// tests that the process had run, as it is another stream.
    pub(crate) fn result(&mut self) {
        self.last.clear();
        self.raised.retain(|raised| raised.ended);
    }

    /// Puts into a file's failure what the file printed.
    pub(crate) fn tell(&mut self, test: &mut TestCase, exit: &str) {
        let finished = self.traces.finish();
        self.raised.extend(finished);
        let ended = self.raised.iter().rposition(|raised| raised.ended);
        let raised = ended.or(self.raised.len().checked_sub(1)).and_then(|at| self.raised.remove(at));
        self.raised.clear();
        let last = std::mem::take(&mut self.last);
        "test failed".clone_into(&mut test.message);
        if !exit.is_empty() {
            test.message.push_str(&format!(" ({exit})"));
        }
        match raised {
            Some(raised) => {
                test.message = raised.message;
                (test.file, test.line) = match raised.file {
                    Some(file) => (Some(file), raised.line),
                    None => (Some(test.name.clone()), None),
                };
            }
            None => {
                test.file = Some(test.name.clone());
                test.line = None;
                if last.is_empty() {
                    // Some reporters leave out what files print.
                    let hint = format!(
                        "its process failed outside of the tests, and nothing is shown of why: run `node {}`",
                        test.name
                    );
                    scan::push_line(&mut test.message, &hint);
                }
                last.iter().for_each(|line| scan::push_line(&mut test.message, line));
            }
        }
    }

    /// What was printed that is no test's: what came too late, and, where no test failed, what ended a process.
    pub(crate) fn findings(mut self, cases: &Cases) -> Vec<Diagnostic> {
        let finished = self.traces.finish();
        self.raised.extend(finished);
        let ended = self.raised.into_iter().filter(|raised| raised.ended && cases.none_failed());
        ended.for_each(|raised| self.late.push(raised.into()));
        self.late.into_vec()
    }

    fn gather(&mut self) {
        for raised in self.traces.take() {
            if self.raised.len() == MAX_RAISED {
                self.raised.pop_front();
            }
            self.raised.push_back(raised);
        }
    }
}

/// `Error: Test "adds up" at till.test.js:4:1 generated asynchronous activity after the test ended. …`
fn late(line: &str) -> Option<Diagnostic> {
    const AFTER: &str = " generated asynchronous activity after the test ended.";
    let rest = line.strip_prefix("Error: Test \"").or_else(|| line.strip_prefix("Warning: Test \""))?;
    let (before, _) = rest.split_once(AFTER)?;
    let place = before.rsplit_once("\" at ").and_then(|(_, place)| scan::place(place))?;
    let message = line.split_once(": ").map_or(line, |(_, message)| message);
    Some(Diagnostic {
        column: place.column,
        ..places::found(Severity::Warning, place.file, place.line, message)
    })
}
