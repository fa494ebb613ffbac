//! Lines that say by themselves, or with the few below them, what is wrong and where: failed assertions, what interpreters and
//! shells say, and frameworks of tests that have no parser of their own.

use protocol::{Diagnostic, Severity};

use crate::places::{self, diagnostic, found, is_path};
use crate::scan::{self, Place};
use crate::traces::frames::is_own;
use crate::words;

/// A finding in a line.
pub(super) enum Told {
    /// All of it.
    Whole(Diagnostic),
    /// Its beginning; the lines below go on.
    Open(Diagnostic),
}

/// Reads a line of which no place is the beginning.
pub(super) fn told(line: &str) -> Option<Told> {
    let text = line.trim();
    if let Some(found) = panicked(text).or_else(|| cmake(text)).or_else(|| minitest(text)) {
        return Some(Told::Open(found));
    }
    assertion(text)
        .or_else(|| php(text))
        .or_else(|| ruby(text))
        .or_else(|| shell(text))
        .or_else(|| at_line(text))
        .or_else(|| bracketed(text))
        .or_else(|| black(text))
        .or_else(|| by_program(text))
        .map(Told::Whole)
}

/// Whether what follows the place is only a heading, as of GoogleTest, Catch2 and GHC.
pub(super) fn is_open(line: &str) -> bool {
    let text = line.trim();
    let Some(place) = scan::place(text) else { return false };
    let rest = place.rest.trim_start_matches(':').trim();
    matches!(rest, "Failure" | "FAILED" | "FAILED:")
        || rest.strip_suffix(':').is_some_and(|word| words::severity(word).is_some())
        || rest.starts_with("error: [GHC-")
}

/// What is an error though no word of the compilers' says so.
pub(super) fn settle(mut found: Diagnostic) -> Diagnostic {
    if let Some(rest) = found.message.strip_prefix("*** ") {
        found.message = rest.to_owned();
        found.severity = Severity::Error;
    } else if found.severity == Severity::Note
        && (matches!(found.message.as_str(), "Failure" | "FAILED:" | "FAILED")
            || found.message.starts_with("syntax error")
            || found.message.contains("): error: "))
    {
        found.severity = Severity::Error;
    }
    found
}

fn error(file: &str, line: u32, column: Option<u32>, message: &str) -> Diagnostic {
    Diagnostic { column, ..found(Severity::Error, file, line, message.trim()) }
}

/// A place that is all of the text, in a file.
fn whole(text: &str) -> Option<Place<'_>> {
    let bare = text.strip_prefix("file://").unwrap_or(text);
    scan::place(bare).filter(|place| place.rest.is_empty() && is_path(place.file))
}

/// ``as: as.c:3: main: Assertion `x' failed.``, and as macOS and musl say it.
fn assertion(text: &str) -> Option<Diagnostic> {
    if let Some(rest) = text.strip_prefix("Assertion failed: ") {
        if let Some((said, at)) = text.strip_suffix('.').and_then(|text| text.rsplit_once(", file ")) {
            let (file, line) = at.rsplit_once(", line ")?;
            return Some(error(file, line.parse().ok()?, None, said));
        }
        let (said, at) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        let (at, line) = at.rsplit_once(": ")?;
        let (file, function) = at.split_once(": ")?;
        return Some(error(file, line.parse().ok()?, None, &format!("{function}: Assertion failed: {said}")));
    }
    let at =
        text.find(": Assertion `").filter(|_| text.ends_with(" failed.") || text.ends_with(" failed"))?;
    let mut rest = text;
    // The program's name comes before, and the function's after.
    while text.len() - rest.len() < at {
        if let Some(place) = scan::place(rest).filter(|place| is_path(place.file)) {
            return Some(error(place.file, place.line, place.column, place.rest.strip_prefix(": ")?));
        }
        rest = rest.split_once(": ")?.1;
    }
    None
}

/// `thread 'main' (77) panicked at src/main.rs:2:5:`, with the message below; before Rust 1.73 it came first.
fn panicked(text: &str) -> Option<Diagnostic> {
    let (_, rest) = text.strip_prefix("thread '")?.split_once(" panicked at ")?;
    let quoted = rest.strip_prefix('\'').and_then(|rest| rest.rsplit_once("', "));
    let (said, at) = quoted.unwrap_or(("", rest));
    let place = scan::place(at)?;
    Some(error(place.file, place.line, place.column, said))
}

/// `CMake Error at CMakeLists.txt:3 (message):`, with the message below.
fn cmake(text: &str) -> Option<Diagnostic> {
    let (severity, rest) = match text.strip_prefix("CMake Error at ") {
        Some(rest) => (Severity::Error, rest),
        None => {
            let rest = text.strip_prefix("CMake Warning ")?;
            (Severity::Warning, rest.strip_prefix("(dev) ").unwrap_or(rest).strip_prefix("at ")?)
        }
    };
    let place = scan::place(rest)?;
    let command = place.rest.trim().trim_end_matches(':').trim_matches(['(', ')']);
    Some(found(severity, place.file, place.line, command))
}

