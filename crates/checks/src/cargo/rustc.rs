//! Diagnostics of rustc, clippy and cargo itself: a headline, the place, the label under the code and the hints, put
//! together into one message. Cargo's closing remarks ("could not compile …") repeat what was said and are dropped,
//! unless they carry a cause of their own.

use std::collections::HashSet;

use protocol::{Diagnostic, Severity};

use super::Region;
use crate::findings::Findings;
use crate::scan;

/// Most hints kept with one diagnostic.
const MAX_HINTS: usize = 3;
/// Most lines of a cause kept with one of cargo's errors.
const MAX_CAUSE_LINES: usize = 30;

/// Collects diagnostics line by line.
#[derive(Default)]
pub(super) struct Rustc {
    open: Option<Open>,
    found: Findings,
    seen: HashSet<String>,
}

/// A diagnostic whose lines are still coming.
struct Open {
    diagnostic: Diagnostic,
    label: Option<String>,
    hints: Vec<String>,
    /// The last line of code, which marks below it may turn into a suggestion.
    code: String,
    cause: String,
    cause_lines: usize,
    part: Part,
    remark: bool,
    region: Region,
}

#[derive(PartialEq, Eq)]
enum Part {
    /// Directly below the headline; a plain line still belongs to it.
    Headline,
    /// In the code snippet and the hints.
    Body,
    /// After an empty line; only a cause can follow.
    Gap,
    /// In a cause.
    Cause,
}

impl Rustc {
    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str, region: Region) {
        if region == Region::Captured {
            return;
        }
        if let Some((severity, code, message)) = headline(line) {
            self.close();
            self.open = Some(Open {
                remark: is_remark(message),
                diagnostic: Diagnostic {
                    severity,
                    file: None,
                    line: None,
                    column: None,
                    code: code.map(str::to_owned),
                    message: message.to_owned(),
                    ..Diagnostic::default()
                },
                label: None,
                hints: Vec::new(),
                code: String::new(),
                cause: String::new(),
                cause_lines: 0,
                part: Part::Headline,
                region,
            });
        } else if let Some(open) = &mut self.open
            && !open.line(line)
        {
            self.close();
        }
    }

    /// Everything found.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        self.close();
        self.found.into_vec()
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let unplaced = open.diagnostic.file.is_none();
        if open.cause.is_empty() && (open.remark || (unplaced && open.region == Region::Tests)) {
            return;
        }
        let mut diagnostic = open.diagnostic;
        if let Some(label) = open.label {
            diagnostic.message.push_str(": ");
            diagnostic.message.push_str(&label);
        }
        for text in open.hints.iter().chain(Some(&open.cause).filter(|cause| !cause.is_empty())) {
            scan::push_line(&mut diagnostic.message, text);
        }
        self.push(diagnostic);
    }

    /// Adds a finding that is complete. The library and its test harness are compiled apart and may report it twice.
    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        let key = format!(
            "{:?}:{:?}:{:?}:{}",
            diagnostic.file, diagnostic.line, diagnostic.column, diagnostic.message
        );
        if self.seen.insert(key) {
            self.found.push(diagnostic);
        }
    }
}

impl Open {
    /// Takes a line; false when it does not belong to this diagnostic.
    fn line(&mut self, line: &str) -> bool {
        let trimmed = line.trim_start();
        if trimmed.is_empty() {
            if self.part != Part::Cause {
                self.part = Part::Gap;
            }
            return true;
        }
        if line == "Caused by:" {
            self.part = Part::Cause;
            return true;
        }
        match self.part {
            Part::Cause => {
                if !line.starts_with("  ") {
                    return false;
                }
                if self.cause_lines < MAX_CAUSE_LINES {
                    self.cause_lines += 1;
                    scan::push_line(&mut self.cause, trimmed);
                }
            }
            Part::Gap => return false,
            Part::Headline | Part::Body => {
                if let Some(at) = trimmed.strip_prefix("--> ") {
                    self.part = Part::Body;
                    self.at(at);
                } else if let Some(hint) =
                    trimmed.strip_prefix("= note: ").or(trimmed.strip_prefix("= help: "))
                {
                    self.part = Part::Body;
                    self.hint(hint);
                } else if line.starts_with("help: ") || line.starts_with("note: ") {
                    self.part = Part::Body;
                    self.hint(line);
                } else if is_gutter(trimmed) {
                    self.part = Part::Body;
                    self.snippet(trimmed);
                } else if self.part == Part::Headline {
                    scan::push_line(&mut self.diagnostic.message, line);
                } else if !line.starts_with(' ') {
                    return false;
                }
            }
        }
        true
    }

    fn at(&mut self, text: &str) {
        if self.diagnostic.file.is_none()
            && let Some(place) = scan::place(text)
        {
            self.diagnostic.file = Some(place.file.to_owned());
            self.diagnostic.line = Some(place.line);
            self.diagnostic.column = place.column;
        }
    }

    /// Keeps a hint, or takes the lint's name from it when it only says why the lint is on.
    fn hint(&mut self, hint: &str) {
        if let Some(lint) = lint_name(hint) {
            self.diagnostic.code.get_or_insert(lint);
        } else if !hint.starts_with("to override `") && self.hints.len() < MAX_HINTS {
            self.hints.push(hint.to_owned());
        }
    }

