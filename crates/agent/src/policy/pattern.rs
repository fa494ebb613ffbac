//! Patterns of a policy, and texts of which a part is not known: what a variable or a wildcard of the shell stands for.

/// Stands in a text for anything at all.
pub(super) const ANYTHING: char = '\u{0}';
/// Stands in a text for anything within a name.
pub(super) const A_NAME: char = '\u{1}';

/// Whether a pattern fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// Whatever the unknown parts are, it does not.
    No,
    /// It depends on them.
    Maybe,
    /// Whatever they are, it does.
    Yes,
}

/// What a pattern is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// `*` stays within a name.
    Paths,
    /// `*` is anything.
    Words,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// Any one letter.
    One,
    /// Any number of letters of a name.
    Name,
    /// Any number of letters.
    All,
    /// Before a `**/` that stands where a name begins: it is any number of directories, and also none.
    Directories,
}

/// A pattern that can be compared.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// What braces stand for; one where there are none.
    alternatives: Vec<Sequence>,
}

#[derive(Debug, Clone)]
struct Sequence {
    of: Of,
    tokens: Vec<Token>,
}

/// How much must be certain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sure {
    Possible,
    Certain,
}

impl Pattern {
    /// For absolute paths. One without a slash is for every directory of the workspace.
    pub(super) fn path(text: &str, workspace: &str) -> Self {
        let mut alternatives = protocol::policy::alternatives(text.trim());
        alternatives.retain(|one| !one.trim().is_empty());
        let sequence = |one: &String| Sequence::parse(&from_root(one, workspace), Of::Paths);
        Self { alternatives: alternatives.iter().map(sequence).collect() }
    }

