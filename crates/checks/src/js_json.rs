//! The JSON that jest (`--json`) and vitest (`--reporter=json`) write: one document of the same shape.

use protocol::{Report, TestCase};
use serde_json::Value;

use crate::cases::{Cases, failed};
use crate::{js, json, scan};

/// Which runner wrote the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// jest, which counts suites that could not run.
    Jest,
    /// vitest, which does not.
    Vitest,
}

impl Runner {
    /// Whether the output has a document of this runner.
    pub(crate) fn wrote(self, output: &str) -> bool {
        let document = output.contains("\"numTotalTestSuites\":") && output.contains("\"testResults\":");
        document && output.contains("\"numRuntimeErrorTestSuites\":") == (self == Self::Jest)
    }

    /// What the document says; None where it is not whole.
    pub(crate) fn report(self, output: &str) -> Option<Report> {
        if !self.wrote(output) {
            return None;
        }
        let document = json::embedded(output, |value| value.get("testResults").is_some_and(Value::is_array))?;
        let mut cases = Cases::default();
        for file in document.get("testResults").and_then(Value::as_array).into_iter().flatten() {
            self.file(file, &mut cases);
        }
        cases.passed = json::number(&document, "/numPassedTests").unwrap_or(0);
        let (pending, todo) =
            (json::number(&document, "/numPendingTests"), json::number(&document, "/numTodoTests"));
        cases.skipped = pending.unwrap_or(0).saturating_add(todo.unwrap_or(0));
        Some(cases.report(Vec::new()))
    }

    fn file(self, file: &Value, cases: &mut Cases) {
        let name = json::text(file, "/name").unwrap_or_default();
        let results = file.get("assertionResults").and_then(Value::as_array);
        let mut any = false;
        for result in results.into_iter().flatten() {
            if json::text(result, "/status") == Some("failed") {
                any = true;
                cases.push(self.test(name, result));
            }
        }
        // A file that failed before its tests ran.
        let why = json::text(file, "/message").filter(|why| !why.trim().is_empty());
        if !any
            && json::text(file, "/status") == Some("failed")
            && let Some(why) = why
        {
            let mut test = failed(name);
            test.file = Some(name.to_owned());
            tell(&mut test, why);
            cases.push(test);
        }
    }

    fn test(self, file: &str, result: &Value) -> TestCase {
        let around = result.get("ancestorTitles").and_then(Value::as_array).into_iter().flatten();
        let mut titles: Vec<&str> = around.filter_map(Value::as_str).collect();
        titles.extend(json::text(result, "/title"));
        let mut test = failed(&match self {
            Self::Jest => titles.join(" › "),
            Self::Vitest => format!("{file} > {}", titles.join(" > ")),
        });
        test.file = Some(file.to_owned());
        let messages = result.get("failureMessages").and_then(Value::as_array).into_iter().flatten();
        messages.filter_map(Value::as_str).for_each(|message| tell(&mut test, message));
        for (pointer, value) in [
            ("/failureDetails/0/matcherResult/expected", &mut test.expected),
            ("/failureDetails/0/matcherResult/actual", &mut test.actual),
        ] {
            *value = result.pointer(pointer).filter(|found| !found.is_null()).map(|found| match found {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
        }
        test
    }
}

/// Takes a message with its stack: the words up to the first frame, and the place of the first frame of the project.
fn tell(test: &mut TestCase, message: &str) {
    let message = crate::clean(message);
    let mut in_stack = false;
    for line in message.lines() {
        if let Some(place) = js::frame(line).filter(|_| line.trim_start().starts_with("at ")) {
            in_stack = true;
            if test.line.is_none() && js::is_own(place.file) {
                (test.file, test.line) = (Some(place.file.to_owned()), Some(place.line));
            }
        } else if !in_stack && !js::is_excerpt(line) && !line.trim().is_empty() {
            scan::push_line(&mut test.message, line.trim_end());
        }
    }
}
