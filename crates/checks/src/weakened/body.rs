//! What a test does: its assertions as far as they are reached and their failure counts, and what ends it early.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::assertion::{self, Assertion};
use super::find::Mark;
use super::language::Language;
use super::side::{Side, indent};

/// What is known of a test's body.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Lines that do something.
    pub(super) statements: usize,
    /// The assertions that count.
    pub(super) asserts: Vec<Assertion>,
    /// Why others do not, and how many.
    pub(super) lost: Option<(&'static str, usize)>,
    /// What in it keeps it from being run to its end.
    pub(super) marks: Vec<Mark>,
    /// Whether something is done over and over.
    pub(super) loops: bool,
    /// The same for the same code, whatever the white space.
    pub(super) hash: u64,
}

/// A range that is never reached, or whose failures count for nothing, and why.
type Dead = (Range<usize>, &'static str);

/// Looks at what stands around tests.
pub(super) fn read(side: &Side, range: Range<usize>) -> Body {
    look(side, range, Vec::new())
}

/// Looks at the body of a test.
pub(super) fn of_test(side: &Side, range: Range<usize>) -> Body {
    let uncalled = if side.language == Language::Python { uncalled(side, range.clone()) } else { Vec::new() };
    look(side, range, uncalled)
}

fn look(side: &Side, range: Range<usize>, more: Vec<Dead>) -> Body {
    let mut dead = match side.language.by_indentation() {
        true => dead_by_indentation(side, range.clone()),
        false => dead_in_braces(side, range.clone()),
    };
    dead.extend(more);
    dead.sort_by_key(|(range, _)| range.start);
    let mut body = Body { statements: statements(side, range.clone()), ..Body::default() };
    let mut hasher = DefaultHasher::new();
    side.slice(range.clone()).split_whitespace().for_each(|word| word.hash(&mut hasher));
    body.hash = hasher.finish();
    let mut gone = Gone { dead: &dead, next: 0, until: 0, why: "" };
    let mut done = range.start;
    let mut before: &[u8] = b"";
    for (at, word) in side.words(range.clone()) {
        let previous = std::mem::replace(&mut before, word);
        let why = gone.at(at);
        if why.is_none() {
            body.loops |= matches!(
                word,
                b"for" | b"while" | b"each" | b"forEach" | b"subTest" | b"map" | b"times" | b"Run"
            );
            if let Some(what) = skip_word(side, at, word, previous) {
                body.marks.push(Mark { what, at });
            }
        }
        if at < done || !assertion::begins(side, at, word, previous) {
            continue;
        }
        let end = assertion::end(side, at, range.end);
        done = end;
        match why {
            Some(why) => body.lost = Some((why, body.lost.map_or(0, |(_, count)| count) + 1)),
            None => body.asserts.push(assertion::read(side, at, word, end)),
        }
    }
    if side.language == Language::Bats {
        body.asserts.extend(commands(side, range, &mut gone));
    }
    body
}

/// Looks up ascending places in ranges that are sorted by where they begin.
struct Gone<'a> {
    dead: &'a [Dead],
    next: usize,
    until: usize,
    why: &'static str,
}

impl Gone<'_> {
    fn at(&mut self, at: usize) -> Option<&'static str> {
        while let Some((range, why)) = self.dead.get(self.next).filter(|(range, _)| range.start <= at) {
            if range.end > self.until {
                (self.until, self.why) = (range.end, why);
            }
            self.next += 1;
        }
        (at < self.until).then_some(self.why)
    }
}

/// The commands of a shell that check something.
fn commands(side: &Side, range: Range<usize>, gone: &mut Gone<'_>) -> Vec<Assertion> {
    (gone.next, gone.until) = (0, 0);
    let mut found = Vec::new();
    for (at, line) in side.code_lines(range) {
        let Some(column) = indent(line) else { continue };
        let code = &line[column..];
        let checks = [&b"["[..], b"((", b"test ", b"grep ", b"diff ", b"cmp "]
            .iter()
            .any(|word| code.starts_with(word));
        if checks && gone.at(at + column).is_none() {
            found.push(assertion::read(side, at + column, b"[", at + line.len()));
        }
    }
    found
}

