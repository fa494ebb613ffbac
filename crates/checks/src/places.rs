//! The ways in which compilers and linters put a place and a message on one line, and how severity and code are read from
//! the message's words.

use protocol::{Diagnostic, Severity};

use crate::{scan, words};

/// Longest part of a line that is looked at.
const MAX_LINE: usize = 4 * 1024;

/// The lines of the output, each cut to what is looked at.
pub(crate) fn lines(output: &str) -> impl Iterator<Item = &str> {
    output.lines().map(|line| &line[..line.floor_char_boundary(MAX_LINE)])
}

/// A finding with the message as it is, for output that tells everything apart.
pub(crate) fn found(severity: Severity, file: &str, line: u32, message: &str) -> Diagnostic {
    Diagnostic {
        severity,
        file: Some(file.to_owned()),
        line: Some(line),
        column: None,
        code: None,
        message: message.to_owned(),
        ..Diagnostic::default()
    }
}

/// `file:line[:column]: message`, also with ` - ` before the message, and rustfmt's `Diff in file:line:`.
pub(crate) fn placed(line: &str) -> Option<Diagnostic> {
    let text = line.trim_start();
    if let Some(place) = text.strip_prefix("Diff in ").and_then(scan::place) {
        return Some(diagnostic(place.file, place.line, place.column, "error: not formatted"));
    }
    let place = scan::place(text).filter(|place| is_path(place.file))?;
    let message = place.rest.strip_prefix(": ").or(place.rest.strip_prefix(" - "))?.trim();
    (!message.is_empty()).then(|| diagnostic(place.file, place.line, place.column, message))
}

/// `file(line,column): message`, as the TypeScript compiler and Microsoft's tools print it.
pub(crate) fn parenthesised(line: &str) -> Option<Diagnostic> {
    let (file, rest) = line.trim_start().split_once('(')?;
    let (number, rest) = scan::number(rest)?;
    let (column, rest) = match rest.strip_prefix(',').and_then(scan::number) {
        Some((column, rest)) => (Some(column), rest),
        None => (None, rest),
    };
    let message = rest.strip_prefix("):")?.trim();
    (is_path(file) && number > 0 && !message.is_empty()).then(|| diagnostic(file, number, column, message))
}

/// Whether the text can be a source file's path: one word with a letter, and a folder or an extension in it.
pub(crate) fn is_path(text: &str) -> bool {
    const HOSTS: [&str; 6] = [".com", ".org", ".net", ".io", ".dev", ".local"];
    let drive = text.as_bytes().get(1) == Some(&b':') && text.starts_with(|c: char| c.is_ascii_alphabetic());
    let name = if drive { &text[2..] } else { text };
    let shaped = name.contains('/')
        || name.contains('\\')
        || matches!(name, "Makefile" | "makefile" | "GNUmakefile" | "Dockerfile")
        || name.rsplit_once('.').is_some_and(|(stem, ending)| {
            !stem.is_empty() && ending.starts_with(|c: char| c.is_ascii_alphabetic()) && ending.len() <= 10
        });
    shaped
        && name.contains(|c: char| c.is_alphabetic())
        && !name.contains(|c: char| c.is_whitespace() || "()<>[]{}'\"`,;=*|:".contains(c))
        && !HOSTS.iter().any(|host| name.ends_with(host))
}

/// A diagnostic whose severity and code are taken from its words.
pub(crate) fn diagnostic(file: &str, line: u32, column: Option<u32>, text: &str) -> Diagnostic {
    let (severity, message) = match words::leading(text) {
        Some((severity, rest)) => (Some(severity), rest),
        // `error TS2322: …` and `warning CS0168: …` have the code before the colon.
        None => match text.split_once(' ').and_then(|(word, rest)| Some((words::severity(word)?, rest))) {
            Some((severity, rest)) => (Some(severity), rest.trim_start()),
            None => (None, text),
        },
    };
    let (code, message) = split_code(message);
    // A place without a word for how bad it is, a column or a rule is more often a log line than a finding.
    let told = column.is_some() || code.is_some() || file.ends_with("_test.go");
    Diagnostic {
        severity: severity.unwrap_or(if told { Severity::Error } else { Severity::Note }),
        file: Some(file.to_owned()),
        line: Some(line),
        column,
        code,
        message: message.to_owned(),
        ..Diagnostic::default()
    }
}

/// Takes a code off the beginning (`F401 …`, `TS2322: …`) or the end (`… [return-value]`).
pub(crate) fn split_code(message: &str) -> (Option<String>, &str) {
    let (first, rest) = message.split_at(message.find([':', ' ']).unwrap_or(message.len()));
    let digits = first.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let letters = first.len() - digits.len();
    if (1..=4).contains(&letters) && digits.len() >= 3 && digits.bytes().all(|b| b.is_ascii_digit()) {
        let rest = rest.trim_start_matches([':', ' ']);
        return (Some(first.to_owned()), rest.strip_prefix("[*] ").unwrap_or(rest));
    }
    if let Some((text, code)) = message.strip_suffix(']').and_then(|text| text.rsplit_once('['))
        && text.ends_with(' ')
        && !code.is_empty()
        && !code.contains(char::is_whitespace)
    {
        return (Some(code.to_owned()), text.trim_end());
    }
    (None, message)
}

/// A headline with the place on a line of its own below it: `F401 unused` and ` --> a.py:1:8`.
#[derive(Default)]
pub(crate) struct Arrow {
    /// The line before, which is the headline when a place follows.
    before: String,
}

impl Arrow {
    /// The finding that this line's place completes.
    pub(crate) fn line(&mut self, line: &str) -> Option<Diagnostic> {
        let before = std::mem::take(&mut self.before);
        if let Some(place) = line.trim_start().strip_prefix("--> ").and_then(scan::place) {
            let told = place.rest.is_empty() && !before.is_empty();
            return told.then(|| diagnostic(place.file, place.line, place.column, &before));
        }
        if !line.starts_with(' ') {
            line.clone_into(&mut self.before);
        }
        None
    }
}
