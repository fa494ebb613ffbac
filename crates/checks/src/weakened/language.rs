//! The languages in which tests are recognised, and where their runners look for tests.

/// A language, or several whose tests look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    Python,
    Script,
    Go,
    /// Java, Kotlin, Scala and Groovy.
    Java,
    CSharp,
    /// C and C++.
    Cpp,
    Php,
    Swift,
    Ruby,
    /// Tests of a shell as bats runs them.
    Bats,
}

impl Language {
    /// The language of a file by its name.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (_, ending) = path.rsplit_once('.')?;
        Some(match ending {
            "rs" => Self::Rust,
            "py" => Self::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte" => Self::Script,
            "go" => Self::Go,
            "java" | "kt" | "kts" | "scala" | "groovy" => Self::Java,
            "cs" => Self::CSharp,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => Self::Cpp,
            "php" => Self::Php,
            "swift" => Self::Swift,
            "rb" => Self::Ruby,
            "bats" => Self::Bats,
            _ => return None,
        })
    }

    /// Whether blocks are told by their indentation; in the others braces do it.
    pub(super) fn by_indentation(self) -> bool {
        matches!(self, Self::Python | Self::Ruby | Self::Bats)
    }
}

/// Folders that are for tests.
const FOLDERS: [&str; 8] = ["tests", "test", "__tests__", "spec", "specs", "testing", "e2e", "Tests"];

/// Whether the path is where tests are kept.
pub(super) fn is_test_path(path: &str) -> bool {
    Language::of(path).is_some() && (in_test_folder(path) || named_as_test(path))
}

/// Whether one of the folders of a path is for tests.
pub(super) fn in_test_folder(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| FOLDERS.contains(&part) || part.ends_with(".Tests"))
}

/// Whether a file has a name by which runners of its language know that it has tests.
fn named_as_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some(language) = Language::of(name) else { return false };
    let (stem, endings) = name.split_once('.').unwrap_or((name, ""));
    match language {
        Language::Bats => true,
        Language::Go => stem.ends_with("_test"),
        Language::Rust => {
            stem.starts_with("test_")
                || stem.ends_with("_test")
                || matches!(stem, "tests" | "test")
                || stem.ends_with("_tests")
        }
        Language::Script => {
            ["test.", "spec.", "cy.", "e2e."]
                .iter()
                .any(|word| endings.starts_with(word) || endings.contains(&format!(".{word}")))
                || stem.ends_with("_test")
                || stem.ends_with("-test")
                || stem.starts_with("test-")
                || stem.starts_with("test_")
                || stem == "test"
        }
        Language::Java | Language::CSharp | Language::Php | Language::Swift => {
            ["Test", "Tests", "IT", "Spec", "TestCase"].iter().any(|end| stem.ends_with(end))
        }
        Language::Python | Language::Cpp | Language::Ruby => {
            stem.starts_with("test_")
                || stem.starts_with("test-")
                || matches!(stem, "test" | "tests")
                || ["_test", "_tests", "_spec", "_unittest"].iter().any(|end| stem.ends_with(end))
        }
    }
}

/// Whether a file that runners found by its name is now called so that they do not. What moves to another folder for
/// tests may be found there by the folder.
pub(super) fn leaves_collection(old: &str, new: &str) -> bool {
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let name = old.rsplit('/').next().unwrap_or(old);
    let helps = ["util", "helper", "support", "common", "fixture", "data", "base"];
    if !named_as_test(old) || helps.iter().any(|word| name.contains(word)) {
        // Cargo takes each file directly in `tests` for one, whatever its name.
        let cargo = |path: &str| {
            Language::of(path) == Some(Language::Rust)
                && (folder(path) == "tests" || folder(path).ends_with("/tests"))
        };
        return cargo(old) && Language::of(new).is_none();
    }
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let passed_over = match Language::of(new) {
        Some(Language::Python) => by_default(&base(old)) && !by_default(&base(new)),
        Some(Language::Go) => elsewhere_only(&base(new)) && !elsewhere_only(&base(old)),
        _ => false,
    };
    passed_over
        || !named_as_test(new)
            && (folder(old) == folder(new) || !in_test_folder(new) || Language::of(new).is_none())
}

/// Whether pytest or unittest find a file by its name as they come.
fn by_default(name: &str) -> bool {
    let stem = name.strip_suffix(".py").unwrap_or(name);
    stem.starts_with("test") || stem.ends_with("_test")
}

/// Whether go leaves a file of tests out, or takes it on other machines only.
fn elsewhere_only(name: &str) -> bool {
    const OTHERS: [&str; 9] =
        ["windows", "darwin", "freebsd", "openbsd", "netbsd", "plan9", "js", "wasm", "android"];
    let stem = name.strip_suffix("_test.go").unwrap_or(name);
    name.starts_with(['_', '.']) || OTHERS.iter().any(|other| stem.ends_with(&format!("_{other}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_are_known_by_folder_and_name() {
        for path in [
            "tests/a.rs",
            "src/till_test.go",
            "a.test.ts",
            "src/__tests__/a.tsx",
            "TillTest.java",
            "Till.Tests/A.cs",
            "test/a.bats",
            "spec/a_spec.rb",
            "login.cy.ts",
        ] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["src/lib.rs", "tests/data.json", "attest.py", "latest.ts", "contest.go", "app.py"] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn a_name_that_runners_do_not_know_leaves_what_they_collect() {
        for (old, new) in [
            ("tests/test_a.py", "tests/a_old.py"),
            ("tests/test_a.py", "tests/test_a.py.bak"),
            ("x_test.go", "x_tests.go"),
            ("foo.test.ts", "foo.ts"),
            ("src/foo.spec.js", "src/foo.spec.js.disabled"),
            ("src/TillTest.java", "src/TillOld.java"),
            ("tests/till.rs", "tests/till.rs.txt"),
        ] {
            assert!(leaves_collection(old, new), "{old} {new}");
        }
        for (old, new) in [
            ("tests/a.py", "tests/b.py"),
            ("tests/test_a.py", "tests/unit/test_a.py"),
            ("src/foo.test.ts", "test/foo.ts"),
            ("tests/test_utils.py", "tests/utils.py"),
            ("src/app.py", "src/main.py"),
            ("a_test.go", "b_test.go"),
            ("tests/till.rs", "tests/it/till.rs"),
        ] {
            assert!(!leaves_collection(old, new), "{old} {new}");
        }
    }
}
