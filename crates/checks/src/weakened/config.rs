//! Files that say what is checked: CI, scripts, the configuration of linters and test runners. A change there can make checks
//! say less without touching a test.

use std::collections::HashMap;

use protocol::WeakeningKind as Kind;

use super::diff::{Change, File, Line};

/// Comments that silence a finding, in many languages.
pub(super) const SILENCERS: &[&str] = &[
    "# noqa",
    "# type: ignore",
    "# pyright: ignore",
    "# pylint: disable",
    "# mypy: ignore-errors",
    "# ruff: noqa",
    "# nosec",
    "# pragma: no cover",
    "# shellcheck disable",
    "eslint-disable",
    "@ts-ignore",
    "@ts-expect-error",
    "@ts-nocheck",
    "istanbul ignore",
    "biome-ignore",
    "#[allow(",
    "#![allow(",
    "#[expect(",
    "#![expect(",
    "//nolint",
    "// nolint",
    "// NOLINT",
    "@SuppressWarnings",
    "@Suppress(",
    "#pragma GCC diagnostic ignored",
    "#pragma clang diagnostic ignored",
    "rubocop:disable",
    "#pragma warning disable",
    "swiftlint:disable",
    "@phpstan-ignore",
    "@psalm-suppress",
    "phpcs:ignore",
    "phpcs:disable",
    "@codeCoverageIgnore",
    "c8 ignore",
    "v8 ignore",
    "deno-lint-ignore",
    "oxlint-disable",
    "tslint:disable",
    "ktlint-disable",
    "CHECKSTYLE:OFF",
    "NOSONAR",
    "credo:disable",
    "// ignore_for_file",
];

/// What makes a command's failure count for nothing, or its tests not run.
pub(super) const IGNORED: &[&str] = &[
    "|| true",
    "||true",
    "|| :",
    "|| exit 0",
    "|| echo",
    "; true",
    "; exit 0",
    "set +e",
    "continue-on-error: true",
    "allow_failure: true",
    "--exit-zero",
    "--passWithNoTests",
    "--no-verify",
    "-DskipTests",
    "-Dmaven.test.skip",
    "-x test",
    "--deselect",
    "--ignore=",
    "--ignore ",
    "--ignore-glob",
    "--collect-only",
    "--no-run",
    "-- --skip",
    "--testNamePattern",
    "--if-present",
    "-k \"not ",
    "-k 'not ",
    "-m \"not ",
    "-m 'not ",
    "--testPathIgnorePatterns",
    "--no-fail-on",
    "if: false",
    "ignore_error: true",
    "ignore_errors = true",
    "ignore_outcome",
    "<skipTests>true",
    "<skipITs>true",
    "<maven.test.skip>true",
    "<testFailureIgnore>true",
    "maven.test.failure.ignore>true",
    "maven.test.failure.ignore=true",
    "--fail-never",
    "<excludedGroups>",
    "<exclude>**/",
    "ignoreFailures = true",
    "ignoreFailures.set(true",
    "setIgnoreFailures(true",
    "excludeTags",
    "onlyIf { false",
    "exclude '**/",
    "exclude \"**/",
    "exclude(\"**/",
    "enabled = false",
    "--cap-lints",
];

/// Settings whose number is a floor: lower asks for less.
pub(super) const FLOORS: &[&str] = &[
    "fail_under",
    "fail-under",
    "threshold",
    "minimum",
    "branches",
    "functions",
    "lines",
    "statements",
    "min-coverage",
    "cov-fail-under",
    "min_coverage",
    "target",
];
/// Settings whose number is a ceiling: higher asks for less.
pub(super) const CEILINGS: &[&str] = &[
    "max-warnings",
    "max_warnings",
    "maxwarnings",
    "max-complexity",
    "max_complexity",
    "complexity",
    "cognitive-complexity-threshold",
    "max-line-length",
    "line-length",
    "max-lines",
    "too-many",
    "retries",
    "reruns",
];
/// Settings that switch something off: the added line has this value for a key that had another.
pub(super) const OFF: &[&str] = &["\"off\"", "'off'", ": off", "= \"allow\"", "= 'allow'", ": 0,", "false"];

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It says which commands are run.
    Commands,
    /// It says what a linter, compiler or test runner asks for.
    Rules,
    /// It says both, among other things that have nothing to do with checks.
    Manifest,
}

