//! `go test`, `go build` and `go vet`: results and messages of tests, panics, compiler errors; also `go test -json`, whose
//! events carry the same text.

use std::collections::{BTreeMap, HashMap};

use protocol::{Diagnostic, Report, Severity, TestCase};
use serde_json::Value;

use crate::cases::{Cases, carried, failed};
use crate::findings::Findings;
use crate::{Parser, json, places, scan};

/// The parser `go`.
pub(crate) struct Go;

impl Parser for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            line.starts_with("=== RUN   ")
                || line.starts_with("--- FAIL: ")
                || line.starts_with("FAIL\t")
                || line.starts_with("ok  \t")
                || compiler(line).is_some()
                || is_event(line)
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        if output.lines().any(is_event) {
            for text in texts_of_events(output).values() {
                places::lines(text).for_each(|line| reader.line(line));
                reader.end_of_package();
            }
        } else {
            places::lines(output).for_each(|line| reader.line(line));
        }
        reader.end_of_package();
        reader.cases.report(reader.findings.into_vec())
    }
}

fn is_event(line: &str) -> bool {
    line.starts_with('{') && line.contains("\"Action\":\"")
}

/// What each package printed; packages run side by side and their events are mixed.
fn texts_of_events(output: &str) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for line in output.lines() {
        let event = line.starts_with('{').then(|| serde_json::from_str::<Value>(line).ok()).flatten();
        let Some(event) = event else {
            // What the compiler says stands between the events.
            let text = texts.entry(String::new()).or_default();
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let package = json::text(&event, "/Package").or_else(|| json::text(&event, "/ImportPath"));
        if let Some(said) = json::text(&event, "/Output") {
            // The text comes out of JSON, where escapes were hidden from the first cleaning.
            texts.entry(package.unwrap_or_default().to_owned()).or_default().push_str(&crate::clean(said));
        }
    }
    texts
}

/// What a test logged.
type Log = Vec<(String, u32, String)>;

/// Whether a file is the language's own, wherever it is installed, or of another module.
fn is_library(file: &str) -> bool {
    let own = ["/src/testing/", "/src/runtime/", "/src/reflect/", "/src/internal/"];
    file.contains("/go/src/")
        || file.contains("/pkg/mod/")
        || own.iter().any(|folder| file.contains(folder) && file.contains("/go"))
}

#[derive(Default)]
struct Reader {
    cases: Cases,
    findings: Findings,
    /// With `-v`, what a test logs comes before its result.
    logs: HashMap<String, Log>,
    running: Option<String>,
    /// A failed test whose messages may follow, while it is not known whether it has failed subtests.
    open: Option<TestCase>,
    /// The panic under way, until its first frame in the project is found.
    panic: Option<Diagnostic>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("=== ") {
            let name = rest.split_once(' ').map(|(_, name)| carried(name.trim()));
            self.running = name.filter(|name| !name.is_empty()).map(str::to_owned);
        } else if let Some((outcome, name)) = result(line) {
            self.result(outcome, name);
        } else if let Some(what) = line.strip_prefix("panic: ") {
            self.begin_panic(what);
        } else if self.panic.is_some() && line.starts_with('\t') {
            self.frame(line);
        } else if let Some((file, number, message)) = log(line) {
            self.log(file, number, message);
        } else if line.starts_with("        ") {
            self.more(line);
        } else if let Some(found) = compiler(line) {
            self.findings.push(found);
        } else if line.starts_with("FAIL") || line.starts_with("ok  \t") {
            self.end_of_package();
        }
    }

    fn result(&mut self, outcome: &str, name: &str) {
        self.running = None;
        let log = self.logs.remove(carried(name));
        match outcome {
            "PASS" => self.cases.pass(),
            "SKIP" => self.cases.skip(),
            _ => {
                let open = self.open.take();
                // A test that failed only because its subtests did says nothing of its own.
                let silent = open.filter(|open| {
                    let inside =
                        name.strip_prefix(open.name.as_str()).is_some_and(|rest| rest.starts_with('/'));
                    !(inside && open.message.is_empty())
                });
                silent.into_iter().for_each(|open| self.cases.push(open));
                let mut test = failed(name);
                log.into_iter()
                    .flatten()
                    .for_each(|(file, number, message)| say(&mut test, &file, number, &message));
                self.open = Some(test);
            }
        }
    }

    fn log(&mut self, file: &str, line: u32, message: &str) {
        if let Some(running) = &self.running {
            let log = self.logs.entry(running.clone()).or_default();
            if log.len() < crate::MAX_ENTRIES {
                log.push((file.to_owned(), line, message.to_owned()));
            }
        } else if let Some(test) = &mut self.open {
            say(test, file, line, message);
        }
    }

    /// A further line of a message.
    fn more(&mut self, line: &str) {
        if let Some(running) = &self.running {
            if let Some((_, _, message)) = self.logs.get_mut(running).and_then(|log| log.last_mut()) {
                scan::push_line(message, line.trim());
            }
        } else if let Some(test) = self.open.as_mut().filter(|test| !test.message.is_empty()) {
            scan::push_line(&mut test.message, line.trim());
        }
    }

    fn begin_panic(&mut self, what: &str) {
        if self.panic.is_none() {
            let what = what.trim_end_matches(" [recovered]");
            self.panic = Some(Diagnostic {
                severity: Severity::Error,
                file: None,
                line: None,
                column: None,
                code: None,
                message: format!("panic: {what}"),
                ..Diagnostic::default()
            });
        }
    }

    /// `/home/dev/till.go:7 +0x1d` behind a tab; the language's own files stand in its `src`.
    fn frame(&mut self, line: &str) {
        let Some(place) = scan::place(line.trim_start()).filter(|place| place.file.ends_with(".go")) else {
            return;
        };
        if is_library(place.file) {
            return;
        }
        if let Some(panic) = self.panic.as_mut().filter(|panic| panic.line.is_none()) {
            (panic.file, panic.line) = (Some(place.file.to_owned()), Some(place.line));
        }
    }

    fn end_of_package(&mut self) {
        self.running = None;
        self.logs.clear();
        let panic = self.panic.take();
        match (self.open.take(), panic) {
            (Some(mut test), Some(panic)) => {
                scan::push_line(&mut test.message, &panic.message);
                if test.line.is_none() {
                    (test.file, test.line) = (panic.file, panic.line);
                }
                self.cases.push(test);
            }
            (Some(test), None) => self.cases.push(test),
            (None, Some(panic)) => self.findings.push(panic),
            (None, None) => {}
        }
    }
}

