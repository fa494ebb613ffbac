//! What the assertions of Python's unittest say: which part of the sentence is what was wanted, and which what there was. Values are
//! written as Python writes them, so that words within quotes and brackets are not the sentence's.

/// Wanted and found.
pub(super) type Values = (Option<String>, Option<String>);

/// Reads the first line of a message, without the exception's name.
pub(super) fn values(text: &str) -> Values {
    // What the test's author had to say comes last.
    let text = split(text, " : ").map_or(text, |(text, _)| text);
    equal(text)
        .or_else(|| comparison(text))
        .or_else(|| member(text))
        .or_else(|| truth(text))
        .or_else(|| identity(text))
        .or_else(|| raised(text))
        .unwrap_or_default()
}

fn both(expected: impl Into<String>, actual: &str) -> Option<Values> {
    is_value(actual).then(|| (Some(expected.into()), Some(actual.trim().to_owned())))
}

/// `3 != 5`, `Lists differ: [1] != [2]`, `1.0 != 1.5 within 7 places (0.5 difference)` and what says the contrary.
fn equal(text: &str) -> Option<Values> {
    // `Lists differ: `, and so for every type that a comparison is written for.
    let differ = text.split_once("s differ: ").filter(|(kind, _)| kind.chars().all(char::is_alphanumeric));
    let text = differ.map_or(text, |(_, rest)| rest);
    let (text, about) = split(text, " within ").unwrap_or((text, ""));
    if let Some((actual, expected)) = split(text, " != ").filter(|(_, expected)| is_value(expected)) {
        return both(expected, actual);
    }
    let (actual, unwanted) = split(text, " == ").filter(|(_, unwanted)| is_value(unwanted))?;
    let within = about.split_once(" (").map_or(about, |(within, _)| within);
    both(format!("not {unwanted}{}{within}", if within.is_empty() { "" } else { " within " }), actual)
}

/// `3 not greater than 5`.
fn comparison(text: &str) -> Option<Values> {
    const WORDS: [&str; 4] =
        ["less than or equal to", "greater than or equal to", "less than", "greater than"];
    WORDS.iter().find_map(|words| {
        let (actual, bound) = split(text, &format!(" not {words} ")).filter(|(_, bound)| is_value(bound))?;
        both(format!("{words} {bound}"), actual)
    })
}

/// `'x' not found in ['a']`, and of regular expressions.
fn member(text: &str) -> Option<Values> {
    for (begin, between, wanted) in [
        ("Regex didn't match: ", " not found in ", "matches"),
        ("Regexp didn't match: ", " not found in ", "matches"),
        ("", " not found in ", "contains"),
        ("", " unexpectedly found in ", "does not contain"),
    ] {
        if let Some((part, whole)) = text.strip_prefix(begin).and_then(|rest| split(rest, between)) {
            return both(format!("{wanted} {part}"), whole).filter(|_| is_value(part));
        }
    }
    if let Some(rest) = text.strip_prefix("Regex matched: ") {
        let (pattern, rest) = split(rest, " matches ")?;
        return both(format!("does not match {pattern}"), split(rest, " in ")?.1);
    }
    let (pattern, whole) = split(text, " does not match ")?;
    both(format!("matches {pattern}"), whole).filter(|_| pattern.starts_with('"') && whole.starts_with('"'))
}

/// `[] is not true`, `None is not None`, `3 is not an instance of <class 'str'>`.
fn truth(text: &str) -> Option<Values> {
    if text == "unexpectedly None" {
        return both("not None", "None");
    }
    for (end, wanted) in [(" is not true", "true"), (" is not false", "false"), (" is not None", "None")] {
        if let Some(actual) = text.strip_suffix(end) {
            return both(wanted, actual);
        }
    }
    for (between, wanted) in
        [(" is not an instance of ", "an instance of"), (" is an instance of ", "not an instance of")]
    {
        if let Some((actual, class)) = split(text, between) {
            return both(format!("{wanted} {class}"), actual);
        }
    }
    None
}

/// `True is not False` and `unexpectedly identical: None`.
fn identity(text: &str) -> Option<Values> {
    if let Some(actual) = text.strip_prefix("unexpectedly identical: ") {
        return both(format!("not {actual}"), actual);
    }
    let (actual, expected) = split(text, " is not ").filter(|(_, expected)| is_value(expected))?;
    both(expected, actual)
}

