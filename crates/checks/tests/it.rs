//! The parsers against output of real runs (`tests/golden`), and against damaged and hostile text. Written by hand, after
//! the protocol's documentation, is only `tap_bail`.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first thing that is not as it must be")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use checks::{MAX_ENTRIES, MAX_TAIL, MAX_TEXT, digest, names, parse};
use proptest::prelude::*;
use protocol::{Report, Severity};

static GOLDEN: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
});

fn golden(name: &str) -> &'static str {
    &GOLDEN[name]
}

#[test]
fn real_output_gives_the_reports_in_the_snapshots() {
    for (name, text) in &*GOLDEN {
        let mut report = parse("auto", text).unwrap();
        let shown = digest(&report);
        // The tail repeats the golden file.
        report.tail.clear();
        let json = serde_json::to_string_pretty(&report).unwrap();
        insta::assert_snapshot!(name.as_str(), format!("{shown}\n\n{json}"));
    }
}

#[test]
fn the_tool_is_recognised_by_its_output() {
    for (name, text) in &*GOLDEN {
        let tool = name.split_once('_').map_or(name.as_str(), |(tool, _)| tool);
        let wanted = match name.as_str() {
            // Neither says which tool speaks; the fallback finds the place and keeps the tail.
            "cargo_manifest" | "cargo_missing_dependency" => "fallback",
            _ if names().contains(&tool) => tool,
            _ => "fallback",
        };
        assert_eq!(parse("auto", text).unwrap().parser, wanted, "{name}");
    }
    for parser in names().into_iter().filter(|&name| name != "auto" && name != "fallback") {
        let of_it = |name: &String| name == parser || name.starts_with(&format!("{parser}_"));
        assert!(GOLDEN.keys().any(of_it), "{parser} has no golden");
    }
}

#[test]
fn as_many_failures_are_named_as_are_counted() {
    for (name, text) in &*GOLDEN {
        let report = parse("auto", text).unwrap();
        assert!(
            !checks::is_cut(&report),
            "{name}: {} counted, {} named",
            report.tests_failed,
            report.tests.len()
        );
    }
}

#[test]
fn colours_change_nothing() {
    for (plain, coloured) in [
        ("cargo_test_many", "cargo_test_colour"),
        ("pytest_quiet", "pytest_colour"),
        ("vitest_default", "vitest_colour"),
        ("jest_default", "jest_colour"),
    ] {
        let (plain, coloured) =
            (parse("auto", golden(plain)).unwrap(), parse("auto", golden(coloured)).unwrap());
        let told = |report: &Report| {
            report.tests.iter().map(|test| (test.name.clone(), test.line)).collect::<Vec<_>>()
        };
        assert_eq!(told(&plain), told(&coloured));
        assert_eq!(plain.tests_passed, coloured.tests_passed);
    }
}

#[test]
fn how_the_tests_are_shown_does_not_change_what_failed() {
    let told = |name: &str, keep: &str| {
        let mut told: Vec<_> = parse("auto", golden(name))
            .unwrap()
            .tests
            .into_iter()
            .filter(|test| test.name.contains(keep))
            .map(|test| (test.name, test.file, test.line, test.expected, test.actual))
            .collect();
        told.sort();
        told
    };
    let libtest = told("cargo_test_many", "tests::");
    assert_eq!(libtest.len(), 10);
    for style in ["cargo_test_quiet", "cargo_test_nocapture", "cargo_nextest"] {
        assert_eq!(told(style, "tests::"), libtest, "{style}");
    }
    let pytest = told("pytest_quiet", "");
    assert_eq!(pytest.len(), 16);
    for style in ["pytest_default", "pytest_verbose", "pytest_short_traceback"] {
        assert_eq!(told(style, ""), pytest, "{style}");
    }
    for (style, other) in [
        ("vitest_default", "vitest_verbose"),
        ("jest_default", "jest_verbose"),
        ("unittest_default", "unittest_verbose"),
    ] {
        assert!(told(style, "").len() >= 4, "{style}");
        assert_eq!(told(style, ""), told(other, ""), "{style}");
    }
}

