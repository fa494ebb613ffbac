//! For output that no other parser knows: finds `file:line[:column]: message` as compilers and linters of many languages
//! print it, ESLint's table, Python tracebacks and Go's failed tests. What it does not find is still in the tail.

use protocol::{Diagnostic, Report, Severity, TestCase, TestStatus};

use crate::findings::Findings;
use crate::{Parser, scan};

/// Longest part of a line that is looked at.
const MAX_LINE: usize = 4 * 1024;

/// The parser `fallback`.
pub(crate) struct Fallback;

impl Parser for Fallback {
    fn name(&self) -> &'static str {
        "fallback"
    }

    fn recognises(&self, _output: &str) -> bool {
        true
    }

    fn parse(&self, output: &str) -> Report {
        let mut reader = Reader::default();
        for line in output.lines() {
            reader.line(&line[..line.floor_char_boundary(MAX_LINE)]);
        }
        Report { diagnostics: reader.findings.into_vec(), ..reader.report }
    }
}

#[derive(Default)]
struct Reader {
    report: Report,
    findings: Findings,
    /// The file above the rows of ESLint's table.
    table: Option<String>,
    /// The last frame of the traceback under way.
    frame: Option<(String, u32)>,
    /// The line before, which is the headline when a place follows on a line of its own.
    before: String,
    /// Whether the last test failed and its messages may follow.
    in_test: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if self.go_test(line) || self.traceback(line) || self.eslint_row(line) {
            return;
        }
        if let Some(found) = placed(line).or_else(|| parenthesised(line)) {
            self.push(found);
        } else if let Some(place) = line.trim_start().strip_prefix("--> ").and_then(scan::place) {
            let before = std::mem::take(&mut self.before);
            if place.rest.is_empty() && !before.is_empty() {
                self.push(diagnostic(place.file, place.line, place.column, &before));
            }
        }
        self.table =
            is_path(line).then(|| line.to_owned()).or(self.table.take().filter(|_| !line.is_empty()));
        self.before.clear();
        if !line.starts_with(' ') {
            self.before.push_str(line);
        }
    }

    fn push(&mut self, found: Diagnostic) {
        let go_test = found.file.as_deref().is_some_and(|file| file.ends_with("_test.go"));
        if let Some(test) = self.report.tests.last_mut().filter(|_| self.in_test && go_test) {
            if test.line.is_none() {
                (test.file, test.line) = (found.file, found.line);
            }
            scan::push_line(&mut test.message, &found.message);
        } else {
            self.findings.push(found);
        }
    }

    /// `--- FAIL: TestTotal (0.00s)`, indented for a subtest.
    fn go_test(&mut self, line: &str) -> bool {
        let Some(rest) = line.trim_start().strip_prefix("--- ") else {
            if !line.starts_with(' ') {
                self.in_test = false;
            }
            return false;
        };
        let Some((outcome, name)) = rest.split_once(": ") else { return false };
        self.in_test = outcome == "FAIL";
        match outcome {
            "FAIL" => {
                self.report.tests_failed = self.report.tests_failed.saturating_add(1);
                if self.report.tests.len() < crate::MAX_ENTRIES {
                    self.report.tests.push(TestCase {
                        name: name.rsplit_once(" (").map_or(name, |(name, _)| name).to_owned(),
                        status: TestStatus::Failed,
                        file: None,
                        line: None,
                        message: String::new(),
                        expected: None,
                        actual: None,
                    });
                }
            }
            "PASS" => self.report.tests_passed = self.report.tests_passed.saturating_add(1),
            "SKIP" => self.report.tests_skipped = self.report.tests_skipped.saturating_add(1),
            _ => return false,
        }
        true
    }

    /// A Python traceback: its last frame and the line that ends it.
    fn traceback(&mut self, line: &str) -> bool {
        if let Some(frame) = scan::python_frame(line) {
            self.frame = Some((frame.file.to_owned(), frame.line));
            return true;
        }
        if self.frame.is_none() || line.starts_with(' ') {
            return false;
        }
        let Some((file, number)) = self.frame.take() else { return false };
        let raised = line.split(':').next().unwrap_or(line);
        let exception =
            !raised.is_empty() && raised.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
        if exception {
            let mut found = diagnostic(&file, number, None, line);
            found.severity = Severity::Error;
            self.push(found);
        }
        exception
    }

    /// `  1:12  error  Missing semicolon  semi` below a file's name.
    fn eslint_row(&mut self, line: &str) -> bool {
        let Some(file) = &self.table else { return false };
        let Some((number, rest)) = line.strip_prefix("  ").map(str::trim_start).and_then(scan::number) else {
            return false;
        };
        let Some((column, rest)) = rest.strip_prefix(':').and_then(scan::number) else { return false };
        let rest = rest.trim();
        let (severity, rest) = match rest.strip_prefix("error ") {
            Some(rest) => (Severity::Error, rest),
            None => match rest.strip_prefix("warning ") {
                Some(rest) => (Severity::Warning, rest),
                None => return false,
            },
        };
        let (message, code) = match rest.trim().rsplit_once("  ") {
            Some((message, rule)) => (message.trim_end(), Some(rule.to_owned())),
            None => (rest.trim(), None),
        };
        let found = Diagnostic {
            severity,
            file: Some(file.clone()),
            line: Some(number),
            column: Some(column),
            code,
            message: message.to_owned(),
        };
        self.push(found);
        true
    }
}

