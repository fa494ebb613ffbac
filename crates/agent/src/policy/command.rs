//! A line of the shell, taken apart into the commands that it runs. What this reader does not understand for certain it does
//! not guess: then the line cannot be taken apart, and whoever asks must take it for anything.

use super::pattern::{A_NAME, ANYTHING};

/// Longest line that is read.
const LONGEST: usize = 16 * 1024;
/// Deepest nesting that is read.
const DEEPEST: usize = 16;

/// One command of a line. Parts that only the shell knows are [`ANYTHING`] or [`A_NAME`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Variables that are set for it, as they are written.
    pub(super) variables: Vec<String>,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// Files that it is made to read.
    pub(super) reads: Vec<String>,
    /// Files that it is made to write.
    pub(super) writes: Vec<String>,
}

/// The commands of a line in the order in which they begin; None where the line cannot be taken apart.
pub(super) fn take_apart(line: &str) -> Option<Vec<Simple>> {
    let hidden = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if line.len() > LONGEST || line.chars().any(hidden) {
        return None;
    }
    let letters = line.chars().collect();
    let mut reader = Reader { letters, place: 0, commands: Vec::new(), documents: Vec::new(), depth: 0 };
    reader.list(None)?;
    Some(reader.commands)
}

struct Reader {
    letters: Vec<char>,
    place: usize,
    commands: Vec<Simple>,
    /// Documents whose text comes after the line: how each ends, whether tabs before that count, whether it is as written.
    documents: Vec<Document>,
    depth: usize,
}

struct Document {
    end: String,
    tabs: bool,
    as_written: bool,
}

/// What was read of a word.
struct Word {
    text: String,
    /// Whether a part of it was in quotes, so that it is no keyword.
    quoted: bool,
}

/// What a word begins or ends in the grammar.
enum Key {
    /// A command may follow it.
    Before,
    /// Nothing but redirections follows it.
    After,
    /// A name and words follow it, and no command.
    Loop,
    /// It is not understood.
    Strange,
    /// It is a word.
    None,
}

