//! What a person says themselves in a comment: without code, without what they quote of others, and without what is not shown.

/// A comment without those parts. Lines stay lines, so that what is around a part does not run together.
pub(super) fn own_words(text: &str) -> String {
    let text = without_hidden(text);
    let mut words = String::new();
    let mut fence: Option<Fence> = None;
    let mut after_blank = true;
    for line in text.lines() {
        let bare = line.trim_start();
        let indented = line.starts_with("    ") || line.starts_with('\t');
        if let Some(open) = &fence {
            if !indented && open.is_closed_by(bare) {
                fence = None;
            }
        } else if !indented && let Some(open) = Fence::opened_by(bare) {
            fence = Some(open);
        } else if !(bare.starts_with('>') || (indented && after_blank)) {
            words.push_str(line);
            after_blank = bare.is_empty();
        }
        words.push('\n');
    }
    without_spans(&words)
}

/// Whether a block of code is open at the end of a text; gives the line that closes it.
pub(super) fn open_fence(text: &str) -> Option<String> {
    let mut fence: Option<Fence> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        match &fence {
            Some(open) if open.is_closed_by(bare) => fence = None,
            Some(_) => {}
            None => fence = Fence::opened_by(bare),
        }
    }
    fence.map(|open| open.mark.to_string().repeat(open.length))
}

/// How a block of code was opened.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|letter| *letter == mark).count();
        let told = &line[length..];
        (length >= 3 && !(mark == '`' && told.contains('`'))).then_some(Self { mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim_end();
        line.len() >= self.length && line.chars().all(|letter| letter == self.mark)
    }
}

/// Without what a browser does not show.
fn without_hidden(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        shown.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    shown + rest
}

/// Without code in a line: as many backticks end it as began it.
fn without_spans(text: &str) -> String {
    let mut words = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        let length = rest[at..].bytes().take_while(|byte| *byte == b'`').count();
        words.push_str(&rest[..at]);
        rest = &rest[at + length..];
        // Code does not go over the end of a paragraph.
        let paragraph = &rest[..rest.find("\n\n").unwrap_or(rest.len())];
        match end_of_span(paragraph, length) {
            Some(end) => {
                words.push(' ');
                rest = &rest[end..];
            }
            None => words.push_str(&"`".repeat(length)),
        }
    }
    words + rest
}

fn end_of_span(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let from = at + found;
        let run = text[from..].bytes().take_while(|byte| *byte == b'`').count();
        at = from + run;
        if run == length {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_quotes_and_what_is_hidden_are_not_said() {
        for (text, kept) in [
            ("a `@b` c", "a   c"),
            ("a ``x ` @b`` c", "a   c"),
            ("a ` @b", "a ` @b"),
            ("> @b\nc", "\nc"),
            ("  > @b\nc", "\nc"),
            ("```rust\n@b\n```\nc", "\n\n\nc"),
            ("~~~~\n@b\n~~~\n@b\n~~~~~\nc", "\n\n\n\n\nc"),
            ("a\n\n    @b\nc", "a\n\n\nc"),
            ("a\n    @b", "a\n    @b"),
            ("a <!-- @b --> c", "a  c"),
            ("a <!-- @b", "a "),
            ("```\n@b", "\n"),
        ] {
            assert_eq!(own_words(text).trim_end(), kept.trim_end(), "{text:?}");
        }
    }

    #[test]
    fn a_block_that_is_open_is_closed_as_it_was_begun() {
        assert_eq!(open_fence("a\n```rust\nb"), Some("```".to_owned()));
        assert_eq!(open_fence("~~~~\n```\n~~~"), Some("~~~~".to_owned()));
        assert_eq!(open_fence("```\nb\n```\n"), None);
    }
}
