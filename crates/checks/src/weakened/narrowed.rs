//! Settings and hooks that make runners find fewer tests, in files that may be new: a new `pytest.ini` that looks in one folder
//! only leaves out as much as a test that is deleted.

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File};
use super::language;
use super::{finding, quote};

/// Settings that say where and which tests are looked for, by the files that have them.
pub(super) const SETTINGS: [&str; 14] = [
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
pub(super) const IN_CODE: [&str; 6] =
    ["testPathIgnorePatterns", "passWithNoTests:true", "exclude:[", "\"grep\":", "grep:", "testIgnore"];
/// What a `conftest.py` does to the tests that were found, or to how they end.
pub(super) const HOOKS: [&str; 19] = [
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
    ".force_result(",
    ".excinfo = None",
];
/// Settings of a target in `Cargo.toml` that take its tests away.
pub(super) const CARGO: [&str; 5] =
    ["test=false", "doctest=false", "harness=false", "autotests=false", "required-features="];

/// What in a file makes runners find fewer tests.
pub(super) fn narrowed(file: &File<'_>, files: &[File<'_>]) -> Option<Weakening> {
    let name = file.new.rsplit('/').next().unwrap_or_default();
    let added = || file.lines().filter(|line| line.change == Change::Added && !is_comment(line.text));
    match name {
        "Cargo.toml" => {
            let words = come(file, &CARGO, Spaces::Dropped);
            let setting = added().find_map(|line| {
                let text = compact(line.text);
                words.iter().any(|word| text.starts_with(*word)).then_some((line.number, line.text))
            });
            let targets = |change| {
                file.lines().filter(move |line| line.change == change && line.text.trim() == "[[test]]")
            };
            let fewer = targets(Change::Removed).count() > targets(Change::Added).count();
            let target = targets(Change::Removed).next().filter(|_| fewer);
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
            let words = come(file, &HOOKS, Spaces::Kept);
            let line = added().find(|line| words.iter().any(|word| line.text.contains(*word)))?;
            let what = format!("tests are left out, or their result is changed: {}", quote(line.text));
            Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
        }
        _ if has_settings(name) => {
            let code = ![".toml", ".ini", ".cfg"].iter().any(|end| name.ends_with(end))
                && name != "package.json"
                && !name.starts_with("vite.config.");
            let words = if code { come(file, &IN_CODE, Spaces::Dropped) } else { Vec::new() };
            let in_code = added().find(|line| {
                let text = compact(line.text);
                words.iter().any(|key| text.contains(*key))
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
            if begins || file.old.is_empty() && come(file, &[key], Spaces::Dropped).is_empty() {
                return None;
            }
            let what = format!("tests are looked for elsewhere, or fewer: {}", quote(line.text));
            Some(finding(file, Kind::TestsNarrowed, Some(line.number), what))
        }
        _ => None,
    }
}

/// Whether the spaces of a line count.
#[derive(Clone, Copy)]
enum Spaces {
    Kept,
    Dropped,
}

/// Those of the words that no line said before. They are looked for once, not again for each line that has one: the diff of a
/// long file would be read as often as it has lines.
fn come(file: &File<'_>, words: &[&'static str], spaces: Spaces) -> Vec<&'static str> {
    let mut words = words.to_vec();
    for line in file.lines().filter(|line| line.change != Change::Added) {
        if words.is_empty() {
            break;
        }
        match spaces {
            Spaces::Kept => words.retain(|word| !line.text.contains(word)),
            Spaces::Dropped => {
                let text = compact(line.text);
                words.retain(|word| !text.contains(word));
            }
        }
    }
    words
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
