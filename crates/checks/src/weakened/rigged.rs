//! What decides over tests from outside of them: assertions that are given another meaning, hooks that run tests in the place of
//! the runner, a tested function that comes from a stand-in, helpers that check nothing, and variables that runners obey.

use std::collections::{HashMap, HashSet};

use protocol::{Weakening, WeakeningKind as Kind};

use super::diff::{Change, File, Line};
use super::language::{self, Language};
use super::{finding, quote};

/// Methods of unittest and hooks of pytest by which tests are run, and their results kept. What is defined under these names
/// takes the runner's place.
pub(super) const HOOKS: [&str; 24] = [
    "_callTestMethod",
    "_callSetUp",
    "_callTearDown",
    "_addSkip",
    "addFailure",
    "addError",
    "addSubTest",
    "wasSuccessful",
    "failureException",
    "pytest_pyfunc_call",
    "pytest_runtest_call",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtestloop",
    "pytest_cmdline_main",
    "pytest_pycollect_makeitem",
    "pytest_pycollect_makemodule",
    "pytest_collection",
    "pytest_collect_file",
    "pytest_report_teststatus",
    "pytest_xdist_node_collection_finished",
    "countTestCases",
    "loadTestsFromTestCase",
    "loadTestsFromModule",
];
/// Variables by which runners run less, with what makes them do it.
pub(super) const VARIABLES: [(&str, &str); 14] = [
    ("PYTEST_ADDOPTS", ""),
    ("PYTEST_PLUGINS", ""),
    ("PYTHONOPTIMIZE", ""),
    ("PROPTEST_CASES", ""),
    ("HYPOTHESIS_PROFILE", ""),
    ("NEXTEST_", "FILTER"),
    ("GOFLAGS", "-run"),
    ("GOFLAGS", "-skip"),
    ("GOFLAGS", "-short"),
    ("MAVEN_", "skip"),
    ("GRADLE_OPTS", "test"),
    ("NODE_OPTIONS", "test"),
    ("TESTOPTS", ""),
    ("MAKEFLAGS", "-i"),
];
/// Attributes of git that keep people from seeing what changed.
const UNSEEN: [&str; 4] = ["binary", "-diff", "linguist-generated", "filter="];
/// Words in the path of what stands in for something.
const STAND_INS: [&str; 6] = ["fake", "mock", "stub", "dummy", "test", "double"];

/// What is found in a file that the ways to look at tests have said nothing of.
pub(super) fn found(file: &File<'_>) -> Option<Weakening> {
    if file.new.is_empty() {
        return None;
    }
    let name = file.new.rsplit('/').next().unwrap_or(file.new);
    if name == ".gitattributes" {
        return attributes(file);
    }
    variables(file, name)
        .or_else(|| hooks(file))
        .or_else(|| meanings(file))
        .or_else(|| imported(file))
        .or_else(|| helpers(file))
}

fn added<'b>(file: &'b File<'_>) -> impl Iterator<Item = &'b Line<'b>> {
    file.lines().filter(|line| {
        let text = line.text.trim_start();
        let comment = text.starts_with("//") || text.starts_with('#') && !text.starts_with("#[");
        line.change == Change::Added && !comment
    })
}

fn before<'b>(file: &'b File<'_>) -> impl Iterator<Item = &'b Line<'b>> {
    file.lines().filter(|line| line.change != Change::Added)
}

/// Changes of tests that nobody is shown.
fn attributes(file: &File<'_>) -> Option<Weakening> {
    let line = added(file).find(|line| {
        let mut words = line.text.split_whitespace();
        let pattern = words.next().unwrap_or_default();
        let broad = matches!(pattern, "*" | "**") || pattern.ends_with("/**");
        let code = Language::of(pattern).is_some();
        let tests = ["test", "spec", "snap", "golden"].iter().any(|word| pattern.contains(word));
        (broad || code || tests)
            && words.any(|word| UNSEEN.iter().any(|unseen| word.starts_with(unseen)) && word != "filter=lfs")
    })?;
    let what = format!("git does not show what changes there any more: {}", quote(line.text));
    Some(finding(file, Kind::NotLookedAt, Some(line.number), what))
}

