//! The goldens against the tools: each is run again on the sources in `tests/real`, and must say what its golden says. A tool
//! that is not installed here is left out, but not those that this project itself needs.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first thing that is not as it must be")]

use std::path::Path;
use std::process::Command;

use checks::parse;
use protocol::Report;

/// What of a report does not depend on where and when the tool ran.
fn facts(report: &Report) -> Vec<String> {
    let name = |file: &Option<String>| {
        file.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file).to_owned()).unwrap_or_default()
    };
    let tests = report.tests.iter().map(|test| {
        format!("{} at {}:{:?} {:?} {:?}", test.name, name(&test.file), test.line, test.expected, test.actual)
    });
    let found = report.diagnostics.iter().map(|found| {
        let place = format!("{}:{:?}:{:?}", name(&found.file), found.line, found.column);
        format!("{:?} {place} {:?}", found.severity, found.code)
    });
    let mut facts: Vec<String> = tests.chain(found).collect();
    facts.sort();
    facts.push(format!("{} {} {}", report.tests_passed, report.tests_failed, report.tests_skipped));
    facts
}

/// Runs a tool in a copy of a folder of `tests/real`, and compares; None where there is no such tool.
fn compare(golden: &str, folder: &str, command: &[&str]) -> Option<()> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let work = tempfile::tempdir().unwrap();
    copy(&tests.join("real").join(folder), work.path());
    // Both streams in the order in which they are written, as a check's output is.
    let output = Command::new("sh")
        .args(["-c", "exec \"$@\" 2>&1", "sh"])
        .args(command)
        .current_dir(work.path())
        .env("LC_ALL", "C.UTF-8")
        .env("XDG_CACHE_HOME", work.path().join("cache"))
        .env("GOCACHE", work.path().join("cache/go"))
        .env("CARGO_TARGET_DIR", work.path().join("target"))
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("NODE_TEST_CONTEXT")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A module or a toolchain that is not there is a tool that is not there.
    if output.status.code() == Some(127) || text.contains("No module named") || text.contains("not installed")
    {
        return None;
    }
    let wanted = std::fs::read_to_string(tests.join("golden").join(format!("{golden}.txt"))).unwrap();
    let (ran, wanted) = (parse("auto", &text).unwrap(), parse("auto", &wanted).unwrap());
    assert_eq!(ran.parser, wanted.parser, "{golden}: {text}");
    assert_eq!(facts(&ran), facts(&wanted), "{golden}: {text}");
    Some(())
}

/// Copies a folder; names end in `.txt` where the name itself would mean something here.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let to = to.join(name.strip_suffix(".txt").unwrap_or(name));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, to).unwrap();
        }
    }
}

#[test]
#[ignore = "runs the compilers and test runners themselves"]
fn the_goldens_are_what_the_tools_say() {
    let cargo = env!("CARGO");
    let rust = |golden: &str, format: &str| compare(golden, "rust", &[cargo, "check", "--offline", format]);
    assert!(rust("cargo_json", "--message-format=json").is_some());
    assert!(rust("cargo_short", "--message-format=short").is_some());
    let others: [(&str, &str, &[&str]); 13] = [
        ("gcc_english", "c", &["gcc", "-Wall", "-c", "main.c", "-o", "/dev/null"]),
        ("gcc_clang", "c", &["clang", "-Wall", "-c", "main.c", "-o", "/dev/null"]),
        ("javac", "java", &["javac", "-Xlint:all", "-d", "out", "shop/B.java"]),
        ("unittest_till", "python", &["python3", "-m", "unittest"]),
        ("pytest_till", "python", &["python3", "-m", "pytest", "-q", "test_till.py"]),
        ("mypy_till", "python", &["python3", "-m", "mypy", "shop.py"]),
        ("ruff_till", "python", &["python3", "-m", "ruff", "check", "--isolated", "shop.py"]),
        ("node-test_till", "node", &["node", "--test"]),
        ("tap_till", "perl", &["perl", "till.t"]),
        ("go_test", "go", &["go", "test", "."]),
        ("go_all", "go", &["go", "test", "./..."]),
        ("go_build", "go", &["go", "build", "./broken"]),
        ("go_json", "go", &["go", "test", "-json", "."]),
    ];
    let ran =
        others.iter().filter(|(golden, folder, command)| compare(golden, folder, command).is_some()).count();
    assert!(ran > 0, "none of the other tools is installed");
}
