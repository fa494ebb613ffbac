//! What runs the checks, beyond the files that are only for that: scripts of any name, the parts of `package.json`, flags of
//! compilers, and when CI runs at all.

use std::collections::HashSet;

use protocol::{Weakening, WeakeningKind as Kind};
use serde_json::Value;

use super::diff::{Change, File};
use super::{finding, quote};

/// Programs that check something.
pub(super) const PROGRAMS: [&str; 26] = [
    "pytest",
    "unittest",
    "tox",
    "nox",
    "jest",
    "vitest",
    "mocha",
    "cargo test",
    "cargo clippy",
    "nextest",
    "go test",
    "go vet",
    "npm test",
    "npm run",
    "pnpm test",
    "yarn test",
    "mypy",
    "pyright",
    "ruff",
    "eslint",
    "tsc",
    "rspec",
    "mvn",
    "gradle",
    "phpunit",
    "ctest",
];
/// Keys of CI files that say when something runs.
pub(super) const WHEN: [&str; 7] = [
    "branches:",
    "branches-ignore:",
    "paths:",
    "paths-ignore:",
    "stages: [manual",
    "stages: [\"manual",
    "only:",
];
/// Flags and settings that make an error of each warning.
pub(super) const STRICT: [&str; 4] = ["-Werror", "<TreatWarningsAsErrors>true", "-D warnings", "/WX"];
/// More scripts than people write.
const MANY_SCRIPTS: usize = 500;
/// Scripts that check.
const CHECKS: [&str; 6] = ["test", "lint", "typecheck", "check", "types", "verify"];

/// What in a file makes its checks run less.
pub(super) fn found(file: &File<'_>, found: &mut Vec<Weakening>) {
    if file.old.is_empty() || file.new.is_empty() {
        return;
    }
    let name = file.new.rsplit('/').next().unwrap_or(file.new);
    found.extend(match name {
        "package.json" => package(file),
        _ if name.to_ascii_lowercase().contains("makefile") || name.ends_with(".mk") => {
            makefile(file).or_else(|| lenient(file))
        }
        "CMakeLists.txt" | "meson.build" | "setup.py" | "configure.ac" => lenient(file),
        _ if name.ends_with(".csproj") || name == "Directory.Build.props" => {
            lenient(file).or_else(|| added_with(file, &["<NoWarn>"], Kind::FindingSilenced))
        }
        _ if is_ci(file.new) => added_with(file, &WHEN, Kind::CheckChanged).or_else(|| on_a_condition(file)),
        "Rakefile" | "noxfile.py" | "tasks.py" | "dodo.py" | "build.sh" => program_gone(file),
        _ if is_script(file) => program_gone(file),
        _ => None,
    });
}

fn is_ci(path: &str) -> bool {
    path.starts_with(".github/workflows/")
        || path.ends_with(".gitlab-ci.yml")
        || path.ends_with(".pre-commit-config.yaml")
}

/// Whether the first line says what runs it.
fn is_script(file: &File<'_>) -> bool {
    file.lines().next().is_some_and(|line| line.text.starts_with("#!"))
}

fn added_with(file: &File<'_>, words: &[&str], kind: Kind) -> Option<Weakening> {
    let had = |word: &str| file.lines().any(|line| line.change != Change::Added && line.text.contains(word));
    let words: Vec<&&str> = words.iter().filter(|word| !had(word)).collect();
    let line = file.lines().find(|line| {
        line.change == Change::Added
            && words.iter().any(|word| line.text.trim_start().trim_start_matches("- ").starts_with(**word))
    })?;
    let what = match kind {
        Kind::CheckChanged => format!("it runs less often: {}", quote(line.text)),
        _ => format!("findings are silenced: {}", quote(line.text)),
    };
    Some(finding(file, kind, Some(line.number), what))
}

/// A job or a step that was there and runs on a condition now. A new one may have its own.
fn on_a_condition(file: &File<'_>) -> Option<Weakening> {
    let begins = |text: &str| {
        let text = text.trim_start();
        ["- name:", "- uses:", "- run:", "runs-on:", "script:"].iter().any(|word| text.starts_with(word))
    };
    let condition = |text: &str| {
        let text = text.trim_start().trim_start_matches("- ");
        ["if:", "when: manual", "when: never", "when: on_failure", "rules:"]
            .iter()
            .any(|word| text.starts_with(word))
    };
    let of = |block: &'_ [super::diff::Line<'_>], change| {
        block.iter().filter(move |line| line.change == change).count()
    };
    let line = file
        .hunks
        .iter()
        .flat_map(|hunk| super::blocks(hunk))
        .filter(|block| {
            let new = block.iter().any(|line| line.change == Change::Added && begins(line.text));
            !new || of(block, Change::Removed) > 0
        })
        .find_map(|block| block.iter().find(|line| line.change == Change::Added && condition(line.text)))?;
    let what = format!("it runs less often: {}", quote(line.text));
    Some(finding(file, Kind::CheckChanged, Some(line.number), what))
}

