//! From the text that compilers, linters and test runners print to one [`Report`]. Pure: text in, report out; no
//! parser panics or takes more than linear time, whatever it is given.

mod affected;
mod cargo;
mod cases;
mod clean;
mod digest;
mod discover;
mod eslint;
mod fallback;
mod findings;
mod gcc;
mod go;
mod gradle;
mod javac;
mod jest;
mod join;
mod js;
mod js_json;
mod json;
mod junit;
mod leaked;
mod missing;
mod mypy;
mod node_test;
mod places;
mod prefixes;
mod pyright;
mod pytest;
mod ruff;
mod sarif;
mod scan;
mod since;
mod source;
mod tap;
mod traces;
mod tsc;
mod unexplained;
mod unittest;
mod verdict;
mod vitest;
mod weakened;
mod words;

use protocol::{Report, Severity};

pub use affected::{Workspace, affected, folder_of};
pub use clean::clean;
pub use digest::digest;
pub use discover::{Found, HOLDERS, Role, discover, find_checks};
pub use leaked::{Leak, leaked, leaked_or_known, secret_in};
pub use missing::missing_program;
pub use since::{Known, changes, count, digest_since, failed_before, is_as_silent, is_cut, line, outline};
pub use source::{files_of, locate, show_sources};
pub use unexplained::{digest_failed, explain, names_a_failure, unexplained};
pub use verdict::{ignores_failures, says_less, tally, unbelieved};
pub use weakened::{adapted, weakened};

/// Most diagnostics, and most failed tests, that a report keeps.
pub const MAX_ENTRIES: usize = 500;
/// Most bytes of one message, name or value.
pub const MAX_TEXT: usize = 4 * 1024;
/// Most bytes of [`Report::tail`].
pub const MAX_TAIL: usize = 4 * 1024;

/// Reads one tool's output. Implementers owe linear time and no panic on any text; how long a text
/// may be and how many tests are kept is seen to by [`parse`].
pub trait Parser: Send + Sync {
    /// The name used in `parser = "…"`.
    fn name(&self) -> &'static str;
    /// Whether the output, already through [`clean`], looks like this tool's.
    fn recognises(&self, output: &str) -> bool;
    /// What the output, already through [`clean`], says. Never panics.
    fn parse(&self, output: &str) -> Report;
}

/// The parsers in the order in which `auto` prefers them; the fallback is last and recognises everything.
const PARSERS: &[&dyn Parser] = &[
    &cargo::Cargo,
    &pytest::Pytest,
    &vitest::Vitest,
    &jest::Jest,
    &node_test::NodeTest,
    &tap::Tap,
    &junit::Junit,
    &tsc::Tsc,
    &eslint::Eslint,
    &gradle::Gradle,
    &javac::Javac,
    &mypy::Mypy,
    &ruff::Ruff,
    &pyright::Pyright,
    &gcc::Gcc,
    &sarif::Sarif,
    &unittest::Unittest,
    &go::Go,
    &fallback::Fallback,
];

/// Every parser's name, and `auto`.
pub fn names() -> Vec<&'static str> {
    std::iter::once("auto").chain(PARSERS.iter().map(|parser| parser.name())).collect()
}

/// Whether a parser has this name, or this is another name for one.
pub fn is_known(name: &str) -> bool {
    names().contains(&named(name))
}

/// The name that a parser goes by.
fn named(parser: &str) -> &str {
    match parser {
        "cargo-test" | "rustc" | "clippy" | "nextest" => "cargo",
        "clang" => "gcc",
        "maven" | "java" => "javac",
        "node" => "node-test",
        "generic" => "fallback",
        other => other,
    }
}

/// Parses with the named parser; `auto` picks one by what the output looks like. None when no parser has that name.
pub fn parse(parser: &str, output: &str) -> Option<Report> {
    let name = named(parser);
    if name != "auto" {
        let parser = PARSERS.iter().find(|parser| parser.name() == name)?;
        return Some(read(*parser, &clean(output)));
    }
    let output = clean(output);
    let report = recognised(&output)?;
    let told = |report: &Report| findings(report) > 0 || report.tests_passed > 0;
    let by_its_tool = report.parser != "fallback";
    if told(&report) && by_its_tool {
        return Some(report);
    }
    // Nothing was found, or only places: perhaps because each line begins with who wrote it.
    let bare = prefixes::without(&output).and_then(|bare| recognised(&bare));
    let bare =
        bare.filter(|bare| told(bare) && (bare.parser != "fallback" || findings(bare) > findings(&report)));
    Some(bare.map_or_else(|| report.clone(), |bare| Report { tail: report.tail.clone(), ..bare }))
}

/// What the parsers find that recognise the output.
fn recognised(output: &str) -> Option<Report> {
    // A document is its writer's, though what tests printed is quoted in it and looks like their own tool's output.
    let whole = output.trim();
    if whole.starts_with('<') && whole.ends_with('>') && junit::Junit.recognises(output) {
        return Some(read(&junit::Junit, output));
    }
    let mut reports: Vec<Report> = Vec::new();
    for parser in PARSERS.iter().filter(|parser| parser.recognises(output)) {
        // The fallback is asked only when no other parser knows the output.
        if parser.name() != "fallback" || reports.is_empty() {
            reports.push(read(*parser, output));
        }
    }
    // Output that looks like two tools' (a Makefile that runs both) is the one's that finds more wrong, with what the others
    // find beside it.
    let most = reports.iter().map(findings).max()?;
    let best = reports.iter().position(|report| findings(report) == most)?;
    let mut best = reports.remove(best);
    reports.into_iter().for_each(|other| join::join(&mut best, other));
    Some(best)
}

fn findings(report: &Report) -> usize {
    let errors = report.diagnostics.iter().filter(|found| found.severity == Severity::Error).count();
    report.tests.len() + errors
}

fn read(parser: &dyn Parser, output: &str) -> Report {
    let mut report = parser.parse(output);
    report.parser = parser.name().to_owned();
    report.tail = clean::tail(output, MAX_TAIL).to_owned();
    report.tests.truncate(MAX_ENTRIES);
    for found in &mut report.diagnostics {
        clean::clip(&mut found.message, MAX_TEXT);
        for text in [&mut found.file, &mut found.code].into_iter().flatten() {
            clean::clip(text, MAX_TEXT);
        }
    }
    for test in &mut report.tests {
        clean::clip(&mut test.name, MAX_TEXT);
        clean::clip(&mut test.message, MAX_TEXT);
        for text in [&mut test.file, &mut test.expected, &mut test.actual].into_iter().flatten() {
            clean::clip(text, MAX_TEXT);
        }
    }
    report
}
