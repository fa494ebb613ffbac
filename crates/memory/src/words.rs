//! A text as words. Names in code are words by themselves and by their parts, so that `formatInZone` is found by "zone", and
//! `BILLING_KEY` by "billing". Chinese and Japanese have no spaces between words: there each two signs that stand together are one.

use crate::stop_words::{is_asking, is_glue};

/// The parts of a text in order: words in lower case, names in code taken apart.
pub(crate) fn parts(text: &str) -> Vec<String> {
    runs(text).flat_map(split).flat_map(pairs).map(str::to_lowercase).collect()
}

/// The parts of a text that say what it is about.
pub(crate) fn content(text: &str) -> Vec<String> {
    parts(text).into_iter().filter(|word| !is_glue(word)).collect()
}

/// The parts of a question that say what it is about. One that only asks is taken as it is.
pub(crate) fn asked(text: &str) -> Vec<String> {
    without_asking(content(text))
}

/// What the full-text index has of a text: each part once, and the names that have several.
pub(crate) fn index(text: &str) -> Vec<String> {
    let mut words = parts(text);
    words.extend(runs(text).filter(|run| split(run).count() > 1).map(str::to_lowercase));
    distinct(words)
}

/// What is looked up in the full-text index for a question.
pub(crate) fn terms(text: &str) -> Vec<String> {
    distinct(without_asking(index(text).into_iter().filter(|word| !is_glue(word)).collect()))
}

fn without_asking(words: Vec<String>) -> Vec<String> {
    let telling: Vec<String> = words.iter().filter(|word| !is_asking(word)).cloned().collect();
    if telling.is_empty() { words } else { telling }
}

fn distinct(words: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    words.into_iter().filter(|word| seen.insert(word.clone())).collect()
}

/// Each two signs that stand together in scripts without spaces; what else there is between them as it is.
fn pairs(part: &str) -> Vec<&str> {
    if !part.contains(is_unspaced) {
        return vec![part];
    }
    let mut found = Vec::new();
    let mut rest = part;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| is_unspaced(c) == is_unspaced(first);
        let end = rest.find(|c: char| !same(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        let signs: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
        match is_unspaced(first) && signs.len() > 2 {
            true => found.extend(signs.windows(3).map(|signs| &run[signs[0]..signs[2]])),
            false => found.push(run),
        }
    }
    found
}

/// Chinese characters, Hiragana and Katakana.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// Letters and digits that stand together.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty())
}

/// The parts of a name: `parseHTTPBody` is parse, HTTP and Body. Digits stay with what is before them.
fn split(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(end_of_part(rest));
        rest = after;
        Some(part)
    })
}

fn end_of_part(run: &str) -> usize {
    let mut before: Option<char> = None;
    let mut chars = run.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if let Some(before) = before.filter(|_| c.is_uppercase()) {
            let next_is_small = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
            if !before.is_uppercase() || next_is_small {
                return at;
            }
        }
        before = Some(c);
    }
    run.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(parts("parseHTTPBody"), ["parse", "http", "body"]);
        assert_eq!(parts("BILLING_WEBHOOK_KEY=x1"), ["billing", "webhook", "key", "x1"]);
        assert_eq!(parts("error[E0277] in src/money.rs"), ["error", "e0277", "in", "src", "money", "rs"]);
        assert_eq!(parts("CI"), ["ci"]);
        assert_eq!(parts("Größe der Straße"), ["größe", "der", "straße"]);
        assert_eq!(parts(" – "), Vec::<String>::new());
    }

    #[test]
    fn a_name_is_indexed_whole_too() {
        assert_eq!(index("use formatInZone, format"), ["use", "format", "in", "zone", "formatinzone"]);
    }

    #[test]
    fn without_spaces_each_two_signs_are_a_word() {
        assert_eq!(parts("部署前运行 make 迁移v2"), ["部署", "署前", "前运", "运行", "make", "迁移", "v2"]);
        assert_eq!(parts("猫 カード"), ["猫", "カー", "ード"]);
    }

    #[test]
    fn a_question_is_what_it_is_about() {
        assert_eq!(terms("Please add the package to the shop"), ["package", "shop"]);
        assert_eq!(terms("run"), ["run"]);
        assert_eq!(asked("How do I run the tests?"), ["tests"]);
    }
}
