//! Finds a repository's checks when nobody wrote them down: its manifests, scripts and CI files tell which languages it
//! speaks and what its people run. It proposes only what the repository itself gives a reason for, and says which.

mod ci;

use protocol::Check;
use serde_json::Value;

/// A check that was found, and what gave the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The check.
    pub check: Check,
    /// What it looks at.
    pub role: Role,
    /// The file that gives the reason.
    pub from: String,
    /// Whether it is used without being asked for: only tests are, because linters often fail on what was there before.
    pub used: bool,
    language: &'static str,
}

impl Found {
    fn new(language: &'static str, role: Role, run: &str, parser: &str, from: &str) -> Self {
        let check = Check { name: String::new(), run: run.to_owned(), parser: parser.to_owned() };
        Self { check, role, from: from.to_owned(), used: false, language }
    }
}

/// What a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Tests.
    Test,
    /// A linter.
    Lint,
    /// Types, or whether it compiles.
    Types,
    /// Formatting.
    Format,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Lint => "lint",
            Self::Types => "types",
            Self::Format => "format",
        }
    }

    /// The role of a script or target by its name.
    fn of_script(name: &str) -> Option<Self> {
        Some(match name {
            "test" | "tests" | "test:unit" | "unit" => Self::Test,
            "lint" | "lint:js" | "lint:ts" | "eslint" => Self::Lint,
            "typecheck" | "type-check" | "types" | "check-types" | "tsc" => Self::Types,
            "format:check" | "fmt-check" | "format-check" | "check-format" => Self::Format,
            _ => return None,
        })
    }
}

/// The checks that are used when none are configured, from the names in a repository's root and a way to read them.
pub fn discover(root: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Check> {
    find_checks(root, read).into_iter().filter(|found| found.used).map(|found| found.check).collect()
}

/// Every check that the repository gives a reason for, those that are used first. `root` has the names in the root, and the
/// paths of CI files.
pub fn find_checks(root: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let names: Vec<&str> = root.iter().map(|name| name.trim_end_matches('/')).collect();
    let mut tests = languages(&names, read);
    let from_ci: Vec<Found> = names
        .iter()
        .filter(|path| ci::is_ci_file(path))
        .flat_map(|path| read(path).map(|text| ci::checks(path, &text)).unwrap_or_default())
        .collect();
    if tests.is_empty() {
        // Only where nothing else tells how the tests are run.
        let is_test = |found: &&Found| found.role == Role::Test;
        tests.extend(makefile(&names, read, Role::Test));
        if tests.is_empty() {
            tests.extend(from_ci.iter().find(is_test).cloned());
        }
    }
    for found in &mut tests {
        found.used = true;
    }
    let mut others = linters(&names, read);
    let mut rest = from_ci;
    rest.extend([Role::Lint, Role::Types].iter().filter_map(|role| makefile(&names, read, *role)));
    for found in rest {
        let same = |before: &&Found| before.role == found.role && before.language == found.language;
        let known = tests.iter().chain(&others).find(same).is_some();
        let again = tests.iter().chain(&others).any(|before| before.check.run == found.check.run);
        if !again && (!known || found.role == Role::Test) {
            others.push(found);
        }
    }
    others.sort_by_key(|found| found.role);
    named(tests.into_iter().chain(others).collect())
}

/// Gives each check a name: its role, and the language where several have that role.
fn named(mut all: Vec<Found>) -> Vec<Found> {
    for at in 0..all.len() {
        let Found { role, language, used, .. } = all[at];
        let alone = all.iter().filter(|other| other.role == role && other.used == used).count() == 1;
        let mut name = if alone { role.name().to_owned() } else { format!("{}-{language}", role.name()) };
        if all[..at].iter().any(|before| before.check.name == name) {
            name = format!("{}-{}", role.name(), at + 1);
        }
        all[at].check.name = name;
    }
    all
}

/// How the tests of each language are run.
fn languages(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let has = |name: &str| names.contains(&name);
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(Found::new("rust", Role::Test, "cargo test", "cargo", "Cargo.toml"));
    }
    if speaks_python(names, read) {
        let from = ["pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "conftest.py"];
        let from = from.into_iter().find(|name| has(name)).unwrap_or("its Python files");
        let (run, parser) = match needs_only_unittest(names, read) {
            true => ("python3 -m unittest", "unittest"),
            false => ("python3 -m pytest -q", "pytest"),
        };
        found.push(Found::new("python", Role::Test, run, parser, from));
    }
    if let Some(script) = script(names, read, "test").filter(|script| !script.contains("no test specified")) {
        let run = match package_manager(names) {
            "npm" => "npm test".to_owned(),
            other => format!("{other} test"),
        };
        found.push(Found::new("node", Role::Test, &run, parser_of(&script), "package.json"));
    }
    if has("go.mod") {
        found.push(Found::new("go", Role::Test, "go test ./...", "go", "go.mod"));
    }
    found
}

/// Linters and type checkers that the repository configures.
fn linters(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let has = |name: &str| names.contains(&name);
    let says = |name: &str, word: &str| has(name) && read(name).is_some_and(|text| text.contains(word));
    let first = |list: &[(&'static str, &str)]| {
        list.iter()
            .find(|(name, word)| if word.is_empty() { has(name) } else { says(name, word) })
            .map(|(name, _)| *name)
    };
    let mut found = Vec::new();
    if let Some(from) = first(&[("clippy.toml", ""), (".clippy.toml", ""), ("Cargo.toml", "lints.clippy]")]) {
        found.push(Found::new("rust", Role::Lint, "cargo clippy --all-targets", "cargo", from));
    }
    if let Some(from) = first(&[("ruff.toml", ""), (".ruff.toml", ""), ("pyproject.toml", "[tool.ruff")]) {
        found.push(Found::new("python", Role::Lint, "ruff check .", "ruff", from));
    }
    if let Some(from) = first(&[
        ("mypy.ini", ""),
        (".mypy.ini", ""),
        ("pyproject.toml", "[tool.mypy"),
        ("setup.cfg", "[mypy]"),
    ]) {
        let lists = read(from).is_some_and(|text| {
            text.lines().any(|line| {
                ["files", "packages", "modules"]
                    .iter()
                    .any(|key| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('=')))
            })
        });
        let run = if lists { "mypy" } else { "mypy ." };
        found.push(Found::new("python", Role::Types, run, "mypy", from));
    }
    for (role, scripts) in
        [(Role::Lint, &["lint"][..]), (Role::Types, &["typecheck", "type-check", "types", "check-types"])]
    {
        for name in scripts {
            // One that mends what it finds changes the work.
            let Some(text) =
                script(names, read, name).filter(|text| !text.contains("--fix") && !text.contains("--write"))
            else {
                continue;
            };
            let run = format!("{} run {name}", package_manager(names));
            found.push(Found::new("node", role, &run, parser_of(&text), "package.json"));
            break;
        }
    }
    found
}

/// A Makefile's target for this.
fn makefile(names: &[&str], read: &dyn Fn(&str) -> Option<String>, role: Role) -> Option<Found> {
    let targets: &[&str] = match role {
        Role::Test => &["test"],
        Role::Lint => &["lint"],
        Role::Types => &["typecheck"],
        Role::Format => &[],
    };
    // make takes the first of these names that exists.
    let file = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| names.contains(name))?;
    let text = read(file)?;
    let target = targets.iter().find(|target| text.lines().any(|line| is_target(line, target)))?;
    Some(Found::new("make", role, &format!("make {target}"), "auto", file))
}