/// `TillTest#test_adds [test/till_test.rb:6]:`, with what was expected below.
fn minitest(text: &str) -> Option<Diagnostic> {
    let (name, at) = text.strip_suffix("]:")?.rsplit_once(" [")?;
    let place = whole(at)?;
    Some(error(place.file, place.line, place.column, name))
}

/// `PHP Fatal error:  Uncaught Error: no till in /home/dev/a.php:3`, and with ` on line 3`.
fn php(text: &str) -> Option<Diagnostic> {
    const BEGINS: [(&str, Severity); 7] = [
        ("Fatal error: ", Severity::Error),
        ("Parse error: ", Severity::Error),
        ("Recoverable fatal error: ", Severity::Error),
        ("Uncaught ", Severity::Error),
        ("Warning: ", Severity::Warning),
        ("Deprecated: ", Severity::Warning),
        ("Notice: ", Severity::Warning),
    ];
    let text = text.strip_prefix("PHP ").unwrap_or(text);
    let (begin, severity) = BEGINS.iter().find(|(begin, _)| text.starts_with(begin))?;
    let (said, at) = text.rsplit_once(" in ")?;
    let (file, line) = match at.rsplit_once(" on line ") {
        Some((file, line)) => (file, line.parse().ok()?),
        None => {
            let place = whole(at)?;
            (place.file, place.line)
        }
    };
    let said = format!("{begin}{}", said[begin.len()..].trim());
    file.contains('.').then(|| found(*severity, file, line, &said))
}

/// ``a.rb:3:in `add': no till (RuntimeError)``.
fn ruby(text: &str) -> Option<Diagnostic> {
    let place = scan::place(text).filter(|place| is_path(place.file))?;
    let (_, said) = place.rest.strip_prefix(":in ")?.split_once("': ")?;
    Some(error(place.file, place.line, None, said))
}

/// `a.sh: line 3: till: command not found`, and of dash, which leaves out the word.
fn shell(text: &str) -> Option<Diagnostic> {
    let (file, rest) = text.split_once(": ").filter(|(file, _)| is_path(file))?;
    let bash = rest.strip_prefix("line ");
    let (line, rest) = scan::number(bash.unwrap_or(rest))?;
    let said = rest.strip_prefix(": ")?;
    let dash = said.ends_with("not found")
        || said.starts_with("Syntax error")
        || said.ends_with("parameter not set");
    (bash.is_some() || dash).then(|| error(file, line, None, said))
}

/// Perl's `the till is closed at a.pl line 2.`, and Swift's `…: file main.swift, line 3`.
fn at_line(text: &str) -> Option<Diagnostic> {
    const WARNS: [&str; 6] =
        ["Use of ", "Name \"", "Useless use ", "Argument \"", "Odd number of ", "Possible "];
    if let Some((said, at)) = text.rsplit_once(": file ") {
        let (file, line) = at.split_once(", line ").filter(|(file, _)| is_path(file))?;
        return Some(error(file, line.parse().ok()?, None, said));
    }
    let (before, after) = text.rsplit_once(" line ")?;
    let (said, file) = before.rsplit_once(" at ").filter(|(_, file)| is_path(file))?;
    let (line, rest) = scan::number(after)?;
    let perl = rest == "." || rest.starts_with(", near ") || rest.starts_with(", <");
    if !perl || said.ends_with("called") {
        return None;
    }
    let near = rest.strip_prefix('.').unwrap_or(rest);
    let severity =
        if WARNS.iter().any(|begin| said.starts_with(begin)) { Severity::Warning } else { Severity::Error };
    Some(found(severity, file, line, &format!("{said}{near}")))
}

/// `SyntaxError: /home/dev/a.js: Unexpected token (1:22)` of Babel, and Prettier's `[error] a.js: …`.
fn bracketed(text: &str) -> Option<Diagnostic> {
    let (said, at) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let (line, rest) = scan::number(at)?;
    let (column, rest) = rest.strip_prefix(':').and_then(scan::number)?;
    if !rest.is_empty() || line == 0 {
        return None;
    }
    if let Some((file, said)) = said.strip_prefix("[error] ").and_then(|rest| rest.split_once(": ")) {
        return is_path(file).then(|| error(file, line, Some(column), said));
    }
    let (kind, rest) = said.split_once(": ").filter(|(kind, _)| kind.ends_with("Error"))?;
    let (file, said) = rest.split_once(": ").filter(|(file, _)| is_path(file))?;
    Some(error(file, line, Some(column), &format!("{kind}: {said}")))
}

