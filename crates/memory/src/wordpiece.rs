//! Words in pieces that an embedding model knows: from the left, each time the longest piece of its vocabulary.

use std::collections::HashMap;

/// What every piece that does not begin a word has before it in the vocabulary.
const INSIDE: &str = "##";

/// No word is longer, so that the work stays linear in the text.
const LONGEST: usize = 100;

/// The pieces of a vocabulary.
pub(crate) struct Pieces {
    first: HashMap<&'static str, u32>,
    inside: HashMap<&'static str, u32>,
    longest: usize,
}

impl Pieces {
    /// The vocabulary, a piece on each line; the number of the line is the number of the piece.
    pub(crate) fn new(vocabulary: &'static str) -> Self {
        let (mut first, mut inside, mut longest) = (HashMap::new(), HashMap::new(), 0);
        for (number, piece) in (0..).zip(vocabulary.split('\n')) {
            // Names of special pieces are none that a text has.
            if piece.len() > 2 && piece.starts_with('[') {
                continue;
            }
            let (map, piece) = match piece.strip_prefix(INSIDE) {
                Some(inner) if !inner.is_empty() => (&mut inside, inner),
                _ => (&mut first, piece),
            };
            longest = longest.max(piece.len());
            map.insert(piece, number);
        }
        Self { first, inside, longest }
    }

    /// The pieces of a word in lower case; none when a part of it is not known.
    pub(crate) fn of(&self, word: &str) -> Vec<u32> {
        let word = plain(word);
        let mut found = Vec::new();
        for part in pieces_of_script(&word) {
            if part.chars().count() > LONGEST || !self.take(part, &mut found) {
                return Vec::new();
            }
        }
        found
    }

    fn take(&self, word: &str, found: &mut Vec<u32>) -> bool {
        let mut at = 0;
        while at < word.len() {
            let known = if at == 0 { &self.first } else { &self.inside };
            let rest = &word[at..];
            // Most words are one piece, so the whole is tried first.
            let longest = rest
                .char_indices()
                .rev()
                .map(|(start, c)| start + c.len_utf8())
                .filter(|end| *end <= self.longest)
                .find_map(|end| known.get(&rest[..end]).map(|piece| (end, *piece)));
            let Some((length, piece)) = longest else { return false };
            found.push(piece);
            at += length;
        }
        true
    }
}

/// A Chinese character is a word; anything else is one as it is.
fn pieces_of_script(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end =
            if is_chinese(first) { first.len_utf8() } else { rest.find(is_chinese).unwrap_or(rest.len()) };
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

fn is_chinese(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// The word without accents, as the vocabulary has it. Of precomposed letters those of European languages are known.
fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '\u{300}'..='\u{36f}')).map(without_accent).collect()
}

fn without_accent(c: char) -> char {
    const LETTERS: [(&str, char); 16] = [
        ("àáâãäåāăą", 'a'),
        ("çćĉċč", 'c'),
        ("ďđ", 'd'),
        ("èéêëēĕėęě", 'e'),
        ("ĝğġģ", 'g'),
        ("ìíîïĩīĭį", 'i'),
        ("ķ", 'k'),
        ("ĺļľ", 'l'),
        ("ñńņň", 'n'),
        ("òóôõöōŏő", 'o'),
        ("ŕŗř", 'r'),
        ("śŝşš", 's'),
        ("ţť", 't'),
        ("ùúûüũūŭůűų", 'u'),
        ("ýÿ", 'y'),
        ("źżž", 'z'),
    ];
    if c.is_ascii() {
        return c;
    }
    LETTERS.iter().find(|(from, _)| from.contains(c)).map_or(c, |(_, to)| *to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str = "[PAD]\n[UNK]\nmem\n##ory\n##o\nmemo\na\n##ry\n漢\n[\n##";

    #[test]
    fn the_longest_piece_is_taken_each_time() {
        let pieces = Pieces::new(VOCABULARY);
        assert_eq!(pieces.of("memory"), [5, 7]);
        assert_eq!(pieces.of("memorya"), Vec::<u32>::new(), "`a` is known at the beginning only");
        assert_eq!(pieces.of("á"), [6]);
        assert_eq!(pieces.of("a漢漢memo"), [6, 8, 8, 5]);
        assert_eq!(pieces.of(""), Vec::<u32>::new());
        assert_eq!(pieces.of(&"a".repeat(101)), Vec::<u32>::new());
        assert_eq!(pieces.of("[UNK]"), Vec::<u32>::new());
    }
}