/// `ValueError not raised by int`, `DeprecationWarning not triggered`, and of logs.
fn raised(text: &str) -> Option<Values> {
    if let Some(logs) = text.strip_prefix("Unexpected logs found: ") {
        return both("no logs", logs);
    }
    let logs = text.strip_prefix("no ").filter(|logs| logs.starts_with("logs of level "));
    let exception = || {
        let (name, by) = text.split_once(" not raised").or_else(|| text.split_once(" not triggered"))?;
        let class = |c: char| c.is_alphanumeric() || "_.(), ".contains(c);
        (is_value(name) && name.chars().all(class) && (by.is_empty() || by.starts_with(" by ")))
            .then_some(name)
    };
    Some((Some(logs.or_else(exception)?.to_owned()), None))
}

/// Whether this can be a value: words that stand apart, outside of quotes and brackets, are a sentence.
fn is_value(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && split(text, " ").is_none()
}

/// Splits where the words are first outside of quotes and brackets. What was shortened may lack the other quote; then the words
/// must be there once.
fn split<'a>(text: &'a str, words: &str) -> Option<(&'a str, &'a str)> {
    match outside(text, words) {
        Ok(at) => at.map(|at| (&text[..at], &text[at + words.len()..])),
        Err(()) => text.split_once(words).filter(|(_, after)| !after.contains(words)),
    }
}

fn outside(text: &str, words: &str) -> Result<Option<usize>, ()> {
    let (mut quote, mut depth, mut escaped, mut before) = (None, 0_usize, false, ' ');
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) => quote = (c != open).then_some(open),
            None if depth == 0 && text[at..].starts_with(words) => return Ok(Some(at)),
            // An apostrophe within a word is no quote; `b'…'` is.
            None if matches!(c, '\'' | '"') && (!before.is_alphabetic() || "bBrRuUfF".contains(before)) => {
                quote = Some(c)
            }
            None if matches!(c, '[' | '(' | '{' | '<') => depth += 1,
            None if matches!(c, ']' | ')' | '}' | '>') => depth = depth.saturating_sub(1),
            None => {}
        }
        before = c;
    }
    if quote.is_some() || depth > 0 { Err(()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wanted_is_told_from_what_there_was() {
        for (text, expected, actual) in [
            ("1 != 2", "2", "1"),
            ("2 != 3 : the till: is short", "3", "2"),
            ("'a != b' != 'a != c'", "'a != c'", "'a != b'"),
            ("Lists differ: [1, 2, 3] != [1, 2, 4]", "[1, 2, 4]", "[1, 2, 3]"),
            ("Tuples differ: (1, 'a, b') != (1, 'a')", "(1, 'a')", "(1, 'a, b')"),
            ("{'a': 1} != {'a': 2}", "{'a': 2}", "{'a': 1}"),
            ("1.0 != 1.5 within 7 places (0.5 difference)", "1.5", "1.0"),
            ("1.0 != 1.5 within 0.1 delta (0.5 difference)", "1.5", "1.0"),
            ("1.0 == 1.0 within 7 places", "not 1.0 within 7 places", "1.0"),
            ("3 == 3", "not 3", "3"),
            ("[] is not true", "true", "[]"),
            ("'a is not b' is not false", "false", "'a is not b'"),
            ("True is not False", "False", "True"),
            ("'x' is not None", "None", "'x'"),
            ("unexpectedly None", "not None", "None"),
            ("3 is not an instance of <class 'str'>", "an instance of <class 'str'>", "3"),
            ("3 not greater than or equal to 5", "greater than or equal to 5", "3"),
            ("'x' not found in ['a', 'b']", "contains 'x'", "['a', 'b']"),
            ("'a' unexpectedly found in 'a not in b'", "does not contain 'a'", "'a not in b'"),
            ("Regex didn't match: 'c != d' not found in 'a b'", "matches 'c != d'", "'a b'"),
            ("Regex matched: 'b' matches 'b' in 'abc'", "does not match 'b'", "'abc'"),
            ("\"c != d\" does not match \"a b\"", "matches \"c != d\"", "\"a b\""),
            ("Unexpected logs found: ['INFO:till:open']", "no logs", "['INFO:till:open']"),
            ("'it\\'s' != \"it's not\"", "\"it's not\"", "'it\\'s'"),
            ("<Till at 0x7f> != <Till at 0x8a>", "<Till at 0x8a>", "<Till at 0x7f>"),
        ] {
            assert_eq!(values(text), (Some(expected.to_owned()), Some(actual.to_owned())), "{text}");
        }
        assert_eq!(values("ValueError not raised by int"), (Some("ValueError".to_owned()), None));
        for text in [
            "the till is closed",
            "3 != 5 said somebody",
            "it's not raised by hand",
            "Element counts were not equal:",
            "",
        ] {
            assert_eq!(values(text), (None, None), "{text}");
        }
    }
}
