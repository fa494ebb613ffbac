//! Finds a repository's checks when nobody wrote them down: the files in its root tell which languages it speaks and how
//! its tests are run. It proposes only what the repository itself gives a reason for.

use protocol::Check;
use serde_json::Value;

/// Finds a repository's checks from the names in its root and a way to read them.
pub fn discover(root: &[String], read: &dyn Fn(&str) -> Option<String>) -> Vec<Check> {
    let names: Vec<&str> = root.iter().map(|name| name.trim_end_matches('/')).collect();
    let has = |name: &str| names.contains(&name);
    let mut found = Vec::new();
    if has("Cargo.toml") {
        found.push(("rust", "cargo test", "cargo"));
    }
    if speaks_python(&names, read) {
        found.push(("python", "python3 -m pytest -q", "pytest"));
    }
    if let Some(script) =
        read("package.json").filter(|_| has("package.json")).and_then(|text| npm_test(&text))
    {
        found.push(("node", "npm test", parser_of(&script)));
    }
    if has("go.mod") {
        found.push(("go", "go test ./...", "go"));
    }
    if found.is_empty() {
        // make takes the first of these names that exists.
        let makefile = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| has(name));
        if makefile.and_then(read).is_some_and(|text| text.lines().any(is_test_target)) {
            found.push(("make", "make test", "auto"));
        }
    }
    let only = found.len() == 1;
    found
        .into_iter()
        .map(|(language, run, parser)| Check {
            name: if only { "test".to_owned() } else { format!("test-{language}") },
            run: run.to_owned(),
            parser: parser.to_owned(),
        })
        .collect()
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

/// `scripts.test`, if it is there and is not the placeholder that `npm init` writes.
fn npm_test(text: &str) -> Option<String> {
    let package = serde_json::from_str::<Value>(text).ok()?;
    let script = package.get("scripts")?.get("test")?.as_str()?;
    (!script.trim().is_empty() && !script.contains("no test specified")).then(|| script.to_owned())
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
    } else {
        "auto"
    }
}

/// Whether the line of a Makefile begins a rule whose targets include `test`.
fn is_test_target(line: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    let assigns = rest.starts_with('=') || rest.starts_with(":=");
    !line.starts_with(['\t', '#', '.'])
        && !assigns
        && targets.split_whitespace().any(|target| target == "test")
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
}
