//! Whether the rounds of failing checks get anywhere. Progress is a smaller set of failures, or fewer of them than ever
//! before in the turn; too many rounds without it end the turn.

use std::collections::BTreeSet;

use protocol::{Diagnostic, Report, Severity, TestStatus};

use crate::input::CheckResult;

/// The rounds so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rounds {
    /// What failed before the work, and what the checks said of it.
    before: Option<(BTreeSet<Failure>, String)>,
    last: Option<BTreeSet<Failure>>,
    best: usize,
    stale: u32,
    all: u32,
    /// Whether the last round saw only a part of the checks.
    partial: bool,
}

/// One thing that fails, named so that it is known again in the next round: without line numbers, which edits move.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Failure {
    check: String,
    what: String,
}

impl Rounds {
    /// Keeps what fails before the work, with what the checks say of it.
    pub(crate) fn begin(&mut self, failing: &[&CheckResult], said: &str) {
        let failures = failing.iter().flat_map(|check| failures(check)).collect();
        self.before = (!failing.is_empty()).then(|| (failures, said.to_owned()));
    }

    /// What the checks said before the work, where all that fails now is something else: the work brought it in.
    pub(crate) fn before_all_that_is_new(&self, failing: &[&CheckResult]) -> Option<&str> {
        let (before, said) = self.before.as_ref()?;
        let new = failing.iter().flat_map(|check| failures(check)).all(|failure| !before.contains(&failure));
        new.then_some(said)
    }

    /// Adds a round and gives the number of rounds without progress up to now. The first round is the mark that later
    /// ones are measured by.
    pub(crate) fn add(&mut self, failing: &[&CheckResult]) -> u32 {
        self.all += 1;
        let now: BTreeSet<Failure> = failing.iter().flat_map(|check| failures(check)).collect();
        let total = failing.iter().map(|check| count(check)).sum();
        // A part and the whole are not measured by each other. That the part fails after the whole was run is no progress; that
        // the whole is run after the part neither is nor is not.
        let partial = failing.iter().any(|check| check.partial);
        let other = std::mem::replace(&mut self.partial, partial) != partial;
        self.stale = match &self.last {
            None => 0,
            Some(_) if other => self.stale + u32::from(partial),
            Some(last) if total < self.best || (now.is_subset(last) && now.len() < last.len()) => 0,
            Some(_) => self.stale + 1,
        };
        self.best = if self.last.is_none() || other { total } else { self.best.min(total) };
        self.last = Some(now);
        self.stale
    }

    /// How many rounds there were.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }
}

/// The failures of a check by name, each with its place.
pub(crate) fn named(check: &CheckResult) -> Vec<String> {
    let place = |file: Option<&str>, line: Option<u32>| match (file, line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (file, _) => file.unwrap_or_default().to_owned(),
    };
    let tests = check.report.tests.iter().filter(|test| test.status == TestStatus::Failed);
    let tests = tests.map(|test| match place(test.file.as_deref(), test.line) {
        at if at.is_empty() => test.name.clone(),
        at => format!("{} ({at})", test.name),
    });
    let findings = findings(&check.report).into_iter().map(|finding| {
        let said = finding.message.lines().next().unwrap_or_default();
        match place(finding.file.as_deref(), finding.line) {
            at if at.is_empty() => said.to_owned(),
            at => format!("{at}: {said}"),
        }
    });
    tests.chain(findings).collect()
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
            ..TestCase::default()
        };
        let error = |message: &&str| Diagnostic {
            severity: Severity::Error,
            file: Some("a.rs".into()),
            line: None,
            message: (*message).into(),
            ..Diagnostic::default()
        };
        let report = Report {
            tests: tests.iter().map(test).collect(),
            diagnostics: errors.iter().map(error).collect(),
            tests_failed,
            ..Report::default()
        };
        CheckResult { name: "test".into(), report, ..CheckResult::default() }
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
    fn a_part_and_the_whole_are_not_measured_by_each_other() {
        let part = |tests: &[&str]| CheckResult { partial: true, ..failing(tests, &[], 0) };
        let whole = |tests: &[&str]| failing(tests, &[], 0);
        // The part passed, and the whole shows more than the part ever did; then it gets nowhere.
        assert_eq!(stale(&[part(&["a"]), whole(&["b", "c"]), whole(&["b", "c"])]), [0, 0, 1]);
        // Whoever breaks the part again after each run of the whole gets nowhere either.
        assert_eq!(stale(&[whole(&["b"]), part(&["a"]), whole(&["b"]), part(&["a"])]), [0, 1, 1, 2]);
    }

    #[test]
    fn what_the_work_brought_in_is_told_from_what_failed_before() {
        let mut rounds = Rounds::default();
        let (test, error) = (failing(&["a"], &[], 1), failing(&[], &["no such crate"], 0));
        assert_eq!(rounds.before_all_that_is_new(&[&error]), None, "nothing is known");
        rounds.begin(&[&test], "a failed");
        assert_eq!(rounds.before_all_that_is_new(&[&error]), Some("a failed"));
        assert_eq!(rounds.before_all_that_is_new(&[&failing(&["a", "b"], &[], 2)]), None);
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