/// Lines that are more than brackets and words that do nothing.
fn statements(side: &Side, range: Range<usize>) -> usize {
    side.code_lines(range)
        .filter(|(_, line)| {
            let code = line.trim_ascii();
            code.iter().any(|byte| super::mask::is_word(*byte))
                && !matches!(code, b"pass" | b"return" | b"return;" | b"end")
        })
        .count()
}

/// What in a body ends it as skipped.
fn skip_word(side: &Side, at: usize, word: &[u8], previous: &[u8]) -> Option<String> {
    let called = || side.next_code(at + word.len()).is_some_and(|(_, byte)| byte == b'(');
    let behind = side.code[..at].last() == Some(&b'.');
    let skips = match side.language {
        Language::Python => match word {
            b"skip" | b"xfail" => called() && (!behind || previous == b"pytest"),
            b"skipTest" | b"SkipTest" | b"importorskip" => true,
            _ => false,
        },
        Language::Script => behind && matches!(word, b"skip" | b"todo") && called() && previous.len() <= 8,
        Language::Go => behind && matches!(word, b"Skip" | b"Skipf" | b"SkipNow") && called(),
        Language::Java => {
            matches!(word, b"assumeTrue" | b"assumeFalse" | b"assumeThat" | b"assumeNoException") && called()
                || word == b"abort" && previous == b"Assumptions"
        }
        Language::CSharp => {
            behind && matches!(word, b"Ignore" | b"Inconclusive" | b"Skip") && called()
                || matches!(word, b"If" | b"IfNot") && previous == b"Skip"
        }
        Language::Cpp => word == b"GTEST_SKIP" || word == b"SKIP" && called(),
        Language::Php => matches!(word, b"markTestSkipped" | b"markTestIncomplete"),
        Language::Swift => matches!(
            word,
            b"XCTSkip" | b"XCTSkipIf" | b"XCTSkipUnless" | b"XCTExpectFailure" | b"withKnownIssue"
        ),
        Language::Ruby => {
            matches!(word, b"skip" | b"pending") && starts_line(side, at) && !assigned(side, at + word.len())
        }
        Language::Bats => word == b"skip" && starts_line(side, at),
        Language::Rust => false,
    };
    let name = String::from_utf8_lossy(word);
    skips.then(|| {
        if behind { format!("{}.{name}", String::from_utf8_lossy(previous)) } else { name.into_owned() }
    })
}

fn starts_line(side: &Side, at: usize) -> bool {
    let before = side.code[..at].iter().rev().find(|byte| !matches!(byte, b' ' | b'\t'));
    before.is_none_or(|byte| *byte == b'\n')
}

fn assigned(side: &Side, after: usize) -> bool {
    side.next_code(after).is_some_and(|(_, byte)| byte == b'=')
}

/// Functions in a test of Python that it never names again.
fn uncalled(side: &Side, range: Range<usize>) -> Vec<Dead> {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    for (_, word) in side.words(range.clone()) {
        *counts.entry(word).or_default() += 1;
    }
    let mut found = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    let mut decorated = false;
    for (at, line) in side.code_lines(range.clone()) {
        let Some(column) = indent(line) else { continue };
        if let Some((_, begin)) = open.take_if(|(outer, _)| column <= *outer) {
            found.push((begin..at, UNCALLED));
        }
        let code = line[column..].trim_ascii_end();
        let code = code.strip_prefix(b"async ").unwrap_or(code);
        if let Some(rest) = code.strip_prefix(b"def ").filter(|_| !decorated && open.is_none()) {
            let length = rest.iter().position(|byte| !super::mask::is_word(*byte)).unwrap_or(rest.len());
            open = (counts.get(&rest[..length]) == Some(&1)).then_some((column, at));
        }
        decorated = code.starts_with(b"@");
    }
    found.extend(open.map(|(_, begin)| (begin..range.end, UNCALLED)));
    found
}

