//! JavaScript and TypeScript: tests are calls with a name and a function, `it("adds up", () => { … })`.

use super::{Block, Found, Mark, Test, scope, text};
use crate::weakened::mask;
use crate::weakened::side::Side;

/// How far the function of a test is looked for behind its name.
const HEADER: usize = 600;
/// Longest name that is told.
const MAX_NAME: usize = 200;

/// What a call makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    Test,
    Suite,
}

pub(super) fn find(side: &Side) -> Found {
    let mut found = Found::default();
    let mut around: Vec<(usize, u64)> = Vec::new();
    let end = side.code.len();
    let mut from = 0;
    while let Some((at, word)) = side.words(from..end).next() {
        from = at + word.len();
        while around.last().is_some_and(|(end, _)| *end <= at) {
            around.pop();
        }
        if matches!(word, b"function" | b"const" | b"let") {
            found.functions.extend(side.words(from..end).next().map(|(_, name)| text(name)));
            continue;
        }
        let Some((makes, own)) = runner(word).filter(|_| !behind_a_dot(side, at)) else { continue };
        let Some(call) = call(side, at, word, own) else { continue };
        found.only.extend(call.only);
        let outer = around.last().map_or(0, |(_, scope)| *scope);
        if makes == Makes::Suite {
            around.push((call.close, scope(outer, &call.name)));
            if !call.marks.is_empty() {
                found.blocks.push(Block { range: at..call.close, marks: call.marks });
            }
            from = call.body.start;
        } else {
            from = call.body.end.max(from);
            let Call { name, body, marks, table, .. } = call;
            found.tests.push(Test { name, scope: outer, at, begin: at, body, marks, table });
        }
    }
    found
}

/// What this word makes, and the mark that it is by itself.
fn runner(word: &[u8]) -> Option<(Makes, Option<&'static str>)> {
    Some(match word {
        b"it" | b"test" | b"specify" => (Makes::Test, None),
        b"describe" | b"context" | b"suite" => (Makes::Suite, None),
        b"xit" => (Makes::Test, Some("xit")),
        b"xtest" => (Makes::Test, Some("xtest")),
        b"xspecify" => (Makes::Test, Some("xspecify")),
        b"xdescribe" => (Makes::Suite, Some("xdescribe")),
        b"xcontext" => (Makes::Suite, Some("xcontext")),
        b"fit" => (Makes::Test, Some("fit")),
        b"ftest" => (Makes::Test, Some("ftest")),
        b"fdescribe" => (Makes::Suite, Some("fdescribe")),
        _ => return None,
    })
}

fn behind_a_dot(side: &Side, at: usize) -> bool {
    side.code[..at].last().is_some_and(|byte| matches!(byte, b'.' | b'$'))
}

struct Call {
    name: String,
    marks: Vec<Mark>,
    only: Vec<Mark>,
    table: bool,
    body: std::ops::Range<usize>,
    close: usize,
}

