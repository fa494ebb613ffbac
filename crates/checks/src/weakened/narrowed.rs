//! Settings and hooks that make runners find fewer tests, in files that may be new: a new `pytest.ini` that looks in one folder
//! only leaves out as much as a test that is deleted.

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File};
use super::language;
use super::{finding, quote};

/// Settings that say where and which tests are looked for, by the files that have them.
const SETTINGS: [&str; 14] = [
    "testpaths",
    "python_files",
    "python_functions",
    "python_classes",
    "norecursedirs",
    "collect_ignore",
    "testPathIgnorePatterns",
    "modulePathIgnorePatterns",
    "testMatch",
    "testRegex",
    "testNamePattern",
    "specPattern",
    "testIgnore",
    "grep",
];
/// The same on any part of a line, in settings that are code.
const IN_CODE: [&str; 6] =
    ["testPathIgnorePatterns", "passWithNoTests:true", "exclude:[", "\"grep\":", "grep:", "testIgnore"];
/// What a `conftest.py` does to the tests that were found, or to how they end.
const HOOKS: [&str; 17] = [
    "collect_ignore",
    "items.clear(",
    "items[:]",
    "del items[",
    "items.remove(",
    "items.pop(",
    "pytest_ignore_collect",
    "pytest_deselected",
    "mark.skip",
    "mark.xfail",
    "exitstatus =",
    "_exit(",
    "os._exit",
    "atexit.register",
    "pytest.skip(",
    "pytest.exit(",
    ".outcome =",
];
/// Settings of a target in `Cargo.toml` that take its tests away.
const CARGO: [&str; 5] =
    ["test=false", "doctest=false", "harness=false", "autotests=false", "required-features="];

/// What in a file makes runners find fewer tests.
pub(super) fn narrowed(file: &File<'_>, files: &[File<'_>]) -> Option<Weakening> {
    let name = file.new.rsplit('/').next().unwrap_or_default();
    let had = |words: &str| {
        file.lines().any(|line| line.change != Change::Added && compact(line.text).contains(words))
    };
    let added = || file.lines().filter(|line| line.change == Change::Added && !is_comment(line.text));
    match name {
        "Cargo.toml" => {
            let setting = added().find_map(|line| {
                let text = compact(line.text);
                let word = CARGO.iter().find(|word| text.starts_with(**word))?;
                (!had(word)).then_some((line.number, line.text))
            });
            let count = |change| {
                file.lines().filter(|line| line.change == change && line.text.trim() == "[[test]]").count()
            };
            let target = file.lines().find(|line| {
                line.change == Change::Removed
                    && line.text.trim() == "[[test]]"
                    && count(Change::Removed) > count(Change::Added)
            });
            match (setting, target) {
                (Some((line, text)), _) => {
                    let what = format!("cargo runs fewer tests: {}", quote(text));
                    Some(finding(file, Kind::TestsNarrowed, Some(line), what))
                }
                (None, Some(line))
                    if !files.iter().any(|other| other.new.is_empty() && other.old.contains("tests/")) =>
                {
                    let what = "a target with tests was removed".to_owned();
                    Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
                }
                (None, _) => members(file),
            }
        }
        "config.toml" if file.new.ends_with(".cargo/config.toml") => {
            let keys: Vec<&str> =
                ["test=", "t=", "nextest="].into_iter().filter(|key| !begins(file, key)).collect();
            let line = added().find(|line| {
                let text = compact(line.text);
                keys.iter().any(|key| text.starts_with(key))
            })?;
            let what = format!("cargo does something else instead of tests: {}", quote(line.text));
            Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
        }
        "CMakeLists.txt" => cmake(file),
        ".npmrc" => {
            let line = added().find(|line| compact(line.text).starts_with("script-shell="))?;
            let what = format!("what runs the scripts was changed: {}", quote(line.text));
            Some(finding(file, Kind::CheckChanged, Some(line.number), what))
        }
        "conftest.py" => {
            let (line, _) = added().find_map(|line| {
                let word = HOOKS.iter().find(|word| line.text.contains(**word))?;
                (!file.lines().any(|old| old.change != Change::Added && old.text.contains(word)))
                    .then_some((line, word))
            })?;
            let what = format!("tests are left out, or their result is changed: {}", quote(line.text));
            Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
        }
        _ if has_settings(name) => {
            let in_code = added().find(|line| {
                let text = compact(line.text);
                let code = !name.ends_with(".toml") && !name.ends_with(".ini") && !name.ends_with(".cfg");
                code && name != "package.json"
                    && !name.starts_with("vite.config.")
                    && IN_CODE.iter().any(|key| text.contains(key) && !had(key))
            });
            if let Some(line) = in_code {
                let what = format!("tests are looked for elsewhere, or fewer: {}", quote(line.text));
                return Some(finding(file, Kind::TestsNarrowed, Some(line.number), what));
            }
            let (line, key) = added().find_map(|line| {
                let key = SETTINGS.iter().find(|key| {
                    let text = line.text.trim_start().trim_start_matches(['"', '\'', '-']);
                    text.strip_prefix(**key)
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
                })?;
                Some((line, *key))
            })?;
            // New tests in the place that is named are a project that begins.
            let begins = file.old.is_empty()
                && files.iter().any(|other| {
                    other.old.is_empty()
                        && language::is_test_path(other.new)
                        && other.new.split('/').next().is_some_and(|folder| line.text.contains(folder))
                });
            if begins || had(key) && file.old.is_empty() {
                return None;
            }
            let what = format!("tests are looked for elsewhere, or fewer: {}", quote(line.text));
            Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
        }
        _ => None,
    }
}