/// Adds a message, the first of which tells the place.
fn say(test: &mut TestCase, file: &str, line: u32, message: &str) {
    if test.line.is_none() {
        (test.file, test.line) = (Some(file.to_owned()), Some(line));
    }
    scan::push_line(&mut test.message, message);
}

/// `--- FAIL: TestTotal (0.00s)`, indented for a subtest.
fn result(line: &str) -> Option<(&str, &str)> {
    let (outcome, name) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    matches!(outcome, "FAIL" | "PASS" | "SKIP").then_some((outcome, name))
}

/// `    till_test.go:12: total = 3, want 5`.
fn log(line: &str) -> Option<(&str, u32, &str)> {
    let place = scan::place(line.strip_prefix("    ")?.trim_start())?;
    let message = place.rest.strip_prefix(':')?;
    (place.file.ends_with(".go") && place.column.is_none()).then(|| (place.file, place.line, message.trim()))
}

/// `./till.go:7:2: undefined: totl`, of vet also with `vet: ` before it.
fn compiler(line: &str) -> Option<Diagnostic> {
    let text = line.strip_prefix("vet: ").unwrap_or(line);
    let place =
        scan::place(text).filter(|place| place.file.ends_with(".go") && places::is_path(place.file))?;
    let message = place.rest.strip_prefix(": ").filter(|_| place.column.is_some())?;
    Some(Diagnostic {
        column: place.column,
        ..places::found(Severity::Error, place.file, place.line, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_has_its_place_and_messages() {
        let after = "--- FAIL: TestTotal (0.00s)\n    till_test.go:12: total = 3, want 5\n        of euros\n    till_test.go:13: again\n--- PASS: TestHalf (0.00s)\nFAIL\n";
        let before = "=== RUN   TestTotal\n    till_test.go:12: total = 3, want 5\n        of euros\n    till_test.go:13: again\n--- FAIL: TestTotal (0.00s)\n=== RUN   TestHalf\n--- PASS: TestHalf (0.00s)\nFAIL\n";
        for text in [after, before] {
            let report = Go.parse(text);
            assert_eq!((report.tests_failed, report.tests_passed), (1, 1));
            let test = &report.tests[0];
            assert_eq!(
                (test.name.as_str(), test.file.as_deref(), test.line),
                ("TestTotal", Some("till_test.go"), Some(12))
            );
            assert_eq!(test.message, "total = 3, want 5\nof euros\nagain");
        }
    }

    #[test]
    fn the_compiler_speaks_without_a_word_for_errors() {
        let report = Go.parse("# example/till\n./till.go:7:2: undefined: totl\n");
        let found = &report.diagnostics[0];
        assert_eq!((found.severity, found.column), (Severity::Error, Some(2)));
        assert_eq!(found.message, "undefined: totl");
    }
}
