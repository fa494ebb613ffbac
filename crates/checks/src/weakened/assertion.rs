//! One assertion: where it begins and ends, and how much it asks for.

use super::language::Language;
use super::mask::{self, is_word};
use super::side::Side;
use super::slack;

/// Longest text of an assertion that is kept.
const MAX_TEXT: usize = 300;

/// How much an assertion asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// It cannot fail.
    Nothing,
    /// That there is something, or that it is true.
    Some,
    /// That it is within something: greater, other, containing.
    Related,
    /// That it is what is expected.
    Exact,
}

#[derive(Debug, Clone)]
pub(super) struct Assertion {
    /// Its text on one line.
    pub(super) text: String,
    /// What it is about.
    pub(super) subject: String,
    pub(super) strength: Strength,
    /// How far off it may be, where it says so with a number.
    pub(super) slack: Option<f64>,
    pub(super) line: u32,
}

/// Beginnings of the names of what checks something.
pub(super) const NAMES: [&str; 10] =
    ["assert", "expect", "verify", "ensure", "check", "require", "refute", "should", "fail", "must"];
/// What may stand before such a name.
const PREFIXES: [&str; 9] = ["debug_", "prop_", "ck_", "cr_", "g_", "xct", "test_", "tap_", "static_"];

/// Whether a word begins an assertion.
pub(super) fn begins(side: &Side, at: usize, word: &[u8], previous: &[u8]) -> bool {
    let next = side.code.get(at + word.len()).copied().unwrap_or(b'\n');
    let behind = side.code[..at].last().copied().unwrap_or(b'\n');
    let declared = matches!(
        previous,
        b"def" | b"fn" | b"func" | b"function" | b"fun" | b"import" | b"from" | b"use" | b"void"
    );
    if declared || word.len() > 60 {
        return false;
    }
    match side.language {
        Language::Python if word == b"assert" => return !matches!(next, b'=' | b'.' | b','),
        Language::Python if matches!(word, b"raises" | b"warns") => return next == b'(',
        Language::Go if behind == b'.' => {
            if matches!(word, b"Error" | b"Errorf" | b"Fatal" | b"Fatalf" | b"Fail" | b"FailNow") {
                return previous.len() <= 2 && next == b'(';
            }
        }
        Language::Rust if word == b"panic" => return next == b'!',
        Language::Script if behind == b'.' && previous == b"t" => {
            const OTHER: [&[u8]; 16] = [
                b"plan",
                b"end",
                b"pass",
                b"comment",
                b"log",
                b"teardown",
                b"test",
                b"context",
                b"timeout",
                b"skip",
                b"todo",
                b"diagnostic",
                b"after",
                b"before",
                b"mock",
                b"name",
            ];
            return next == b'(' && !OTHER.contains(&word);
        }
        _ => {}
    }
    if !named(word) {
        return false;
    }
    // What only says how many there will be checks nothing by itself.
    let counts = next == b'.'
        && side.words(at + word.len()..side.code.len()).next().is_some_and(|(_, next)| {
            matches!(
                next,
                b"assertions" | b"hasAssertions" | b"extend" | b"objectContaining" | b"any" | b"anything"
            )
        });
    let called =
        matches!(next, b'(' | b'!' | b'.') || matches!(side.language, Language::Ruby | Language::Bats);
    let imported = side.language == Language::Script && matches!(previous, b"const" | b"let");
    called && !counts && !imported
}

/// Whether a name is that of something that checks.
fn named(word: &[u8]) -> bool {
    let word = String::from_utf8_lossy(word);
    let word = word.trim_start_matches('_');
    let lower = word.to_ascii_lowercase();
    let plain = PREFIXES.iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(&lower);
    let skipped = lower.len() - plain.len();
    NAMES.iter().any(|name| {
        plain.starts_with(name) && {
            let next = word.as_bytes().get(skipped + name.len()).copied().unwrap_or(b'_');
            // `checkout` is another word, `check_out` and `checkTotal` are not; C++ shouts.
            !next.is_ascii_lowercase() || *name == "assert"
        }
    })
}