/// What the file is for, where it has to do with checks.
pub(super) fn role(path: &str) -> Option<Role> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ci = path.starts_with(".github/workflows/")
        || path.starts_with(".circleci/")
        || path.starts_with(".buildkite/")
        || path.starts_with(".husky/")
        || matches!(
            name,
            ".gitlab-ci.yml"
                | ".travis.yml"
                | "azure-pipelines.yml"
                | "bitbucket-pipelines.yml"
                | "Jenkinsfile"
                | ".pre-commit-config.yaml"
                | ".slipway.toml"
                | "lefthook.yml"
                | ".lefthook.yml"
                | "tox.ini"
                | "noxfile.py"
        );
    if ci {
        return Some(Role::Commands);
    }
    let script =
        name.ends_with(".sh") && ["test", "check", "lint", "ci"].iter().any(|word| name.contains(word));
    if script
        || matches!(name, "Makefile" | "makefile" | "GNUmakefile" | "justfile" | "Justfile" | "Taskfile.yml")
    {
        return Some(Role::Commands);
    }
    if matches!(
        name,
        "package.json"
            | "pyproject.toml"
            | "setup.cfg"
            | "Cargo.toml"
            | "pom.xml"
            | "maven.config"
            | "build.gradle"
            | "build.gradle.kts"
    ) {
        return Some(Role::Manifest);
    }
    if path.ends_with(".cargo/config.toml") {
        return Some(Role::Manifest);
    }
    let begins = [
        ".eslintrc",
        "eslint.config.",
        "jest.config.",
        "vitest.config.",
        ".mocharc",
        "karma.conf",
        "cypress.config.",
        "ava.config.",
        "playwright.config.",
        "biome.json",
        "tsconfig",
    ];
    let known = [
        "ruff.toml",
        ".ruff.toml",
        "mypy.ini",
        ".mypy.ini",
        ".flake8",
        ".pylintrc",
        "pytest.ini",
        ".coveragerc",
        "pyrightconfig.json",
        "clippy.toml",
        ".clippy.toml",
        "rustfmt.toml",
        "deny.toml",
        "nextest.toml",
        ".golangci.yml",
        ".golangci.yaml",
        "codecov.yml",
        ".codecov.yml",
        ".eslintignore",
        ".clang-tidy",
        ".rubocop.yml",
        "checkstyle.xml",
        "phpunit.xml",
        "phpunit.xml.dist",
        ".rspec",
        ".flake8rc",
        ".yamllint",
        ".pylintrc.toml",
    ];
    let rules = known.contains(&name) || begins.iter().any(|word| name.starts_with(word));
    rules.then_some(Role::Rules)
}

/// What silences a finding on this line.
pub(super) fn silencer(line: &str) -> Option<&'static str> {
    SILENCERS.iter().copied().find(|word| line.contains(word))
}

/// What on this line makes a failure count for nothing.
pub(super) fn ignored(line: &str) -> Option<&'static str> {
    let text = line.trim();
    if text.starts_with('#') || text.starts_with("//") {
        return None;
    }
    // A command of a Makefile with a dash before it may fail.
    if line.starts_with("\t-") || line.starts_with("\t@-") || text.starts_with(".IGNORE") {
        return Some("-");
    }
    IGNORED.iter().copied().find(|word| {
        text.find(word).is_some_and(|at| {
            let rest = &text[at + word.len()..];
            // `|| true` and its like end a command; `|| truely` is another word.
            !rest.starts_with(|c: char| c.is_alphanumeric() && word.ends_with(|c: char| c.is_alphanumeric()))
        })
    })
}

/// What a run of changed lines makes looser, told as kind, line and words.
pub(super) fn loosened<'a>(file: &File<'_>, block: &[Line<'a>]) -> Vec<(Kind, u32, String)> {
    let Some(role) = role(file.path()) else { return Vec::new() };
    let of = |change| block.iter().filter(move |line| line.change == change);
    let removed = settings(of(Change::Removed));
    let mut found = Vec::new();
    for added in of(Change::Added) {
        let Some((key, value)) = setting(added.text) else { continue };
        let Some(before) = removed.get(key).copied() else { continue };
        if before == value {
            continue;
        }
        if let Some(stricter) = stricter(key, before, value) {
            if !stricter {
                let words = format!("{key} was {before} and is {value}");
                found.push((Kind::RuleLoosened, added.number, words));
            }
        } else if role != Role::Commands
            && OFF.iter().any(|off| added.text.contains(off))
            && !off(before)
            && off(value)
        {
            found.push((Kind::RuleLoosened, added.number, format!("{key} was {before} and is {value}")));
        }
    }
    found
}

/// Whether a number asks for more than before; None for settings of which it is not known.
fn stricter(key: &str, before: &str, now: &str) -> Option<bool> {
    let key = key.to_ascii_lowercase();
    let named = |list: &[&str]| list.iter().any(|word| key == *word || key.ends_with(word));
    let (old, new) = (number(before)?, number(now)?);
    match (named(FLOORS), named(CEILINGS)) {
        (true, _) => Some(new > old),
        (false, true) => Some(new < old),
        (false, false) => None,
    }
}