#[test]
fn names_and_aliases_are_known() {
    assert_eq!(
        names().join(" "),
        "auto cargo pytest vitest jest node-test tap junit tsc eslint gradle javac mypy ruff pyright gcc sarif unittest go fallback"
    );
    assert_eq!(parse("cargo-test", "").unwrap().parser, "cargo");
    assert_eq!(parse("generic", "").unwrap().parser, "fallback");
    assert_eq!(parse("nothing", ""), None);
}

#[test]
fn cargo_errors_keep_their_cause() {
    let report = parse("cargo", golden("cargo_missing_dependency")).unwrap();
    insta::assert_snapshot!(digest(&report), @r"
    1 error
    error: failed to load manifest for dependency `not-there`
      failed to read `/home/dev/rust-missing/not-there/Cargo.toml`
      No such file or directory (os error 2)
    ");
    let report = parse("cargo", golden("cargo_manifest")).unwrap();
    insta::assert_snapshot!(digest(&report), @r"
    1 error
    error Cargo.toml:1:9: unclosed table, expected `]`
    ");
}

#[test]
fn a_flood_is_cut_and_errors_stay() {
    let mut text: String = (0..20_000).map(|n| format!("a.c:{}:1: warning: number {n}\n", n + 1)).collect();
    text.push_str("a.c:1:1: error: the one that counts\n");
    let report = parse("auto", &text).unwrap();
    assert_eq!(report.diagnostics.len(), MAX_ENTRIES);
    assert_eq!(report.diagnostics[0].severity, Severity::Error);
}

#[test]
fn both_tools_in_one_output_give_the_report_of_the_one_that_failed() {
    let both = format!("{}{}", golden("cargo_test_pass"), golden("pytest_quiet"));
    assert_eq!(parse("auto", &both).unwrap().parser, "pytest");
    let both = format!("{}{}", golden("cargo_test_many"), golden("pytest_pass"));
    assert_eq!(parse("auto", &both).unwrap().parser, "cargo");
}

/// Programs that run several tools at once put the name of each before its lines; CI services put the time there.
#[test]
fn lines_that_begin_with_who_wrote_them_are_read() {
    let (python, script) = (golden("pytest_quiet"), golden("vitest_default"));
    let wanted = (parse("auto", python).unwrap(), parse("auto", script).unwrap());
    for (one, other) in [
        ("[api] ", "[web] "),
        ("api:test: ", "web:test: "),
        ("packages/api test: ", "packages/web test: "),
        ("api-1  | ", "web-1  | "),
    ] {
        let (mut left, mut right) = (python.lines(), script.lines());
        let mut text = String::new();
        loop {
            let (first, second) = (left.next(), right.next());
            if first.is_none() && second.is_none() {
                break;
            }
            first.into_iter().for_each(|line| text.push_str(&format!("{one}{line}\n")));
            second.into_iter().for_each(|line| text.push_str(&format!("{other}{line}\n")));
        }
        let both = parse("auto", &text).unwrap();
        let names: Vec<&str> = both.tests.iter().map(|test| test.name.as_str()).collect();
        for test in wanted.0.tests.iter().chain(&wanted.1.tests) {
            assert!(names.contains(&test.name.as_str()), "{one}: {} is lost of {names:?}", test.name);
        }
        assert_eq!(both.tests_passed, wanted.0.tests_passed + wanted.1.tests_passed, "{one}");
    }
    let timed: String = python.lines().map(|line| format!("2026-11-18T20:00:00.0000000Z {line}\n")).collect();
    assert_eq!(parse("auto", &timed).unwrap().tests, wanted.0.tests);
}

/// A Makefile that goes on after the first tool, or tools that write beside each other.
#[test]
fn what_several_tools_found_in_one_output_is_all_told() {
    let told = |report: &Report| {
        let tests = report.tests.iter().map(|test| test.name.clone());
        let found = report.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let found = found.map(|found| format!("{:?}:{:?} {}", found.file, found.line, found.message));
        tests.chain(found).collect::<Vec<String>>()
    };
    let golden = |name: &str| (parse("auto", golden(name)).unwrap(), golden(name));
    for (one, other) in [
        ("mypy_till", "pytest_quiet"),
        ("ruff_concise", "pytest_quiet"),
        ("tsc", "vitest_default"),
        ("eslint", "jest_default"),
        ("cargo_test_many", "pytest_quiet"),
        ("gcc", "go_test"),
        ("tsc", "eslint"),
        ("mypy", "ruff"),
        ("cargo_clippy_denied", "unittest_default"),
    ] {
        let ((first, one_text), (second, other_text)) = (golden(one), golden(other));
        for text in [format!("{one_text}\n{other_text}"), format!("{other_text}\n{one_text}")] {
            let both = parse("auto", &text).unwrap();
            let has = told(&both);
            for wanted in told(&first).into_iter().chain(told(&second)) {
                assert!(has.contains(&wanted), "{one} and {other}: {wanted} is lost of {has:#?}");
            }
            let most = told(&first).len() + told(&second).len();
            assert!(has.len() <= most, "{one} and {other}: {} of {most}: {has:#?}", has.len());
            let passed = first.tests_passed + second.tests_passed;
            assert_eq!(both.tests_passed, passed, "{one} and {other}");
        }
    }
}

const ESCAPE: char = '\u{1b}';

fn check_bounds(text: &str) -> Result<(), TestCaseError> {
    for name in names() {
        let report = parse(name, text).unwrap();
        prop_assert!(report.diagnostics.len() <= MAX_ENTRIES && report.tests.len() <= MAX_ENTRIES);
        prop_assert!(report.tail.len() <= MAX_TAIL);
        prop_assert!(report.diagnostics.iter().all(|found| found.message.len() <= MAX_TEXT));
        prop_assert!(
            report.tests.iter().all(|test| test.message.len() <= MAX_TEXT && test.name.len() <= MAX_TEXT)
        );
        let shown = digest(&report);
        prop_assert!(!shown.is_empty() && shown.len() < 64 * 1024);
        prop_assert!(!report.tail.contains(ESCAPE));
    }
    Ok(())
}

/// What the parsers look for.
const PIECES: &[&str] = &[
    "\n",
    "\n",
    "\n",
    " ",
    "    ",
    "error",
    "error[E0308]: ",
    "warning: ",
    " --> ",
    "a.rs:1:2",
    ":",
    "| ",
    "^^ é",
    "Caused by:\n  ",
    "running 2 tests\n",
    "test a ... FAILED\n",
    "test a - should panic ... ",
    "failures:\n",
    "---- a stdout ----\n",
    "thread 'a' panicked at ",
    "thread 'é' (1) panicked at 'x",
    "', a.rs:1:1",
    "  left: ",
    " right: ",
    "note: ",
    "test result: ",
    "FAILED. 1 passed; 2 failed; 3 ignored;",
    "=== FAILURES ===\n",
    "___ test_a[é] ___\n",
    "E   assert ",
    "1 == 'é",
    "\\",
    "=== short test summary info ===\n",
    "FAILED a.py::test_a[é - ",
    "] - ",
    "1 failed in 1s\n",
    "    FAIL [ 1s] a b\n",
    " Nextest run ID 1\n",
    "a.ts(3,4): ",
    "  File \"a\", line 3\n",
    " FAIL  a.ts > é",
    "⎯⎯⎯ Failed Tests 1 ⎯⎯⎯\n",
    " ❯ a.ts:1:2\n",
    "      Tests  1 failed (1)\n",
    "FAIL a.js\n",
    "  ● é › b\n",
    "    at f (a.js:1:2)\n",
    "Tests: 1 failed, 2 total\n",
    "test at a.js:1:2\n",
    "✖ é (1ms)\n",
    "ℹ fail 1\n",
    "TAP version 14\n",
    "not ok 1 - é \\# TODO\n",
    "# Subtest: é\n",
    "  ---\n",
    "  error: |-\n",
    "  ...\n",
    "<testsuite name='é'>",
    "<testcase name=\"é\" line='1'>",
    "<failure message='&#x",
    "</testcase>",
    "<![CDATA[",
    "]]>",
    "--- FAIL: TestA/é (0s)\n",
    "=== RUN   TestA/é\n",
    "    a_test.go:1: é\n",
    "panic: é\n",
    "\ta.go:1 +0x1\n",
    "{\"Action\":\"output\",\"Output\":\"\\u001b[1m--- FAIL: A\"}\n",
    "======================================================================\n",
    "----------------------------------------------------------------------\n",
    "FAIL: test_a (é.A)\n",
    "Ran 2 tests in 1s\n",
    "A.java:1: error: é\n",
    "[ERROR] A.java:[1,2] é\n",
    "[ERROR] a(é) Time elapsed: 1 s <<< FAILURE!\n",
    ": undefined reference to `é'\n",
    "{\"runs\":[{\"results\":[{}]}]} sarif\n",
    "Found 1 error in 1 file\n",
    "{\"reason\":\"compiler-message\",\"message\":{\"level\":\"error\",\"rendered\":\"error: é\"}}\n",
    "[{\"filePath\":\"a\",\"messages\":[",
    "{\"numTotalTestSuites\":1,\"testResults\":[",
    "a.rs:1:2: error[E0001]: é\n",
    "a.c:1:2: Fehler: é\n",
    "A.java:1: エラー: é\n",
    "a.c:(.text+0x1): é\n",
    "a.B > é FAILED\n",
    "    java.lang.Error: é at B.java:1\n",
    "3 tests completed, 1 failed\n",
    "* What went wrong:\n",
    ":compileJava/a/B.java:1: error: é\n",
    "> Task :test FAILED\n",
    "e: /a/T.kt: (1, 2): é\n",
    "/a/é.js:1\n",
    "SyntaxError: é\n",
    "    at é (/a/b.js:1:2) {\n",
    "Node.js v20\n",
    "# /a/é.js:1\n# Error: é\n#     at /a/b.js:1:2\n",
    "not ok 1 - /a/é.js\n  ---\n  exitCode: 1\n  error: 'test failed'\n  ...\n",
    "✖ /a/é.js (1ms)\n  'test failed'\n",
    "..X\n\nFailed tests:\n\n",
    "==1==ERROR: AddressSanitizer: é\n",
    "    #0 0x1 in é a.c:1:2 (é) (é)\n",
    "Caused by: é.Error: x\n\tat é.B.c(B.java:1)\n",
    "goroutine 1 [é]:\n",
    "panic: é\n\ngoroutine 1 [running]:\nmain.é()\n\ta.go:1 +0x1\n",
    "**********************************************************************\nFile \"é.py\", line 1, in é\n",
    "Failed example:\n    é\nExpected:\n    é\nGot:\n    é\n",
    "é: a.c:1: é: Assertion `é' failed.\n",
    "é in /a/é.php on line 1\n",
    "a.rb:1:in `é': é (É)\n\tfrom a.rb:2:in `é'\n",
    "é at é.pl line 1.\n",
    "CMake Error at é.txt:1 (é):\n",
    "✘ [ERROR] é\n\n    a.js:1:2:\n",
    "[{\"kind\": \"error\", \"locations\": [{\"caret\": {\"line\": 1}}], \"message\": \"é\"}]\n",
    "UNEXPECTED SUCCESS: test_é (é.A)\n",
    "AssertionError: 'é' != \"é : [\n",
];

/// Text made of pieces that the parsers look for, so that chance reaches their corners.
fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed(text in any::<String>()) {
        check_bounds(&text)?;
    }

    #[test]
    fn any_mix_of_known_pieces_is_parsed(text in pieces()) {
        check_bounds(&text)?;
    }

    #[test]
    fn any_diff_is_read(
        path in prop::sample::select(PATHS),
        lines in prop::collection::vec((prop::sample::select(&["+", "-", " "][..]), prop::sample::select(CHANGED), any::<String>()), 0..30),
        other in any::<String>(),
    ) {
        let mut text = format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,30 +1,30 @@\n");
        for (sign, piece, more) in lines {
            text.push_str(&format!("{sign}{piece}{more}\n"));
        }
        prop_assert!(checks::weakened(&text).len() <= 50);
        let both = format!("{text}{other}");
        prop_assert!(checks::weakened(&both).len() <= 50);
        prop_assert!(checks::weakened(&other).is_empty());
        prop_assert_eq!(checks::missing_program(&other, 0), None);
        drop(checks::missing_program(&text, 127));
    }

    #[test]
    fn damaged_output_is_parsed(
        pick in any::<prop::sample::Index>(), start in any::<prop::sample::Index>(),
        end in any::<prop::sample::Index>(), insert in any::<String>(), other in any::<prop::sample::Index>(),
    ) {
        let texts: Vec<&String> = GOLDEN.values().collect();
        let text = texts[pick.index(texts.len())];
        let start = text.floor_char_boundary(start.index(text.len()));
        let end = text.floor_char_boundary(end.index(text.len()));
        check_bounds(&text[..start])?;
        check_bounds(&text[start..])?;
        check_bounds(&format!("{}{insert}{}", &text[..start], &text[end..]))?;
        check_bounds(&format!("{}{}{}", &text[..start], texts[other.index(texts.len())], &text[start..]))?;
    }

    #[test]
    fn twice_the_output_gives_at_most_twice_the_findings(pick in any::<prop::sample::Index>()) {
        let texts: Vec<&String> = GOLDEN.values().collect();
        let text = texts[pick.index(texts.len())];
        for name in names() {
            let (once, twice) = (parse(name, text).unwrap(), parse(name, &format!("{text}{text}")).unwrap());
            prop_assert!(twice.tests.len() <= 2 * once.tests.len());
            prop_assert!(twice.diagnostics.len() <= 2 * once.diagnostics.len());
        }
    }
}

/// A piece repeated without end, on which a parser that looks back would be busy.
fn long_inputs(size: usize) -> impl Iterator<Item = String> {
    PIECES.iter().flat_map(move |piece| {
        ["", "\n", " "].into_iter().map(move |glue| {
            let one = format!("{piece}{glue}");
            one.repeat(size / one.len().max(1))
        })
    })
}

#[test]
fn a_piece_repeated_is_read_in_one_go() {
    for text in long_inputs(16 * 1024) {
        let report = parse("auto", &text).unwrap();
        assert!(report.diagnostics.len() <= MAX_ENTRIES && report.tests.len() <= MAX_ENTRIES);
    }
}

/// What the processor has spent on this thread, which others that run beside it do not change.
fn spent() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

/// Texts of about this length in which something goes on without end: a piece, one piece after another, real output.
fn floods(size: usize) -> impl Iterator<Item = String> {
    let fill = move |one: &str| one.repeat(size / one.len().max(1));
    let pairs = PIECES.iter().zip(PIECES.iter().cycle().skip(1));
    let pairs = pairs.map(move |(first, second)| {
        let half = |one: &str| one.repeat(size / 2 / one.len().max(1));
        half(first) + &half(second)
    });
    long_inputs(size).chain(pairs).chain(GOLDEN.values().map(move |text| fill(text)))
}

const SHORT: usize = 16 * 1024;
const TIMES: u32 = 8;

/// Whether eight times the text takes far more than eight times the work; a square would take sixty-four times as much.
fn out_of_proportion<T>(short: &str, long: &str, read: impl Fn(&str) -> T) -> bool {
    // The clock ticks every few milliseconds; what is over within some ticks tells nothing.
    let (tick, soon) = (Duration::from_millis(4), Duration::from_millis(100));
    let work = |text: &str| {
        let before = spent();
        std::hint::black_box(read(text));
        spent().saturating_sub(before)
    };
    // What is slow by chance is not so three times.
    (0..3).all(|_| {
        let took = work(long);
        took > soon && took > 4 * TIMES * work(short).max(tick)
    })
}

#[test]
#[ignore = "each flood, for each parser, takes minutes"]
fn a_parser_works_on_eight_times_the_text_about_eight_times_as_long() {
    let lines = |size: usize| "a.c:1:2: é\n".repeat(size / 12);
    let square = |text: &str| {
        text.lines().map(|line| text.lines().filter(|other| *other == line).count()).sum::<usize>()
    };
    let (short, long) = (lines(SHORT), lines(SHORT * TIMES as usize));
    assert!(out_of_proportion(&short, &long, square), "this would see nothing");
    for (short, long) in floods(SHORT).zip(floods(SHORT * TIMES as usize)) {
        for name in names() {
            let begin: String = short.chars().take(60).collect();
            let slow = out_of_proportion(&short, &long, |text| parse(name, text).unwrap());
            assert!(!slow, "{name} takes more than its share of time on what begins with {begin:?}");
        }
    }
}

/// A diff of one file of which these lines are gone and come without end.
fn changed(path: &str, piece: &str, size: usize) -> String {
    let count = size / 2 / (piece.len() + 2);
    let lines = |sign: char| format!("{sign}{piece}\n").repeat(count);
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{count} +1,{count} @@\n{}{}",
        lines('-'),
        lines('+')
    )
}

