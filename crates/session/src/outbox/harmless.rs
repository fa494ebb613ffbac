//! Words of models and of people on their way to a forge. Forges act on what they find in a text: they call people, close
//! issues, obey commands at the beginning of a line, and show pictures from anywhere. None of that is for words that nobody
//! has looked at; what they say stays readable.

use crate::workspace::prefix;

/// What is put where a forge must not see one word. It is not shown.
const GAP: char = '\u{200b}';
/// The words that close an issue with the number after them, at any of the forges.
const CLOSING: [&str; 17] = [
    "close",
    "closes",
    "closed",
    "closing",
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "resolve",
    "resolves",
    "resolved",
    "resolving",
    "implement",
    "implements",
    "implemented",
    "implementing",
    "reopens",
];

/// A text that a forge only shows.
pub(super) fn harmless(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in without_closing(text).lines() {
        let mut line = line.replace('@', "@\u{200b}").replace("![", "!\u{200b}[");
        line = without_markup(&line);
        let bare = line.trim_start();
        // GitLab does what such a line says.
        if bare.starts_with('/') {
            let at = line.len() - bare.len();
            line.insert(at, GAP);
        }
        if let Some(rest) = line.strip_prefix("Slipway-Session:") {
            line = format!("Slipway-Session\u{200b}:{rest}");
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// The same of Markdown that stands among our own: it has no headings, which would be taken for ours, and ends what it
/// begins.
pub(super) fn as_part(text: &str, most: usize) -> String {
    let text = harmless(prefix(text.trim(), most));
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let bare = line.trim_start();
        let underlines =
            |mark: char| !bare.is_empty() && bare.trim_end().chars().all(|letter| letter == mark);
        let heads = bare.starts_with('#') && bare.trim_start_matches('#').starts_with([' ', '\t']);
        match heads
            || underlines('=')
            || (underlines('-') && lines.last().is_some_and(|line| !line.trim().is_empty()))
        {
            true => lines.push(format!("{}\\{bare}", &line[..line.len() - bare.len()])),
            false => lines.push(line.to_owned()),
        }
    }
    lines.extend(forge::open_fence(&lines.join("\n")));
    lines.join("\n")
}

/// A text for one line: a title, a name.
pub(super) fn one_line(text: &str) -> String {
    let turned = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .filter(|letter| !turned(*letter))
        .collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text for a commit's message, which forges look through for people and issues, and nothing else.
pub(crate) fn quiet(text: &str) -> String {
    // Once is enough: it can be a text that was made so before.
    without_closing(text).replace('@', "@\u{200b}").replace("@\u{200b}\u{200b}", "@\u{200b}")
}

/// Tags are shown as they are written.
fn without_markup(line: &str) -> String {
    let mut shown = String::new();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        shown.push(letter);
        let opens = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        if letter == '<' && letters.peek().is_some_and(opens) {
            shown.push(GAP);
        }
    }
    shown
}

/// A gap stands in each word that would close what is named after it.
fn without_closing(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_alphabetic()) {
        let end =
            rest[at..].find(|letter: char| !letter.is_ascii_alphabetic()).map_or(rest.len(), |end| at + end);
        let (word, after) = (&rest[at..end], &rest[end..]);
        shown.push_str(&rest[..at]);
        if CLOSING.iter().any(|closing| closing.eq_ignore_ascii_case(word)) && names_something(after) {
            shown.push_str(&word[..1]);
            shown.push(GAP);
            shown.push_str(&word[1..]);
        } else {
            shown.push_str(word);
        }
        rest = after;
    }
    shown + rest
}

/// Whether what follows a word names an issue: a number, with or without its repository, or an address.
fn names_something(after: &str) -> bool {
    let named = after.trim_start_matches(|letter: char| {
        letter.is_whitespace() || matches!(letter, ':' | '*' | '_' | '(' | '[')
    });
    let word = named.split(|letter: char| letter.is_whitespace()).next().unwrap_or_default();
    let number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let below = |mark: char| word.split_once(mark).is_some_and(|(_, rest)| number(rest));
    let jira = word.split_once('-').is_some_and(|(key, rest)| {
        !key.is_empty()
            && key.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
            && number(rest)
    });
    // GitLab takes "issues" and "issue" before the numbers too.
    let spelt = ["issue", "issues"].iter().any(|spelt| word.eq_ignore_ascii_case(spelt));
    below('#') || below('!') || jira || word.contains("/issues/") || word.contains("/work_items/") || spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_closed() {
        for text in [
            "Fixes #12",
            "closes: #1, #2",
            "RESOLVED acme/shop#3",
            "fix GH-4",
            "Implements https://x.example/a/b/issues/5",
            "closes\n#6",
            "**Fixes** #7",
            "Closes issues #8",
            "resolves SHOP-9",
        ] {
            assert!(without_closing(text).contains(GAP), "{text}");
        }
        for text in ["Fix the #1 problem", "prefixes #12", "fixed it", "Close the door, see #3", ""] {
            assert_eq!(without_closing(text), text);
        }
    }

    #[test]
    fn forges_find_nothing_to_do() {
        let text = "/merge\n  /close\n<img src=x> ![p](https://x.example/p.png) <!-- slipway:x --> a < b @ann\nSlipway-Session: x";
        let shown = harmless(text);
        for bad in ["\n/", "<img", "![", "<!--", "@ann", "Slipway-Session: x"] {
            assert!(!format!("\n{shown}").contains(bad), "{bad}: {shown}");
        }
        assert!(shown.contains("a < b"), "{shown}");
        assert_eq!(shown.replace(GAP, ""), text);
    }

    #[test]
    fn a_part_has_no_headings_and_ends_what_it_begins() {
        assert_eq!(
            as_part("## Checks\nall\n===\nfine\n---\n#12 is it", 100),
            "\\## Checks\nall\n\\===\nfine\n\\---\n#12 is it"
        );
        assert_eq!(as_part("it is\n```rust\nfn", 100), "it is\n```rust\nfn\n```");
        assert_eq!(as_part("one\n\n---\n\ntwo", 100), "one\n\n---\n\ntwo");
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(one_line("a\u{202e}b\n\t c\u{7}"), "ab c");
    }
}
