//! Finds a repository's checks when nobody wrote them down: its manifests, scripts and CI files tell which languages it
//! speaks and what its people run. It proposes only what the repository itself gives a reason for, and says which.

mod ci;
mod folders;
mod java;
mod python;
mod yaml;

pub use self::folders::HOLDERS;
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
    /// Where it is run, from the root; empty for the root itself. The command goes there.
    folder: String,
}

impl Found {
    fn new(language: &'static str, role: Role, run: &str, parser: &str, from: &str) -> Self {
        let check = Check { name: String::new(), run: run.to_owned(), parser: parser.to_owned() };
        Self { check, role, from: from.to_owned(), used: false, language, folder: String::new() }
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

/// The checks that are used when none are configured, from the paths near a repository's root and a way to read them.
pub fn discover(paths: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Check> {
    find_checks(paths, read).into_iter().filter(|found| found.used).map(|found| found.check).collect()
}

/// Every check that the repository gives a reason for, those that are used first. `paths` has the names in the root, what is in
/// the folders there, and CI files.
pub fn find_checks(paths: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let names: Vec<&str> = paths.iter().map(|name| name.trim_end_matches('/')).collect();
    // Tools take a file with a mark of its byte order as well as one without.
    let read =
        &|name: &str| read(name).map(|text| text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text));
    let mut tests = languages(&names, read);
    let from_ci: Vec<Found> = names
        .iter()
        .filter(|path| ci::is_ci_file(path))
        .flat_map(|path| read(path).map(|text| ci::checks(path, &text, &names)).unwrap_or_default())
        .collect();
    // Only where nothing else tells how the tests are run; that some file is one of tests does not tell it.
    if tests.iter().all(|found| found.from == python::FILES)
        && let Some(target) = makefile(&names, read, Role::Test)
    {
        tests = vec![target];
    }
    if tests.is_empty() {
        tests = of_ci(&from_ci, &names, read);
    }
    if tests.is_empty() {
        tests.extend(java::tests(&names));
    }
    for found in &mut tests {
        found.used = true;
    }
    if tests.is_empty() {
        tests = folders::tests(&names, read);
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

/// The tests that CI runs: the first where it runs them in the root, else one of each language and folder, with those of folders
/// that it does not go into.
fn of_ci(from_ci: &[Found], names: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<Found> {
    let mut tests: Vec<Found> = Vec::new();
    for found in from_ci.iter().filter(|found| found.role == Role::Test) {
        if found.folder.is_empty() {
            return vec![found.clone()];
        }
        let same = |other: &Found| other.folder == found.folder && other.language == found.language;
        if !tests.iter().any(same) {
            tests.push(found.clone());
        }
    }
    if tests.is_empty() {
        return tests;
    }
    let covered: Vec<String> = tests.iter().map(|found| found.folder.clone()).collect();
    let is_within = |one: &str, other: &str| one == other || one.starts_with(&format!("{other}/"));
    let new = |found: &Found| {
        !covered.iter().any(|folder| is_within(folder, &found.folder) || is_within(&found.folder, folder))
    };
    tests.extend(folders::tests(names, read).into_iter().filter(new));
    tests.truncate(folders::MOST);
    tests
}

/// Gives each check a name: its role, with its folder, and the language where several have that role.
fn named(mut all: Vec<Found>) -> Vec<Found> {
    for at in 0..all.len() {
        let Found { role, language, used, ref folder, .. } = all[at];
        let role_and_folder = match folder.as_str() {
            "" => role.name().to_owned(),
            folder => format!("{}-{}", role.name(), folder.replace('/', "-")),
        };
        let same = |other: &&Found| other.role == role && other.used == used && other.folder == *folder;
        let alone = all.iter().filter(same).count() == 1;
        let mut name = if alone { role_and_folder } else { format!("{role_and_folder}-{language}") };
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
    found.extend(python::tests(names, read));
    if let Some(script) = script(names, read, "test").filter(|script| !script.contains("no test specified")) {
        let run = match package_manager(names) {
            "npm" => "npm test".to_owned(),
            other => format!("{other} test"),
        };
        found.push(Found::new("node", Role::Test, &run, parser_of(&script), "package.json"));
    } else if let Some((run, from)) = of_all_packages(names, read) {
        found.push(Found::new("node", Role::Test, run, "auto", from));
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

/// What runs the tests of every package, where the root is only what holds them together.
fn of_all_packages(
    names: &[&str],
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<(&'static str, &'static str)> {
    if names.contains(&"pnpm-workspace.yaml") {
        return Some(("pnpm -r test", "pnpm-workspace.yaml"));
    }
    let text = read("package.json").filter(|_| names.contains(&"package.json"))?;
    let package = serde_json::from_str::<Value>(&text).ok()?;
    (package.get("workspaces").is_some() && package_manager(names) == "npm")
        .then_some(("npm test --workspaces --if-present", "package.json"))
}

/// Which program runs the scripts, by its lock file.
fn package_manager(names: &[&str]) -> &'static str {
    [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")]
        .into_iter()
        .find(|(lock, _)| names.contains(lock))
        .map_or("npm", |(_, program)| program)
}

/// A script of `package.json` that runs to its end.
fn script(names: &[&str], read: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let text = read("package.json").filter(|_| names.contains(&"package.json"))?;
    let package = serde_json::from_str::<Value>(&text).ok()?;
    let script = package.get("scripts")?.get(name)?.as_str()?;
    let watches = script.split_whitespace().any(|word| matches!(word, "--watch" | "--watchAll"));
    (!script.trim().is_empty() && !watches).then(|| script.to_owned())
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
        let root: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
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
        for file in ["pytest.ini", "conftest.py", "test_a.py"] {
            assert_eq!(runs(&[(file, "")]), ["test: python3 -m pytest -q"], "{file}");
        }
        let needs = ("pyproject.toml", "[project]\nname='x'\n[dependency-groups]\ndev = ['pytest']");
        assert_eq!(runs(&[needs]), ["test: python3 -m pytest -q"]);
        // Without a test and without a word of pytest there is nothing that could pass.
        for nothing in [("pyproject.toml", "[project]\nname='x'"), ("tox.ini", ""), ("tests/data.py", "")] {
            assert!(runs(&[nothing, ("app.py", "")]).is_empty(), "{nothing:?}");
        }
        assert_eq!(runs(&[("tests", ""), ("tests/conftest.py", "")]), ["test: python3 -m pytest -q"]);
        assert!(runs(&[("pyproject.toml", "[tool.ruff]\nline-length = 100")]).is_empty());
        // What comes with Python is there; pytest may not be.
        let plain = ("test_a.py", "import unittest\n");
        assert_eq!(runs(&[plain]), ["test: python3 -m unittest"]);
        for other in [("test_b.py", "import pytest\n"), ("conftest.py", ""), ("tox.ini", "deps = pytest")] {
            assert_eq!(runs(&[plain, other]), ["test: python3 -m pytest -q"], "{other:?}");
        }
        assert!(runs(&[("tests", ""), ("main.c", "")]).is_empty());
        let inside = [("tests/test_a.py", "import unittest\n"), ("till.py", "")];
        assert_eq!(runs(&inside), ["test: python3 -m unittest discover -s tests"]);
        let package = [inside[0], inside[1], ("tests/__init__.py", "")];
        assert_eq!(runs(&package), ["test: python3 -m unittest"]);
        let both = [inside[0], plain];
        assert_eq!(
            runs(&both),
            ["test: python3 -m unittest && python3 -m unittest discover -s tests"],
            "it looks in one place only"
        );
        let configured = [inside[0], ("tests/conftest.py", "")];
        assert_eq!(runs(&configured), ["test: python3 -m pytest -q"]);
        let other = [inside[0], ("Makefile", "test:\n\t./t\n")];
        assert_eq!(runs(&other), ["test: make test"], "a file of tests is not all that there is");
    }

    #[test]
    fn tests_of_python_are_found_at_any_depth() {
        let text = "import unittest\n";
        let project = ("pyproject.toml", "[project]\nname='x'");
        let unit = ("tests/unit/test_a.py", text);
        assert_eq!(runs(&[unit]), ["test: python3 -m unittest discover -s tests/unit"]);
        let two = [unit, ("tests/web/a_test.py", text), ("tests/web/test_b.py", text)];
        assert_eq!(
            runs(&two),
            [
                "test: python3 -m unittest discover -s tests/unit && python3 -m unittest discover -s tests/web -p '*_test.py' \
              && python3 -m unittest discover -s tests/web"
            ]
        );
        let packages = [unit, ("tests/__init__.py", ""), ("tests/unit/__init__.py", "")];
        assert_eq!(runs(&packages), ["test: python3 -m unittest"]);
        let inside = ("src/x/test_a.py", text);
        assert_eq!(runs(&[project, inside]), ["test: python3 -m unittest discover -s src/x"]);
        let package = ("src/x/__init__.py", "");
        assert_eq!(runs(&[project, inside, package]), ["test: python3 -m unittest discover -s src"]);
        assert_eq!(
            runs(&[project, ("src/x/test_a.py", "def test_a(): pass\n")]),
            ["test: python3 -m pytest -q"]
        );
        assert_eq!(runs(&[unit, ("requirements-dev.txt", "pytest")]), ["test: python3 -m pytest -q"]);
        // What is in a project of its own is that one's, and what others wrote is nobody's.
        let api = [project, ("api/setup.py", ""), ("api/tests/test_a.py", text)];
        assert_eq!(runs(&api), ["test-api: cd api && python3 -m unittest discover -s tests"]);
        assert!(runs(&[project, ("vendor/lib/test_a.py", text)]).is_empty());
    }

    #[test]
    fn a_file_with_a_mark_of_its_byte_order_is_read_like_any_other() {
        let package = "\u{feff}{\"scripts\":{\"test\":\"node --test\"}}";
        assert_eq!(runs(&[("package.json", package)]), ["test: npm test"]);
    }

    #[test]
    fn java_is_built_as_the_root_says() {
        assert_eq!(found(&[("pom.xml", "")]), [("test".into(), "mvn -B test".into(), "javac".into())]);
        assert_eq!(runs(&[("pom.xml", ""), ("mvnw", "")]), ["test: ./mvnw -B test"]);
        let gradle = [("settings.gradle.kts", ""), ("gradlew", "")];
        assert_eq!(found(&gradle), [("test".into(), "./gradlew test".into(), "gradle".into())]);
        assert_eq!(runs(&[("pom.xml", ""), ("Makefile", "test:\n")]), ["test: make test"]);
    }

    #[test]
    fn projects_in_folders_count_where_the_root_says_nothing() {
        let script = r#"{"scripts":{"test":"vitest run"}}"#;
        let files = [
            ("README.md", ""),
            ("pnpm-lock.yaml", ""),
            ("web app/package.json", script),
            ("web app/src/go.mod", ""),
            ("services/api/go.mod", ""),
            ("backend/Cargo.toml", ""),
            ("backend/pytest.ini", ""),
            ("java/build.gradle", ""),
            ("c/Makefile", "test:\n\t./t\n"),
            ("docs/package.json", script),
            ("scripts/test_release.py", ""),
            (".github/package.json", script),
            ("node_modules/x/package.json", script),
        ];
        assert_eq!(
            runs(&files),
            [
                "test-backend-rust: cd backend && cargo test",
                "test-backend-python: cd backend && python3 -m pytest -q",
                "test-c: cd c && make test",
                "test-java: cd java && gradle test",
                "test-web app: cd 'web app' && pnpm test",
                "test-services-api: cd services/api && go test ./...",
            ]
        );
        let with_root = [("Cargo.toml", ""), files[2]];
        assert_eq!(runs(&with_root), ["test: cargo test"]);
        let many: Vec<String> = (0..30).map(|n| format!("p{n:02}/go.mod")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
        assert_eq!(runs(&many).len(), 10);
        let npm = [("package.json", r#"{"workspaces":["packages/*"]}"#), ("packages/a/package.json", script)];
        assert_eq!(runs(&npm), ["test: npm test --workspaces --if-present"]);
        assert_eq!(runs(&[("pnpm-workspace.yaml", ""), ("package.json", "{}")]), ["test: pnpm -r test"]);
    }

    #[test]
    fn a_script_that_watches_is_no_check() {
        for script in ["jest --watchAll", "vitest --watch", "jest --watch --ci"] {
            let package = format!(r#"{{"scripts":{{"test":"{script}"}}}}"#);
            assert!(runs(&[("package.json", &package)]).is_empty(), "{script}");
        }
        assert_eq!(
            runs(&[("package.json", r#"{"scripts":{"test":"jest --watchAll=false"}}"#)]),
            ["test: npm test"]
        );
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
        let python =
            [("pyproject.toml", "[project]\n[tool.ruff]\n[tool.mypy]\nfiles = [\"src\"]\n[tool.pytest]\n")];
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
    fn commands_of_ci_are_run_where_ci_runs_them() {
        let test = "import unittest\n";
        let package = r#"{"scripts":{"test":"vitest run"}}"#;
        let gitlab = "default:\n  before_script: [pip list]\ntest:\n  image: python\n  before_script:\n    - cd app\n  script:\n    - python3 -m unittest\n";
        let app = [("app/a.py", ""), ("app/test_a.py", test)];
        let ran = |file: &str, text: &str, files: &[(&str, &str)]| runs(&[&[(file, text)], files].concat());
        assert_eq!(ran(".gitlab-ci.yml", gitlab, &app), ["test-app: cd app && python3 -m unittest"]);
        let merged = "test:\n  extends: .base\n  script: [python3 -m unittest]\n";
        assert_eq!(
            ran(".gitlab-ci.yml", merged, &app),
            ["test-app: cd app && python3 -m unittest"],
            "its folder tells"
        );
        let api = [("api/package.json", package), ("web/package.json", package)];
        let github = ".github/workflows/ci.yml";
        for text in [
            "defaults:\n  run:\n    working-directory: api\njobs:\n  a:\n    steps:\n      - run: npm test -- --ci\n",
            "jobs:\n  a:\n    defaults:\n      run:\n        working-directory: ./api/\n    steps:\n    - run: npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: npm test -- --ci\n        working-directory: api\n",
            "jobs:\n  a:\n    steps:\n      - name: Test\n        working-directory: web/../api\n        run: |\n          npm ci\n          npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: |\n          cd api\n          npm ci && npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: (cd api && npm test -- --ci)\n",
        ] {
            assert_eq!(
                ran(github, text, &api),
                ["test-api: cd api && npm test -- --ci", "test-web: cd web && npm test"],
                "{text}"
            );
        }
        // Where it is not plain, the folders tell by themselves.
        for text in [
            "jobs:\n  a:\n    steps:\n      - run: npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: npm test -- --ci\n        working-directory: ${{ matrix.dir }}\n",
            "jobs:\n  a:\n    steps:\n      - run: |\n          cd $DIR\n          npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: |\n          docker run image \\\n            npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: |\n          if [ -n \"$X\" ]; then\n            cd api\n          fi\n          npm test -- --ci\n",
            "jobs:\n  a:\n    steps:\n      - run: |\n          cat > x <<EOF\n          npm test -- --ci\n          EOF\n",
            "jobs:\n  a:\n    steps:\n      - run: cd gone && npm test -- --ci\n",
        ] {
            let folders = ["test-api: cd api && npm test", "test-web: cd web && npm test"];
            assert_eq!(ran(github, text, &api), folders, "{text}");
        }
        let circle = "jobs:\n  a:\n    working_directory: ~/repo\n    steps:\n      - checkout\n      - run:\n          command: npm test\n          working_directory: web\n";
        assert_eq!(ran(".circleci/config.yml", circle, &api[1..]), ["test-web: cd web && npm test"]);
        let azure = "steps:\n- script: npm test\n  workingDirectory: web\n";
        assert_eq!(ran("azure-pipelines.yml", azure, &api[1..]), ["test-web: cd web && npm test"]);
        let travis = "language: node_js\nbefore_script:\n  - cd web\nscript:\n  - npm test\n";
        assert_eq!(ran(".travis.yml", travis, &api[1..]), ["test-web: cd web && npm test"]);
    }

    #[test]
    fn a_makefile_proposes_its_linter() {
        assert_eq!(
            proposed(&[("Makefile", "test:\n\t./t\nlint:\n\t./l\n")]),
            ["test: make test (auto, Makefile)", "lint?: make lint (auto, Makefile)"]
        );
    }
}