/// Where an assertion ends.
pub(super) fn end(side: &Side, at: usize, limit: usize) -> usize {
    side.statement_end(at, limit).max(at + 1)
}

/// Reads an assertion.
pub(super) fn read(side: &Side, at: usize, word: &[u8], end: usize) -> Assertion {
    let end = end.min(at + 4 * MAX_TEXT);
    let raw = side.slice(at..end);
    let raw = if raw.is_empty() { side.line_text(at) } else { raw };
    let text: String = raw.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_TEXT).collect();
    let line = side.number(at);
    if let Some(guard) = guard(side, at).filter(|_| by_condition(side.language, word)) {
        return guarded(&guard, &text, line);
    }
    let parts = Parts::of(side, at, word, end);
    let strength = strength(side, &parts, at, word, end);
    let slack = slack::of(&parts, &text);
    Assertion { text, subject: parts.subject(), strength, slack, line }
}

/// Whether a word fails without a condition of its own, so that what stands around it decides.
fn by_condition(language: Language, word: &[u8]) -> bool {
    match language {
        Language::Go => matches!(word, b"Error" | b"Errorf" | b"Fatal" | b"Fatalf" | b"Fail" | b"FailNow"),
        Language::Rust => word == b"panic",
        _ => word == b"fail",
    }
}

/// The condition on which a statement is reached, where it is the first of its block: `got != 3` of `if got != 3 {`.
fn guard(side: &Side, at: usize) -> Option<String> {
    let before = side.code[..at].trim_ascii_end();
    let before = before.strip_suffix(b".").map_or(before, |before| {
        let owner = before.iter().rev().take_while(|byte| is_word(**byte)).count();
        before[..before.len() - owner].trim_ascii_end()
    });
    let open = before.len().checked_sub(1).filter(|open| matches!(before[*open], b'{' | b':'))?;
    let begin = side.line_begin(open);
    if open - begin > MAX_TEXT {
        return None;
    }
    let line = side.slice(begin..open).trim();
    let line = line.strip_prefix("} else ").unwrap_or(line);
    let condition = line.strip_prefix("if ").or_else(|| line.strip_prefix("if("))?;
    // Go declares before it asks.
    let condition = condition.rsplit(';').next().unwrap_or(condition);
    Some(plain(condition))
}

/// An assertion that is a condition on which the test fails.
fn guarded(condition: &str, text: &str, line: u32) -> Assertion {
    let cut = [" != ", " == ", " >= ", " <= ", " > ", " < "]
        .into_iter()
        .filter_map(|operator| condition.split_once(operator).map(|(left, right)| (operator, left, right)))
        .min_by_key(|(_, left, _)| left.len());
    let (strength, slack) = match cut {
        Some((" == ", ..)) => (Strength::Related, None),
        // It fails above the number, so that a higher one asks for less.
        Some((" > " | " >= ", _, right)) => (Strength::Related, right.parse().ok()),
        Some((" < " | " <= ", _, right)) => (Strength::Related, right.parse().ok().map(|most: f64| -most)),
        _ => (Strength::Exact, None),
    };
    let subject = cut.map_or(condition, |(_, left, _)| left).to_owned();
    Assertion { text: format!("{condition}: {text}"), subject, strength, slack, line }
}

/// What an assertion compares.
pub(super) struct Parts {
    /// The arguments, or the condition alone.
    pub(super) arguments: Vec<String>,
    /// The last arguments of a chain, as in `expect(a).toBe(b)`.
    pub(super) chained: Option<String>,
    /// The words of the chain, such as `.toBe`.
    pub(super) chain: String,
    /// What stands before the comparison of a condition.
    pub(super) left: String,
    pub(super) right: String,
}