fn variables(file: &File<'_>, name: &str) -> Option<Weakening> {
    if [".md", ".rst", ".txt", ".adoc"].iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let had: HashSet<&str> = before(file)
        .flat_map(|line| VARIABLES.iter().filter(|(name, _)| line.text.contains(name)))
        .map(|(name, _)| *name)
        .collect();
    let line = added(file).find(|line| {
        VARIABLES.iter().any(|(name, with)| {
            !had.contains(name)
                && line
                    .text
                    .split_once(name)
                    .is_some_and(|(_, rest)| rest.contains(with) && rest.contains(['=', ':', '"', '\'']))
        })
    })?;
    let what = format!("what runners are told was changed: {}", quote(line.text));
    Some(finding(file, Kind::CheckChanged, Some(line.number), what))
}

/// A function that is defined under the name of what runs tests.
fn hooks(file: &File<'_>) -> Option<Weakening> {
    if Language::of(file.new) != Some(Language::Python) {
        return None;
    }
    let cases = file.lines().any(|line| line.text.contains("TestCase") || line.text.contains("unittest"));
    let defined = |text: &'_ str| -> Option<&'static str> {
        let rest = text.trim_start();
        let rest = rest.strip_prefix("async ").unwrap_or(rest);
        let name = rest.strip_prefix("def ").map_or(rest, str::trim_start);
        let name = &name[..name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len())];
        let function = rest.starts_with("def ");
        if let Some(hook) = HOOKS.iter().find(|hook| **hook == name) {
            let assigned = rest[name.len().min(rest.len())..].trim_start().starts_with('=');
            return (function || assigned).then_some(hook);
        }
        // These are names of other things, too.
        let own = ["run", "debug", "__call__", "__getattribute__", "doCleanups"];
        own.iter().find(|own| function && cases && **own == name && rest.contains("self")).copied()
    };
    let had: HashSet<&str> = before(file).filter_map(|line| defined(line.text)).collect();
    let tests = language::is_test_path(file.new) || file.new.ends_with("conftest.py");
    let mut wraps = false;
    let line = added(file).find(|line| {
        let name = defined(line.text);
        let found =
            name.is_some_and(|name| !had.contains(name) && !wraps && (tests || name.starts_with("pytest_")));
        // One that wraps the runner's own lets it run.
        wraps = line.text.contains("wrapper=True");
        found
    })?;
    let what = format!("how tests are run, or what they say, is decided here: {}", quote(line.text));
    Some(finding(file, Kind::TestSkipped, Some(line.number), what))
}

/// An assertion that is given another meaning: `unittest.TestCase.assertEqual = lambda *a: None`, `def assertEqual(self, …)`.
fn meanings(file: &File<'_>) -> Option<Weakening> {
    let language = Language::of(file.new)?;
    if !matches!(language, Language::Python | Language::Script | Language::Ruby) {
        return None;
    }
    let line = added(file).find(|line| {
        let text = line.text.trim();
        let tests = language::is_test_path(file.new)
            || text.contains("TestCase.")
            || file.new.ends_with("conftest.py");
        tests && gives_a_meaning(text)
    })?;
    if before(file).any(|old| old.text.trim() == line.text.trim()) {
        return None;
    }
    let what = format!("what tests are written with is replaced: {}", quote(line.text));
    Some(finding(file, Kind::AssertionRemoved, Some(line.number), what))
}

