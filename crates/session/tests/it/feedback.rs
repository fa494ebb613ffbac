//! What checks tell the model and people: the affected part first, what is new and what is old, lines around a failure,
//! what was found without being configured, and tests that were weakened.

use protocol::item::CheckReport;
use protocol::{ItemKind, Outcome, WeakeningKind};
use serde_json::json;
use testkit::model::Script;
use testkit::repo::Repo;

use crate::support::{Follow, World, create};

/// Stands in for pytest: a test fails where its file says so.
const PYTEST: &str = r#"#!/bin/sh
[ $# = 0 ] && set -- tests/test_*.py
failed=0
for file; do
  if grep -q 'assert False' "$file"; then
    [ $failed = 0 ] && echo '=================================== FAILURES ==================================='
    echo '___________________________________ test_it ____________________________________'
    echo
    echo '>       assert False'
    echo 'E       assert False'
    echo
    echo "$file:3: AssertionError"
    failed=$((failed + 1))
    list="$list
FAILED $file::test_it - assert False"
  fi
done
echo "=========================== short test summary info ============================$list"
[ $failed = 0 ] && echo '1 passed in 0.01s' && exit 0
echo "$failed failed in 0.01s"
exit 1
"#;

const PASSES: &str = "# Adds up.\ndef test_it():\n    assert True\n";
const FAILS: &str = "# Adds up.\ndef test_it():\n    assert False\n";

fn reports(follow: &Follow) -> Vec<CheckReport> {
    let report = |kind: &ItemKind| match kind {
        ItemKind::Report(report) => Some(report.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(|item| report(&item.kind)).collect()
}

fn notices(follow: &Follow) -> String {
    let text = |kind: &ItemKind| match kind {
        ItemKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    follow.items().iter().filter_map(|item| text(&item.kind)).collect::<Vec<_>>().join("\n")
}

fn edit(path: &str, old: &str, new: &str) -> serde_json::Value {
    json!({"path": path, "old": old, "new": new})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_affected_part_runs_first_and_what_is_old_is_told_from_what_is_new() {
    let repo =
        Repo::bare_with(&[("bin/pytest", PYTEST), ("tests/test_a.py", FAILS), ("tests/test_b.py", PASSES)]);
    let script = Script::new()
        .call("check", json!({}))
        .call("edit", edit("tests/test_b.py", "assert True", "assert False"))
        .say("Done.")
        .call("edit", edit("tests/test_b.py", "assert False", "assert 1 + 1 == 2"))
        .say("Done.")
        .call("edit", edit("tests/test_a.py", "assert False", "assert 2 + 2 == 4"))
        .say("Done.");
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "PATH=bin:/usr/bin:/bin pytest".into();
        environment.checks[0].parser = "pytest".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Mend the tests").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);

    let reports = reports(&follow);
    let told: Vec<(&str, bool, Option<bool>)> = reports
        .iter()
        .map(|report| {
            let files = report.command.strip_prefix("PATH=bin:/usr/bin:/bin pytest").unwrap();
            (files.trim(), report.partial, report.passed)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("", false, Some(false)),
            ("tests/test_b.py", true, Some(false)),
            ("tests/test_b.py", true, Some(true)),
            ("", false, Some(false)),
            ("tests/test_a.py tests/test_b.py", true, Some(true)),
            ("", false, Some(true)),
        ]
    );
    // The last run of the whole had the one failure that was there before the turn.
    let changes = reports[3].changes.as_ref().unwrap();
    assert_eq!((changes.new.len(), changes.fixed.len(), changes.remaining.len()), (0, 0, 1));
    assert!(changes.remaining[0].before_turn, "{changes:?}");
    assert_eq!(reports[5].changes.as_ref().unwrap().fixed.len(), 1);
    let source = reports[1].report.as_ref().unwrap().tests[0].source.as_ref().unwrap();
    assert_eq!((source.first, source.text.as_str()), (1, FAILS.trim_end()));

    let requests = world.model.requests();
    let part = requests[3].last_user().unwrap();
    assert!(part.contains("Only the part that your changes touch was run"), "{part}");
    assert!(
        part.contains(">    3 |     assert False") && part.contains("None of this failed before"),
        "{part}"
    );
    let whole = requests[5].last_user().unwrap();
    assert!(whole.contains("All of this failed before this turn began."), "{whole}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_is_skipped_to_get_green_is_reported() {
    let repo = Repo::bare_with(&[("bin/pytest", PYTEST), ("tests/test_a.py", PASSES)]);
    let skipped = "import pytest\n\n# Adds up.\n@pytest.mark.skip\ndef test_it():\n    assert True\n";
    let script =
        Script::new().call("write", json!({"path": "tests/test_a.py", "content": skipped})).say("It passes.");
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "bin/pytest".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Make the tests pass").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let weakened = &finished.receipt.weakened;
    assert_eq!(weakened.len(), 1, "{weakened:?}");
    assert_eq!((weakened[0].kind, weakened[0].line), (WeakeningKind::TestSkipped, Some(4)));
    let told = notices(&follow);
    assert!(told.contains("tests/test_a.py:4: test_it is not run, or may fail: pytest.mark.skip"), "{told}");
    world.end(sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_were_found_are_shown_before_they_are_run() {
    let ci = "jobs:\n  a:\n    steps:\n      - run: ruff check .\n";
    let repo = Repo::bare_with(&[("Makefile", "test:\n\ttrue\n"), (".github/workflows/ci.yml", ci)]);
    let world = World::with(repo, Script::new().say("It has a Makefile."))
        .await
        .environment(|environment| environment.checks.clear());
    let sessions = world.start().await;
    let id = create(&sessions, "What is this?").await;
    let mut follow = Follow::new(&sessions, id).await;
    assert_eq!(follow.finished().await.outcome, Outcome::Done);
    let told = notices(&follow);
    assert!(
        told.contains("These were found and must pass: test: `make test` (because of Makefile)."),
        "{told}"
    );
    assert!(
        told.contains("not used")
            && told.contains("lint: `ruff check .` (because of .github/workflows/ci.yml)"),
        "{told}"
    );
    assert!(reports(&follow).is_empty());
    world.end(sessions).await;
}

/// A part can fail for being one: the threshold of coverage is one of the whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_fails_where_the_whole_passes_holds_nothing_up_for_long() {
    let part_fails = r#"#!/bin/sh
[ $# = 0 ] && echo '2 passed in 0.01s' && exit 0
echo '=========================== short test summary info ============================'
echo 'FAILED tests/test_a.py::test_it - needs the others'
echo '1 failed in 0.01s'
exit 1
"#;
    let repo = Repo::bare_with(&[("bin/pytest", part_fails), ("tests/test_a.py", PASSES)]);
    let script = Script::new()
        .call("edit", edit("tests/test_a.py", "Adds up.", "It adds up."))
        .say("Done.")
        .say("There is nothing to mend.");
    let world = World::with(repo, script).await.environment(|environment| {
        environment.checks[0].run = "PATH=bin:/usr/bin:/bin pytest".into();
        environment.checks[0].parser = "pytest".into();
    });
    let sessions = world.start().await;
    let id = create(&sessions, "Write it better").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let ran: Vec<(bool, Option<bool>)> =
        reports(&follow).iter().map(|report| (report.partial, report.passed)).collect();
    assert_eq!(ran, [(true, Some(false)), (true, Some(false)), (false, Some(true))]);
    world.end(sessions).await;
}

/// Where the root says nothing, its folders do. A large file beside them keeps nobody from beginning.
#[tokio::test(flavor = "multi_thread")]
async fn checks_are_found_in_the_folders_of_a_repository() {
    let large = format!("[{}]", "1,".repeat(600_000) + "1");
    let test = "import unittest\nimport pay\n\nclass TestPay(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(pay.total(), 3)\n";
    let repo = Repo::bare_with(&[
        ("data.json", large.as_str()),
        ("package.json", large.as_str()),
        ("README.md", "Two projects.\n"),
        ("backend/requirements.txt", ""),
        ("backend/pay.py", "def total():\n    return 2\n"),
        ("backend/tests/test_pay.py", test),
        ("services/mail/Makefile", "test:\n\ttrue\n"),
        ("vendor/lib/go.mod", "module lib\n"),
    ]);
    // Of another length: Python takes what it compiled for a file of the same second and size.
    let script = Script::new()
        .call("edit", edit("backend/pay.py", "return 2", "return 4"))
        .say("Done.")
        .call("edit", edit("backend/pay.py", "return 4", "return 1 + 2"))
        .say("Done.");
    let world = World::with(repo, script).await.environment(|environment| environment.checks.clear());
    let sessions = world.start().await;
    let id = create(&sessions, "Mend the total").await;
    let mut follow = Follow::new(&sessions, id).await;
    let finished = follow.finished().await;
    assert_eq!(finished.outcome, Outcome::Done, "{:?}", finished.reason);
    let ran: Vec<(String, Option<bool>)> =
        reports(&follow).into_iter().map(|report| (report.command, report.passed)).collect();
    let (python, make) =
        ("cd backend && python3 -m unittest discover -s tests", "cd services/mail && make test");
    // What failed is run alone until it passes, then all of it.
    let part = format!("{python} -p test_pay.py");
    assert_eq!(
        ran,
        [
            (part.clone(), Some(false)),
            (make.to_owned(), Some(true)),
            (part, Some(true)),
            (python.to_owned(), Some(true)),
            (make.to_owned(), Some(true))
        ]
    );
    let failed = &reports(&follow)[0];
    assert_eq!(failed.check, "test-backend");
    let failed = &failed.report.as_ref().unwrap().tests[0];
    assert_eq!(failed.file.as_deref(), Some("backend/tests/test_pay.py"), "{failed:?}");
    let told = notices(&follow);
    assert!(told.contains("(because of services/mail/Makefile)"), "{told}");
    world.end(sessions).await;
}
