//! Noticing, while an answer streams, that it says the same again and again. Small models do so until their limit, which is
//! paid for and of no use to anybody.

/// How many bytes at the end of a text must be one piece, again and again.
pub(super) const TEXT: usize = 16 * 1024;
/// The same for arguments, where a file may well hold the same line for a while.
pub(super) const ARGUMENTS: usize = 32 * 1024;
/// How many bytes come before it is looked again.
const EVERY: usize = 2 * 1024;
/// The longest piece that is noticed.
const LONGEST: usize = 1024;

/// Looks now and then.
#[derive(Debug, Default)]
pub(super) struct Watch {
    unseen: usize,
    endless: bool,
}

impl Watch {
    /// A text grew by so many bytes; `window` is how many of them must be alike.
    pub(super) fn grew(&mut self, text: &str, by: usize, window: usize) {
        self.unseen += by;
        if self.unseen >= EVERY && !self.endless {
            self.unseen = 0;
            let end = text.len().checked_sub(window).map(|start| &text.as_bytes()[start..]);
            self.endless = end.is_some_and(|end| period(end) <= LONGEST);
        }
    }

    /// Whether something does not end.
    pub(super) fn is_endless(&self) -> bool {
        self.endless
    }
}

/// The length of the shortest piece that the bytes are made of, the last of which may be cut.
fn period(bytes: &[u8]) -> usize {
    // For each beginning, how much of it also ends it (Knuth, Morris and Pratt).
    let mut borders = vec![0_usize; bytes.len()];
    let mut border = 0;
    for index in 1..bytes.len() {
        while border > 0 && bytes[index] != bytes[border] {
            border = borders[border - 1];
        }
        border += usize::from(bytes[index] == bytes[border]);
        borders[index] = border;
    }
    bytes.len() - borders.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endless(piece: &str, times: usize, window: usize) -> bool {
        let mut watch = Watch::default();
        let mut text = "Some words before it. ".to_owned();
        for _ in 0..times {
            text.push_str(piece);
            watch.grew(&text, piece.len(), window);
        }
        watch.is_endless()
    }

    #[test]
    fn the_shortest_piece_is_found() {
        assert_eq!([b"aaaa".as_slice(), b"ababa", b"abcab", b"abcd", b""].map(period), [1, 2, 3, 4, 0]);
    }

    #[test]
    fn only_what_goes_on_for_thousands_of_bytes_is_endless() {
        assert!(endless("the same line\n", 2000, TEXT));
        assert!(endless(" ", 20_000, TEXT), "white space is the same too");
        assert!(!endless("the same line\n", 300, TEXT), "a little of it is not");
        assert!(!endless("0, ", 5000, ARGUMENTS), "a file may have that much of it");
        assert!(endless("0, ", 20_000, ARGUMENTS));
        let long: String = (0..400).map(|number| format!("{number} ")).collect();
        assert!(!endless(&long, 30, TEXT), "a long piece may be a table");
        let mut watch = Watch::default();
        let counted: String = (0..9000).map(|number| format!("line {number}\n")).collect();
        watch.grew(&counted, counted.len(), TEXT);
        assert!(!watch.is_endless(), "numbers go on");
    }
}