fn gives_a_meaning(text: &str) -> bool {
    let of_library = |name: &str| {
        name.strip_prefix("assert").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            && STANDARD.contains(&name)
            || matches!(name, "fail" | "failureException")
    };
    if let Some((_, rest)) = text.split_once("setattr(") {
        return rest.split(['\'', '"']).nth(1).is_some_and(of_library);
    }
    if let Some(rest) = text.strip_prefix("def ") {
        let name = rest.split('(').next().unwrap_or_default();
        return of_library(name);
    }
    let Some((target, value)) = text.split_once('=') else { return false };
    let target = target.trim_end();
    if value.starts_with(['=', '>'])
        || target.ends_with(['!', '<', '>', '+'])
        || target.contains(['(', ' ', '['])
    {
        return false;
    }
    let (owner, name) = target.rsplit_once('.').unwrap_or(("", target));
    let owner = owner.rsplit('.').next().unwrap_or_default();
    of_library(name)
        || matches!(owner, "assert" | "expect" | "chai" | "Assertions")
        || matches!(target, "expect" | "assert")
}

/// The assertions of unittest.
const STANDARD: [&str; 22] = [
    "assertEqual",
    "assertNotEqual",
    "assertTrue",
    "assertFalse",
    "assertIs",
    "assertIsNot",
    "assertIsNone",
    "assertIsNotNone",
    "assertIn",
    "assertNotIn",
    "assertRaises",
    "assertRaisesRegex",
    "assertAlmostEqual",
    "assertGreater",
    "assertGreaterEqual",
    "assertLess",
    "assertLessEqual",
    "assertRegex",
    "assertCountEqual",
    "assertListEqual",
    "assertDictEqual",
    "assertLogs",
];

/// What is tested is imported from what stands in for it.
fn imported(file: &File<'_>) -> Option<Weakening> {
    if !language::is_test_path(file.new) {
        return None;
    }
    let stands_in = |module: &str| {
        let lower = module.to_ascii_lowercase();
        lower.split(['.', '/', ':', '_', '-']).any(|part| STAND_INS.iter().any(|word| part.starts_with(word)))
    };
    let mut was: HashMap<&str, &str> = HashMap::new();
    for line in file.lines().filter(|line| line.change == Change::Removed) {
        for (name, module) in imports(line.text) {
            was.insert(name, module);
        }
    }
    let (line, name, from, to) = added(file).find_map(|line| {
        imports(line.text).into_iter().find_map(|(name, to)| {
            let from = was.get(name).filter(|from| **from != to && !stands_in(from) && stands_in(to))?;
            Some((line, name, *from, to))
        })
    })?;
    let what = format!("{} is imported from {} in the place of {}", quote(name), quote(to), quote(from));
    Some(finding(file, Kind::AssertionRemoved, Some(line.number), what))
}

/// The names that a line imports, each with where from.
fn imports(line: &str) -> Vec<(&str, &str)> {
    let text = line.trim().trim_end_matches(';');
    let names = |text: &'_ str| -> Vec<(usize, usize)> {
        let mut at = 0;
        let mut found = Vec::new();
        for part in text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$') {
            if !part.is_empty() && !matches!(part, "as" | "type" | "const" | "let" | "var" | "require") {
                found.push((at, at + part.len()));
            }
            at += part.len() + text[at + part.len()..].chars().next().map_or(1, char::len_utf8);
        }
        found
    };
    if let Some((module, list)) = text.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) {
        return names(list).into_iter().map(|(from, to)| (&list[from..to], module.trim())).collect();
    }
    let quoted = |text: &'_ str| -> Option<(usize, usize)> {
        let begin = text.find(['\'', '"', '`'])? + 1;
        Some((begin, begin + text[begin..].find(['\'', '"', '`'])?))
    };
    if let Some((list, rest)) = text.strip_prefix("import ").and_then(|rest| rest.split_once(" from "))
        && let Some((from, to)) = quoted(rest)
    {
        let module = &rest[from..to];
        return names(list).into_iter().map(|(from, to)| (&list[from..to], module)).collect();
    }
    if let Some((list, rest)) = text.split_once("require(")
        && let Some((from, to)) = quoted(rest)
    {
        let module = &rest[from..to];
        return names(list).into_iter().map(|(from, to)| (&list[from..to], module)).collect();
    }
    if let Some(path) = text.strip_prefix("use ").or_else(|| text.strip_prefix("import "))
        && let Some((module, list)) = path.rsplit_once("::").or_else(|| path.rsplit_once('.'))
    {
        return names(list).into_iter().map(|(from, to)| (&list[from..to], module)).collect();
    }
    Vec::new()
}

