//! Languages whose tests are told by lines: Ruby (`it "adds up" do … end`, `def test_adds_up`) and bats (`@test "adds up" {`).

use super::{Block, Found, Mark, Test, scope, text};
use crate::weakened::language::Language;
use crate::weakened::side::{Side, indent};

pub(super) fn find(side: &Side) -> Found {
    let mut found = Found::default();
    // The blocks that are open: how far indented, whether a test, which, and where it began.
    let mut open: Vec<Open> = Vec::new();
    let closer: &[u8] = if side.language == Language::Bats { b"}" } else { b"end" };
    for (at, line) in side.code_lines(0..side.code.len()) {
        let Some(column) = indent(line) else { continue };
        let code = line[column..].trim_ascii_end();
        while let Some(last) = open.pop_if(|last| column <= last.column) {
            last.close(at, &mut found);
        }
        if code == closer {
            continue;
        }
        let raw = side.line_text(at).trim_start();
        let Some(begun) = begins(side.language, raw) else {
            if let Some(name) = code.strip_prefix(b"def ") {
                found
                    .functions
                    .extend(name.split(|byte| !crate::weakened::mask::is_word(*byte)).next().map(text));
            }
            continue;
        };
        let outer = open.last().map_or(0, |outer| outer.scope);
        let mut mark = begun.mark.map(|what| Mark { what: what.to_owned(), at });
        if mark.as_ref().is_some_and(|mark| mark.what.starts_with('f')) {
            found.only.extend(mark.take());
        }
        let mut next =
            Open { column, begin: at, scope: scope(outer, begun.name), test: None, marks: Vec::new() };
        if begun.suite {
            next.marks.extend(mark);
        } else if !open.iter().any(|outer| outer.test.is_some()) {
            next.test = Some(found.tests.len());
            found.tests.push(Test {
                name: begun.name.to_owned(),
                scope: outer,
                at,
                begin: at,
                body: at + line.len()..side.code.len(),
                marks: mark.into_iter().collect(),
                table: false,
            });
        }
        open.push(next);
    }
    while let Some(last) = open.pop() {
        last.close(side.code.len(), &mut found);
    }
    found
}

struct Open {
    column: usize,
    begin: usize,
    scope: u64,
    test: Option<usize>,
    marks: Vec<Mark>,
}

impl Open {
    fn close(self, at: usize, found: &mut Found) {
        if let Some(test) = self.test.and_then(|index| found.tests.get_mut(index)) {
            test.body.end = at.max(test.body.start);
        }
        if !self.marks.is_empty() {
            found.blocks.push(Block { range: self.begin..at, marks: self.marks });
        }
    }
}

struct Begun<'a> {
    name: &'a str,
    suite: bool,
    mark: Option<&'static str>,
}

/// The test or suite that begins on a line.
fn begins(language: Language, line: &str) -> Option<Begun<'_>> {
    if language == Language::Bats {
        let name = quoted(line.strip_prefix("@test ")?)?;
        return Some(Begun { name, suite: false, mark: None });
    }
    if let Some(rest) = line.strip_prefix("def test_") {
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        return Some(Begun { name: &line[4..9 + length], suite: false, mark: None });
    }
    let (word, rest) = line.split_once([' ', '('])?;
    let (suite, mut mark) = match word {
        "it" | "specify" | "scenario" | "test" | "should" => (false, None),
        "xit" | "xspecify" | "xscenario" => (false, Some("xit")),
        "describe" | "context" | "feature" | "RSpec.describe" => (true, None),
        "xdescribe" | "xcontext" | "RSpec.xdescribe" => (true, Some("xdescribe")),
        "fit" | "fspecify" | "focus" => (false, Some("fit")),
        "fdescribe" | "fcontext" | "RSpec.fdescribe" => (true, Some("fdescribe")),
        _ => return None,
    };
    let name = match quoted(rest) {
        Some(name) => name,
        None if suite => rest.split([' ', ',', ')']).next()?,
        None => return None,
    };
    let after = rest.get(name.len()..).unwrap_or_default();
    if [":skip", "skip:", ":pending", "pending:"].iter().any(|word| after.contains(word)) {
        mark = Some("skip");
    }
    if [":focus", "focus:"].iter().any(|word| after.contains(word)) {
        mark = Some("focus");
    }
    Some(Begun { name, suite, mark })
}

fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split(quote).next()
}