const UNCALLED: &str = "they are in a function that nobody calls";
const EARLY: &str = "it ends before them";
const NEVER: &str = "they are in a branch that is never taken";
const CONDITION: &str = "they are only compiled on a condition";
const SWALLOWED: &str = "their failure is swallowed";

/// Whether a line begins a block that is never run.
pub(super) fn never(language: Language, code: &[u8]) -> bool {
    let text: Vec<u8> = code.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(80).collect();
    match language {
        Language::Python => {
            let block = [
                "ifFalse:",
                "if0:",
                "ifNone:",
                "ifnotTrue:",
                "ifnot1:",
                "whileFalse:",
                "while0:",
                "if(False):",
                "ifTYPE_CHECKING:",
            ];
            block.iter().any(|block| text.starts_with(block.as_bytes()))
                || text.starts_with(b"for")
                    && [&b"in[]:"[..], b"in():", b"inrange(0):", b"in{}:"]
                        .iter()
                        .any(|end| super::mask::find(&text, end).is_some())
        }
        _ => text.starts_with(b"iffalse") || text == b"if0",
    }
}

fn always(code: &[u8]) -> bool {
    let text: Vec<u8> = code.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(16).collect();
    [&b"ifTrue:"[..], b"if1:", b"ifnotFalse:", b"if(True):", b"iftrue"]
        .iter()
        .any(|block| text.starts_with(block))
}

/// A block of lines that is open.
struct Open {
    column: usize,
    begin: usize,
    kind: Kind,
}

