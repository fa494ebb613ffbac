//! One side of a piece of a diff: the text as it was, or as it is, with its code apart from comments and strings.

use std::ops::Range;

use super::diff::{Change, Line};
use super::language::Language;
use super::mask;

/// The old or the new text of a hunk. Offsets are bytes of both `text` and `code`.
pub(super) struct Side {
    pub(super) language: Language,
    pub(super) text: String,
    /// The text with comments and strings blanked out.
    pub(super) code: Vec<u8>,
    lines: Vec<Placed>,
    brackets: Vec<(usize, usize)>,
}

/// Where a line begins, and what is known of it.
struct Placed {
    at: usize,
    number: u32,
}

impl Side {
    /// The lines that were there before (`Removed`) or are there now (`Added`).
    pub(super) fn of(hunk: &[Line<'_>], change: Change, language: Language) -> Self {
        let (mut text, mut lines) = (String::new(), Vec::new());
        for line in hunk.iter().filter(|line| line.change == change || line.change == Change::Kept) {
            // A kept line counts from the new file; in the old text its number is not asked for.
            lines.push(Placed { at: text.len(), number: line.number });
            text.push_str(line.text);
            text.push('\n');
        }
        let code = mask::mask(&text, language);
        let brackets = brackets(&code);
        Self { language, text, code, lines, brackets }
    }

    fn line_at(&self, at: usize) -> usize {
        self.lines.partition_point(|line| line.at <= at).saturating_sub(1)
    }

    /// The number of the line at an offset.
    pub(super) fn number(&self, at: usize) -> u32 {
        self.lines.get(self.line_at(at)).map_or(0, |line| line.number)
    }

    /// The lines of the code with where they begin.
    pub(super) fn code_lines(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = range.start;
        self.code.get(range).unwrap_or_default().split_inclusive(|byte| *byte == b'\n').map(move |line| {
            let begin = at;
            at += line.len();
            (begin, line)
        })
    }

    /// The text of a range; nothing where that cuts a character.
    pub(super) fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// Where the line at an offset begins.
    pub(super) fn line_begin(&self, at: usize) -> usize {
        self.lines.get(self.line_at(at)).map_or(0, |line| line.at)
    }

    /// The line at an offset.
    pub(super) fn line_text(&self, at: usize) -> &str {
        let line = self.line_at(at);
        let of = |line: usize| self.lines.get(line).map(|line| line.at);
        let end = of(line + 1).unwrap_or(self.text.len());
        self.text.get(of(line).unwrap_or(0)..end).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }

    /// The words of the code in a range, with where they begin.
    pub(super) fn words(&self, range: Range<usize>) -> Words<'_> {
        Words { code: self.code.get(..range.end).unwrap_or(&self.code), at: range.start }
    }

    /// The next byte of code that is not white space, from an offset on, and where it is.
    pub(super) fn next_code(&self, from: usize) -> Option<(usize, u8)> {
        let rest = self.code.get(from..)?;
        let at = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        Some((from + at, rest[at]))
    }

    /// Where the bracket at an offset is closed, by counting only its kind; the limit where it is not.
    pub(super) fn closing(&self, open: usize, limit: usize) -> usize {
        let found = self.brackets.binary_search_by_key(&open, |(open, _)| *open);
        found.map_or(limit, |at| self.brackets[at].1.min(limit))
    }

    /// The end of the statement at an offset: its semicolon, or the end of its line where it goes on in no bracket and no
    /// chain of calls.
    pub(super) fn statement_end(&self, from: usize, limit: usize) -> usize {
        let mut at = from;
        let mut before = 0;
        while at < limit {
            match self.code[at] {
                b'(' | b'[' | b'{' => at = self.closing(at, limit).max(at),
                b';' | b')' | b']' | b'}' => return at,
                b'\n' => {
                    let next = self.next_code(at).filter(|(next, _)| *next < limit);
                    let goes_on = next.is_some_and(|(_, byte)| b".?".contains(&byte))
                        || b",=&|+-*<>(\\".contains(&before);
                    match next {
                        Some((next, _)) if goes_on => {
                            at = next;
                            continue;
                        }
                        _ => return at,
                    }
                }
                _ => {}
            }
            before = match self.code.get(at) {
                Some(byte) if !byte.is_ascii_whitespace() => *byte,
                _ => before,
            };
            at += 1;
        }
        limit
    }
}

/// The pairs of brackets, each kind by itself, in the order in which they are opened.
fn brackets(code: &[u8]) -> Vec<(usize, usize)> {
    let mut open: [Vec<usize>; 3] = Default::default();
    let mut pairs = Vec::new();
    for (at, byte) in code.iter().enumerate() {
        match byte {
            b'(' => open[0].push(at),
            b'[' => open[1].push(at),
            b'{' => open[2].push(at),
            b')' | b']' | b'}' => {
                let kind = match byte {
                    b')' => 0,
                    b']' => 1,
                    _ => 2,
                };
                pairs.extend(open[kind].pop().map(|begin| (begin, at)));
            }
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Iterates over words: names, keywords and numbers.
pub(super) struct Words<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Words<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.code.get(self.at..)?;
        let begin = self.at + rest.iter().position(|byte| mask::is_word(*byte))?;
        let word = &self.code[begin..];
        let length = word.iter().position(|byte| !mask::is_word(*byte)).unwrap_or(word.len());
        self.at = begin + length;
        Some((begin, &word[..length]))
    }
}

/// How far a line is indented; nothing for a line without code.
pub(super) fn indent(line: &[u8]) -> Option<usize> {
    line.iter().position(|byte| !byte.is_ascii_whitespace())
}
