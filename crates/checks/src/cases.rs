//! A bounded collection of test results, as the runners' parsers fill it while they read.

use protocol::{Diagnostic, Report, TestCase, TestStatus};

use crate::MAX_ENTRIES;

/// Longest name that is carried from line to line, so that one long line cannot make all others costly.
const MAX_CARRIED: usize = 256;

/// The start of a name that is carried from line to line.
pub(crate) fn carried(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_CARRIED)]
}

/// A failed test of which only the name is known yet.
pub(crate) fn failed(name: &str) -> TestCase {
    TestCase {
        name: name.to_owned(),
        status: TestStatus::Failed,
        file: None,
        line: None,
        message: String::new(),
        expected: None,
        actual: None,
        ..TestCase::default()
    }
}

/// Failed tests in the order found, and how many there were of each kind.
#[derive(Default)]
pub(crate) struct Cases {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
    kept: Vec<TestCase>,
}

impl Cases {
    /// Counts a failed test and keeps it if there is room.
    pub(crate) fn push(&mut self, test: TestCase) {
        self.failed = self.failed.saturating_add(1);
        if self.kept.len() < MAX_ENTRIES {
            self.kept.push(test);
        }
    }

    /// Whether a further failed test would only be counted.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.len() >= MAX_ENTRIES
    }

    /// Counts a test that passed.
    pub(crate) fn pass(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }

    /// Counts a test that was not run.
    pub(crate) fn skip(&mut self) {
        self.skipped = self.skipped.saturating_add(1);
    }

    /// The failed test found last, if it was kept.
    pub(crate) fn last_mut(&mut self) -> Option<&mut TestCase> {
        self.kept.last_mut()
    }

    /// Whether no test has failed.
    pub(crate) fn none_failed(&self) -> bool {
        self.failed == 0
    }

    /// The report of these tests and diagnostics.
    pub(crate) fn report(self, diagnostics: Vec<Diagnostic>) -> Report {
        Report {
            tests: self.kept,
            tests_passed: self.passed,
            tests_failed: self.failed,
            tests_skipped: self.skipped,
            diagnostics,
            ..Report::default()
        }
    }
}