fn key(word: &str) -> Key {
    match word {
        "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "!" | "{" => Key::Before,
        "fi" | "done" | "}" => Key::After,
        "for" => Key::Loop,
        "case" | "esac" | "select" | "function" | "[[" | "coproc" | "in" => Key::Strange,
        _ => Key::None,
    }
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.place).copied()
    }

    fn ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(index, letter)| self.letters.get(self.place + index) == Some(&letter))
    }

    fn take(&mut self, text: &str) -> bool {
        let there = self.ahead(text);
        if there {
            self.place += text.chars().count();
        }
        there
    }

    /// Reads commands to the end of the text, or to the bracket that closes them.
    fn list(&mut self, end: Option<char>) -> Option<()> {
        self.depth += 1;
        // Where a document's text is that is announced on one side of a bracket and begins on the other, shells do not agree.
        if self.depth > DEEPEST || !self.documents.is_empty() {
            return None;
        }
        loop {
            self.blanks()?;
            match self.peek() {
                None if end.is_none() && self.documents.is_empty() => break,
                None => return None,
                Some(')') if end == Some(')') && self.documents.is_empty() => {
                    self.place += 1;
                    break;
                }
                Some(')') => return None,
                Some('(') if self.ahead("((") => return None,
                Some('(') => {
                    self.place += 1;
                    self.list(Some(')'))?;
                    let mut after = Simple::default();
                    self.rest(&mut after, true)?;
                    self.keep(after);
                }
                Some(';' | '&' | '|') => {
                    // `;;` belongs to what is not understood.
                    if self.ahead(";;") || self.ahead(";&") {
                        return None;
                    }
                    if self.ahead("&>") {
                        self.command()?;
                    } else {
                        self.place += 1;
                    }
                }
                Some(_) => self.command()?,
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// Passes spaces, comments and ends of lines, with the documents that follow those.
    fn blanks(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.place += 1,
                Some('\\') if self.ahead("\\\n") => self.place += 2,
                Some('#') => {
                    while self.peek().is_some_and(|letter| letter != '\n') {
                        self.place += 1;
                    }
                }
                Some('\n') => {
                    self.place += 1;
                    for document in std::mem::take(&mut self.documents) {
                        self.document(&document)?;
                    }
                }
                Some(_) | None => return Some(()),
            }
        }
    }

    /// Passes the text of a document. One that the shell changes must not run anything.
    fn document(&mut self, document: &Document) -> Option<()> {
        loop {
            let rest = &self.letters[self.place..];
            let length = rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len());
            let line: String = rest[..length].iter().collect();
            let last = self.place + length >= self.letters.len();
            self.place = (self.place + length + 1).min(self.letters.len());
            let compared = if document.tabs { line.trim_start_matches('\t') } else { &line };
            if compared == document.end {
                return Some(());
            }
            if last
                || (!document.as_written && (line.contains('$') || line.contains('`') || line.contains('\\')))
            {
                return None;
            }
        }
    }

    /// Reads one command with its redirections.
    fn command(&mut self) -> Option<()> {
        let mut command = Simple::default();
        let mut began = false;
        self.keywords(&mut command, &mut began)?;
        self.rest(&mut command, began)?;
        self.keep(command);
        Some(())
    }

    /// Reads what stands before the program.
    fn keywords(&mut self, command: &mut Simple, began: &mut bool) -> Option<()> {
        loop {
            self.spaces();
            if self.redirection(command)? {
                continue;
            }
            if self.at_end() {
                return Some(());
            }
            if self.peek() == Some('(') {
                // A list in brackets after a keyword is read by whoever reads lists.
                return (command.words.is_empty() && command.variables.is_empty()).then_some(());
            }
            let from = self.place;
            let word = self.word()?;
            let is_key =
                if word.quoted || !command.variables.is_empty() { Key::None } else { key(&word.text) };
            match is_key {
                Key::Before => continue,
                Key::After => {
                    *began = true;
                    return Some(());
                }
                Key::Loop => {
                    self.spaces();
                    let name = self.word()?.text;
                    // Such names say how programs are found and run.
                    if !name.contains(|letter: char| letter.is_ascii_lowercase()) {
                        command.variables.push(format!("{name}={ANYTHING}"));
                    }
                    // Its words are only words; what runs among them was read with them.
                    loop {
                        self.spaces();
                        if self.at_end() {
                            break;
                        }
                        self.word()?;
                    }
                    *began = true;
                    return Some(());
                }
                Key::Strange => return None,
                Key::None => {}
            }
            // Quotes may be in the value, and not in the name.
            let written: String = self.letters[from..self.place].iter().collect();
            if is_assignment(&written.replace("\\\n", "")) {
                // A list of words, or one that is added to, is not read.
                if self.peek() == Some('(') {
                    return None;
                }
                command.variables.push(word.text);
                continue;
            }
            // Which program it is must be known.
            if word.text.is_empty() || word.text.contains([ANYTHING, A_NAME]) {
                return None;
            }
            command.words.push(word.text);
            return Some(());
        }
    }

    /// Reads arguments and redirections up to the end of the command; no words are left where none may follow.
    fn rest(&mut self, command: &mut Simple, no_words: bool) -> Option<()> {
        loop {
            self.spaces();
            if self.redirection(command)? {
                continue;
            }
            if self.at_end() {
                return Some(());
            }
            if self.peek() == Some('(') {
                return (command.words.is_empty() && !no_words).then_some(());
            }
            if no_words {
                return None;
            }
            let word = self.word()?;
            command.words.push(word.text);
        }
    }

    fn keep(&mut self, command: Simple) {
        if command != Simple::default() {
            self.commands.push(command);
        }
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) || self.ahead("\\\n") {
            self.place += if self.ahead("\\\n") { 2 } else { 1 };
        }
    }

    /// Whether a command ends here.
    fn at_end(&self) -> bool {
        let comment = self.peek() == Some('#');
        comment || matches!(self.peek(), None | Some(';' | '&' | '|' | '\n' | ')'))
    }

    /// Reads a redirection, if there is one.
    fn redirection(&mut self, command: &mut Simple) -> Option<bool> {
        let before = self.place;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit()) {
            self.place += 1;
        }
        if self.place == before && (self.take("&>>") || self.take("&>")) {
            let file = self.target()?;
            command.writes.push(file);
            return Some(true);
        }
        let process = self.ahead("<(") || self.ahead(">(");
        if process || !matches!(self.peek(), Some('<' | '>')) {
            self.place = before;
            return Some(false);
        }
        if self.take("<<<") {
            self.target()?;
        } else if self.ahead("<<") {
            self.place += 2;
            let tabs = self.take("-");
            self.spaces();
            let from = self.place;
            let word = self.word()?;
            let as_written = word.quoted || self.letters[from..self.place].contains(&'\\');
            if word.text.is_empty() || word.text.contains([ANYTHING, A_NAME]) {
                return None;
            }
            self.documents.push(Document { end: word.text, tabs, as_written });
        } else if self.take(">&") || self.take("<&") {
            let target = self.target()?;
            let number = target.trim_end_matches('-');
            if !number.chars().all(|letter| letter.is_ascii_digit()) {
                command.writes.push(target);
            }
        } else if self.take("<>") || self.take(">>") || self.take(">|") || self.take(">") {
            let file = self.target()?;
            command.writes.push(file);
        } else {
            self.place += 1;
            let file = self.target()?;
            command.reads.push(file);
        }
        Some(true)
    }

    fn target(&mut self) -> Option<String> {
        self.spaces();
        if self.at_end() && self.peek() != Some('#') {
            return None;
        }
        Some(self.word()?.text)
    }

    /// Reads one word as the shell does, with what it cannot know marked.
    fn word(&mut self) -> Option<Word> {
        let (mut text, mut quoted, mut braces) = (String::new(), false, false);
        // Where the first square bracket opens that is not in quotes.
        let mut bracket = None;
        let from = self.place;
        while let Some(letter) = self.peek() {
            match letter {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' if self.ahead("<(") || self.ahead(">(") => {
                    self.place += 2;
                    self.list(Some(')'))?;
                    text.push(ANYTHING);
                }
                '<' | '>' => break,
                // A function, or a pattern of the extended kind.
                '(' => {
                    return if self.place == from || text.ends_with('=') {
                        break_at(text, quoted)
                    } else {
                        None
                    };
                }
                '`' => return None,
                '\\' => match self.letters.get(self.place + 1).copied() {
                    Some('\n') => self.place += 2,
                    Some(escaped) => {
                        text.push(escaped);
                        quoted = true;
                        self.place += 2;
                    }
                    None => return None,
                },
                '\'' => {
                    quoted = true;
                    self.place += 1;
                    text.push_str(&self.until_quote()?);
                }
                '"' => {
                    quoted = true;
                    self.place += 1;
                    self.in_quotes(&mut text)?;
                }
                '$' => self.dollar(&mut text, false)?,
                '*' | '?' => {
                    text.push(A_NAME);
                    self.place += 1;
                }
                '[' => {
                    bracket = bracket.or(Some(text.len()));
                    text.push(letter);
                    self.place += 1;
                }
                '~' if self.place == from => {
                    text.push(ANYTHING);
                    self.place += 1;
                }
                '{' | '}' => {
                    braces = true;
                    text.push(letter);
                    self.place += 1;
                }
                other => {
                    text.push(other);
                    self.place += 1;
                }
            }
        }
        if self.place == from {
            return None;
        }
        if let Some(first) = bracket {
            text = with_brackets(&text, first);
        }
        // One with braces can become several.
        let several = braces && !matches!(text.as_str(), "{" | "}" | "{}");
        Some(Word { text: if several { ANYTHING.to_string() } else { text }, quoted })
    }

    fn until_quote(&mut self) -> Option<String> {
        let rest = &self.letters[self.place..];
        let length = rest.iter().position(|letter| *letter == '\'')?;
        let text = rest[..length].iter().collect();
        self.place += length + 1;
        Some(text)
    }

    fn in_quotes(&mut self, text: &mut String) -> Option<()> {
        loop {
            match self.peek()? {
                '"' => {
                    self.place += 1;
                    return Some(());
                }
                '`' => return None,
                '$' => self.dollar(text, true)?,
                '\\' => {
                    let escaped = self.letters.get(self.place + 1).copied()?;
                    match escaped {
                        '\n' => {}
                        '$' | '`' | '"' | '\\' => text.push(escaped),
                        other => text.extend(['\\', other]),
                    }
                    self.place += 2;
                }
                other => {
                    text.push(other);
                    self.place += 1;
                }
            }
        }
    }

    /// Reads what a dollar begins.
    fn dollar(&mut self, text: &mut String, in_quotes: bool) -> Option<()> {
        let after = self.letters.get(self.place + 1).copied();
        match after {
            Some('(') if self.ahead("$((") => return None,
            Some('(') => {
                self.place += 2;
                self.list(Some(')'))?;
                text.push(ANYTHING);
            }
            Some('{') => {
                let rest = &self.letters[self.place + 2..];
                let length = rest.iter().position(|letter| *letter == '}')?;
                let plain =
                    |letter: &char| letter.is_ascii_alphanumeric() || "_:-+=?#%/.,!*@ ".contains(*letter);
                let inner = &rest[..length];
                // `${name@P}` runs what the variable holds; `${!name}` is another one.
                let runs = inner.contains(&'@') && inner != ['@'];
                if !inner.iter().all(plain) || runs || counts(inner) {
                    return None;
                }
                self.place += length + 3;
                text.push(ANYTHING);
            }
            Some('\'' | '"') if !in_quotes => return None,
            Some('[') => return None,
            Some(letter) if letter.is_ascii_alphanumeric() || letter == '_' => {
                self.place += 1;
                while self.peek().is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
                    self.place += 1;
                }
                text.push(ANYTHING);
            }
            Some('?' | '$' | '!' | '#' | '@' | '*' | '-') => {
                self.place += 2;
                text.push(ANYTHING);
            }
            Some(_) | None => {
                self.place += 1;
                text.push('$');
            }
        }
        Some(())
    }
}