/// Files of every kind that is looked at.
const PATHS: &[&str] = &[
    "tests/test_a.py",
    "a.test.ts",
    "src/lib.rs",
    "a_test.go",
    "ATest.java",
    "A.Tests/A.cs",
    "tests/a.cpp",
    "tests/ATest.php",
    "Tests/A.swift",
    "spec/a_spec.rb",
    "test/a.bats",
    "test/a_test.exs",
    "Cargo.toml",
    ".cargo/config.toml",
    "CMakeLists.txt",
    "package.json",
    "conftest.py",
    "Makefile",
    "pom.xml",
];

/// What is looked for in diffs, and what could make somebody look back over and over.
const CHANGED: &[&str] = &[
    "def test_a(): assert x == 3",
    "@pytest.mark.parametrize('a', [(1, 1),",
    "    with contextlib.suppress(Exception):",
    "it.each([[1, 1]])('a', () => { expect(x).toBe(3);",
    "describe('a', () => {",
    "it(\"a\", () => {",
    "if (x) { assert(x); if (y) {",
    "#[test] fn a() { assert_eq!(1, 2); #[cfg(any())]",
    "#[cfg(test)] mod tests {",
    "@Test @ValueSource(ints = {1, 2}) void a() { assertEquals(3, x());",
    "[Fact] public void A() { Assert.Equal(3, x()); }",
    "((((((((((",
    "{[({[({[(",
    "}])}])}])",
    "\"\"\" \\ ' \" ` /* // #",
    "test=1 skip: true assert expect(x)",
    "@tag :skip",
    "add_test(NAME a COMMAND b) WILL_FAIL",
    "members = [\"a\", \"b\"]",
    "exclude = [\"a\"]",
    "try { } catch (e) { } return; if false {",
];