/// `file:line[:column]: message`, also with ` - ` before the message, and rustfmt's `Diff in file:line:`.
fn placed(line: &str) -> Option<Diagnostic> {
    let text = line.trim_start();
    if let Some(place) = text.strip_prefix("Diff in ").and_then(scan::place) {
        return Some(diagnostic(place.file, place.line, place.column, "error: not formatted"));
    }
    let place = scan::place(text).filter(|place| is_path(place.file))?;
    let message = place.rest.strip_prefix(": ").or(place.rest.strip_prefix(" - "))?.trim();
    (!message.is_empty()).then(|| diagnostic(place.file, place.line, place.column, message))
}

/// `file(line,column): message`, as the TypeScript compiler and Microsoft's tools print it.
fn parenthesised(line: &str) -> Option<Diagnostic> {
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
fn is_path(text: &str) -> bool {
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
fn diagnostic(file: &str, line: u32, column: Option<u32>, text: &str) -> Diagnostic {
    let (word, rest) = text.split_at(text.find([':', ' ']).unwrap_or(text.len()));
    let severity = match word.to_ascii_lowercase().as_str() {
        "error" | "fatal" | "err" => Some(Severity::Error),
        "warning" | "warn" => Some(Severity::Warning),
        "note" | "info" | "help" | "hint" | "debug" | "remark" => Some(Severity::Note),
        _ => None,
    };
    let message = match severity {
        Some(_) => {
            let rest = rest.trim_start_matches([':', ' ']);
            if word == "fatal" { rest.strip_prefix("error: ").unwrap_or(rest) } else { rest }
        }
        None => text,
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
    }
}

/// Takes a code off the beginning (`F401 …`, `TS2322: …`) or the end (`… [return-value]`).
fn split_code(message: &str) -> (Option<String>, &str) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_go_test_has_its_place_and_messages() {
        let report = Fallback.parse(
            "=== RUN   TestTotal\n    till_test.go:9: got 3, want 5\n--- FAIL: TestTotal (0.00s)\n    till_test.go:12: total = 3, want 5\n    till_test.go:13: again\n--- PASS: TestHalf (0.00s)\nFAIL\n",
        );
        assert_eq!((report.tests_failed, report.tests_passed), (1, 1));
        let test = &report.tests[0];
        assert_eq!(
            (test.name.as_str(), test.file.as_deref(), test.line),
            ("TestTotal", Some("till_test.go"), Some(12))
        );
        assert_eq!(test.message, "total = 3, want 5\nagain");
    }

    #[test]
    fn a_compiler_of_go_speaks_without_a_word_for_errors() {
        let report = Fallback.parse("# example/till\n./till.go:7:2: undefined: totl\n");
        let found = &report.diagnostics[0];
        assert_eq!((found.severity, found.column), (Severity::Error, Some(2)));
        assert_eq!(found.message, "undefined: totl");
    }

    #[test]
    fn times_hosts_and_prose_are_no_places() {
        let text = "12:30:45: started\nexample.com:443: refused\nlocalhost:80: refused\nhttp://x.y/a.js:3: no\nsee a.c:3: maybe\n[a.c:3]: x\n";
        assert_eq!(Fallback.parse(text).diagnostics, []);
        assert_eq!(Fallback.parse("src/app.ts:12: listening\n").diagnostics[0].severity, Severity::Note);
    }
}