/// What lines set, each key as it is set first.
pub(super) fn settings<'a>(lines: impl Iterator<Item = &'a Line<'a>>) -> HashMap<&'a str, &'a str> {
    let mut settings = HashMap::new();
    for (key, value) in lines.filter_map(|line| setting(line.text)) {
        settings.entry(key).or_insert(value);
    }
    settings
}

/// Whether what this removed line sets asks for more now.
pub(super) fn tightened(now: &HashMap<&str, &str>, removed: &Line<'_>) -> bool {
    let Some((key, before)) = setting(removed.text) else { return false };
    now.get(key).is_some_and(|now| stricter(key, before, now) == Some(true))
}

fn off(value: &str) -> bool {
    matches!(value.trim_matches(['"', '\'']), "off" | "allow" | "0" | "false" | "none" | "ignore")
        || value.starts_with("[\"off\"")
}

/// Whether a changed line of this file is one that says what is checked.
pub(super) fn says_what_is_checked(role: Role, path: &str, line: &str) -> bool {
    let text = line.trim();
    if text.is_empty() || text.starts_with('#') || text.starts_with("//") {
        return false;
    }
    match role {
        Role::Rules => true,
        Role::Commands => {
            let makefile =
                path.rsplit('/').next().is_some_and(|name| name.to_ascii_lowercase().contains("file"));
            // In a Makefile most lines build; in CI files and scripts for checks most lines check.
            !makefile || has_check_word(text)
        }
        Role::Manifest => manifest_key(text),
    }
}

fn has_check_word(text: &str) -> bool {
    ["test", "lint", "check", "clippy", "ruff", "mypy", "tsc", "eslint", "pytest", "vet", "fmt"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether a file can say what tools do not look at.
pub(super) fn can_leave_out(file: &File<'_>) -> bool {
    match file.path().rsplit('/').next().unwrap_or_default() {
        "pyproject.toml" | "setup.cfg" => true,
        // Where there is no workspace, it is about what is published.
        "Cargo.toml" => file.lines().any(|line| line.text.trim() == "[workspace]"),
        _ => false,
    }
}

/// Whether a line of such a file leaves something out.
pub(super) fn leaves_out(line: &str) -> bool {
    let keys = ["exclude", "extend-exclude", "omit", "ignore", "extend-ignore", "per-file-ignores"];
    setting(line.split('#').next().unwrap_or(line)).is_some_and(|(key, _)| keys.contains(&key))
}

/// Lines of a manifest that configure checks: scripts by their name, settings of tools by their key.
fn manifest_key(text: &str) -> bool {
    let Some((key, value)) = setting(text) else { return false };
    let scripts = [
        "test",
        "lint",
        "typecheck",
        "type-check",
        "check",
        "coverage",
        "ci",
        "pretest",
        "posttest",
        "verify",
        "tsc",
    ];
    let tools = [
        "addopts",
        "testpaths",
        "fail_under",
        "ignore",
        "extend-ignore",
        "per-file-ignores",
        "select",
        "extend-select",
        "strict",
        "disallow_untyped_defs",
        "ignore_errors",
        "ignore_missing_imports",
        "exclude",
        "omit",
        "filterwarnings",
        "skipTests",
        "testFailureIgnore",
        "coverageThreshold",
        "xfail_strict",
        "norecursedirs",
        "python_files",
    ];
    let script = scripts.iter().any(|word| key == *word || key.starts_with(&format!("{word}:")));
    let lint = ["\"allow\"", "\"warn\"", "\"deny\"", "\"forbid\""].contains(&value.trim());
    (script && !value.starts_with(['^', '~'])) || tools.contains(&key) || lint
}

/// `"key": value,`, `key = value`, `key: value` and `--key=value` as key and value.
fn setting(line: &str) -> Option<(&str, &str)> {
    let text = line.trim().trim_end_matches(',');
    let at = text.find([':', '=']).filter(|at| *at > 0)?;
    let (key, value) = text.split_at(at);
    let key = key.trim().trim_matches(['"', '\'', '-', ' ']);
    // `"npm:test": "x"` has a colon in its key.
    if text.starts_with('"')
        && let Some((key, rest)) = text[1..].split_once('"')
    {
        return Some((key, rest.trim_start_matches([':', ' ']).trim()));
    }
    let named = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c));
    named.then(|| (key, value[1..].trim_start_matches('=').trim()))
}

/// The number that a value is, with or without a percent sign.
fn number(value: &str) -> Option<f64> {
    value.trim_matches(['"', '\'', '%', ' ']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_in_all_dialects() {
        assert_eq!(setting("  \"test:unit\": \"vitest run\","), Some(("test:unit", "\"vitest run\"")));
        assert_eq!(setting("fail_under = 90"), Some(("fail_under", "90")));
        assert_eq!(setting("  branches: 80,"), Some(("branches", "80")));
        assert_eq!(setting("no setting"), None);
    }
}
