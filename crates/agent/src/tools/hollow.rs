//! Functions of which a new text has the head, and in place of what they did only a word about it, or nothing.

use super::definition::is_comment;
use super::guard::{Loss, Text};

/// Words in a comment that stands for what its function had.
const HINTS: [&str; 10] = [
    "...",
    "…",
    "unchanged",
    "existing",
    "omitted",
    "keep the",
    "rest of",
    "remaining",
    "as before",
    "brevity",
];
/// The same where nothing else is there: words that people have in their comments as well.
const WEAK_HINTS: [&str; 9] = [
    "same implementation",
    "previous code",
    "previous implementation",
    "original logic",
    "original code",
    "original implementation",
    "truncated",
    "todo: implement",
    "implementation here",
];
/// What stands in a function that does nothing, and how such a line begins.
const STUBS: [&str; 8] =
    ["pass", "...", "…", "return", "return None", "return null", "return nil", "return undefined"];
/// Those of them that a function may come down to that was hardly more.
const RETURNS: &str = "return";
const BEGINS_STUB: [&str; 4] = [
    "raise NotImplementedError",
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    "throw new Error(\"not implemented",
];
/// Functions with fewer lines than these may become anything.
const SHORT: usize = 3;

/// A function of which the new text has the head and, in place of what it did, only a word about it or nothing. One that is
/// written anew, however short, is not lost.
pub(super) fn hollowed(before: &Text<'_>, after: &Text<'_>) -> Option<Loss> {
    let only = |text: &Text<'_>, name: &str| {
        let mut all = text.definitions.iter().filter(|known| known.name == name);
        all.next()
            .filter(|_| all.next().is_none())
            .filter(|known| known.function)
            .map(|known| known.body.clone())
    };
    before.definitions.iter().find_map(|known| {
        let (old, new) = (only(before, &known.name)?, only(after, &known.name)?);
        let tells = |line: &&str| before.format.tells(line);
        let did: Vec<&str> = after_docs(&before.lines[old]).iter().copied().filter(tells).collect();
        let body = after_docs(&after.lines[new]);
        let kept = did.iter().filter(|line| body.contains(line)).count();
        // One that did nothing before has nothing to lose.
        if kept * 2 > did.len() || did.iter().all(|line| is_stub(line) || returns_value(line)) {
            return None;
        }
        let long = did.len() >= SHORT;
        let says = |hints: &[&str]| {
            body.iter().find(|line| {
                !before.set.contains(**line)
                    && word_in(line).is_some_and(|word| hints.iter().any(|hint| word.contains(hint)))
            })
        };
        let plain = says(&HINTS);
        let word = plain.or_else(|| says(&WEAK_HINTS));
        let is_empty = |line: &str| {
            is_stub(line) || word.is_some() && (returns_value(line) || long && returns_name(line))
        };
        let does = body.iter().filter(|line| tells(line) && !is_empty(line) && !did.contains(line)).count();
        let stands_for = match word {
            Some(word) if does == 0 || plain.is_some() && long && does * 2 < did.len() => Some(word),
            Some(_) | None if does + kept == 0 => body
                .iter()
                .find(|line| is_stub(line) || is_comment(line))
                .filter(|line| long || !code_of(line).starts_with(RETURNS) && is_stub(line)),
            Some(_) | None => None,
        };
        stands_for.map(|line| Loss::Hollow(known.name.clone(), (*line).to_owned()))
    })
}

/// The lines of a function after those that say what it is for.
fn after_docs<'a, 'b>(body: &'b [&'a str]) -> &'b [&'a str] {
    let Some(first) = body.iter().position(|line| !line.is_empty()) else { return body };
    let Some(mark) = ["\"\"\"", "\'\'\'"].into_iter().find(|mark| body[first].starts_with(mark)) else {
        return body;
    };
    let ends = |line: &&str| line.ends_with(mark);
    if body[first].len() >= 2 * mark.len() && ends(&body[first]) {
        return &body[first + 1..];
    }
    let end = body[first + 1..].iter().position(ends);
    end.map_or(body, |end| &body[first + 1 + end + 1..])
}