/// Which program runs the scripts, by its lock file.
fn package_manager(names: &[&str]) -> &'static str {
    [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")]
        .into_iter()
        .find(|(lock, _)| names.contains(lock))
        .map_or("npm", |(_, program)| program)
}

/// Whether the tests are for the module that comes with Python, and nothing says that pytest is there.
fn needs_only_unittest(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> bool {
    let configured = ["pytest.ini", "conftest.py"].iter().any(|name| names.contains(name));
    let named = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py"];
    let named = named
        .iter()
        .any(|name| names.contains(name) && read(name).is_none_or(|text| text.contains("pytest")));
    let is_test = |name: &&&str| name.starts_with("test_") && name.ends_with(".py");
    let texts: Vec<String> = names.iter().filter(is_test).filter_map(|name| read(name)).collect();
    let for_unittest = |text: &String| text.contains("unittest") && !text.contains("pytest");
    !configured && !named && !texts.is_empty() && texts.iter().all(for_unittest)
}

/// Whether pytest has something to run. A `pyproject.toml` or `setup.cfg` that only configures a linter is no reason.
fn speaks_python(names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> bool {
    let has = |name: &str| names.contains(&name);
    let says = |name: &str, words: &[&str]| {
        has(name) && read(name).is_none_or(|text| words.iter().any(|word| text.contains(word)))
    };
    let python_file = names.iter().any(|name| name.ends_with(".py"));
    let test_file = names.iter().any(|name| {
        name.strip_suffix(".py").is_some_and(|stem| stem.starts_with("test_") || stem.ends_with("_test"))
    });
    let hinted = python_file
        || has("requirements.txt")
        || ["tests/__init__.py", "tests/conftest.py"].iter().any(|name| read(name).is_some());
    has("pytest.ini")
        || has("conftest.py")
        || has("tox.ini")
        || says("pyproject.toml", &["[project]", "[build-system]", "[tool.poetry", "pytest"])
        || says("setup.cfg", &["[metadata]", "[options]", "pytest"])
        || test_file
        || (has("tests") && hinted)
}

/// A script of `package.json` that runs to its end.
fn script(names: &[&str], read: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let text = read("package.json").filter(|_| names.contains(&"package.json"))?;
    let package = serde_json::from_str::<Value>(&text).ok()?;
    let script = package.get("scripts")?.get(name)?.as_str()?;
    (!script.trim().is_empty() && !script.contains("--watch ") && !script.ends_with("--watch"))
        .then(|| script.to_owned())
}

/// The parser of a script that runs one tool and leaves its output as it is; anything else is recognised when it comes.
fn parser_of(script: &str) -> &'static str {
    if script.contains(['&', ';', '|']) || script.contains("--reporter") || script.contains("--json") {
        return "auto";
    }
    let has = |wanted: &str| script.split_whitespace().any(|word| word == wanted);
    if has("vitest") {
        "vitest"
    } else if has("jest") {
        "jest"
    } else if has("node") && has("--test") {
        "node-test"
    } else if has("eslint") {
        "eslint"
    } else if has("tsc") {
        "tsc"
    } else {
        "auto"
    }
}

/// Whether the line of a Makefile begins a rule whose targets include this one.
fn is_target(line: &str, wanted: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    let assigns = rest.starts_with('=') || rest.starts_with(":=");
    !line.starts_with(['\t', '#', '.'])
        && !assigns
        && targets.split_whitespace().any(|target| target == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String, String)> {
        let root: Vec<String> = files
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .filter(|name| !name.trim_end_matches('/').contains('/'))
            .collect();
        let read =
            |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        discover(&root, &read).into_iter().map(|check| (check.name, check.run, check.parser)).collect()
    }

    fn runs(files: &[(&str, &str)]) -> Vec<String> {
        found(files).into_iter().map(|(name, run, _)| format!("{name}: {run}")).collect()
    }

    #[test]
    fn one_language_gives_one_check_called_test() {
        let rust = found(&[("Cargo.toml", ""), ("Makefile", "test:\n\tcargo test\n")]);
        assert_eq!(rust, [("test".to_owned(), "cargo test".to_owned(), "cargo".to_owned())]);
        assert_eq!(runs(&[("go.mod", "")]), ["test: go test ./..."]);
        assert_eq!(runs(&[("README.md", "")]), Vec::<String>::new());
    }

    #[test]
    fn several_languages_give_checks_with_names_of_their_own() {
        let both =
            [("Cargo.toml", ""), ("pytest.ini", ""), ("package.json", r#"{"scripts":{"test":"vitest"}}"#)];
        assert_eq!(
            runs(&both),
            ["test-rust: cargo test", "test-python: python3 -m pytest -q", "test-node: npm test"]
        );
    }

    #[test]
    fn python_needs_a_reason() {
        for file in ["pytest.ini", "conftest.py", "tox.ini", "test_a.py"] {
            assert_eq!(runs(&[(file, "")]), ["test: python3 -m pytest -q"], "{file}");
        }
        assert_eq!(runs(&[("pyproject.toml", "[project]\nname='x'")]), ["test: python3 -m pytest -q"]);
        assert_eq!(runs(&[("tests/", ""), ("app.py", "")]), ["test: python3 -m pytest -q"]);
        assert_eq!(runs(&[("tests", ""), ("tests/conftest.py", "")]), ["test: python3 -m pytest -q"]);
        assert!(runs(&[("pyproject.toml", "[tool.ruff]\nline-length = 100")]).is_empty());
        // What comes with Python is there; pytest may not be.
        let plain = ("test_a.py", "import unittest\n");
        assert_eq!(runs(&[plain]), ["test: python3 -m unittest"]);
        for other in [("test_b.py", "import pytest\n"), ("conftest.py", ""), ("tox.ini", "deps = pytest")] {
            assert_eq!(runs(&[plain, other]), ["test: python3 -m pytest -q"], "{other:?}");
        }
        assert!(runs(&[("tests", ""), ("main.c", "")]).is_empty());
    }

    #[test]
    fn the_parser_is_named_only_where_one_tool_speaks() {
        for (script, parser) in [
            ("vitest run", "vitest"),
            ("CI=1 npx jest --ci", "jest"),
            ("node --test test/", "node-test"),
            ("tsc && vitest run", "auto"),
            ("vitest run --reporter=junit", "auto"),
            ("mocha", "auto"),
        ] {
            let package = format!(r#"{{"scripts":{{"test":"{script}"}}}}"#);
            assert_eq!(found(&[("package.json", &package)])[0].2, parser, "{script}");
        }
        assert_eq!(found(&[("go.mod", "")])[0].2, "go");
    }

    #[test]
    fn npm_placeholder_and_broken_json_are_no_tests() {
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        assert!(runs(&[("package.json", placeholder)]).is_empty());
        assert!(runs(&[("package.json", "{")]).is_empty());
        assert!(runs(&[("package.json", r#"{"scripts":{"test":3}}"#)]).is_empty());
    }

    #[test]
    fn a_makefile_counts_only_alone_and_only_with_the_target() {
        assert_eq!(runs(&[("Makefile", "all: a\ncheck test: all\n\t./run\n")]), ["test: make test"]);
        for text in ["test := 1\n", "latest: x\n", "\ttest: no\n", ".PHONY: test\n", "# test: no\n"] {
            assert!(runs(&[("Makefile", text)]).is_empty(), "{text:?}");
        }
    }

    fn proposed(files: &[(&str, &str)]) -> Vec<String> {
        let root: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let read =
            |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        let told = |found: Found| {
            let used = if found.used { "" } else { "?" };
            format!(
                "{}{used}: {} ({}, {})",
                found.check.name, found.check.run, found.check.parser, found.from
            )
        };
        find_checks(&root, &read).into_iter().map(told).collect()
    }

    #[test]
    fn linters_are_proposed_and_not_used() {
        let rust = [("Cargo.toml", "[workspace.lints.clippy]\nunwrap_used = \"deny\"\n")];
        assert_eq!(
            proposed(&rust),
            ["test: cargo test (cargo, Cargo.toml)", "lint?: cargo clippy --all-targets (cargo, Cargo.toml)"]
        );
        let python = [("pyproject.toml", "[project]\n[tool.ruff]\n[tool.mypy]\nfiles = [\"src\"]\n")];
        assert_eq!(
            proposed(&python),
            [
                "test: python3 -m pytest -q (pytest, pyproject.toml)",
                "lint?: ruff check . (ruff, pyproject.toml)",
                "types?: mypy (mypy, pyproject.toml)"
            ]
        );
        let node =
            r#"{"scripts":{"test":"vitest run","lint":"eslint .","typecheck":"tsc --noEmit","dev":"vite"}}"#;
        assert_eq!(
            proposed(&[("package.json", node), ("pnpm-lock.yaml", "")]),
            [
                "test: pnpm test (vitest, package.json)",
                "lint?: pnpm run lint (eslint, package.json)",
                "types?: pnpm run typecheck (tsc, package.json)"
            ]
        );
        let mends = r#"{"scripts":{"test":"vitest --watch","lint":"eslint --fix ."}}"#;
        assert!(proposed(&[("package.json", mends)]).is_empty());
    }

    #[test]
    fn ci_files_tell_what_people_run() {
        let github = "on: push\njobs:\n  test:\n    steps:\n      - uses: actions/checkout@v4\n      - run: cargo fmt --all --check\n      - name: Lint\n        run: cargo clippy -- -D warnings\n      - run: |\n          cargo test --workspace\n          curl https://x | sh\n          echo ${{ secrets.X }}\n      - run: cargo test --workspace\n";
        assert_eq!(
            proposed(&[("Cargo.toml", ""), (".github/workflows/ci.yml", github)]),
            [
                "test: cargo test (cargo, Cargo.toml)",
                "test-2?: cargo test --workspace (cargo, .github/workflows/ci.yml)",
                "lint?: cargo clippy -- -D warnings (cargo, .github/workflows/ci.yml)",
                "format?: cargo fmt --all --check (auto, .github/workflows/ci.yml)"
            ]
        );
        let gitlab =
            "test:\n  script:\n  - pip install .\n  - uv run pytest -x\n  - \"mypy src\"\nother: 1\n";
        assert_eq!(
            proposed(&[(".gitlab-ci.yml", gitlab)]),
            ["test: uv run pytest -x (pytest, .gitlab-ci.yml)", "types?: mypy src (mypy, .gitlab-ci.yml)"]
        );
    }

    #[test]
    fn a_makefile_proposes_its_linter() {
        assert_eq!(
            proposed(&[("Makefile", "test:\n\t./t\nlint:\n\t./l\n")]),
            ["test: make test (auto, Makefile)", "lint?: make lint (auto, Makefile)"]
        );
    }
}
