//! Whether the rounds of failing checks get anywhere. Progress is a smaller set of failures, or fewer of them than ever
//! before in the turn; too many rounds without it end the turn.

use std::collections::BTreeSet;

use protocol::{Diagnostic, Report, Severity, TestStatus};

use crate::input::CheckResult;

/// The rounds so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds {
    last: Option<BTreeSet<Failure>>,
    best: usize,
    stale: u32,
}

/// One thing that fails, named so that it is known again in the next round: without line numbers, which edits move.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    check: String,
    what: String,
}

impl Rounds {
    /// Adds a round and gives the number of rounds without progress up to now. The first round is the mark that later
    /// ones are measured by.
    pub(crate) fn add(&mut self, failing: &[&CheckResult]) -> u32 {
        let now: BTreeSet<Failure> = failing.iter().flat_map(|check| failures(check)).collect();
        let total = failing.iter().map(|check| count(check)).sum();
        let progress = match &self.last {
            None => true,
            Some(last) => total < self.best || (now.is_subset(last) && now.len() < last.len()),
        };
        self.best = if self.last.is_none() { total } else { self.best.min(total) };
        self.last = Some(now);
        self.stale = if progress { 0 } else { self.stale + 1 };
        self.stale
    }
}

/// How many failures a failing check has; at least one, because it failed.
pub(crate) fn count(check: &CheckResult) -> usize {
    let report = &check.report;
    let listed = failed_tests(report).count();
    let counted = usize::try_from(report.tests_failed).unwrap_or(usize::MAX);
    listed.max(counted).max(findings(report).len()).max(1)
}

fn failures(check: &CheckResult) -> Vec<Failure> {
    let failure = |what: String| Failure { check: check.name.clone(), what };
    let tests = failed_tests(&check.report).map(|name| failure(format!("test {name}")));
    let findings = findings(&check.report).into_iter().map(|finding| {
        failure(format!("{}: {}", finding.file.as_deref().unwrap_or_default(), finding.message))
    });
    let mut failures: Vec<Failure> = tests.chain(findings).collect();
    if failures.is_empty() {
        failures.push(failure(String::new()));
    }
    failures
}

fn failed_tests(report: &Report) -> impl Iterator<Item = &str> {
    report.tests.iter().filter(|test| test.status == TestStatus::Failed).map(|test| test.name.as_str())
}

/// The errors; where a check fails without any, as a strict linter does, its warnings.
fn findings(report: &Report) -> Vec<&Diagnostic> {
    let of = |severity| report.diagnostics.iter().filter(move |finding| finding.severity == severity);
    let errors: Vec<&Diagnostic> = of(Severity::Error).collect();
    if errors.is_empty() { of(Severity::Warning).collect() } else { errors }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TestCase;

    fn failing(tests: &[&str], errors: &[&str], tests_failed: u32) -> CheckResult {
        let test = |name: &&str| TestCase {
            name: (*name).into(),
            status: TestStatus::Failed,
            file: None,
            line: None,
            message: String::new(),
            expected: None,
            actual: None,
        };
        let error = |message: &&str| Diagnostic {
            severity: Severity::Error,
            file: Some("a.rs".into()),
            line: None,
            column: None,
            code: None,
            message: (*message).into(),
        };
        let report = Report {
            tests: tests.iter().map(test).collect(),
            diagnostics: errors.iter().map(error).collect(),
            tests_failed,
            ..Report::default()
        };
        CheckResult { name: "test".into(), passed: false, report, digest: String::new() }
    }

    fn stale(rounds: &[CheckResult]) -> Vec<u32> {
        let mut counter = Rounds::default();
        rounds.iter().map(|round| counter.add(&[round])).collect()
    }

    #[test]
    fn fewer_failures_or_a_smaller_set_are_progress() {
        assert_eq!(stale(&[failing(&["a", "b"], &[], 2), failing(&["b"], &[], 1)]), [0, 0]);
        assert_eq!(stale(&[failing(&["a", "b"], &[], 2), failing(&["c"], &[], 1)]), [0, 0]);
        // The counts are the same because the list is shortened, but one of the listed ones is gone.
        assert_eq!(stale(&[failing(&["a", "b"], &[], 9), failing(&["a"], &[], 9)]), [0, 0]);
    }

    #[test]
    fn the_same_or_other_failures_are_not() {
        assert_eq!(
            stale(&[failing(&["a"], &[], 1), failing(&["a"], &[], 1), failing(&["b"], &[], 1)]),
            [0, 1, 2]
        );
        // Going back to an old best is not getting further.
        let there_and_back = [failing(&["a"], &[], 1), failing(&["b", "c"], &[], 2), failing(&["a"], &[], 1)];
        assert_eq!(stale(&there_and_back), [0, 1, 2]);
        // A crash that no parser understands counts as one failure.
        assert_eq!(stale(&[failing(&[], &[], 0), failing(&[], &[], 0)]), [0, 1]);
        assert_eq!(count(&failing(&[], &["x", "y"], 0)), 2);
    }
}
