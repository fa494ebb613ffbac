//! Small pieces that the parsers share: numbers, places in files, quoted lines. Each looks at its input once.

/// A place in a file, with what follows it on the line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) column: Option<u32>,
    pub(crate) rest: &'a str,
}

/// The number at the start, and the rest. None without a digit or when it does not fit.
pub(crate) fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Reads `file:line[:column]`: the first colon that is followed by a line number ends the file's name.
pub(crate) fn place(text: &str) -> Option<Place<'_>> {
    for (at, _) in text.match_indices(':') {
        let Some((line, rest)) = number(&text[at + 1..]) else { continue };
        if at == 0 || line == 0 {
            return None;
        }
        let (column, rest) = match rest.strip_prefix(':').and_then(number) {
            Some((column, rest)) => (Some(column), rest),
            None => (None, rest),
        };
        return Some(Place { file: &text[..at], line, column, rest });
    }
    None
}

/// Reads Python's `File "name", line 3`.
pub(crate) fn python_frame(line: &str) -> Option<Place<'_>> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, rest) = number(rest)?;
    Some(Place { file, line, column: None, rest })
}

/// Whether the line is `fill`s, a title, and `fill`s again, as pytest's headings are; gives the title.
pub(crate) fn heading(line: &str, fill: char) -> Option<&str> {
    let inner = line.strip_prefix(fill)?.trim_start_matches(fill).strip_prefix(' ')?;
    let title = inner.strip_suffix(fill)?.trim_end_matches(fill).strip_suffix(' ')?.trim();
    // A line of separators such as `_ _ _ _` is no heading.
    title.contains(|c: char| c != fill && c != ' ').then_some(title)
}

/// Adds a line to a text that has a bound, so that a flood of lines costs no memory.
pub(crate) fn push_line(text: &mut String, line: &str) {
    if text.len() < crate::MAX_TEXT {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line[..line.floor_char_boundary(crate::MAX_TEXT)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_the_left() {
        let found = place("src/lib.rs:8:5: rest").unwrap();
        assert_eq!((found.file, found.line, found.column, found.rest), ("src/lib.rs", 8, Some(5), ": rest"));
        assert_eq!(place(r"C:\a.c:3: x").unwrap().file, r"C:\a.c");
        assert_eq!(place("a.py:3: x").unwrap().column, None);
        assert_eq!(place(":3:4"), None);
        assert_eq!(place("a:99999999999"), None);
        assert_eq!(place("nothing here"), None);
    }

    #[test]
    fn headings_are_not_separators() {
        assert_eq!(heading("____ test_a[_ b _] ____", '_'), Some("test_a[_ b _]"));
        assert_eq!(heading("_ long _", '_'), Some("long"));
        assert_eq!(heading("_ _ _ _ _", '_'), None);
        assert_eq!(heading("____", '_'), None);
        assert_eq!(heading("=", '='), None);
    }
}
