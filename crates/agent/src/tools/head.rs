//! What goes by its head: a block of a configuration, a rule, a test or a route that is given to a call, and what languages
//! without brackets spell at the margin. What is called comes from the line itself, so that no list of languages is needed.

use super::definition::{Definition, STATEMENTS, body, definitions, indent, is_comment, is_import};

/// Words that no block goes by, beside those of statements.
const PASSING: [&str; 12] = [
    "loop", "unsafe", "begin", "export", "then", "static", "get", "set", "where", "default", "rescue",
    "ensure",
];
/// What the heads inside are looked at of. What others hold is their own.
const HOLDING: [&str; 24] = [
    "http",
    "server",
    "stream",
    "message",
    "service",
    "impl",
    "extension",
    "protocol",
    "mixin",
    "contract",
    "library",
    "companion",
    "describe",
    "context",
    "suite",
    "feature",
    "group",
    "namespace",
    "@media",
    "@supports",
    "@layer",
    "@container",
    "scope",
    "extern",
];
/// Tags at the margin that a component is made of.
const TAGS: [&str; 3] = ["<template", "<script", "<style"];
/// Words before the names of types and instances at the margin.
const SPELLED: [&str; 5] = ["data", "newtype", "instance", "scalar", "directive"];
/// Most words of a head.
const WORDS: usize = 8;

/// How the block of a script in Python begins that runs it, and what it goes by.
const MAIN: (&str, &str) = ("if __name__ ==", "__main__");

/// What a text in a language defines, by words that are known and by heads, in order.
pub(super) fn with_heads(text: &str) -> Vec<Definition> {
    let mut found = definitions(text);
    let mut taken = vec![false; text.lines().count()];
    for known in &found {
        let end = if known.function { known.body.end } else { known.line + 1 };
        taken[known.line..end].fill(true);
    }
    found.extend(heads(
        text,
        taken,
        |line| if is_comment(line) || is_import(line) { None } else { block(line) },
    ));
    found.sort_by_key(|known| known.line);
    found
}

/// The rules of a style sheet.
pub(super) fn rules(text: &str) -> Vec<Definition> {
    heads(text, vec![false; text.lines().count()], |line| {
        let (head, _) = line.split_once('{')?;
        let head = head.trim();
        (!head.is_empty() && !line.starts_with(['/', '}'])).then(|| head.to_owned())
    })
}

fn heads(text: &str, mut taken: Vec<bool>, head: impl Fn(&str) -> Option<String>) -> Vec<Definition> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let said = line.trim();
        if taken[index] || said.is_empty() {
            continue;
        }
        let at_margin = if indent(line) == 0 { spelled(said) } else { None };
        let Some(name) = at_margin.or_else(|| head(said)) else { continue };
        let body = body(&lines, index);
        if !holds_heads(said) {
            taken[body.clone()].fill(true);
        }
        found.push(Definition { name, function: false, line: index, body });
    }
    found
}

fn holds_heads(line: &str) -> bool {
    let first = line.split([' ', '(', '<']).next().unwrap_or_default();
    HOLDING.contains(&first.rsplit('.').next().unwrap_or_default()) || first.ends_with("RSpec")
}

/// The name of a block that begins in this line.
fn block(line: &str) -> Option<String> {
    if !line.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') {
        return None;
    }
    let head = match line.strip_suffix('{') {
        Some(head) => head,
        None if line.ends_with('}') => line.split_once('{')?.0,
        None => return called(line.strip_suffix(" do").or_else(|| Some(line.split_once(" do |")?.0))?),
    };
    let head = head.trim_end();
    let first = head.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let plain = without_quoted(head);
    let ends = head.ends_with([':', '=', ',']) || plain.contains([';', '|', '$']);
    // A variable without a value has a block that computes one.
    let statement = STATEMENTS.contains(&first) && !["var", "let"].contains(&first);
    if ends || statement || PASSING.contains(&head) || PASSING.contains(&first) {
        return None;
    }
    if plain.contains('(') {
        return called(head);
    }
    // What is given a value is a variable, and what closes more than it opens goes on from the line before.
    if plain.contains(['=', ')']) {
        return None;
    }
    let end = [" where ", ": "].iter().filter_map(|mark| head.find(mark)).min().unwrap_or(head.len());
    let bare: String = head[..end].chars().filter(|letter| !['"', '\''].contains(letter)).collect();
    let words: Vec<&str> = bare.split_whitespace().collect();
    (!words.is_empty() && words.len() <= WORDS).then(|| words.join(" "))
}