enum Kind {
    Dead(&'static str),
    Always,
    Try,
    /// What handles the failures of a range, as long as it does nothing with them.
    Quiet(Range<usize>),
}

fn dead_by_indentation(side: &Side, range: Range<usize>) -> Vec<Dead> {
    let mut dead = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut base = None;
    let mut tried: Option<(usize, Range<usize>)> = None;
    let mut depth = 0_usize;
    for (at, line) in side.code_lines(range.clone()) {
        let Some(column) = indent(line) else { continue };
        let code = line[column..].trim_ascii_end();
        let goes_on = depth > 0;
        depth = code.iter().fold(depth, |depth, byte| match byte {
            b'(' | b'[' | b'{' => depth + 1,
            b')' | b']' | b'}' => depth.saturating_sub(1),
            _ => depth,
        });
        if goes_on && side.language == Language::Python {
            continue;
        }
        let base = *base.get_or_insert(column);
        while let Some(last) = open.pop_if(|last| column <= last.column) {
            close(last, at, &mut dead, &mut tried);
        }
        let quiet = is_quiet(code);
        let always_around = matches!(open.last(), Some(Open { kind: Kind::Always, .. })) && open.len() == 1;
        if !quiet {
            open.retain(|open| !matches!(open.kind, Kind::Quiet(_)));
        }
        let at_once = column <= base
            && always(code)
            && code
                .iter()
                .position(|byte| *byte == b':')
                .is_some_and(|colon| ends(side, code[colon + 1..].trim_ascii_start()));
        if at_once || (column <= base || always_around) && ends(side, code) {
            dead.push((at + line.len()..range.end, EARLY));
        }
        let mut begin = |kind| open.push(Open { column, begin: at, kind });
        if never(side.language, code) {
            begin(Kind::Dead(NEVER));
        } else if column <= base && always(code) {
            begin(Kind::Always);
        } else if code.starts_with(b"with ")
            && side.words(at..at + line.len()).any(|(_, word)| word == b"suppress")
        {
            begin(Kind::Dead(SWALLOWED));
        } else if code == b"try:" || code == b"begin" {
            begin(Kind::Try);
        } else if code.starts_with(b"except") || code.starts_with(b"rescue") {
            let all = code == b"except:"
                || code == b"rescue"
                || side.words(at..at + line.len()).any(|(_, word)| {
                    matches!(word, b"Exception" | b"BaseException" | b"AssertionError" | b"StandardError")
                });
            let after =
                code.iter().position(|byte| *byte == b':').map_or(&b""[..], |colon| &code[colon + 1..]);
            if let Some((_, range)) = tried.clone().filter(|(of, _)| *of == column && all)
                && (after.is_empty() || is_quiet(after.trim_ascii()))
            {
                begin(Kind::Quiet(range));
            }
        }
    }
    while let Some(last) = open.pop() {
        close(last, range.end, &mut dead, &mut tried);
    }
    dead
}

fn close(open: Open, at: usize, dead: &mut Vec<Dead>, tried: &mut Option<(usize, Range<usize>)>) {
    match open.kind {
        Kind::Dead(why) => dead.push((open.begin..at, why)),
        Kind::Try => *tried = Some((open.column, open.begin..at)),
        Kind::Quiet(range) => dead.push((range, SWALLOWED)),
        Kind::Always => {}
    }
}

/// Whether a line of a handler lets the failure go.
fn is_quiet(code: &[u8]) -> bool {
    matches!(code, b"pass" | b"..." | b"continue" | b"end" | b"nil")
        || code.starts_with(b"return")
        || code.starts_with(b"print(")
        || code.starts_with(b"log")
}

/// Whether a line ends the test, or the whole run.
fn ends(side: &Side, code: &[u8]) -> bool {
    let word = |word: &[u8]| {
        code.strip_prefix(word)
            .is_some_and(|rest| rest.first().is_none_or(|byte| !super::mask::is_word(*byte)))
    };
    let quits = [&b"sys.exit("[..], b"os._exit(", b"exit(", b"quit(", b"exit 0"]
        .iter()
        .any(|word| code.starts_with(word));
    let conditional = side.language == Language::Ruby && super::mask::find(code, b" if ").is_some();
    // What comes after a semicolon is a statement, too.
    let later = side.language == Language::Python
        && code
            .iter()
            .position(|byte| *byte == b';')
            .is_some_and(|at| ends(side, code[at + 1..].trim_ascii_start()));
    let yields = side.language == Language::Python && (code == b"yield" || code.starts_with(b"yield "));
    (word(b"return") || quits || later || yields || side.language == Language::Ruby && word(b"next"))
        && !conditional
}

fn dead_in_braces(side: &Side, range: Range<usize>) -> Vec<Dead> {
    let mut dead = Vec::new();
    let (mut braces, mut parens) = (0_usize, 0_usize);
    let mut at = range.start;
    while at < range.end {
        let byte = side.code[at];
        if !super::mask::is_word(byte) {
            match byte {
                b'{' => braces += 1,
                b'}' => braces = braces.saturating_sub(1),
                b'(' | b'[' => parens += 1,
                b')' | b']' => parens = parens.saturating_sub(1),
                _ => {}
            }
            at += 1;
            continue;
        }
        let Some((_, word)) = side.words(at..range.end).next() else { break };
        let after = at + word.len();
        let outermost = braces == 0 && parens == 0;
        at = match word {
            b"return" if outermost => {
                let end = side.statement_end(after, range.end);
                dead.push((end..range.end, EARLY));
                break;
            }
            b"exit" | b"Exit" | b"_exit" if braces == 0 && quits(side, after) => {
                dead.push((after..range.end, EARLY));
                break;
            }
            b"if" | b"while" | b"for" | b"else" => {
                let (condition, then) = condition(side, word, after, range.end);
                let block = side.next_code(then).filter(|(next, byte)| *byte == b'{' && *next < range.end);
                let end = match block {
                    Some((open, _)) => side.closing(open, range.end),
                    // What it decides on is read next.
                    None if word == b"else" => then,
                    None => side.statement_end(then, range.end),
                };
                let falsified = condition.ends_with(b"&&false") || condition.starts_with(b"false&&");
                match condition.as_slice() {
                    _ if falsified && matches!(word, b"if" | b"while") => {
                        dead.push((then..end, NEVER));
                        end.max(after)
                    }
                    b"false" | b"0" | b"!true" | b"!1" if matches!(word, b"if" | b"while") => {
                        dead.push((then..end, NEVER));
                        end.max(after)
                    }
                    b"true" | b"1" if word == b"if" && outermost => {
                        let first = side.words(then..end).next();
                        if first.is_some_and(|(_, word)| word == b"return") {
                            dead.push((then..range.end, EARLY));
                            break;
                        }
                        then.max(after)
                    }
                    // What is done on a condition alone does not end the rest.
                    _ if block.is_none() && word != b"else" => end.max(after),
                    _ => then.max(after),
                }
            }
            b"try" | b"do" => {
                if let Some(tried) = swallowed(side, after, range.end) {
                    dead.push((tried, SWALLOWED));
                }
                after
            }
            b"cfg" if side.language == Language::Rust && side.code[..at].ends_with(b"#[") => {
                let close = side.closing(at - 1, range.end);
                let first = side.next_code(close + 1).map_or(range.end, |(first, _)| first.min(range.end));
                dead.push((close..side.statement_end(first, range.end), CONDITION));
                parens = parens.saturating_sub(1);
                close.max(after) + 1
            }
            b"catch_unwind" => {
                if let Some((open, b'(')) = side.next_code(after) {
                    dead.push((open..side.closing(open, range.end), SWALLOWED));
                }
                after
            }
            _ => after,
        };
    }
    dead
}

/// The condition of an `if` without its white space, and where what it decides on begins.
fn condition(side: &Side, word: &[u8], after: usize, limit: usize) -> (Vec<u8>, usize) {
    /// Longer ones are no constants.
    const LONGEST: usize = 200;
    if word == b"else" {
        return (Vec::new(), after);
    }
    let (inside, then) = match side.next_code(after) {
        Some((open, b'(')) => {
            let close = side.closing(open, limit);
            (open + 1..close, (close + 1).min(limit))
        }
        _ => {
            let near = limit.min(after + LONGEST);
            let open = side.code[after..near]
                .iter()
                .position(|byte| *byte == b'{')
                .map_or(after, |ahead| after + ahead);
            (after..open, open)
        }
    };
    let inside = inside.start..inside.end.min(inside.start + LONGEST);
    let text = side.code.get(inside).unwrap_or_default();
    (text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect(), then)
}

/// `(0)`.
fn quits(side: &Side, after: usize) -> bool {
    let text: Vec<u8> =
        side.code[after..].iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(3).collect();
    text == b"(0)" || text.starts_with(b"()")
}

/// The block of a `try` whose `catch` does nothing.
fn swallowed(side: &Side, after: usize, limit: usize) -> Option<Range<usize>> {
    let (open, _) = side.next_code(after).filter(|(_, byte)| *byte == b'{')?;
    let close = side.closing(open, limit);
    let (at, word) = side.words(close..limit).next()?;
    if word != b"catch" || side.next_code(close + 1)?.0 != at {
        return None;
    }
    let mut then = at + word.len();
    if let Some((paren, b'(')) = side.next_code(then) {
        then = side.closing(paren, limit) + 1;
    }
    let (handler, _) = side.next_code(then).filter(|(_, byte)| *byte == b'{')?;
    let inside = side.code.get(handler + 1..side.closing(handler, limit))?.trim_ascii();
    (inside.is_empty() || matches!(inside, b"return;" | b"return" | b";")).then_some(open..close)
}