/// `error: cannot format a.py: Cannot parse: 1:4: def f(:`.
fn black(text: &str) -> Option<Diagnostic> {
    let (file, rest) = text.strip_prefix("error: cannot format ")?.split_once(": Cannot parse")?;
    let (target, at) = rest.split_once(": ")?;
    let (line, rest) = scan::number(at)?;
    let (column, rest) = rest.strip_prefix(':').and_then(scan::number)?;
    let said = rest.strip_prefix(": ").unwrap_or(rest);
    Some(error(file, line, Some(column), &format!("cannot format: Cannot parse{target}: {said}")))
}

/// `lua: a.lua:3: no till`, `Error: src/a.ts:3:5 - error TS2322: …`: a program's name or a word for how bad it is comes first.
fn by_program(text: &str) -> Option<Diagnostic> {
    const INTERPRETERS: [&str; 8] = ["lua", "luajit", "ruby", "julia", "nginx", "gawk", "awk", "tclsh"];
    let (program, rest) = text.split_once(": ")?;
    let severity = words::severity(program);
    if severity.is_none() && !INTERPRETERS.iter().any(|known| program.starts_with(known)) {
        return None;
    }
    let mut found = places::placed(rest)?;
    if found.severity == Severity::Note {
        found.severity = severity.unwrap_or(Severity::Error);
    }
    Some(found)
}

/// What is wrong in a line of its own, with the place some lines below: esbuild's, Vite's and Terraform's.
#[derive(Default)]
pub(super) struct Headline {
    said: Option<(Severity, String)>,
    lines: usize,
}

impl Headline {
    /// The finding that this line's place completes.
    pub(super) fn line(&mut self, line: &str) -> Option<Diagnostic> {
        const BEGINS: [(&str, Severity); 6] = [
            ("✘ [ERROR] ", Severity::Error),
            ("▲ [WARNING] ", Severity::Warning),
            ("Error: ", Severity::Error),
            ("Warning: ", Severity::Warning),
            ("error during build:", Severity::Error),
            ("[vite]: ", Severity::Error),
        ];
        const FURTHEST: usize = 6;
        let text = line.trim_start_matches(['│', '╷', ' ', '\t']).trim_end();
        if let Some((begin, severity)) = BEGINS.iter().find(|(begin, _)| text.starts_with(begin)) {
            let said = if begin.ends_with("] ") { &text[begin.len()..] } else { text };
            (self.said, self.lines) = (Some((*severity, said.to_owned())), 0);
            return None;
        }
        self.lines += 1;
        if self.lines > FURTHEST {
            self.said = None;
        }
        self.said.as_ref()?;
        let terraform = || {
            let (file, rest) = text.strip_prefix("on ")?.split_once(" line ")?;
            let (line, rest) = scan::number(rest)?;
            is_path(file).then_some(Place { file, line, column: None, rest })
        };
        let alone = || scan::place(text).filter(|place| place.rest == ":" && is_path(place.file));
        let labelled = || text.strip_prefix("file: ").and_then(whole);
        let place = terraform().or_else(alone).or_else(labelled)?;
        let (severity, said) = self.said.take()?;
        Some(Diagnostic { column: place.column, ..found(severity, place.file, place.line, &said) })
    }
}

/// A place within a line that speaks of an error.
pub(super) fn within(line: &str) -> Option<Diagnostic> {
    const WORDS: [&str; 7] = ["error", "fail", "exception", "panic", "assert", "expected", "fatal"];
    let lower = line.to_ascii_lowercase();
    if !WORDS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    line.split(|c: char| c.is_whitespace() || "()[]<>'\"`,;".contains(c)).find_map(|word| {
        let place = whole(word.trim_end_matches([':', '.']))?;
        (is_source(place.file) && is_own(place.file)).then(|| Diagnostic {
            severity: Severity::Error,
            ..diagnostic(place.file, place.line, place.column, line.trim())
        })
    })
}

/// Whether the name ends as those of programs' sources do; in the midst of a line, a colon alone says little.
fn is_source(file: &str) -> bool {
    const ENDINGS: &[&str] = &[
        "c", "h", "cc", "cpp", "cxx", "hpp", "m", "mm", "rs", "go", "py", "pyi", "rb", "php", "pl", "pm",
        "lua", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "vue", "svelte", "java", "kt", "kts",
        "scala", "groovy", "cs", "fs", "vb", "swift", "dart", "ex", "exs", "erl", "hs", "ml", "mli", "jl",
        "nim", "zig", "sh", "bash", "sql", "tf", "css", "scss", "less", "html", "yml", "yaml", "toml",
        "json", "xml", "proto", "md", "clj", "r", "R",
    ];
    file.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}
