//! The output of `cargo build`, `check`, `clippy`, `test` and `nextest run`: compiler diagnostics and test results, as they
//! come interleaved on one terminal. [`rustc`] reads the first, [`json`] those of `--message-format=json`, [`libtest`] the
//! second, [`panic`] what a failed test prints.

mod json;
mod libtest;
mod panic;
mod rustc;

use protocol::{Diagnostic, Report};

use self::libtest::Libtest;
use self::rustc::Rustc;
use crate::{Parser, scan};

/// The parser `cargo`.
pub(crate) struct Cargo;

impl Parser for Cargo {
    fn name(&self) -> &'static str {
        "cargo"
    }

    fn recognises(&self, output: &str) -> bool {
        output.lines().any(|line| {
            let trimmed = line.trim_start();
            line.starts_with("test result: ")
                || json::is_message(line)
                || short(line).is_some()
                || line.starts_with("error[E")
                || line.starts_with("error: could not compile `")
                || line.starts_with("error: test run failed")
                || (line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")))
                || (line.len() > trimmed.len()
                    && ["Compiling ", "Checking ", "Finished `", "Doc-tests ", "Nextest run ID "]
                        .iter()
                        .any(|verb| trimmed.starts_with(verb)))
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut rustc = Rustc::default();
        let mut libtest = Libtest::default();
        for line in output.lines() {
            if json::is_message(line) {
                json::message(line, &mut rustc);
                continue;
            }
            if let Some((test, rest)) = died(line) {
                let region = libtest.line(&test);
                rustc.line(rest, region);
                continue;
            }
            let region = libtest.line(line);
            match short(line).filter(|_| region != Region::Captured) {
                Some(found) => rustc.push(found),
                None => rustc.line(line, region),
            }
        }
        let mut report = Report { diagnostics: rustc.finish(), ..Report::default() };
        libtest.finish(&mut report);
        report
    }
}

/// `test a ... error: test failed, to rerun pass`: the process died in this test, whose result cargo's word stands for.
fn died(line: &str) -> Option<(String, &str)> {
    let (test, _) = line.strip_prefix("test ")?.rsplit_once(" ... error: test failed, to rerun pass `")?;
    let said = &line["test ".len() + test.len() + " ... ".len()..];
    Some((format!("test {test} ... FAILED"), said))
}

/// `src/lib.rs:4:34: error[E0425]: cannot find value`, as `--message-format=short` prints it.
fn short(line: &str) -> Option<Diagnostic> {
    let place = scan::place(line).filter(|place| place.file.ends_with(".rs") && place.column.is_some())?;
    let (severity, code, message) = rustc::headline(place.rest.strip_prefix(": ")?)?;
    Some(Diagnostic {
        severity,
        file: Some(place.file.to_owned()),
        line: Some(place.line),
        column: place.column,
        code: code.map(str::to_owned),
        message: message.to_owned(),
        ..Diagnostic::default()
    })
}

/// What surrounds a line, which decides how far it may be taken for the compiler's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    /// No test runs: the compiler and cargo speak.
    Build,
    /// Tests run and may print anything; only what has a place, or is cargo's own, counts.
    Tests,
    /// Inside the captured output of a test; nothing here is the compiler's.
    Captured,
}
