//! Languages with braces in which a test is a function: by its name (Go, C, PHP, Swift), by a macro (C++), or by an
//! annotation or attribute (Java, Kotlin, C#).

use std::ops::Range;

use super::{Block, Found, Mark, Test, begins_with_test, scope, text};
use crate::weakened::language::Language;
use crate::weakened::mask::is_word;
use crate::weakened::side::Side;

/// Words before a brace that is not a function's.
const TYPES: [&[u8]; 10] = [
    b"class",
    b"interface",
    b"record",
    b"object",
    b"enum",
    b"namespace",
    b"struct",
    b"extension",
    b"trait",
    b"union",
];
/// Macros that make tests of C and C++.
const MACROS: [&[u8]; 12] = [
    b"TEST",
    b"TEST_F",
    b"TEST_P",
    b"TYPED_TEST",
    b"TEST_CASE",
    b"TEST_CASE_METHOD",
    b"SCENARIO",
    b"BOOST_AUTO_TEST_CASE",
    b"BOOST_FIXTURE_TEST_CASE",
    b"START_TEST",
    b"Test",
    b"DOCTEST_TEST_CASE",
];

/// What was read since the last statement or block.
#[derive(Default)]
struct Header {
    begin: usize,
    /// Whether there was any code but attributes.
    begun: bool,
    attributes: Vec<Range<usize>>,
    /// The last group of parentheses.
    group: Option<Range<usize>>,
}

pub(super) fn find(side: &Side) -> Found {
    let mut found = Found::default();
    let mut around: Vec<(usize, u64)> = Vec::new();
    let old_style = side.text.contains("extends TestCase") || side.text.contains("junit.framework");
    let mut header = Header::default();
    let end = side.code.len();
    let mut at = 0;
    while at < end {
        while around.last().is_some_and(|(end, _)| *end <= at) {
            around.pop();
        }
        let byte = side.code[at];
        let square = byte == b'[' && !header.begun && side.language == Language::CSharp
            || byte == b'#' && side.code.get(at + 1) == Some(&b'[') && side.language == Language::Php;
        if square {
            let open = if byte == b'#' { at + 1 } else { at };
            let close = side.closing(open, end);
            header.attributes.push(at..close);
            at = close;
        } else if byte == b'@' && side.language != Language::Cpp {
            let range = annotation(side, at);
            at = range.end.max(at + 1) - 1;
            header.attributes.push(range);
        } else {
            match byte {
                b'(' => {
                    let close = side.closing(at, end);
                    header.group = Some(at..close);
                    header.begun = true;
                    at = close;
                }
                b';' | b'}' => {
                    if byte == b';' {
                        expression(side, &header, at, &around, &mut found);
                    }
                    header = Header { begin: at + 1, ..Header::default() };
                }
                b'{' => {
                    at = block(side, &header, at, &mut around, old_style, &mut found);
                    header = Header { begin: at + 1, ..Header::default() };
                }
                _ => header.begun |= !byte.is_ascii_whitespace(),
            }
        }
        at += 1;
    }
    found
}

/// `@org.junit.jupiter.api.Disabled("why")` from its first byte on.
fn annotation(side: &Side, at: usize) -> Range<usize> {
    let rest = &side.code[at + 1..];
    let length =
        rest.iter().position(|byte| !is_word(*byte) && !matches!(byte, b'.' | b':')).unwrap_or(rest.len());
    let after = at + 1 + length;
    match side.code.get(after) {
        Some(b'(') => at..side.closing(after, side.code.len()).saturating_add(1).min(side.code.len()),
        _ => at..after,
    }
}

/// What a brace opens. Gives the place of the last byte that was read.
fn block(
    side: &Side,
    header: &Header,
    open: usize,
    around: &mut Vec<(usize, u64)>,
    old_style: bool,
    found: &mut Found,
) -> usize {
    let close = side.closing(open, side.code.len());
    let words = || side.words(header.begin..open);
    let in_attributes = |at: usize| {
        let next = header.attributes.partition_point(|range| range.start <= at);
        next > 0 && header.attributes[next - 1].contains(&at)
    };
    let is_type = words().any(|(at, word)| TYPES.contains(&word) && !in_attributes(at));
    let Some(name) = function_name(side, header, open).filter(|_| !is_type) else {
        if is_type {
            let name =
                words().filter(|(at, _)| !in_attributes(*at)).map(|(_, word)| text(word)).collect::<Vec<_>>();
            let outer = around.last().map_or(0, |(_, scope)| *scope);
            around.push((close, scope(outer, &name.join(" "))));
            let marks = marks(side, header);
            if !marks.is_empty() {
                found.blocks.push(Block { range: open..close, marks });
            }
        }
        return open;
    };
    if !add(side, header, name, open + 1..close, around, old_style, found) && side.language == Language::Cpp {
        // A macro around tests, such as that of a suite, is not a function.
        let capitals = side.code[..header.group.as_ref().map_or(open, |group| group.start)].trim_ascii_end();
        if capitals.last().is_some_and(u8::is_ascii_uppercase) {
            return open;
        }
    }
    close
}

/// A function whose body is an expression, as C# has them.
fn expression(side: &Side, header: &Header, end: usize, around: &[(usize, u64)], found: &mut Found) {
    if side.language != Language::CSharp || header.attributes.is_empty() {
        return;
    }
    let Some(arrow) = crate::weakened::mask::find(&side.code[header.begin..end], b"=>") else { return };
    let arrow = header.begin + arrow;
    let Some((at, name)) = word_before(
        side,
        side.code[header.begin..arrow]
            .iter()
            .position(|byte| *byte == b'(')
            .map_or(arrow, |ahead| header.begin + ahead),
    ) else {
        return;
    };
    add(side, header, (at, text(name)), arrow + 2..end, around, false, found);
}

