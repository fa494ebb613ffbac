//! Makes a tool's raw output readable: no terminal escapes, no control characters, and of a progress line that redraws
//! itself only its last state. One pass, so that hostile output costs no more than its length.

/// The text without terminal escapes and control characters, with redrawn lines collapsed to their last state.
pub fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut line_start = 0;
    let mut returned = false;
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => {
                returned = false;
                out.push('\n');
                line_start = out.len();
            }
            '\r' => returned = true,
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            c if c == '\t' || !is_hidden(c) => {
                if std::mem::take(&mut returned) {
                    out.truncate(line_start);
                }
                out.push(c);
            }
            _ => {}
        }
    }
    out
}

/// Control characters, and the bidirectional overrides that make a terminal show something else than the text says.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what follows an escape character. A sequence that is cut off ends at the next character that cannot belong to
/// it, so a stray escape never swallows the rest of the output.
fn skip_escape(chars: &mut Chars<'_>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        // A string such as a window title or a hyperlink; it ends with BEL or ESC \ and never spans lines.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next_if(|c| *c != '\n') {
                match c {
                    '\u{7}' | '\u{9c}' => return,
                    '\u{1b}' => {
                        chars.next_if_eq(&'\\');
                        return;
                    }
                    _ => {}
                }
            }
        }
        _ => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// Skips parameters and the final byte of a control sequence.
fn skip_control_sequence(chars: &mut Chars<'_>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// The end of the text, at most `max` bytes, beginning at a line where there is one and at a character always.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    let text = text.trim_end();
    if text.len() <= max {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - max);
    let (before, end) = text.split_at(start);
    if before.ends_with('\n') {
        return end;
    }
    match end.split_once('\n') {
        Some((_, rest)) if !rest.is_empty() => rest,
        _ => end,
    }
}

/// Cuts the text to at most `max` bytes, saying so with an ellipsis.
pub(crate) fn clip(text: &mut String, max: usize) {
    const ELLIPSIS: &str = "…";
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len())));
        text.push_str(ELLIPSIS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_links_and_titles_go() {
        assert_eq!(clean("\u{1b}[31m\u{1b}[1mFAILED\u{1b}[0m x\u{1b}[K"), "FAILED x");
        assert_eq!(clean("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{7} end"), "link end");
        assert_eq!(clean("\u{1b}(Bplain\u{9b}2J \u{1b}=on"), "plain on");
    }

    #[test]
    fn a_broken_escape_does_not_swallow_the_next_line() {
        assert_eq!(clean("a\u{1b}]0;title\nb\u{1b}[31\nc\u{1b}"), "a\nb\nc");
    }

    #[test]
    fn a_redrawn_line_keeps_its_last_state() {
        assert_eq!(clean("get 10%\rget 99%\r\u{1b}[Kdone\r\nnext\r\r\n"), "done\nnext\n");
        assert_eq!(clean("one\r"), "one");
    }

    #[test]
    fn control_characters_and_overrides_go_but_tabs_stay() {
        assert_eq!(clean("a\0b\u{8}\tc\u{202e}d"), "ab\tcd");
    }

    #[test]
    fn the_tail_begins_at_a_line() {
        assert_eq!(tail("one\ntwo\nthree\n", 8), "three");
        assert_eq!(tail("one\ntwo\nthree\n", 9), "two\nthree");
        assert_eq!(tail("éééé", 3), "é");
        assert_eq!(tail("short\n\n", 99), "short");
    }

    #[test]
    fn a_clipped_text_stays_within_its_bound() {
        let mut text = "é".repeat(10);
        clip(&mut text, 8);
        assert_eq!(text, "éé…");
    }
}