impl Parts {
    fn of(side: &Side, at: usize, word: &[u8], end: usize) -> Self {
        let after = at + word.len();
        let open =
            side.code[after..end.max(after)].iter().position(|byte| *byte == b'(').map(|ahead| after + ahead);
        let keyword = side.language == Language::Python && word == b"assert" || word == b"[";
        let (inside, close) = match open.filter(|_| !keyword) {
            Some(open) => (open + 1..side.closing(open, end), side.closing(open, end)),
            None => (after..end, end),
        };
        let arguments = split(side, inside.clone());
        let (mut chain, mut chained) = (String::new(), None);
        if let Some(rest) = side.code.get(close + 1..end).filter(|rest| rest.contains(&b'.')) {
            let group = rest.iter().rposition(|byte| *byte == b')').map(|last| close + 1 + last);
            let begin = rest.iter().position(|byte| *byte == b'(').map(|first| close + 1 + first);
            chain = String::from_utf8_lossy(
                &rest[..rest.iter().position(|byte| *byte == b'(').unwrap_or(rest.len())],
            )
            .into_owned();
            if let (Some(begin), Some(group)) = (begin, group) {
                chained = Some(plain(side.slice(begin + 1..group)));
            }
        }
        let condition = arguments.first().cloned().unwrap_or_default();
        let cut = [
            "===",
            "!==",
            "==",
            "!=",
            ">=",
            "<=",
            " is not ",
            " is ",
            " not in ",
            " in ",
            " -eq ",
            " > ",
            " < ",
            ".contains(",
        ]
        .iter()
        .filter_map(|operator| condition.split_once(operator))
        .min_by_key(|(left, _)| left.len());
        let (left, right) =
            cut.map_or((condition.clone(), String::new()), |(left, right)| (left.into(), right.into()));
        Self { arguments, chained, chain, left: left.trim().into(), right: right.trim().into() }
    }

    fn subject(&self) -> String {
        self.left.trim_start_matches('(').to_owned()
    }
}