/// A word with square brackets from this place on, which are a wildcard where they close within a name. Which letters they
/// mean is not read: they may be in quotes, negated or a class.
fn with_brackets(text: &str, first: usize) -> String {
    let (before, rest) = text.split_at(first);
    // What is not known can close them, anywhere.
    if rest.contains(ANYTHING) {
        return format!("{before}{ANYTHING}");
    }
    let names = rest.split('/').map(|name| match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}{A_NAME}{}", &name[..open], &name[close + 1..])
        }
        _ => name.to_owned(),
    });
    format!("{before}{}", names.collect::<Vec<_>>().join("/"))
}

/// Whether a part of a variable is taken from a place that is itself reckoned, `${name:place}`: what stands there can run
/// commands.
fn counts(inner: &[char]) -> bool {
    let Some(colon) = inner.iter().position(|letter| !(letter.is_ascii_alphanumeric() || *letter == '_'))
    else {
        return false;
    };
    let after = &inner[colon + 1..];
    let is_number = |letter: &char| letter.is_ascii_digit() || matches!(letter, ':' | '-' | ' ');
    inner[colon] == ':'
        && !after.first().is_some_and(|letter| "-+=?".contains(*letter))
        && !after.iter().all(is_number)
}

/// A word that ends before a bracket.
fn break_at(text: String, quoted: bool) -> Option<Word> {
    text.ends_with('=').then_some(Word { text, quoted })
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let first = name.chars().next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_');
    first && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests;