/// A function that other tests call to check something, and that cannot fail any more.
fn helpers(file: &File<'_>) -> Option<Weakening> {
    let language = Language::of(file.new)?;
    let for_tests = language::is_test_path(file.new)
        || ["testing", "testutil", "testkit", "test_util", "helper", "assertions", "conftest"]
            .iter()
            .any(|word| file.new.contains(word));
    let (was, is) = (failing(file, Change::Removed, language), failing(file, Change::Added, language));
    let (name, line) = is
        .iter()
        .filter(|(name, one)| {
            let checks = ["assert", "expect", "verify", "ensure", "check", "must", "require"];
            let named = checks[..if for_tests { 7 } else { 2 }]
                .iter()
                .any(|word| name.to_ascii_lowercase().starts_with(word));
            named && one.fails == 0 && was.get(*name).is_some_and(|one| one.fails > 0)
        })
        .map(|(name, one)| (*name, one.line))
        .min_by_key(|(_, line)| *line)?;
    let what = format!("{} cannot fail any more, so what calls it checks nothing", quote(name));
    Some(finding(file, Kind::AssertionRemoved, Some(line), what))
}

/// A function, and how many of its lines can fail.
struct Helper {
    line: u32,
    fails: usize,
}

fn failing<'a>(file: &'a File<'_>, side: Change, language: Language) -> HashMap<&'a str, Helper> {
    let fails = [
        "raise ",
        "raise\n",
        "assert",
        "throw ",
        "panic!",
        "Fatal",
        ".Error",
        "abort(",
        "expect(",
        ".fail(",
        "exit(",
        "unwrap()",
        "process.exit",
        "bail!",
        "Err(",
    ];
    let begins = ["def ", "fn ", "func ", "function ", "const ", "void ", "fun "];
    let mut found: HashMap<&str, Helper> = HashMap::new();
    // The function that is open, how far indented, and how far what is in it is.
    let mut open: Option<(&str, usize, Option<usize>)> = None;
    let mut over = false;
    for line in file.lines().filter(|line| line.change == side || line.change == Change::Kept) {
        let text = line.text.trim();
        let column = line.text.len() - line.text.trim_start().len();
        if text.is_empty() {
            continue;
        }
        let rest = begins.iter().find_map(|word| {
            let at = text.find(word)?;
            let before = &text[..at];
            (before.is_empty() || before.ends_with(' ') && !before.contains(['(', '=']))
                .then(|| &text[at + word.len()..])
        });
        let name = rest
            .map(|rest| &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]);
        if let Some(name) =
            name.filter(|name| !name.is_empty() && open.is_none_or(|(_, outer, _)| column <= outer))
        {
            open = Some((name, column, None));
            over = false;
            found.entry(name).or_insert(Helper { line: line.number, fails: 0 });
            // A function on one line.
            let body = rest.and_then(|rest| rest.split_once(['{', ':'])).map_or("", |(_, body)| body);
            if let Some(helper) = found.get_mut(name) {
                helper.fails += usize::from(fails.iter().any(|word| body.contains(word)));
            }
            continue;
        }
        let Some((name, outer, inner)) = &mut open else { continue };
        if column <= *outer {
            if language.by_indentation() || text.starts_with('}') {
                open = None;
            }
            continue;
        }
        let inner = *inner.get_or_insert(column);
        if over || text.starts_with("//") || text.starts_with("# ") {
            continue;
        }
        if let Some(helper) = found.get_mut(*name) {
            helper.fails += usize::from(fails.iter().any(|word| text.contains(word)));
        }
        // What comes after it ends is not reached.
        over = column == inner
            && (text == "return" || text.starts_with("return ") || text.starts_with("return;"));
    }
    found
}
