//! Tests of Python: with pytest, or with the module that comes with Python where nothing asks for more.

use std::collections::BTreeSet;

use super::{Found, Role, folders};
use crate::affected::quoted;

/// The reason where no manifest gives one.
pub(super) const FILES: &str = "its Python files";
/// Most files of tests that are read to see what they are written for.
const READ: usize = 10;
/// Most places that unittest is sent to, one after the other: it looks in one, and for one form of names.
const PLACES: usize = 8;
/// Files by which a folder is a project of its own.
const PROJECTS: [&str; 9] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "Makefile",
];

/// How the tests are run, if there are any.
pub(super) fn tests(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Option<Found> {
    let files = test_files(names, read);
    let pytest = names_pytest(names, &files, read);
    if files.is_empty() && !pytest {
        return None;
    }
    let from = ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "conftest.py"];
    let from = from.into_iter().find(|name| names.contains(name)).unwrap_or(FILES);
    let plain = if pytest { None } else { with_unittest(names, &files, read) };
    Some(match plain {
        Some(run) => Found::new("python", Role::Test, &run, "unittest", from),
        None => Found::new("python", Role::Test, "python3 -m pytest -q", "pytest", from),
    })
}

/// The files of tests that belong to the root: all below it where it is a project of Python and no folder on the way is one of
/// its own; else those in the places where tests are looked for.
fn test_files<'a>(names: &[&'a str], read: &dyn Fn(&str) -> Option<String>) -> Vec<&'a str> {
    let is_test = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.strip_suffix(".py");
        stem.is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    };
    let mut files: Vec<&str> = names.iter().copied().filter(|path| is_test(path)).collect();
    if files.is_empty() {
        return files;
    }
    let project = is_project(names, read);
    let others: BTreeSet<&str> = names
        .iter()
        .filter_map(|path| path.rsplit_once('/'))
        .filter(|(_, name)| PROJECTS.contains(name))
        .map(|(folder, _)| folder)
        .collect();
    files.retain(|path| {
        let Some((folder, _)) = path.rsplit_once('/') else { return true };
        let above = |at: usize| folder.get(..at).unwrap_or(folder);
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        let first = folder.split('/').next().unwrap_or_default();
        (project || matches!(first, "test" | "tests"))
            && folders::is_ours(folder)
            && !ends.into_iter().any(|at| others.contains(above(at)))
    });
    files.sort_unstable();
    files
}

/// Whether the root is a project of Python, and not only a place with the settings of a linter.
fn is_project(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> bool {
    let says = |name: &str, words: &[&str]| {
        names.contains(&name) && read(name).is_some_and(|text| words.iter().any(|word| text.contains(word)))
    };
    names.contains(&"setup.py")
        || says("pyproject.toml", &["[project]", "[build-system]", "[tool.poetry", "pytest"])
        || says("setup.cfg", &["[metadata]", "[options]", "pytest"])
}

/// Whether something says that pytest is what the tests are run with.
fn names_pytest(names: &[&str], files: &[&str], read: &dyn Fn(&str) -> Option<String>) -> bool {
    let configured = ["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"];
    if configured.iter().any(|name| names.contains(name)) {
        return true;
    }
    let beside = |path: &&str| {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        names.contains(&format!("{folder}/conftest.py").as_str())
    };
    if files.iter().any(beside) {
        return true;
    }
    let lists = |name: &&&str| {
        let settings = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "Pipfile", "noxfile.py"];
        let requirements = name.ends_with(".txt") && name.contains("requirements");
        settings.contains(*name) || requirements && name.matches('/').count() < 2
    };
    names.iter().filter(lists).any(|name| read(name).is_some_and(|text| text.contains("pytest")))
}

/// The command for tests that are for the module that comes with Python. It looks below one folder, in those below it that are
/// packages, and for one form of names: so it may be sent to several, one after the other.
fn with_unittest(names: &[&str], files: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let texts: Vec<String> = files.iter().take(READ).filter_map(|file| read(file)).collect();
    let for_unittest = |text: &String| text.contains("unittest") && !text.contains("pytest");
    if texts.is_empty() || !texts.iter().all(for_unittest) {
        return None;
    }
    let mut places: BTreeSet<(&str, bool)> = BTreeSet::new();
    for file in files {
        let (mut folder, name) = file.rsplit_once('/').unwrap_or(("", file));
        while !folder.is_empty() && names.contains(&format!("{folder}/__init__.py").as_str()) {
            folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
        }
        places.insert((folder, name.starts_with("test")));
    }
    let command = |(folder, usual): &(&str, bool)| {
        let mut run = "python3 -m unittest".to_owned();
        if !folder.is_empty() {
            run.push_str(&format!(" discover -s {}", quoted(folder)));
        } else if !usual {
            run.push_str(" discover");
        }
        if !usual {
            run.push_str(" -p '*_test.py'");
        }
        run
    };
    (places.len() <= PLACES).then(|| places.iter().map(command).collect::<Vec<_>>().join(" && "))
}