/// Reads `it.skip.each(table)("name", { todo: true }, () => { … })` from its first word on.
fn call(side: &Side, at: usize, word: &[u8], own: Option<&'static str>) -> Option<Call> {
    let end = side.code.len();
    let (mut marks, mut only) = (Vec::new(), Vec::new());
    if let Some(own) = own {
        let list = if own.starts_with('f') { &mut only } else { &mut marks };
        list.push(Mark { what: own.to_owned(), at });
    }
    let line = &side.code[side.line_begin(at)..at];
    // Of a line without end only what is near is looked at, each time.
    let line = if line.len() > HEADER { &[][..] } else { line };
    if line.trim_ascii_start().starts_with(b"if") && line.trim_ascii_end().ends_with(b")") {
        marks.push(Mark { what: "if (…)".to_owned(), at });
    }
    let mut table = false;
    let mut after = at + word.len();
    let open = loop {
        match side.next_code(after)? {
            (dot, b'.') => {
                let (word_at, modifier) = side.words(dot..end).next().filter(|(word, _)| *word == dot + 1)?;
                after = word_at + modifier.len();
                let what = || Mark { what: format!("{}.{}", text(word), text(modifier)), at };
                match modifier {
                    b"only" => only.push(what()),
                    b"skip" | b"todo" | b"fixme" | b"failing" | b"fails" | b"skipIf" | b"todoIf"
                    | b"runIf" => {
                        marks.push(what());
                    }
                    b"each" | b"for" | b"table" => table = true,
                    _ => {}
                }
            }
            (open, b'(') => {
                let close = side.closing(open, end);
                // A table or a condition comes before the call.
                match side.next_code(close + 1) {
                    Some((_, b'(')) if after > at + word.len() => after = close + 1,
                    _ => break open,
                }
            }
            _ => return None,
        }
    };
    let close = side.closing(open, end);
    let name = name(side, open, close)?;
    let header = close.min(open + HEADER);
    let code = &side.code[open..header];
    let arrow = mask::find(code, b"=>").map(|at| at + 2);
    let function =
        side.words(open..header).find(|(_, word)| *word == b"function").map(|(at, _)| at - open + 8);
    let begins = [arrow, function].into_iter().flatten().min();
    let options = begins.map_or(header, |begins| open + begins);
    marks.extend(option_mark(side, open, options));
    let body = match begins.map(|begins| open + begins) {
        Some(from) => {
            let block = if arrow.map(|arrow| open + arrow) == Some(from) {
                side.next_code(from).filter(|(_, byte)| *byte == b'{').map(|(at, _)| at)
            } else {
                let near = &side.code[from..close.min(from + HEADER)];
                near.iter().position(|byte| *byte == b'{').map(|ahead| from + ahead)
            };
            block.map_or(from..close, |block| block + 1..side.closing(block, close))
        }
        // A name alone is a test that is still to be written; otherwise the function is elsewhere.
        None => close..close,
    };
    if begins.is_some_and(|begins| gives_back_a_function(side, open + begins, close)) {
        marks.push(Mark { what: "it gives back a function that nobody calls".to_owned(), at });
    }
    if begins.is_none() && !code.contains(&b',') {
        marks.push(Mark { what: "it has no function".to_owned(), at });
    }
    Some(Call { name, marks, only, table, body, close })
}

/// Whether what a test does is to make a function, as `() => () => { … }` does.
fn gives_back_a_function(side: &Side, from: usize, close: usize) -> bool {
    let Some((mut at, mut byte)) = side.next_code(from).filter(|(at, _)| *at < close) else { return false };
    if byte == b'(' {
        // In brackets it is the same.
        match side.next_code(side.closing(at, close) + 1) {
            Some((next, b'=')) => return side.code[next..close].starts_with(b"=>"),
            _ => match side.next_code(at + 1) {
                Some((next, first)) => (at, byte) = (next, first),
                None => return false,
            },
        }
    }
    if byte == b'(' {
        let next = side.next_code(side.closing(at, close) + 1);
        return next.is_some_and(|(next, _)| next < close && side.code[next..close].starts_with(b"=>"));
    }
    let Some((word_at, word)) = side.words(at..close).next().filter(|(word, _)| *word == at) else {
        return false;
    };
    match word {
        b"function" => true,
        b"async" => gives_back_a_function(side, word_at + word.len(), close),
        _ => side
            .next_code(word_at + word.len())
            .is_some_and(|(next, _)| next < close && side.code[next..close].starts_with(b"=>")),
    }
}

/// The name of a test: its first argument.
fn name(side: &Side, open: usize, close: usize) -> Option<String> {
    let inside = side.text.get(open + 1..close)?;
    let inside = &inside[..inside.floor_char_boundary(HEADER)];
    let trimmed = inside.trim_start();
    let quote = trimmed.chars().next()?;
    let name = if matches!(quote, '"' | '\'' | '`') {
        trimmed[1..].split(quote).next()?
    } else {
        // A name that is computed, or a function's; something follows it.
        let (name, _) = trimmed.split_once(',')?;
        name.chars().all(|c| c.is_alphanumeric() || "_.$".contains(c)).then_some(name)?
    };
    Some(name.chars().take(MAX_NAME).collect())
}

/// `{ skip: true }` and its like between the name and the function.
fn option_mark(side: &Side, from: usize, to: usize) -> Option<Mark> {
    side.words(from..to).find_map(|(at, word)| {
        if !matches!(word, b"skip" | b"todo" | b"fails" | b"fixme" | b"retry" | b"retries") {
            return None;
        }
        let value =
            side.code.get(at + word.len()..to)?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        (!value.starts_with(b"false") && !value.starts_with(b"0"))
            .then(|| Mark { what: format!("{}: …", text(word)), at })
    })
}