/// The name of a block that is given to a call: `it('adds', () => {`, `app.get("/users", …`, `task :build do`. What is called
/// comes first; without something that tells it from other calls it has no name.
fn called(head: &str) -> Option<String> {
    let end = head.find(|letter: char| letter == '(' || letter.is_whitespace())?;
    let (callee, rest) = (&head[..end], head[end..].trim_start_matches(['(', ' ']));
    let plain = callee.chars().all(|letter| letter.is_alphanumeric() || "_.:".contains(letter));
    let first = callee.split('.').next()?;
    if !plain || callee.is_empty() || STATEMENTS.contains(&first) || PASSING.contains(&first) {
        return None;
    }
    let quote = rest.chars().next()?;
    let label = match quote {
        '"' | '\'' | '`' => rest[1..].split(quote).next()?,
        ':' => rest[1..].split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?,
        _ if quote.is_uppercase() && !head.contains('(') => rest.split([',', ' ']).next()?,
        _ => return None,
    };
    (!label.is_empty()).then(|| format!("{callee} {label}"))
}

/// A text without what is in quotes or square brackets.
fn without_quoted(text: &str) -> String {
    let mut until = None;
    let outside = |letter: &char| {
        match until {
            Some(end) if *letter == end => until = None,
            Some(_) => {}
            None => {
                until = match letter {
                    '"' | '\'' | '`' => Some(*letter),
                    '[' => Some(']'),
                    _ => return true,
                }
            }
        }
        false
    };
    text.chars().filter(outside).collect()
}

/// What a line at the margin defines without brackets: `add :: Int -> Int`, `data Color = …`, `(defn add …`, `let add a b = …`.
fn spelled(line: &str) -> Option<String> {
    if line.starts_with(MAIN.0) {
        return Some(MAIN.1.to_owned());
    }
    if let Some(tag) = TAGS.iter().find(|tag| line.starts_with(**tag)) {
        return Some((*tag).to_owned());
    }
    let mut words = line.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    let identifies = |word: &str| {
        let inside = |letter: char| letter.is_alphanumeric() || "_'-?!*+".contains(letter);
        word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_') && word.chars().all(inside)
    };
    if first.starts_with("(def") {
        let name = second.trim_end_matches(')');
        return identifies(name).then(|| name.to_owned());
    }
    if second == "::" {
        return identifies(first).then(|| first.to_owned());
    }
    if SPELLED.contains(&first) {
        let one = match first {
            "data" | "newtype" if line.contains('=') => second,
            "scalar" if words.next().is_none_or(|word| word.starts_with('@')) => second,
            "directive" if second.starts_with('@') => second.split('(').next()?,
            "instance" => line.split(" where").next()?,
            _ => return None,
        };
        return Some(one.to_owned());
    }
    if first != "let" {
        return None;
    }
    let given: Vec<&str> =
        line.split('=').next()?.split_whitespace().skip(1).filter(|word| *word != "rec").collect();
    let typed = |word: &&str| identifies(word) || word.starts_with(['(', '~', '?']) || word.ends_with(')');
    let function = line.contains('=') && given.len() > 1 && given[1..].iter().all(typed);
    (function && identifies(given[0])).then(|| given[0].to_owned())
}
