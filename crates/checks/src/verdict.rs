//! Whether a check that ended with 0 may be believed: a program that ends early, a shell that swallows how a command ended, or a
//! build that ignores failures all end well while tests fail. And whether it still runs as many tests as it did.

use std::collections::HashMap;

use protocol::{Report, Severity, TestCase, TestStatus, Weakening, WeakeningKind as Kind};

/// Most failed tests that are named.
const NAMED: usize = 5;
/// Most bytes of a name.
const MAX_NAME: usize = 200;

/// By these a command says itself that failures count for nothing. Whoever configured it so has decided.
const IGNORES: [&str; 13] = [
    "|| true",
    "||true",
    "|| :",
    "||:",
    "|| exit 0",
    "|| echo",
    "; true",
    "; exit 0",
    "set +e",
    "--exit-zero",
    "maven.test.failure.ignore",
    "testFailureIgnore",
    "--fail-never",
];

/// Parsers of runners that do nothing but run tests, so that none of them means that nothing was tested.
const RUNNERS: [&str; 7] = ["unittest", "pytest", "node-test", "jest", "vitest", "tap", "junit"];

/// Whether a command says that its failure counts for nothing.
pub fn ignores_failures(command: &str) -> bool {
    IGNORES.iter().any(|word| command.contains(word))
}

/// What is kept of a run to measure later ones by: how many tests there were, and which of them failed.
pub fn tally(report: &Report) -> Report {
    let name = |test: &TestCase| TestCase { name: test.name.clone(), ..TestCase::default() };
    Report {
        parser: report.parser.clone(),
        tests: failed(report).map(name).collect(),
        tests_passed: report.tests_passed,
        tests_failed: report.tests_failed,
        tests_skipped: report.tests_skipped,
        ..Report::default()
    }
}

/// Why a run that ended with 0 is no pass: its own output says that tests failed. None where there are none, or where the same
/// failed while the check ended with 0 before anything was changed.
pub fn unbelieved(now: &Report, from_the_start: Option<&Report>) -> Option<String> {
    let (names, count) = more_failed(now, from_the_start);
    if count == 0 {
        return None;
    }
    let since = if from_the_start.is_some() { ", which did not when the session began" } else { "" };
    Some(format!(
        "The command ended with 0, but what it printed says that {} failed{since}{}. That is no pass: tests that fail must pass, \
         and how the command ends must not be hidden. (Where only the exit code is to count, a person writes `parser = \
         \"fallback\"` for this check.)",
        plural(count, "test"),
        listed(&names)
    ))
}

/// What a check that passed says less than when the session began: fewer tests, or ones that fail and do not count. Of a check
/// of which nothing is known from then, only that it runs nothing at all.
pub fn says_less(check: &str, began: Option<&Report>, now: &Report) -> Vec<Weakening> {
    let mut found = Vec::new();
    let mut tell = |kind, what: String| {
        found.push(Weakening { kind, file: format!("the check {check}"), line: None, what });
    };
    let ran = |report: &Report| report.tests_passed.saturating_add(report.tests_failed);
    let Some(began) = began else {
        if ran(now) == 0 && now.tests_skipped == 0 && RUNNERS.contains(&now.parser.as_str()) && clean(now) {
            tell(Kind::TestsNarrowed, "it passes without running a single test".to_owned());
        }
        return found;
    };
    let skipped = match now.tests_skipped.saturating_sub(began.tests_skipped) {
        0 => String::new(),
        more => format!("; {more} more are skipped"),
    };
    match (ran(began), ran(now)) {
        // A build that finds its tests up to date does not run them again.
        (_, 0) if now.parser == "gradle" => {}
        (before, 0) if before > 0 => {
            let ran = plural(count(before), "test");
            tell(
                Kind::TestsNarrowed,
                format!("it runs no test any more; when the session began it ran {ran}{skipped}"),
            );
        }
        (before, now) if now < before => {
            let (now, before) = (plural(count(now), "test"), before.to_string());
            tell(
                Kind::TestsNarrowed,
                format!("it runs {now}; when the session began it ran {before}{skipped}"),
            );
        }
        _ => {}
    }
    let (names, more) = more_failed(now, Some(began));
    if more > 0 {
        let what = format!(
            "it passes though {} failed, which did not when the session began{}",
            plural(more, "test"),
            listed(&names)
        );
        tell(Kind::FailureIgnored, what);
    }
    found
}

