//! Tests of Python: with pytest, or with the module that comes with Python where nothing asks for more.

use super::{Found, Role};

/// The reason where no manifest gives one.
pub(super) const FILES: &str = "its Python files";
/// Where tests are, from the root.
const FOLDERS: [&str; 3] = ["", "tests", "test"];
/// Most files of tests that are read to see what they are written for.
const READ: usize = 10;

/// How the tests are run, if there are any.
pub(super) fn tests(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Option<Found> {
    if !speaks_python(names, read) {
        return None;
    }
    let from = ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "conftest.py"];
    let from = from.into_iter().find(|name| names.contains(name)).unwrap_or(FILES);
    Some(match only_unittest(names, read) {
        Some(run) => Found::new("python", Role::Test, &run, "unittest", from),
        None => Found::new("python", Role::Test, "python3 -m pytest -q", "pytest", from),
    })
}

/// The files of tests in the places where they are looked for, as folder and name.
fn test_files<'a>(names: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    names.iter().filter_map(|path| {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.strip_suffix(".py")?;
        let is_test = stem.starts_with("test_") || stem.ends_with("_test");
        (is_test && FOLDERS.contains(&folder)).then_some((folder, name))
    })
}

/// The command for tests that are for the module that comes with Python, where nothing says that pytest is there.
fn only_unittest(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let has = |name: &str| names.contains(&name);
    let configured = ["pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"];
    let named = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "requirements-dev.txt"];
    if configured.iter().any(|name| has(name))
        || named.iter().any(|name| has(name) && read(name).is_none_or(|text| text.contains("pytest")))
    {
        return None;
    }
    let (folder, _) = test_files(names).next()?;
    // It looks in one folder, and for one form of names.
    let begins = |name: &str| name.starts_with("test_");
    let alike = test_files(names).all(|(other, name)| other == folder && begins(name));
    let path = |(folder, name): (&str, &str)| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    let texts: Vec<String> = test_files(names).take(READ).filter_map(|file| read(&path(file))).collect();
    let for_unittest = |text: &String| text.contains("unittest") && !text.contains("pytest");
    if !alike || texts.is_empty() || !texts.iter().all(for_unittest) {
        return None;
    }
    // Tests in a folder that is no package are not found from the root.
    Some(if folder.is_empty() || has(&format!("{folder}/__init__.py")) {
        "python3 -m unittest".to_owned()
    } else {
        format!("python3 -m unittest discover -s {folder}")
    })
}

/// Whether pytest has something to run. A `pyproject.toml` or `setup.cfg` that only configures a linter is no reason.
fn speaks_python(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> bool {
    let has = |name: &str| names.contains(&name);
    let says = |name: &str, words: &[&str]| {
        has(name) && read(name).is_none_or(|text| words.iter().any(|word| text.contains(word)))
    };
    let python_file = names.iter().any(|name| name.ends_with(".py") && !name.contains('/'));
    let hinted = python_file
        || has("requirements.txt")
        || ["tests/__init__.py", "tests/conftest.py"].iter().any(|name| has(name));
    has("pytest.ini")
        || has("conftest.py")
        || has("tox.ini")
        || says("pyproject.toml", &["[project]", "[build-system]", "[tool.poetry", "pytest"])
        || says("setup.cfg", &["[metadata]", "[options]", "pytest"])
        || test_files(names).next().is_some()
        || (has("tests") && hinted)
}