/// Whether a line that was there before begins so.
fn begins(file: &File<'_>, key: &str) -> bool {
    file.lines().any(|line| line.change != Change::Added && compact(line.text).starts_with(key))
}

/// Fewer packages of a workspace, whose tests are not run with the others any more.
fn members(file: &File<'_>) -> Option<Weakening> {
    let of = |change: Change| {
        let line =
            file.lines().find(|line| line.change == change && compact(line.text).starts_with("members=["))?;
        Some((line, line.text.matches('"').count() / 2))
    };
    let ((_, before), (line, now)) = (of(Change::Removed)?, of(Change::Added)?);
    // A pattern stands for many.
    let fewer = now < before && !line.text.contains('*');
    let what = format!("the workspace has fewer packages: {}", quote(line.text));
    fewer.then(|| finding(file, Kind::TestsNarrowed, Some(line.number), what))
}

/// Tests that CMake does not register any more, or that may fail.
fn cmake(file: &File<'_>) -> Option<Weakening> {
    let registers = |text: &str| {
        ["add_test(", "enable_testing(", "_discover_tests("]
            .iter()
            .any(|word| compact(text).contains(word) && !is_comment(text))
    };
    let of = |change: Change| file.lines().filter(move |line| line.change == change);
    let count = |change| of(change).filter(|line| registers(line.text)).count();
    let gone = of(Change::Removed)
        .find(|line| registers(line.text))
        .filter(|_| count(Change::Added) < count(Change::Removed));
    let excused = of(Change::Added).find(|line| {
        let text = compact(line.text);
        text.contains("WILL_FAIL") || text.contains("DISABLED") && text.contains("PROPERTIES")
    });
    let line = gone.or(excused)?;
    let what = format!("tests are not run, or may fail: {}", quote(line.text));
    Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
}

/// Files with settings of test runners.
fn has_settings(name: &str) -> bool {
    let begins = [
        "jest.config.",
        "vitest.config.",
        "vite.config.",
        "playwright.config.",
        "cypress.config.",
        ".mocharc",
        "karma.conf",
    ];
    matches!(name, "pytest.ini" | ".pytest.ini" | "pyproject.toml" | "setup.cfg" | "tox.ini" | "package.json")
        || begins.iter().any(|word| name.starts_with(word))
}

fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn is_comment(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('#') || text.starts_with("//") || text.starts_with(';')
}
