//! Tests that failed before the work began and ask for something else now. To write down what the code returns makes them pass,
//! and says nothing of whether that is right.

use std::collections::HashSet;

use protocol::{Weakening, WeakeningKind as Kind};

use super::assertion::Assertion;
use super::compare::Sides;
use super::{finding, quote};

/// What is found in the files of a diff, for tests that failed under these names.
pub(super) fn found(all: &[Sides<'_>], failed: &[String]) -> Vec<Weakening> {
    let mut found = Vec::new();
    for sides in all.iter().filter(|sides| !sides.file.old.is_empty() && !sides.file.new.is_empty()) {
        for (name, before, now) in sides.both() {
            if failed.iter().any(|failed| is_called(failed, name))
                && let Some((from, to)) = changed(before, now)
            {
                let what = format!(
                    "{name} failed before, and it asks for something else now: {} was {}",
                    quote(&to.text),
                    quote(&from.text)
                );
                found.push(finding(sides.file, Kind::AssertionRemoved, Some(to.line), what));
            }
        }
    }
    found
}

/// The first assertion that became another one.
fn changed<'a>(before: &'a [Assertion], now: &'a [Assertion]) -> Option<(&'a Assertion, &'a Assertion)> {
    let texts = |list: &'a [Assertion]| list.iter().map(|one| one.text.as_str()).collect::<HashSet<_>>();
    let (had, has) = (texts(before), texts(now));
    let gone = before.iter().find(|one| !has.contains(one.text.as_str()))?;
    let come: Vec<&Assertion> = now.iter().filter(|one| !had.contains(one.text.as_str())).collect();
    let to = come.iter().find(|one| one.subject == gone.subject).or(come.first())?;
    Some((gone, to))
}

/// Whether the name that a runner gives a test is that of a test in a file: `tests/test_a.py::Till::test_total[3]`,
/// `test_a.Till.test_total`, `till > adds up`, `TestTotal/empty`.
fn is_called(reported: &str, name: &str) -> bool {
    let bare = reported.split('[').next().unwrap_or(reported).trim_end();
    let ends = bare
        .strip_suffix(name)
        .is_some_and(|before| before.is_empty() || before.ends_with([':', '.', '/', '>', ' ', '\u{203a}']));
    // unittest puts the class behind the name, go a part of the test.
    ends || bare.strip_prefix(name).is_some_and(|after| after.starts_with(['/', ' ', '(']))
        || bare.split_whitespace().next().is_some_and(|first| first == name)
}