/// The tests that failed and did not in a run before, and how many there are, with those that are not named.
fn more_failed<'a>(now: &'a Report, before: Option<&Report>) -> (Vec<&'a str>, usize) {
    let mut old: HashMap<&str, usize> = HashMap::new();
    for test in before.into_iter().flat_map(failed) {
        *old.entry(&test.name).or_default() += 1;
    }
    let mut names = Vec::new();
    for test in failed(now) {
        match old.get_mut(test.name.as_str()).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => names.push(test.name.as_str()),
        }
    }
    let unnamed = |report: &Report| count(report.tests_failed).saturating_sub(failed(report).count());
    let more = names.len() + unnamed(now).saturating_sub(before.map_or(0, unnamed));
    (names, more)
}

fn failed(report: &Report) -> impl Iterator<Item = &TestCase> {
    report.tests.iter().filter(|test| test.status == TestStatus::Failed)
}

fn clean(report: &Report) -> bool {
    report.diagnostics.iter().all(|found| found.severity != Severity::Error)
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let short = |name: &&str| {
        let mut name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        crate::clean::clip(&mut name, MAX_NAME);
        name
    };
    let mut text = format!(": {}", names.iter().take(NAMED).map(short).collect::<Vec<_>>().join(", "));
    if names.len() > NAMED {
        text.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    text
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(passed: u32, failed: &[&str]) -> Report {
        let test = |name: &&str| TestCase { name: (*name).to_owned(), ..TestCase::default() };
        Report {
            parser: "unittest".to_owned(),
            tests: failed.iter().map(test).collect(),
            tests_passed: passed,
            tests_failed: u32::try_from(failed.len()).unwrap(),
            ..Report::default()
        }
    }

    fn told(began: Option<&Report>, now: &Report) -> Vec<String> {
        says_less("test", began, now).into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn a_good_end_is_not_believed_where_the_tests_say_otherwise() {
        assert_eq!(unbelieved(&report(3, &[]), None), None);
        let why = unbelieved(&report(2, &["a", "b"]), None).unwrap();
        assert!(why.contains("says that 2 tests failed: a, b. That is no pass"), "{why}");
        // What failed so from the start is what somebody chose.
        assert_eq!(unbelieved(&report(2, &["a"]), Some(&report(2, &["a"]))), None);
        let why = unbelieved(&report(1, &["a", "b"]), Some(&tally(&report(2, &["a"])))).unwrap();
        assert!(why.contains("1 test failed, which did not when the session began: b."), "{why}");
        let uncounted = Report { tests_failed: 4, ..Report::default() };
        assert!(unbelieved(&uncounted, None).unwrap().contains("4 tests failed. That"));
        assert_eq!(unbelieved(&uncounted, Some(&uncounted)), None);
        for command in ["pytest || true", "make test; exit 0", "mvn -Dmaven.test.failure.ignore=true test"] {
            assert!(ignores_failures(command), "{command}");
        }
        assert!(!ignores_failures("pytest -k true && exit"));
    }

    #[test]
    fn fewer_tests_than_before_are_told_with_their_number() {
        let began = report(3, &[]);
        assert_eq!(told(Some(&began), &report(3, &[])), Vec::<String>::new());
        assert_eq!(
            told(Some(&began), &Report::default()),
            ["it runs no test any more; when the session began it ran 3 tests"]
        );
        let skipped = Report { tests_skipped: 2, ..report(1, &[]) };
        assert_eq!(
            told(Some(&began), &skipped),
            ["it runs 1 test; when the session began it ran 3; 2 more are skipped"]
        );
        assert_eq!(told(None, &report(0, &[])), ["it passes without running a single test"]);
        assert_eq!(told(None, &Report { parser: "cargo".into(), ..report(0, &[]) }), Vec::<String>::new());
        assert_eq!(told(Some(&report(0, &[])), &report(0, &[])), Vec::<String>::new());
        let up_to_date = Report { parser: "gradle".into(), ..Report::default() };
        assert_eq!(told(Some(&began), &up_to_date), Vec::<String>::new());
        assert_eq!(
            told(Some(&began), &report(2, &["x"])),
            ["it passes though 1 test failed, which did not when the session began: x"]
        );
    }
}