/// Adds a test, where it is one; a function otherwise.
fn add(
    side: &Side,
    header: &Header,
    name: (usize, String),
    body: Range<usize>,
    around: &[(usize, u64)],
    old_style: bool,
    found: &mut Found,
) -> bool {
    let (at, name) = name;
    let annotated = header.attributes.iter().any(|range| {
        side.words(range.clone()).any(|(_, word)| {
            matches!(
                word,
                b"Test"
                    | b"ParameterizedTest"
                    | b"RepeatedTest"
                    | b"TestFactory"
                    | b"TestTemplate"
                    | b"Property"
                    | b"Fact"
                    | b"Theory"
                    | b"TestMethod"
                    | b"DataTestMethod"
                    | b"TestCase"
                    | b"TestCaseSource"
            )
        })
    });
    // PHP has it in a comment, too.
    let annotated =
        annotated || side.language == Language::Php && side.slice(header.begin..at).contains("@test");
    let by_name = begins_with_test(name.as_bytes());
    let bare = name.as_bytes();
    let by_macro = word_before(side, header.group.as_ref().map_or(0, |group| group.start))
        .is_some_and(|(_, word)| MACROS.contains(&word));
    let is_test = match side.language {
        Language::Go => {
            let rest =
                ["Test", "Fuzz", "Example", "Benchmark"].iter().find_map(|word| name.strip_prefix(word));
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
                && bare != b"TestMain"
        }
        Language::Java => annotated || old_style && by_name,
        Language::CSharp => annotated,
        Language::Cpp => by_macro || by_name,
        _ => annotated || by_name,
    };
    if !is_test {
        found.functions.insert(name);
        return false;
    }
    let mut marks = marks(side, header);
    let name = match by_macro.then(|| name.replacen("DISABLED_", "", 1)) {
        Some(enabled) if enabled != name => {
            marks.push(Mark { what: "DISABLED_".to_owned(), at });
            enabled
        }
        _ => name,
    };
    let hidden = ["[.", "[!mayfail]", "[!shouldfail]"].into_iter().find(|tag| by_macro && name.contains(tag));
    marks.extend(hidden.map(|tag| Mark { what: tag.to_owned(), at }));
    let scope = around.last().map_or(0, |(_, scope)| *scope);
    let table = header.attributes.iter().any(|range| {
        side.words(range.clone())
            .any(|(_, word)| matches!(word, b"ParameterizedTest" | b"Theory" | b"TestCase"))
    });
    found.tests.push(Test { name, scope, at, begin: header.begin, body, marks, table });
    true
}

/// The name of the function that a brace begins: behind the word that declares one, or before its arguments. A macro's is
/// what it is given.
fn function_name(side: &Side, header: &Header, open: usize) -> Option<(usize, String)> {
    let group = header.group.clone()?;
    let declared = side
        .words(header.begin..open)
        .filter(|(_, word)| matches!(*word, b"fun" | b"func" | b"function"))
        .last();
    if let Some((at, word)) = declared {
        let mut after = at + word.len();
        // The receiver of a method in Go.
        if let Some((paren, b'(')) = side.next_code(after) {
            after = side.closing(paren, open);
        }
        if let Some((tick, b'`')) = side.next_code(after) {
            let name = side.slice(tick + 1..open).split('`').next()?.to_owned();
            return Some((tick, name));
        }
        return side.words(after..open).next().map(|(at, word)| (at, text(word)));
    }
    let (at, word) = word_before(side, group.start)?;
    if MACROS.contains(&word) && side.language == Language::Cpp {
        let arguments = side.slice(group.start + 1..group.end);
        let name: String =
            arguments.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
        return Some((at, name));
    }
    Some((at, text(word)))
}

/// The word that ends before an offset.
fn word_before(side: &Side, at: usize) -> Option<(usize, &[u8])> {
    let before = side.code.get(..at)?.trim_ascii_end();
    let length = before.iter().rev().take_while(|byte| is_word(**byte)).count();
    let begin = before.len() - length;
    (length > 0).then(|| (begin, &before[begin..]))
}

/// What the attributes do to the tests below them.
fn marks(side: &Side, header: &Header) -> Vec<Mark> {
    let mark = |range: &Range<usize>| {
        let skips = |at: usize, word: &[u8]| {
            let value = || {
                side.code[at + word.len()..range.end]
                    .trim_ascii_start()
                    .strip_prefix(b"=")
                    .map(<[u8]>::trim_ascii_start)
            };
            word.starts_with(b"Disabled")
                || word.starts_with(b"EnabledIf")
                || word.starts_with(b"EnabledOn")
                || matches!(word, b"Ignore" | b"Ignored" | b"Explicit" | b"disabled" | b"PendingFeature")
                || word == b"Skip" && value().is_some_and(|value| !value.starts_with(b"null"))
                || word.starts_with(b"Requires") && side.language == Language::Php
                || word == b"expected"
                    && value().is_some_and(|value| {
                        value.starts_with(b"AssertionError") || value.starts_with(b"Throwable")
                    })
                || word == b"enabled" && value().is_some_and(|value| value.starts_with(b"false"))
        };
        let (_, word) = side.words(range.clone()).find(|(at, word)| skips(*at, word))?;
        let what = match word {
            b"Skip" | b"enabled" => format!("{} = …", text(word)),
            _ => text(word),
        };
        Some(Mark { what, at: range.start })
    };
    header.attributes.iter().filter_map(mark).collect()
}
