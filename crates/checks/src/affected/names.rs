//! Which tests and packages files belong to, by their names.

use super::Workspace;

/// The tests of changed files: the files that are tests, and the tests that are named after the others.
pub(super) fn tests_of(changed: &[&str], names: &[String]) -> Vec<String> {
    let mut tests: Vec<String> = Vec::new();
    for path in changed {
        let found: Vec<&str> = if is_test(path) {
            vec![path]
        } else {
            let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
            let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
            names.iter().map(String::as_str).filter(|other| is_named_after(other, stem, ending)).collect()
        };
        for test in found {
            if !tests.iter().any(|known| known == test) {
                tests.push(test.to_owned());
            }
        }
    }
    tests
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_test(path: &str) -> bool {
    let name = file_name(path);
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    stem.starts_with("test_")
        || stem.ends_with("_test")
        || ending.starts_with("test.")
        || ending.starts_with("spec.")
        || ((ending == "java" || ending == "kt") && (stem.ends_with("Test") || stem.ends_with("Tests")))
}

/// Whether a test's name says that it tests a file of this name.
fn is_named_after(path: &str, stem: &str, ending: &str) -> bool {
    let name = file_name(path);
    if stem.is_empty() || ending.is_empty() {
        return false;
    }
    let script = ending.trim_end_matches('x');
    [
        format!("test_{stem}.{ending}"),
        format!("{stem}_test.{ending}"),
        format!("{stem}.test.{ending}"),
        format!("{stem}.spec.{ending}"),
        format!("{stem}.test.{script}"),
        format!("{stem}.test.{script}x"),
    ]
    .iter()
    .any(|wanted| name == wanted)
        || (matches!(ending, "java" | "kt")
            && (name == format!("{stem}Test.{ending}") || name == format!("{stem}Tests.{ending}")))
}

/// The package of a Rust file: the nearest manifest above it that names one.
pub(super) fn package_of(path: &str, workspace: &Workspace<'_>) -> Option<String> {
    let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    loop {
        let manifest =
            if folder.is_empty() { "Cargo.toml".to_owned() } else { format!("{folder}/Cargo.toml") };
        if workspace.names.contains(&manifest) {
            return (workspace.read)(&manifest).and_then(|text| package_name(&text));
        }
        if folder.is_empty() {
            return None;
        }
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// `name` in the section `[package]`.
fn package_name(manifest: &str) -> Option<String> {
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[package]";
        } else if inside && let Some((key, value)) = line.split_once('=') {
            let value = value.trim().split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            if key.trim() == "name" && !value.is_empty() {
                return Some(value.to_owned());
            }
        }
    }
    None
}