    /// Takes a line of the snippet: code, a suggestion (`3 + code`, or marked with `+` below), or a label.
    fn snippet(&mut self, gutter: &str) {
        let beside = gutter.trim_start_matches(|c: char| c.is_ascii_digit());
        let numbered = beside.len() < gutter.len();
        if let Some(code) = beside.trim_start().strip_prefix("+ ").filter(|_| numbered) {
            self.suggest(code);
            return;
        }
        let Some(code) = beside.trim_start().strip_prefix('|') else { return };
        if numbered {
            self.code.clear();
            self.code.push_str(code);
        } else if code.contains(['+', '~']) && code.bytes().all(|byte| b"+~ ".contains(&byte)) {
            let code = std::mem::take(&mut self.code);
            self.suggest(&code);
        } else {
            self.label(code);
        }
    }

    /// Adds the suggested code to the hint above it.
    fn suggest(&mut self, code: &str) {
        if let Some(hint) =
            self.hints.last_mut().filter(|hint| hint.starts_with("help: ") && !hint.contains(": `"))
        {
            hint.push_str(&format!(": `{}`", code.trim()));
        }
    }

    /// Takes the text beside the carets.
    fn label(&mut self, code: &str) {
        let text = code.trim_start_matches([' ', '^', '-', '~', '|', '_']);
        let marks = &code[..code.len() - text.len()];
        if !marks.contains('^') || text.is_empty() {
            return;
        }
        if text.starts_with("help: ") {
            self.hint(text);
        } else if self.label.is_none() {
            self.label = Some(text.to_owned());
        }
    }
}

/// Reads `error[E0308]: mismatched types` and its like.
pub(super) fn headline(line: &str) -> Option<(Severity, Option<&str>, &str)> {
    let (severity, rest) = match line.strip_prefix("error") {
        Some(rest) => (Severity::Error, rest),
        None => (Severity::Warning, line.strip_prefix("warning")?),
    };
    let (code, rest) = match rest.strip_prefix('[') {
        Some(coded) => coded.split_once(']').map(|(code, rest)| (Some(code), rest))?,
        None => (None, rest),
    };
    Some((severity, code, rest.strip_prefix(": ")?))
}

/// Cargo's and rustc's closing remarks, which only count what was said before.
fn is_remark(message: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "could not compile `",
        "aborting due to ",
        "test failed, to rerun pass",
        "doctest failed, to rerun pass",
        "bench failed, to rerun pass",
        "test run failed",
        "build failed",
    ];
    BEGINNINGS.iter().any(|beginning| message.starts_with(beginning))
        || message.ends_with(" targets failed:")
        || message.ends_with(" target failed:")
        || message.ends_with(" warnings emitted")
        || message.ends_with(" warning emitted")
        || (message.starts_with('`') && message.contains(" generated ") && message.contains(" warning"))
}

/// Lines of the code snippet: `|`, `12 |`, `...`, `::: file`.
fn is_gutter(trimmed: &str) -> bool {
    let rest = trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let numbered = rest.len() < trimmed.len() && rest.starts_with(['|', '+', '-', '~']);
    numbered || trimmed.starts_with('|') || trimmed.starts_with("...") || trimmed.starts_with("::: ")
}

/// The lint's name in a hint that only says where it was switched on or documented.
fn lint_name(hint: &str) -> Option<String> {
    if let Some(link) = hint.strip_prefix("for further information visit ") {
        return link.split_once("index.html#").map(|(_, anchor)| format!("clippy::{anchor}"));
    }
    let quoted = hint.strip_prefix('`')?;
    if let Some(attribute) = quoted.strip_prefix("#[") {
        let (level, rest) = attribute.split_once('(')?;
        let (name, _) = rest.split_once(')')?;
        return matches!(level, "warn" | "deny" | "forbid").then(|| name.to_owned());
    }
    let flag = quoted.strip_prefix("-D ").or(quoted.strip_prefix("-W "))?;
    flag.split_once('`').map(|(name, _)| name.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Diagnostic> {
        let mut rustc = Rustc::default();
        text.lines().for_each(|line| rustc.line(line, Region::Build));
        rustc.finish()
    }

    #[test]
    fn a_remark_counts_only_with_a_cause() {
        assert_eq!(read("error: could not compile `a` (lib) due to 1 previous error\n"), []);
        let killed = "error: could not compile `a` (lib)\n\nCaused by:\n  process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)\n";
        let found = read(killed);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.ends_with("(signal: 9, SIGKILL: kill)"), "{}", found[0].message);
    }

    #[test]
    fn a_headline_over_several_lines_is_one_message() {
        let found = read("error: first\nsecond\n --> a b.rs:1:2\n  |\n1 | x\n  | ^ here\n");
        assert_eq!(found[0].message, "first\nsecond: here");
        assert_eq!(found[0].file.as_deref(), Some("a b.rs"));
    }

    #[test]
    fn what_tests_print_needs_a_place() {
        let mut rustc = Rustc::default();
        rustc.line("error: the test says so", Region::Tests);
        rustc.line("error: captured", Region::Captured);
        assert_eq!(rustc.finish(), []);
    }
}