/// A line without the comment at its end.
fn code_of(line: &str) -> &str {
    let comment = [" #", " //"].iter().filter_map(|mark| line.find(mark)).min();
    line[..comment.unwrap_or(line.len())].trim_end().trim_end_matches(';')
}

/// Whether a line of a function does nothing.
pub(super) fn is_stub(line: &str) -> bool {
    let code = code_of(line);
    !is_comment(code) && (STUBS.contains(&code) || BEGINS_STUB.iter().any(|stub| code.starts_with(stub)))
}

/// Whether a line gives back what is always the same.
fn returns_value(line: &str) -> bool {
    let Some(value) = code_of(line).strip_prefix("return ").map(str::trim) else { return false };
    let number = value.trim_start_matches('-').starts_with(|letter: char| letter.is_ascii_digit());
    let quoted = ['"', '\''].iter().any(|quote| {
        let inner = value.strip_prefix(*quote).and_then(|value| value.strip_suffix(*quote));
        inner.is_some_and(|inner| !inner.contains(*quote))
    });
    let plain = value.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-');
    number && plain
        || quoted
        || ["True", "False", "true", "false", "None", "null", "nil", "[]", "{}", "()"].contains(&value)
}

/// Whether a line gives back what has a name.
fn returns_name(line: &str) -> bool {
    let name = code_of(line).strip_prefix("return ").unwrap_or_default().trim();
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// What a line says that is a comment, or does nothing and has one at its end.
fn word_in(line: &str) -> Option<String> {
    let said = line.to_ascii_lowercase();
    if is_comment(line) || ["...", "…"].contains(&line) {
        return Some(said);
    }
    (is_stub(line) || returns_value(line)).then(|| said[code_of(line).len()..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::guard::loss;
    use super::super::keys::Format;

    fn dropped(old: &str, new: &str) -> Option<String> {
        loss(old, new, Format::Code).map(|loss| loss.why())
    }

    #[test]
    fn a_function_that_only_seems_to_be_there_is_refused() {
        let old = "def total(items):\n    \"\"\"The sum.\n    Of all.\"\"\"\n    result = 0\n    for item in items:\n        result += item.price\n    return result\n\n\ndef double(a):\n    return a * 2\n";
        let with = |inside: &str| {
            let (head, rest) = old.split_once("    result = 0").unwrap();
            format!("{head}{inside}{}", &rest[rest.find("\n\n\ndef").unwrap() + 1..])
        };
        for inside in [
            "    pass  # existing code\n",
            "    # same implementation as above\n    return 0\n",
            "    # Same implementation\n    return 0\n",
            "    # TODO: implement\n    return 0.0\n",
            "    # original logic here\n    return result\n",
            "    return None\n",
            "    # previous code\n    return 1\n",
            "    # [truncated]\n    return 1\n",
            "    return 0  # unchanged\n",
            "    return \"ü\"  # unchanged\n",
        ] {
            let why = dropped(old, &with(inside)).unwrap_or_else(|| panic!("{inside}"));
            assert!(why.contains("stands for code that is left out"), "{why}");
        }
        for line in
            ["    # unchanged\n    ...\n", "    pass  # existing code\n", "    pass\n", "    # unchanged\n"]
        {
            let new = old.replace("    return a * 2\n", line);
            assert!(dropped(old, &new).is_some(), "{line}");
        }
        for inside in [
            "    return sum(item.price for item in items)\n",
            "    # The previous code was slow.\n    return sum(item.price for item in items)  # all\n",
            "    return 0\n",
        ] {
            assert_eq!(dropped(old, &with(inside)), None, "{inside}");
        }
        // What was as little before, and what did nothing.
        assert_eq!(dropped(old, &old.replace("return a * 2", "return None")), None);
        let stub = "def f():\n    # TODO: implement this\n    return 0\n";
        assert_eq!(dropped(stub, "def f():\n    pass  # TODO: implement\n"), None);
        assert_eq!(dropped(old, &old.replace("a * 2", "2 * a  # as the existing code does")), None);
    }
}