/// Text without the white space around it and with single spaces in it.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The arguments in a range, as they are written.
fn split(side: &Side, range: std::ops::Range<usize>) -> Vec<String> {
    let mut found = Vec::new();
    let (mut begin, mut at) = (range.start, range.start);
    while at < range.end {
        match side.code[at] {
            b'(' | b'[' | b'{' => at = side.closing(at, range.end),
            b',' => {
                found.push(plain(side.slice(begin..at)));
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(plain(side.slice(begin..range.end.max(begin))));
    found.retain(|argument| !argument.is_empty());
    found
}

fn strength(side: &Side, parts: &Parts, at: usize, word: &[u8], end: usize) -> Strength {
    let name = format!("{}{}", String::from_utf8_lossy(word), after_dots(side, at + word.len(), end))
        .to_ascii_lowercase();
    let chain = parts.chain.to_ascii_lowercase();
    let code: Vec<u8> = side.code.get(at..end).unwrap_or_default().to_vec();
    let has = |wanted: &str| mask::find(&code, wanted.as_bytes()).is_some();
    if checks_nothing(side, parts, word, &name)
        || has(" or True")
        || has("True or ")
        || has("|| true")
        || has("true ||")
        || swallows(side, at, end)
        || always_holds(side, word, at + word.len()..end)
        || slack::fits_all(parts, side.slice(at..end))
    {
        return Strength::Nothing;
    }
    let is = |list: &[&str], text: &str| list.iter().any(|word| text.contains(word));
    let whole = format!("{name}{chain}");
    if is(&["nottoperform", "nofail"], &name) || unawaited(side, at, &chain) {
        return Strength::Nothing;
    }
    let given = parts.chained.as_deref().unwrap_or_default();
    let broad = broad_failure(side, parts, &whole, side.slice(at..end));
    let anything = parts.right.ends_with("mock.ANY")
        || parts.right == "ANY"
        || given.starts_with("expect.any")
        || parts
            .arguments
            .first()
            .is_some_and(|first| first.starts_with("typeof ") || first.starts_with("type("));
    // What is called twice may differ, so it says a little.
    let itself = name.contains("eq")
        && !name.contains("not")
        && parts.arguments.len() >= 2
        && parts.arguments[0] == parts.arguments[1]
        || !parts.left.is_empty() && parts.left == parts.right
        || !given.is_empty() && parts.arguments.first().is_some_and(|first| first == given);
    if broad || anything || itself {
        return Strength::Some;
    }
    if is(
        &[
            "be_truthy",
            "be_present",
            "not_to be_nil",
            "to_not be_nil",
            "notnull",
            "isnotnone",
            "notnil",
            "tobedefined",
            "tobetruthy",
            "not.tobenull",
            "not.tobeundefined",
            "isinstance",
            "tobeinstanceof",
            "not.tothrow",
            "not_to raise",
            "nothrow",
        ],
        &whole,
    ) || has("is not None")
        || has("isinstance(")
        || has("hasattr(")
        || has(".is_ok()")
        || has(".is_some()")
        || parts.right == "null" && has("!=")
        || parts.right == "None" && has("!=")
    {
        return Strength::Some;
    }
    let condition = [
        "true",
        "assert",
        "assert!",
        "ok",
        "istrue",
        "that",
        "expect_true",
        "assert_true",
        "require",
        "check",
        "[",
    ];
    if condition
        .iter()
        .any(|word| name == *word || name.ends_with(&format!(".{word}")) || name.ends_with("true"))
        && chain.is_empty()
    {
        return if has("approx(") && (has("abs=") || has("rel=")) {
            Strength::Related
        } else if has("==") || has("-eq") {
            Strength::Exact
        } else if ["!=", "<", ">", " in ", " is ", "contains", "match", "starts", "ends", "not "]
            .iter()
            .any(|word| has(word))
        {
            Strength::Related
        } else if parts.arguments.len() > 2 {
            Strength::Exact
        } else {
            Strength::Some
        };
    }
    let twice = parts.arguments.len() >= 2 && parts.arguments[0] == parts.arguments[1];
    let negated = twice
        || is(&["notstrict", "notdeep", "notequal", "not_equal", "_ne", "isnot", "notin", "not."], &whole);
    let bounds = is(
        &[
            "greater",
            "less",
            "_gt",
            "_ge",
            "_lt",
            "_le",
            "contain",
            "match",
            "regex",
            "instance",
            "almost",
            "indelta",
            "in_delta",
            "inepsilon",
            "in_epsilon",
            "_near",
            "be_within",
            "allclose",
            "closeto",
            "any",
            "raises",
            "throws",
            "tothrow",
            "raise_error",
        ],
        &whole,
    );
    if negated || bounds { Strength::Related } else { Strength::Exact }
}

/// Whether a promise that fails is caught and forgotten.
fn swallows(side: &Side, at: usize, end: usize) -> bool {
    let text: String = side.slice(at..end).chars().filter(|c| !c.is_whitespace()).collect();
    side.language == Language::Script
        && [").catch(()=>{})", ").catch(()=>undefined)", ").catch(()=>null)", ").catch(noop)"]
            .iter()
            .any(|caught| text.ends_with(caught))
}

/// Whether a condition is one in form only: a list, a function, or something that holds instead; a pattern that fits all.
fn always_holds(side: &Side, word: &[u8], range: std::ops::Range<usize>) -> bool {
    let condition = side.slice(range.clone()).trim();
    match side.language {
        Language::Python if word == b"assert" => {
            let list =
                side.next_code(range.start).filter(|(_, byte)| *byte == b'[').is_some_and(|(open, _)| {
                    let close = side.closing(open, range.end);
                    close > open + 1 && side.next_code(close + 1).is_none_or(|(next, _)| next >= range.end)
                });
            list || condition.starts_with("lambda") || condition.ends_with(" or 1")
        }
        Language::Rust => condition.split_once("matches!(").is_some_and(|(_, given)| {
            let Some((value, pattern)) = given.rsplit_once(',') else { return false };
            // The comma is that of the call, and stands in no other bracket.
            let whole = value.matches('(').count() == value.matches(')').count();
            whole && pattern.trim_end_matches([';', ' ', ')']).trim() == "_"
        }),
        _ => false,
    }
}

/// Whether any failure at all is what is expected.
fn broad_failure(side: &Side, parts: &Parts, whole: &str, text: &str) -> bool {
    let first = parts.arguments.first().map(String::as_str).unwrap_or_default();
    match side.language {
        Language::Python if whole.contains("raises") => matches!(first, "Exception" | "BaseException"),
        Language::Java | Language::CSharp if whole.contains("throws") => {
            matches!(first, "Throwable.class" | "Exception.class" | "Throwable::class" | "Exception::class")
        }
        Language::Script => {
            whole.ends_with("tothrow") && parts.chained.as_deref().is_none_or(|given| given.trim().is_empty())
        }
        Language::Ruby => text.trim_end().ends_with("raise_error"),
        _ => false,
    }
}

/// Whether what a promise comes to is asked for and not waited for.
fn unawaited(side: &Side, at: usize, chain: &str) -> bool {
    let before = side.code[..at].trim_ascii_end();
    side.language == Language::Script
        && (chain.contains(".rejects") || chain.contains(".resolves"))
        && !before.ends_with(b"await")
        && !before.ends_with(b"return")
        && !before.ends_with(b"=>")
        && !before.ends_with(b"=")
        && !before.ends_with(b"[")
        && !before.ends_with(b"(")
        && !before.ends_with(b",")
}

/// The words behind dots that belong to the name: `.equal` of `assert.equal(…)`.
fn after_dots(side: &Side, from: usize, end: usize) -> String {
    let rest = side.code.get(from..end).unwrap_or_default();
    let length =
        rest.iter().position(|byte| !is_word(*byte) && !matches!(byte, b'.' | b'!')).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..length]).into_owned()
}

/// Whether it holds whatever happens: a constant, or a thing compared with itself.
fn checks_nothing(side: &Side, parts: &Parts, word: &[u8], name: &str) -> bool {
    let constant = |text: &str| {
        matches!(text, "true" | "True" | "1" | "not False" | "!false" | "1 == 1" | "(True)" | "")
    };
    // `t` and its like are what the library is handed.
    let own: Vec<&str> =
        parts.arguments.iter().map(String::as_str).filter(|text| !matches!(*text, "t" | "self")).collect();
    let first = own.first().copied().unwrap_or_default();
    let literal = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty()
            || matches!(text, "true" | "True" | "false" | "False" | "null" | "None")
    };
    if let Some(chained) = &parts.chained {
        let same = literal(first) && (chained == first || chained.is_empty());
        return same && !parts.chain.contains("not")
            || first == chained && !first.is_empty() && !first.contains('(') && !parts.chain.contains("not");
    }
    let truth = name.ends_with("true")
        || name.ends_with("ok")
        || name.starts_with("assert") && !name.contains("eq") && !name.contains("fals");
    if truth && own.len() <= 2 && constant(first) && !matches!(word, b"fail") {
        return !first.is_empty();
    }
    // Without a matcher nothing is compared.
    if side.language == Language::Script && name == "expect" && parts.chain.is_empty() && !own.is_empty() {
        return true;
    }
    // A tuple is true, whatever is in it.
    if side.language == Language::Python
        && word == b"assert"
        && own.len() == 1
        && first.starts_with('(')
        && first.ends_with(')')
    {
        let inside = &first[1..first.len() - 1];
        let mut depth = 0_i32;
        let comma = inside.chars().any(|c| {
            depth += match c {
                '(' | '[' | '{' => 1,
                ')' | ']' | '}' => -1,
                _ => 0,
            };
            c == ',' && depth == 0
        });
        return comma;
    }
    let equal = name.contains("eq") && !name.contains("not");
    let compared = (parts.left == parts.right && !parts.left.is_empty()) && parts.arguments.len() == 1;
    let plain = |text: &str| !text.contains('(');
    equal && own.len() >= 2 && own[0] == own[1] && plain(own[0])
        || compared && plain(&parts.left) && first.contains("==")
}
