//! The cases that a test is run with: the rows of its table, where one is written with it. A table that is shorter than it
//! was asks for less, though every assertion is still there.

use std::ops::Range;

use super::language::Language;
use super::side::Side;

/// How many cases a test has, with what is written above it; nothing where it has no table.
pub(super) fn count(side: &Side, above: Range<usize>, body: Range<usize>) -> Option<usize> {
    let header = above.start..body.start.max(above.start);
    let mut told = None;
    for (at, word) in side.words(header.clone()) {
        let rows = match (side.language, word) {
            (Language::Python, b"parametrize") | (Language::Script, b"each" | b"for") => {
                list_in_call(side, at + word.len(), header.end)
            }
            (Language::Java, b"ValueSource" | b"CsvSource" | b"EnumSource") => {
                list_in_call(side, at + word.len(), header.end)
            }
            (Language::CSharp, b"InlineData" | b"DataRow" | b"TestCase")
            | (Language::Rust, b"case" | b"test_case") => Some(1),
            _ => None,
        };
        if let Some(rows) = rows {
            *told.get_or_insert(0) += rows;
        }
    }
    told.or_else(|| lines(side, body))
}

/// The elements of the first list in the arguments of a call.
fn list_in_call(side: &Side, after: usize, limit: usize) -> Option<usize> {
    let (open, _) = side.next_code(after).filter(|(at, byte)| *byte == b'(' && *at < limit)?;
    let close = side.closing(open, limit);
    // The names of the arguments can be a list, too: the last one has the values.
    let mut list = None;
    let mut at = open + 1;
    while at < close {
        if matches!(side.code[at], b'[' | b'{') {
            list.get_or_insert(at);
            if side.language == Language::Python {
                list = Some(at);
            }
            at = side.closing(at, close);
        } else if side.code[at] == b'(' {
            at = side.closing(at, close);
        }
        at += 1;
    }
    let list = list?;
    Some(elements(side, list + 1..side.closing(list, close)))
}

fn elements(side: &Side, range: Range<usize>) -> usize {
    let (mut count, mut begun, mut at) = (0, false, range.start);
    while at < range.end {
        match side.code[at] {
            b'(' | b'[' | b'{' => {
                begun = true;
                at = side.closing(at, range.end);
            }
            b',' => {
                count += usize::from(begun);
                begun = false;
            }
            // Strings are blanked out, so what stands there is asked of the text.
            _ => begun |= side.text.as_bytes().get(at).is_some_and(|byte| !byte.is_ascii_whitespace()),
        }
        at += 1;
    }
    count + usize::from(begun)
}

/// Lines of a body that are a row by themselves: `{1, "one"},`.
fn lines(side: &Side, body: Range<usize>) -> Option<usize> {
    let row = |line: &[u8]| {
        let code = line.trim_ascii();
        matches!(code.first(), Some(b'(' | b'[' | b'{')) && code.len() > 1 && code.ends_with(b",")
    };
    let count = side.code_lines(body).filter(|(_, line)| row(line)).count();
    (count > 0).then_some(count)
}