    /// For the words of a command, with a space between them.
    pub(super) fn words(text: &str) -> Self {
        Self::of_words(&text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// For the name of a tool.
    pub(super) fn name(text: &str) -> Self {
        Self::of_words(text.trim())
    }

    fn of_words(text: &str) -> Self {
        Self { alternatives: vec![Sequence::parse(text, Of::Words)] }
    }

    /// Whether it fits the text.
    pub(super) fn fits(&self, text: &str) -> Fit {
        self.alternatives.iter().map(|sequence| sequence.fits(text)).max().unwrap_or(Fit::No)
    }
}

impl Sequence {
    fn parse(text: &str, of: Of) -> Self {
        let mut tokens = Vec::new();
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let begins = tokens.last().is_none_or(|last| *last == Token::Letter('/'));
            let ahead: String = letters.clone().take(2).collect();
            if of == Of::Paths && begins && letter == '*' && ahead == "*/" {
                tokens.push(Token::Directories);
            }
            tokens.push(match letter {
                '\\' => Token::Letter(letters.next().unwrap_or('\\')),
                '?' => Token::One,
                '*' if of == Of::Words => Token::All,
                '*' if letters.next_if_eq(&'*').is_some() => Token::All,
                '*' => Token::Name,
                letter => Token::Letter(letter),
            });
        }
        Self { of, tokens }
    }

    fn fits(&self, text: &str) -> Fit {
        let runs = |sure| self.runs(text, sure);
        match (runs(Sure::Certain), runs(Sure::Possible)) {
            (true, _) => Fit::Yes,
            (false, true) => Fit::Maybe,
            (false, false) => Fit::No,
        }
    }

    /// Goes through the text with every place of the pattern that can be reached.
    fn runs(&self, text: &str, sure: Sure) -> bool {
        let mut reached = vec![false; self.tokens.len() + 1];
        reached[0] = true;
        self.skip(&mut reached);
        for letter in text.chars() {
            let mut next = vec![false; reached.len()];
            for (place, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
                self.take(place, letter, sure, &mut next);
            }
            self.skip(&mut next);
            reached = next;
            if !reached.contains(&true) {
                return false;
            }
        }
        let end = self.tokens.len();
        reached[end] || self.may_end_early().is_some_and(|place| reached[place])
    }

    /// Where the text may end although something follows: `dir/**` is the directory too, `cargo test *` also `cargo test`.
    fn may_end_early(&self) -> Option<usize> {
        let separator = match self.of {
            Of::Paths => '/',
            Of::Words => ' ',
        };
        let place = self.tokens.len().checked_sub(2)?;
        (self.tokens[place..] == [Token::Letter(separator), Token::All]).then_some(place)
    }

    /// Places that are reached without a letter.
    fn skip(&self, reached: &mut [bool]) {
        for place in 0..self.tokens.len() {
            if !reached[place] {
                continue;
            }
            if matches!(self.tokens[place], Token::Name | Token::All) {
                reached[place + 1] = true;
            }
            // None at all is only here, and not after some letters of a name.
            if self.tokens[place] == Token::Directories {
                reached[place + 1] = true;
                reached[place + 3] = true;
            }
        }
    }

    /// Places that are reached from one with a letter.
    fn take(&self, place: usize, letter: char, sure: Sure, next: &mut [bool]) {
        let token = self.tokens.get(place).copied();
        let within_name = self.of == Of::Words || letter != '/';
        match (letter, sure, token) {
            // Whatever it is must be taken here.
            (ANYTHING, Sure::Certain, Some(Token::All)) => next[place] = true,
            (A_NAME, Sure::Certain, Some(Token::All | Token::Name)) => next[place] = true,
            (ANYTHING | A_NAME, Sure::Certain, _) => {}
            // It can be what the rest of the pattern wants, or nothing.
            (ANYTHING, Sure::Possible, _) => next[place..].fill(true),
            (A_NAME, Sure::Possible, _) => {
                let rest = self.tokens[place..].iter();
                let names = rest.take_while(|token| **token != Token::Letter('/')).count();
                next[place..=place + names].fill(true);
            }
            (_, _, Some(Token::Letter(wanted))) if wanted == letter => next[place + 1] = true,
            (_, _, Some(Token::One)) if within_name => next[place + 1] = true,
            (_, _, Some(Token::Name)) if within_name => next[place] = true,
            (_, _, Some(Token::All)) => next[place] = true,
            (_, _, Some(_) | None) => {}
        }
    }
}

/// A pattern of paths without braces, from the root on.
fn from_root(pattern: &str, workspace: &str) -> String {
    let absolute = match pattern.trim().trim_start_matches("./") {
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        name if !name.trim_end_matches('/').contains('/') => format!("{workspace}/**/{name}"),
        below => format!("{workspace}/{below}"),
    };
    let directory = absolute.ends_with('/');
    if directory { format!("{absolute}**") } else { absolute }
}

/// A text as a pattern that fits it and nothing else.
pub(super) fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pattern: &str, text: &str) -> Fit {
        Pattern::path(pattern, "/workspace").fits(text)
    }

    #[test]
    fn paths_are_compared_name_by_name() {
        for (pattern, text, fit) in [
            ("migrations/**", "/workspace/migrations/1/up.sql", Fit::Yes),
            ("migrations/**", "/workspace/migrations", Fit::Yes),
            ("migrations/", "/workspace/a/migrations/1.sql", Fit::Yes),
            ("db/migrations/", "/workspace/db/migrations/1.sql", Fit::Yes),
            ("migrations/**", "/workspace/migrations2/1.sql", Fit::No),
            ("migrations/**", "/workspace/a/migrations/1.sql", Fit::No),
            ("migrations/*", "/workspace/migrations/1/up.sql", Fit::No),
            ("./src/*.rs", "/workspace/src/lib.rs", Fit::Yes),
            ("src/*.rs", "/workspace/src/a/lib.rs", Fit::No),
            ("src/**/*.rs", "/workspace/src/lib.rs", Fit::Yes),
            ("src/**/*.rs", "/workspace/src/a/b/lib.rs", Fit::Yes),
            (".env", "/workspace/.env", Fit::Yes),
            (".env", "/workspace/deploy/.env", Fit::Yes),
            (".env", "/workspace/.environment", Fit::No),
            (".env", "/workspace/prod.env", Fit::No),
            ("Makefile", "/workspace/Makefile", Fit::Yes),
            ("Makefile", "/workspace/EvilMakefile", Fit::No),
            ("Makefile", "/workspace/src/evil-Makefile", Fit::No),
            ("src/**/a.py", "/workspace/src/a.py", Fit::Yes),
            ("src/**/a.py", "/workspace/src/b/c/a.py", Fit::Yes),
            ("src/**/a.py", "/workspace/src/evil-a.py", Fit::No),
            ("src/**/a.py", "/workspace/src/b/evil-a.py", Fit::No),
            ("src/**/**/a.py", "/workspace/src/a.py", Fit::Yes),
            ("**/key", "/workspace/monkey", Fit::No),
            ("**/key", "/workspace/key", Fit::Yes),
            ("/**/key", "/key", Fit::Yes),
            ("build/", "/workspace/rebuild/x", Fit::No),
            ("build/", "/workspace/a/build/x", Fit::Yes),
            ("src/**/", "/workspace/src/a", Fit::Yes),
            ("*.pem", "/workspace/certs/a.pem", Fit::Yes),
            ("*.pem", "/etc/a.pem", Fit::No),
            ("*.{pem,key}", "/workspace/certs/a.pem", Fit::Yes),
            ("*.{pem,key}", "/workspace/a.key", Fit::Yes),
            ("*.{pem,key}", "/workspace/a.pub", Fit::No),
            ("{/etc/,certs/}", "/etc/passwd", Fit::Yes),
            ("{/etc/,certs/}", "/workspace/a/certs/b", Fit::Yes),
            (".env{,.local}", "/workspace/.env", Fit::Yes),
            ("{,.env}", "/workspace/src/lib.rs", Fit::No),
            ("{{name}}/a", "/workspace/{{name}}/a", Fit::Yes),
            ("app/[id]/$x", "/workspace/app/[id]/$x", Fit::Yes),
            ("app/[id]", "/workspace/app/i", Fit::No),
            ("/etc/**", "/etc/passwd", Fit::Yes),
            ("/**", "/etc/passwd", Fit::Yes),
            ("a?c/x", "/workspace/abc/x", Fit::Yes),
            ("a?c/x", "/workspace/a/c/x", Fit::No),
            (r"a\*/x", "/workspace/a*/x", Fit::Yes),
            (r"a\*/x", "/workspace/ab/x", Fit::No),
        ] {
            assert_eq!(path(pattern, text), fit, "{pattern} {text}");
        }
    }

    #[test]
    fn words_are_compared_as_a_line() {
        let words = |pattern: &str, text: &str| Pattern::words(pattern).fits(text);
        assert_eq!(words("git push *", "git push origin main"), Fit::Yes);
        assert_eq!(words("git push *", "git push"), Fit::Yes);
        assert_eq!(words("git push *", "git pushy"), Fit::No);
        assert_eq!(words("git  push*", "git pushy"), Fit::Yes);
        assert_eq!(words("*", "anything /at all"), Fit::Yes);
        assert_eq!(words("rm -rf /", "rm -rf /"), Fit::Yes);
        assert_eq!(words(&literal("echo * ? \\"), "echo * ? \\"), Fit::Yes);
        assert_eq!(words(&literal("echo *"), "echo a"), Fit::No);
    }

    #[test]
    fn what_is_not_known_may_be_anything_that_the_pattern_wants() {
        let unknown = format!("git {ANYTHING}");
        assert_eq!(Pattern::words("git push *").fits(&unknown), Fit::Maybe);
        assert_eq!(Pattern::words("git *").fits(&unknown), Fit::Yes);
        assert_eq!(Pattern::words("git ?").fits(&unknown), Fit::Maybe);
        assert_eq!(Pattern::words("rm *").fits(&unknown), Fit::No);
        let name = format!("/workspace/{A_NAME}.rs");
        assert_eq!(path("src/**", &name), Fit::No);
        assert_eq!(path("*.rs", &name), Fit::Yes);
        assert_eq!(path("lib.rs", &name), Fit::Maybe);
        assert_eq!(path("lib.py", &name), Fit::No);
        assert_eq!(path("src/**", &format!("/workspace/{ANYTHING}.rs")), Fit::Maybe);
        assert_eq!(path(".env", &format!("/workspace/{ANYTHING}/.env")), Fit::Yes);
        assert_eq!(path(".env", &format!("/workspace/{A_NAME}/.env")), Fit::Yes);
        assert_eq!(path(".env", &format!("/workspace/prod{A_NAME}.env")), Fit::No);
        assert_eq!(path(".env", &format!("/workspace/prod{ANYTHING}.env")), Fit::Maybe);
    }
}
