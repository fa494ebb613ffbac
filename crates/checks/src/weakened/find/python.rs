//! Python: functions whose names begin with `test`, at the top or in a class that runners collect.

use std::collections::{HashMap, HashSet};

use super::{Block, Found, Mark, Test, scope, text};
use crate::weakened::body;
use crate::weakened::mask::is_word;
use crate::weakened::side::{Side, indent};

/// What a line stands in.
struct Around {
    indent: usize,
    kind: Kind,
    scope: u64,
    begin: usize,
    marks: Vec<Mark>,
}

#[derive(PartialEq, Eq)]
enum Kind {
    /// A class whose functions are tests.
    Collected,
    /// A class whose functions are none.
    Other,
    Function,
    /// What is never run.
    Dead,
}

pub(super) fn find(side: &Side) -> Found {
    let mut found = Found::default();
    let mut around: Vec<Around> = Vec::new();
    // Where the decorators above a line begin, and their marks.
    let (mut begun, mut marks, mut table) = (None, Vec::new(), false);
    // The test whose block is under way, and how far it is indented.
    let mut open: Option<(usize, usize)> = None;
    let mut last: HashMap<(u64, String), usize> = HashMap::new();
    let mut dropped: HashSet<usize> = HashSet::new();
    let mut depth = 0_usize;
    let mut decorator = false;
    for (at, line) in side.code_lines(0..side.code.len()) {
        let Some(column) = indent(line) else { continue };
        let code = &line[column..];
        let begins = [&b"def "[..], b"class ", b"@", b"async def "].iter().any(|word| code.starts_with(word));
        if column == 0 && begins {
            // Whatever was left open above, this is a new statement.
            depth = 0;
        }
        let goes_on = depth > 0;
        depth = code.iter().fold(depth, |depth, byte| match byte {
            b'(' | b'[' | b'{' => depth + 1,
            b')' | b']' | b'}' => depth.saturating_sub(1),
            _ => depth,
        });
        if goes_on {
            if decorator {
                marks.extend(decorator_mark(side, at, at + line.len(), None));
            }
            continue;
        }
        decorator = false;
        if let Some((index, _)) = open.take_if(|(_, outer)| column <= *outer) {
            let test: &mut Test = &mut found.tests[index];
            test.body.end = at;
        }
        while around.last().is_some_and(|outer| column <= outer.indent) {
            if let Some(Around { begin, marks, .. }) = around.pop().filter(|outer| !outer.marks.is_empty()) {
                found.blocks.push(Block { range: begin..at, marks });
            }
        }
        let outer = around.last().map_or(0, |outer| outer.scope);
        if code.starts_with(b"@") {
            decorator = true;
            begun.get_or_insert(at);
            let path = path_end(&line[column + 1..]) + column + 1;
            table |= line[column..].windows(11).any(|window| window == b"parametrize");
            marks.extend(decorator_mark(side, at + column + 1, at + line.len(), Some(at + path)));
            continue;
        }
        let (begin, marks, table) =
            (begun.take().unwrap_or(at), std::mem::take(&mut marks), std::mem::take(&mut table));
        let rest = code.strip_prefix(b"async ").unwrap_or(code).trim_ascii_start();
        if let Some(rest) = rest.strip_prefix(b"def ") {
            let name = name(rest);
            let nested = around.iter().any(|outer| matches!(outer.kind, Kind::Function | Kind::Dead));
            let collected = around.last().is_none_or(|outer| outer.kind == Kind::Collected);
            if name.starts_with(b"test") && !nested && collected {
                let name = text(name);
                let header = at + line.len() - rest.len();
                let body = header_end(side, header)..side.code.len();
                // Of two in one place the second is the one that is run.
                if let Some(before) = last.insert((outer, name.clone()), found.tests.len()) {
                    dropped.insert(before);
                }
                open = Some((found.tests.len(), column));
                found.tests.push(Test { name, scope: outer, at: at + column, begin, body, marks, table });
            } else {
                found.functions.insert(text(name));
            }
            around.push(Around {
                indent: column,
                kind: Kind::Function,
                scope: outer,
                begin,
                marks: Vec::new(),
            });
        } else if let Some(rest) = code.strip_prefix(b"class ") {
            let name = name(rest);
            let test = |part: &[u8]| part.windows(4).any(|window| window == b"Test");
            let kind = if test(code) || name.ends_with(b"Case") { Kind::Collected } else { Kind::Other };
            let scope = scope(outer, &text(name));
            around.push(Around { indent: column, kind, scope, begin, marks });
        } else if body::never(side.language, code) {
            around.push(Around { indent: column, kind: Kind::Dead, scope: outer, begin, marks: Vec::new() });
        } else if open.is_none() {
            for name in unbound(code) {
                dropped.extend(last.remove(&(outer, text(name))));
            }
        }
    }
    for Around { begin, marks, .. } in around.into_iter().filter(|outer| !outer.marks.is_empty()) {
        found.blocks.push(Block { range: begin..side.code.len(), marks });
    }
    let mut index = 0;
    found.tests.retain(|_| {
        index += 1;
        !dropped.contains(&(index - 1))
    });
    found
}

/// What `del a, b` and `a = …` take away.
fn unbound(code: &[u8]) -> Vec<&[u8]> {
    if let Some(names) = code.strip_prefix(b"del ") {
        return names.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    }
    let name = name(code);
    let rest = code[name.len()..].trim_ascii_start();
    let assigned = name.starts_with(b"test") && rest.starts_with(b"=") && !rest.starts_with(b"==");
    if assigned { vec![name] } else { Vec::new() }
}

fn name(code: &[u8]) -> &[u8] {
    let code = code.trim_ascii_start();
    &code[..code.iter().position(|byte| !is_word(*byte)).unwrap_or(code.len())]
}

/// Where the words and dots of a decorator end.
fn path_end(code: &[u8]) -> usize {
    code.iter().position(|byte| !is_word(*byte) && *byte != b'.').unwrap_or(code.len())
}

/// The mark in a decorator: its path, where that is what skips, or the word in its arguments.
fn decorator_mark(side: &Side, from: usize, to: usize, path: Option<usize>) -> Option<Mark> {
    let (at, word) = side.words(from..to).find(|(_, word)| {
        word.starts_with(b"skip") || matches!(*word, b"xfail" | b"expectedFailure" | b"flaky")
    })?;
    let what = match path.filter(|end| at < *end) {
        Some(end) => side.slice(from..end).to_owned(),
        None => text(word),
    };
    Some(Mark { what, at })
}

/// Where the colon of a function's first line stands, after its arguments.
fn header_end(side: &Side, from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = side.code.get(at) {
        match byte {
            b'(' | b'[' | b'{' => at = side.closing(at, side.code.len()),
            b':' => return at + 1,
            b'\n' => return at,
            _ => {}
        }
        at += 1;
    }
    side.code.len()
}