fn is_out_of_proportion_in_diffs(short: usize) -> Option<String> {
    PATHS.iter().flat_map(|path| CHANGED.iter().map(move |piece| (path, piece))).find_map(|(path, piece)| {
        let (few, many) = (changed(path, piece, short), changed(path, piece, short * TIMES as usize));
        out_of_proportion(&few, &many, checks::weakened).then(|| format!("{path}: {piece}"))
    })
}

#[test]
fn a_diff_is_read_in_one_go() {
    assert_eq!(is_out_of_proportion_in_diffs(4 * 1024), None);
}

#[test]
#[ignore = "takes minutes"]
fn a_long_diff_takes_as_much_longer_as_it_is_longer() {
    assert_eq!(is_out_of_proportion_in_diffs(64 * 1024), None);
    let files = |count: usize| -> String {
        let one = |n: usize| {
            format!(
                "diff --git a/test/a{n}.exs b/test/a{n}.exs\ndeleted file mode 100644\n--- a/test/a{n}.exs\n+++ /dev/null\n@@ -1 +0,0 @@\n-assert x\n"
            )
        };
        (0..count).map(one).collect()
    };
    assert!(!out_of_proportion(&files(1000), &files(8000), checks::weakened));
}

#[test]
fn the_same_failures_are_told_in_every_language() {
    let places = |name: &str| {
        let report = parse("auto", golden(name)).unwrap();
        let mut places: Vec<_> = report
            .diagnostics
            .into_iter()
            .map(|found| (found.file, found.line, found.column, found.severity))
            .collect();
        places.sort();
        places
    };
    assert_eq!(places("gcc_french"), places("gcc_japanese"));
    assert!(places("gcc_french").iter().all(|place| places("gcc_german").contains(place)));
    for other in ["javac_japanese", "javac_chinese"] {
        assert_eq!(places(other), places("javac"), "{other}");
    }
    assert_eq!(places("tsc_german"), places("tsc_japanese"));
    assert_eq!(places("cargo_short"), places("cargo_json"));
}

#[test]
fn a_parser_has_the_names_of_the_tools_that_it_reads() {
    for (name, parser) in [
        ("clippy", "cargo"),
        ("nextest", "cargo"),
        ("clang", "gcc"),
        ("maven", "javac"),
        ("node", "node-test"),
    ] {
        assert!(checks::is_known(name));
        assert_eq!(parse(name, "").unwrap().parser, parser);
    }
    assert!(!checks::is_known("nothing"));
}
