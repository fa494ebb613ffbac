//! Source text with its comments and strings blanked out, byte for byte in its place, so that what is left is code. It
//! knows just enough of each language for that. One pass, whatever the text: hostile text costs no more than its length.

use super::language::Language;

/// Longest regular expression that is recognised.
const REGEX: usize = 500;

/// The code of a text: what is a comment or a string is spaces, and line ends stay.
pub(super) fn mask(text: &str, language: Language) -> Vec<u8> {
    let mut masker = Masker { from: text.as_bytes(), out: Vec::with_capacity(text.len()), language };
    while masker.at() < masker.from.len() {
        masker.step();
    }
    masker.out
}

struct Masker<'a> {
    from: &'a [u8],
    /// As long as what was read.
    out: Vec<u8>,
    language: Language,
}

impl Masker<'_> {
    fn at(&self) -> usize {
        self.out.len()
    }

    fn rest(&self) -> &[u8] {
        &self.from[self.at()..]
    }

    fn next(&self, ahead: usize) -> u8 {
        self.from.get(self.at() + ahead).copied().unwrap_or(0)
    }

    fn keep(&mut self) {
        self.out.push(self.next(0));
    }

    /// Blanks up to this place.
    fn blank_to(&mut self, end: usize) {
        let end = end.min(self.from.len());
        while self.at() < end {
            let byte = self.next(0);
            self.out.push(if byte == b'\n' { b'\n' } else { b' ' });
        }
    }

    fn blank(&mut self, count: usize) {
        self.blank_to(self.at() + count);
    }

    /// Blanks through these bytes, or to the end where they do not come.
    fn blank_through(&mut self, end: &[u8]) {
        let found = find(self.rest(), end).map_or(self.from.len(), |found| self.at() + found + end.len());
        self.blank_to(found);
    }

    fn blank_line(&mut self) {
        let end = self.rest().iter().position(|byte| *byte == b'\n');
        self.blank_to(end.map_or(self.from.len(), |end| self.at() + end));
    }

    fn step(&mut self) {
        use Language::{Bats, CSharp, Cpp, Go, Java, Php, Python, Ruby, Rust, Script, Swift};
        let rest = self.rest();
        let slashes = !matches!(self.language, Python | Ruby | Bats);
        if slashes && rest.starts_with(b"//") {
            return self.blank_line();
        }
        if slashes && rest.starts_with(b"/*") {
            return self.block_comment();
        }
        let byte = rest[0];
        match (byte, self.language) {
            (b'#', Python | Ruby) => self.blank_line(),
            // In a shell it begins a comment only where a word could begin.
            (b'#', Bats) if self.out.last().is_none_or(|before| before.is_ascii_whitespace()) => {
                self.blank_line();
            }
            (b'#', Php) if self.next(1) != b'[' => self.blank_line(),
            (b'#', Cpp | CSharp) if self.begins_line() && switched_off(rest) => self.switched_off(),
            (b'=', Ruby) if self.line_starts() && rest.starts_with(b"=begin") => {
                self.blank_through(b"\n=end");
            }
            (b'"' | b'\'', Python) if rest.starts_with(&[byte; 3]) => self.triple(byte),
            (b'"', Java | Swift | CSharp) if rest.starts_with(b"\"\"\"") => self.triple(byte),
            (b'@', CSharp) if rest.starts_with(b"@\"") => {
                self.blank(1);
                self.doubled();
            }
            (b'r' | b'b' | b'c', Rust) if self.word_starts() => self.rust_prefix(),
            (b'R', Cpp) if rest.starts_with(b"R\"") && self.word_starts() => self.cpp_raw(),
            (b'\'', Rust) => self.rust_quote(),
            (b'`', Go) => {
                self.blank(1);
                self.blank_through(b"`");
            }
            (b'`', Script) => self.template(),
            (b'/', Script) if self.regex_may_begin() => self.regex(),
            // Over several lines, as a shell and Rust have them.
            (b'"', Rust | Php | Bats) | (b'\'', Php) => self.quoted(byte, OverLines::Allowed),
            (b'"', _) | (b'\'', _) => self.quoted(byte, OverLines::Ended),
            _ => self.keep(),
        }
    }

    fn line_starts(&self) -> bool {
        self.out.last().is_none_or(|byte| *byte == b'\n')
    }

    fn begins_line(&self) -> bool {
        let before = self.out.iter().rev().find(|byte| !matches!(byte, b' ' | b'\t'));
        before.is_none_or(|byte| *byte == b'\n')
    }

    fn word_starts(&self) -> bool {
        self.out.last().is_none_or(|byte| !is_word(*byte))
    }

    fn block_comment(&mut self) {
        let nests = matches!(self.language, Language::Rust | Language::Swift | Language::Java);
        let mut depth = 0_usize;
        while self.at() < self.from.len() {
            if self.rest().starts_with(b"/*") && (nests || depth == 0) {
                depth += 1;
                self.blank(2);
            } else if self.rest().starts_with(b"*/") {
                depth = depth.saturating_sub(1);
                self.blank(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.blank(1);
            }
        }
    }

    /// A string of one line, with escapes. One that is not closed there ends with it, so that a stray quote costs a line.
    fn quoted(&mut self, quote: u8, lines: OverLines) {
        self.blank(1);
        while self.at() < self.from.len() {
            match self.next(0) {
                b'\\' => self.blank(2),
                b'\n' if lines == OverLines::Ended => return,
                byte => {
                    self.blank(1);
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    /// `"…"` in which a doubled quote is one that does not end it.
    fn doubled(&mut self) {
        self.blank(1);
        while self.at() < self.from.len() {
            if self.rest().starts_with(b"\"\"") {
                self.blank(2);
            } else {
                let byte = self.next(0);
                self.blank(1);
                if byte == b'"' {
                    return;
                }
            }
        }
    }

    fn triple(&mut self, quote: u8) {
        self.blank(3);
        while self.at() < self.from.len() {
            if self.rest().starts_with(&[quote; 3]) {
                return self.blank(3);
            }
            let count = if self.next(0) == b'\\' { 2 } else { 1 };
            self.blank(count);
        }
    }

    /// `r"…"`, `r#"…"#`, `b"…"` and their like, or a word that begins with such a letter.
    fn rust_prefix(&mut self) {
        let mut ahead = 1;
        let raw = self.next(0) == b'r' || self.next(1) == b'r';
        if self.next(1) == b'r' {
            ahead += 1;
        }
        let mut hashes = 0;
        while raw && self.next(ahead) == b'#' {
            ahead += 1;
            hashes += 1;
        }
        if self.next(ahead) != b'"' {
            return self.keep();
        }
        if !raw {
            self.blank(ahead);
            return self.quoted(b'"', OverLines::Allowed);
        }
        self.blank(ahead + 1);
        let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
        self.blank_through(&end);
    }

    /// A character, or a lifetime, which is code.
    fn rust_quote(&mut self) {
        if self.next(1) == b'\\' {
            return self.quoted(b'\'', OverLines::Ended);
        }
        let width = match self.next(1) {
            0..=0x7f => 1,
            0x80..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        };
        if self.next(1 + width) == b'\'' { self.blank(width + 2) } else { self.keep() }
    }

    /// `R"name(…)name"`.
    fn cpp_raw(&mut self) {
        let name: Vec<u8> =
            self.rest()[2..].iter().copied().take(16).take_while(|byte| *byte != b'(').collect();
        let end: Vec<u8> = b")".iter().chain(&name).chain(b"\"").copied().collect();
        self.blank(3 + name.len());
        self.blank_through(&end);
    }

    /// A template with its expressions, which may have templates again.
    fn template(&mut self) {
        // The braces that are open in each expression around; None is the text of a template.
        let mut around: Vec<Option<usize>> = vec![None];
        self.blank(1);
        while self.at() < self.from.len() {
            let (byte, next) = (self.next(0), self.next(1));
            let Some(inside) = around.last_mut() else { return };
            match (inside, byte) {
                (_, b'\\') => {
                    self.blank(2);
                    continue;
                }
                (None, b'`') | (Some(0), b'}') => {
                    around.pop();
                }
                (None, b'$') if next == b'{' => {
                    around.push(Some(0));
                    self.blank(1);
                }
                (None, _) => {}
                (Some(_), b'`') => around.push(None),
                (Some(open), b'{') => *open += 1,
                (Some(open), b'}') => *open -= 1,
                (Some(_), _) => {}
            }
            self.blank(1);
        }
    }

    /// Whether a slash here begins an expression rather than dividing.
    fn regex_may_begin(&self) -> bool {
        let before = self.out.iter().rev().find(|byte| !matches!(byte, b' ' | b'\t'));
        before.is_none_or(|byte| b"(,=:[!&|?{};\n".contains(byte))
    }

    fn regex(&mut self) {
        // An expression is short; whoever writes a long line of beginnings does not have it read again and again.
        let near = &self.rest()[..self.rest().len().min(REGEX)];
        let line = near.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let (mut at, mut class) = (1, false);
        while at < line.len() {
            match line[at] {
                b'\\' => at += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => return self.blank(at + 1),
                _ => {}
            }
            at += 1;
        }
        self.keep();
    }

    /// `#if 0` and what is below it, up to its `#else` or `#endif`.
    fn switched_off(&mut self) {
        let mut depth = 0_usize;
        while self.at() < self.from.len() {
            let line = self.rest().split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
            let word = line.strip_prefix(b"#").map(<[u8]>::trim_ascii_start).unwrap_or_default();
            if word.starts_with(b"if") {
                depth += 1;
            } else if word.starts_with(b"endif") {
                depth = depth.saturating_sub(1);
            }
            let other = depth == 1 && word.starts_with(b"el");
            self.blank_line();
            if depth == 0 || other {
                return;
            }
            self.blank(1);
        }
    }
}

/// Whether a string may go on over the end of a line.
#[derive(PartialEq, Eq)]
enum OverLines {
    Allowed,
    Ended,
}

/// Whether this line of the preprocessor takes out what is below it.
fn switched_off(rest: &[u8]) -> bool {
    let line = rest[1..].split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    line.strip_prefix(b"if").map(<[u8]>::trim_ascii).is_some_and(|what| what == b"0" || what == b"false")
}

/// Whether the byte can be part of a name.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The first place of some bytes in others.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let (first, rest) = wanted.split_first()?;
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.iter().position(|byte| byte == first)?;
        if text[at + 1..].starts_with(rest) {
            return Some(at);
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the code that is left.
    fn code(text: &str, language: Language) -> String {
        let masked = mask(text, language);
        assert_eq!(masked.len(), text.len());
        String::from_utf8(masked).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_blanked_and_code_stays() {
        use Language::{CSharp, Cpp, Go, Java, Python, Rust, Script};
        for (language, text, left) in [
            (Rust, "a(\"x\\\"y\"); // b\nc /* d /* e */ f */ g", "a( ); c g"),
            (Rust, "fn f<'a>(x: &'a str) { 'x'; '\\''; 'é' }", "fn f<'a>(x: &'a str) { ; ; }"),
            (Rust, "r#\"a \" b\"# + br\"c\" + rest + b'x'", "+ + rest + b"),
            (Python, "a = '''x\n''' # b\nc = \"d\" + f'e'", "a = c = + f"),
            (Python, "x = 'it''s'\ny", "x = y"),
            (Script, "a(/['\"`]/, b) / c // d\ne", "a( , b) / c e"),
            (Script, "x = `a ${b ? `c` : '}'} d`; y", "x = ; y"),
            (Go, "a := `x\n\"` + 'b'", "a := +"),
            (Java, "String a = \"\"\"\n x \"y\" \"\"\"; b", "String a = ; b"),
            (CSharp, "a = @\"c:\\\"; b\n#if false\nc\n#endif\nd", "a = ; b d"),
            (Cpp, "a\n#if 0\n#if X\nb\n#endif\nc\n#else\nd\n#endif\nR\"x(a\")x\"; e", "a d #endif ; e"),
        ] {
            assert_eq!(code(text, language), left, "{text}");
        }
    }

    #[test]
    fn a_stray_quote_costs_one_line() {
        assert_eq!(code("<p>Don't</p>\nit()", Language::Script), "<p>Don it()");
    }
}
