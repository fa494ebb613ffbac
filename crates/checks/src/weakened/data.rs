//! What tests compare with: golden files, recorded snapshots, tables of cases. Fewer cases ask for less. Of other changes nobody
//! can tell from the diff whether they are right, so they are only named, as changed data.

use std::collections::HashSet;

use protocol::{Weakening, WeakeningKind as Kind};
use serde_json::Value;

use super::diff::{Change, File};
use super::language::{self, Language};
use super::{config, finding, quote};

/// Folders of data that tests read, wherever they stand.
const FOLDERS: [&str; 12] = [
    "__snapshots__",
    "snapshots",
    "testdata",
    "test-data",
    "test_data",
    "golden",
    "goldens",
    "fixtures",
    "cassettes",
    "expected",
    "__fixtures__",
    "baselines",
];
/// Endings of what tools record for tests.
const ENDINGS: [&str; 8] =
    [".snap", ".golden", ".expected", ".approved.txt", ".stdout", ".stderr", ".ambr", ".snapshot"];
/// Most changed files that are named one by one.
const NAMED: usize = 3;

/// Whether a file is data of tests.
fn is_data(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let described = name.starts_with("README") || name.starts_with('.') || config::role(path).is_some();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let code =
        Language::of(path).is_some() || matches!(ending, "sh" | "exs" | "dart" | "lua" | "pl" | "t" | "hs");
    let kept = language::in_test_folder(path) || folder.split('/').any(|part| FOLDERS.contains(&part));
    !described && (ENDINGS.iter().any(|end| name.ends_with(end)) || kept && !code)
}

/// What is found in a diff.
pub(super) fn found(files: &[File<'_>], found: &mut Vec<Weakening>) {
    let told: HashSet<String> = found.iter().map(|one| one.file.clone()).collect();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let come: HashSet<String> =
        files.iter().filter(|file| file.old.is_empty()).map(|file| name(file.new)).collect();
    let changed = files.iter().filter(|file| {
        let moved = file.old != file.new && !file.new.is_empty() && file.hunks.is_empty() && !file.binary;
        !file.old.is_empty() && is_data(file.old) && !moved && !told.contains(file.path())
    });
    let mut named = Vec::new();
    for file in changed {
        match fewer(file) {
            Some(one) => found.push(one),
            None if file.new.is_empty() && come.contains(&name(file.old)) => {}
            None => named.push(file),
        }
    }
    let more = named.len().saturating_sub(NAMED);
    for (at, file) in named.into_iter().take(NAMED).enumerate() {
        let mut what = what_changed(file);
        if at + 1 == NAMED && more > 0 {
            what.push_str(&format!("; and {more} more files with data of tests"));
        }
        let line = file.lines().find(|line| line.change != Change::Kept).map(|line| line.number);
        found.push(finding(file, Kind::TestDataChanged, line, what));
    }
}

/// How the data changed, in a few words.
fn what_changed(file: &File<'_>) -> String {
    if file.new.is_empty() {
        return "data of tests was deleted".to_owned();
    }
    let first =
        |change: Change| file.lines().find(|line| line.change == change && !line.text.trim().is_empty());
    match (first(Change::Removed), first(Change::Added)) {
        (Some(was), Some(is)) => {
            format!("what tests compare with was changed: {} was {}", quote(is.text), quote(was.text))
        }
        (Some(was), None) => format!("what tests compare with was changed: {} is gone", quote(was.text)),
        (None, Some(is)) => format!("what tests compare with was changed: {} is new", quote(is.text)),
        (None, None) => "what tests compare with was changed".to_owned(),
    }
}

/// A table that has fewer cases than it had.
fn fewer(file: &File<'_>) -> Option<Weakening> {
    if file.new.is_empty() {
        return None;
    }
    let (before, now) = (cases(file, Change::Removed)?, cases(file, Change::Added).unwrap_or(0));
    if now >= before {
        return None;
    }
    let what = format!("tests have fewer cases: {before} became {now}");
    let line = file.lines().find(|line| line.change == Change::Removed).map(|line| line.number);
    Some(finding(file, Kind::AssertionRemoved, line, what))
}

/// How many cases one side of a file has, where its form tells them apart. A part of a file is counted as far as it is seen.
fn cases(file: &File<'_>, side: Change) -> Option<usize> {
    let lines = || file.lines().filter(move |line| line.change == side || line.change == Change::Kept);
    let filled = || lines().filter(|line| !line.text.trim().is_empty() && !line.text.starts_with('#'));
    let (_, ending) = file.old.rsplit_once('.')?;
    match ending {
        "csv" | "tsv" | "jsonl" | "ndjson" => Some(filled().count()),
        "snap" => {
            let recorded = lines().filter(|line| line.text.starts_with("exports[")).count();
            (recorded > 0).then_some(recorded)
        }
        "yaml" | "yml" => {
            let items = lines().filter(|line| line.text.starts_with("- ")).count();
            (items > 0).then_some(items)
        }
        "toml" => {
            let tables = lines().filter(|line| line.text.starts_with("[[")).count();
            (tables > 0).then_some(tables)
        }
        "json" => {
            let text: Vec<&str> = lines().map(|line| line.text).collect();
            match serde_json::from_str(&text.join("\n")).ok()? {
                Value::Array(items) => Some(items.len()),
                // The longest list in it is that of the cases.
                Value::Object(fields) => {
                    fields.values().filter_map(|value| Some(value.as_array()?.len())).max()
                }
                _ => None,
            }
        }
        _ => None,
    }
}
