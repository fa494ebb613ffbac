//! Rust: functions with an attribute that makes them tests, and the modules around them.

use std::ops::Range;

use super::{Block, Found, Mark, Test, scope, text};
use crate::weakened::mask::is_word;
use crate::weakened::side::Side;

/// Longest condition of an attribute that is told.
const MAX_CONDITION: usize = 80;

pub(super) fn find(side: &Side) -> Found {
    let mut found = Found::default();
    let mut attributes: Vec<Range<usize>> = Vec::new();
    // Where the modules around end, and their scopes.
    let mut around: Vec<(usize, u64)> = Vec::new();
    let end = side.code.len();
    let mut at = 0;
    while at < end {
        let byte = side.code[at];
        while around.last().is_some_and(|(end, _)| *end <= at) {
            around.pop();
        }
        if byte == b'#' {
            let inner = side.code.get(at + 1) == Some(&b'!');
            let open = at + 1 + usize::from(inner);
            if side.code.get(open) == Some(&b'[') {
                let close = side.closing(open, end);
                if inner {
                    let range = at..around.last().map_or(end, |(end, _)| *end);
                    let marks: Vec<Mark> = mark(side, open + 1..close, at).into_iter().collect();
                    if !marks.is_empty() {
                        found.blocks.push(Block { range, marks });
                    }
                } else {
                    attributes.push(at..close);
                }
                at = close;
            }
            at += 1;
        } else if is_word(byte) {
            let Some((_, word)) = side.words(at..end).next() else { break };
            let after = at + word.len();
            at = match word {
                b"fn" => function(side, after, &mut attributes, &around, &mut found),
                b"mod" => module(side, after, &mut attributes, &mut around, &mut found),
                b"macro_rules" => {
                    let open = side.code[after..].iter().position(|byte| matches!(byte, b'{' | b';'));
                    open.map_or(end, |open| side.closing(after + open, after + open) + 1)
                }
                _ => after,
            };
        } else {
            if matches!(byte, b'{' | b'}' | b';') {
                attributes.clear();
            }
            at += 1;
        }
    }
    found
}

/// A function: a test by its attributes. Gives where to go on.
fn function(
    side: &Side,
    from: usize,
    attributes: &mut Vec<Range<usize>>,
    around: &[(usize, u64)],
    found: &mut Found,
) -> usize {
    let end = side.code.len();
    if side.next_code(from).is_none_or(|(_, byte)| !is_word(byte)) {
        // The type of a function.
        return from;
    }
    let attributes = std::mem::take(attributes);
    let Some((name_at, name)) = side.words(from..end).next() else { return end };
    // Arguments and types may have semicolons and braces in brackets of theirs.
    let mut open = name_at + name.len();
    while let Some(byte) = side.code.get(open) {
        match byte {
            b'(' | b'[' => open = side.closing(open, end),
            b'{' | b';' | b'}' => break,
            _ => {}
        }
        open += 1;
    }
    if side.code.get(open) != Some(&b'{') {
        return open + 1;
    }
    let close = side.closing(open, end);
    let paths = || attributes.iter().map(|range| path(side, range.start + 2));
    let is_test = paths().any(|path| {
        let last = path.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        matches!(
            last,
            b"test" | b"rstest" | b"test_case" | b"proptest" | b"quickcheck" | b"wasm_bindgen_test"
        )
    });
    if is_test {
        found.tests.push(Test {
            name: text(name),
            scope: around.last().map_or(0, |(_, scope)| *scope),
            at: name_at,
            begin: attributes.first().map_or(name_at, |range| range.start),
            body: open + 1..close,
            marks: attributes
                .iter()
                .filter_map(|range| mark(side, range.start + 2..range.end, range.start))
                .collect(),
            table: paths().any(|path| matches!(path, b"rstest" | b"case" | b"test_case")),
        });
    } else {
        found.functions.insert(text(name));
    }
    close + 1
}

/// A module, here or in a file of its own. Gives where to go on.
fn module(
    side: &Side,
    from: usize,
    attributes: &mut Vec<Range<usize>>,
    around: &mut Vec<(usize, u64)>,
    found: &mut Found,
) -> usize {
    let end = side.code.len();
    let attributes = std::mem::take(attributes);
    let Some((name_at, name)) = side.words(from..end).next() else { return end };
    let after = name_at + name.len();
    let marks: Vec<Mark> =
        attributes.iter().filter_map(|range| mark(side, range.start + 2..range.end, range.start)).collect();
    match side.next_code(after) {
        Some((open, b'{')) => {
            let close = side.closing(open, end);
            let outer = around.last().map_or(0, |(_, scope)| *scope);
            around.push((close, scope(outer, &text(name))));
            if !marks.is_empty() {
                found.blocks.push(Block { range: open..close, marks });
            }
            open + 1
        }
        Some((_, b';')) => {
            found.modules.insert(text(name));
            if !marks.is_empty() && name.windows(4).any(|part| part == b"test") {
                found.blocks.push(Block { range: 0..end, marks });
            }
            after + 1
        }
        _ => after,
    }
}

/// The path that an attribute begins with.
fn path(side: &Side, from: usize) -> &[u8] {
    let rest = side.code.get(from..).unwrap_or_default().trim_ascii_start();
    &rest[..rest.iter().position(|byte| !is_word(*byte) && *byte != b':').unwrap_or(rest.len())]
}

/// What an attribute does to the tests below it.
fn mark(side: &Side, inside: Range<usize>, at: usize) -> Option<Mark> {
    let has = |wanted: &[u8]| side.words(inside.clone()).any(|(_, word)| word == wanted);
    let what = match path(side, inside.start) {
        b"ignore" => "#[ignore]".to_owned(),
        b"should_panic" => "#[should_panic]".to_owned(),
        b"cfg_attr" if has(b"ignore") => "#[cfg_attr(…, ignore)]".to_owned(),
        b"cfg_attr" if has(b"should_panic") => "#[cfg_attr(…, should_panic)]".to_owned(),
        b"cfg" => {
            let condition: String = side
                .slice(inside)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(MAX_CONDITION)
                .collect();
            if condition.replace(' ', "") == "cfg(test)" {
                return None;
            }
            format!("#[{condition}]")
        }
        _ => return None,
    };
    Some(Mark { what, at })
}