/// Warnings that were errors before.
fn lenient(file: &File<'_>) -> Option<Weakening> {
    let count = |change, word: &str| {
        file.lines().filter(|line| line.change == change && line.text.contains(word)).count()
    };
    let word = STRICT.iter().find(|word| count(Change::Added, word) < count(Change::Removed, word))?;
    let line = file.lines().find(|line| line.change == Change::Removed && line.text.contains(word))?;
    let what = format!("warnings are no errors any more: {} is gone from {}", quote(word), quote(line.text));
    Some(finding(file, Kind::RuleLoosened, Some(line.number), what))
}

/// A Makefile in which failures do not count, or a target is written a second time.
fn makefile(file: &File<'_>) -> Option<Weakening> {
    let target = |text: &str| {
        let (target, rest) = text.split_once(':')?;
        let plain = !target.is_empty() && target.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        (plain && !rest.starts_with('=')).then(|| target.to_owned())
    };
    let kept: HashSet<String> = file
        .lines()
        .filter(|line| line.change == Change::Kept)
        .filter_map(|line| target(line.text))
        .collect();
    let line = file.lines().filter(|line| line.change == Change::Added).find(|line| {
        let text: String = line.text.chars().filter(|c| *c != ' ').collect();
        let flags = text.starts_with("MAKEFLAGS") && (text.contains("-i") || text.contains("ignore-errors"));
        let shell = text.starts_with("SHELL") && ["true", "echo", ":"].iter().any(|end| text.ends_with(end));
        flags || shell || target(line.text).is_some_and(|target| kept.contains(&target))
    })?;
    let what = format!("what its targets do, or whether they can fail, was changed: {}", quote(line.text));
    Some(finding(file, Kind::CheckChanged, Some(line.number), what))
}

/// A program that checks, and is called no more.
fn program_gone(file: &File<'_>) -> Option<Weakening> {
    let count = |change, word: &str| {
        let calls = |text: &str| text.contains(word) && !text.trim_start().starts_with('#');
        file.lines().filter(|line| line.change == change && calls(line.text)).count()
    };
    let word = PROGRAMS.iter().find(|word| count(Change::Added, word) < count(Change::Removed, word))?;
    let line = file.lines().find(|line| line.change == Change::Removed && line.text.contains(word))?;
    let what = format!("what is checked was changed: {}", quote(line.text));
    Some(finding(file, Kind::CheckChanged, Some(line.number), what))
}

/// Scripts of `package.json` that check, or are run by one that does; on however many lines they stand.
fn package(file: &File<'_>) -> Option<Weakening> {
    let side = |change: Change| -> Option<Value> {
        let lines = file.lines().filter(|line| line.change == change || line.change == Change::Kept);
        let text: Vec<&str> = lines.map(|line| line.text).collect();
        serde_json::from_str(&text.join("\n")).ok()
    };
    let (before, now) = (side(Change::Removed)?, side(Change::Added)?);
    let scripts = before.get("scripts")?.as_object().filter(|scripts| scripts.len() <= MANY_SCRIPTS)?;
    let text = |package: &Value, name: &str| Some(package.get("scripts")?.get(name)?.as_str()?.to_owned());
    let mut reached: Vec<&str> =
        scripts.keys().map(String::as_str).filter(|name| CHECKS.contains(name)).collect();
    let mut at = 0;
    while let Some(name) = reached.get(at).copied() {
        let runs = text(&before, name).unwrap_or_default();
        let words: HashSet<&str> = runs.split([' ', '&', ';', '|']).collect();
        for other in scripts.keys().filter(|other| words.contains(other.as_str())) {
            if !reached.contains(&other.as_str()) {
                reached.push(other);
            }
        }
        at += 1;
    }
    let name = reached.iter().find(|name| text(&before, name) != text(&now, name))?;
    let was = text(&before, name).unwrap_or_default();
    let is = text(&now, name).map_or_else(|| "gone".to_owned(), |is| format!("`{is}`"));
    let number = file.lines().find(|line| line.change == Change::Added).map(|line| line.number);
    let what = format!("what is checked was changed: the script {name} was `{was}` and is {is}");
    Some(finding(file, Kind::CheckChanged, number, quote_long(&what)))
}

/// Commands can be long.
fn quote_long(text: &str) -> String {
    let mut text = crate::clean(text);
    crate::clean::clip(&mut text, 300);
    text
}
