//! What the test runners of JavaScript have in common: stack frames, excerpts of code, and how a failure gets its place.

use protocol::TestCase;

use crate::cases::{Cases, failed};
use crate::scan::{self, Place};

/// Reads a stack frame: `at f (a.js:3:4)`, `at a.js:3:4` or vitest's `❯ f a.ts:3:4`.
pub(crate) fn frame(line: &str) -> Option<Place<'_>> {
    let text = line.trim();
    bare_frame(text.strip_prefix("at ").or_else(|| text.strip_prefix("❯ "))?)
}

pub(crate) fn bare_frame(text: &str) -> Option<Place<'_>> {
    let inner = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')).map(|(_, inner)| inner);
    let inner = inner.unwrap_or_else(|| text.rsplit_once(' ').map_or(text, |(_, last)| last));
    let inner = inner.strip_prefix("file://").unwrap_or(inner);
    scan::place(inner).filter(|place| place.rest.is_empty())
}

/// Whether the file belongs to the project, and not to the runner, a package or Node itself.
pub(crate) fn is_own(file: &str) -> bool {
    !file.starts_with("node:") && !file.starts_with('<') && !file.contains("node_modules/")
}

/// Whether the text is the name of a file that Node runs.
pub(crate) fn is_script(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"];
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Reads a frame without its `at`, if it is one of the project's own files.
pub(crate) fn own_frame(text: &str) -> Option<Place<'_>> {
    bare_frame(text.trim()).filter(|place| is_own(place.file))
}

/// Whether the line belongs to an excerpt of code: `> 5 | code`, `5| code`, or the line below with the caret.
pub(crate) fn is_excerpt(line: &str) -> bool {
    let text = line.trim_start();
    let text = text.strip_prefix("> ").map_or(text, str::trim_start);
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with([' ', '>']) && rest.trim_start().starts_with('|')
}

/// A failed test while its lines come in.
pub(crate) struct Failure {
    pub(crate) test: TestCase,
    /// The outermost of the project's own frames.
    outermost: Option<(String, u32)>,
    /// Whether the message is over and the stack has begun.
    pub(crate) in_stack: bool,
}

impl Failure {
    /// A failure of the test with this name.
    pub(crate) fn new(name: &str) -> Self {
        Self { test: failed(name), outermost: None, in_stack: false }
    }

    /// Notes a frame; the first of the project's own is where it failed, the last where the test called from.
    pub(crate) fn frame(&mut self, place: &Place<'_>) {
        self.in_stack = true;
        if !is_own(place.file) {
            return;
        }
        if self.test.line.is_none() {
            (self.test.file, self.test.line) = (Some(place.file.to_owned()), Some(place.line));
        } else {
            self.outermost = Some((place.file.to_owned(), place.line));
        }
    }

    /// Adds a line to the message, leaving out empty ones at its start.
    pub(crate) fn say(&mut self, line: &str) {
        if !(self.test.message.is_empty() && line.trim().is_empty()) {
            scan::push_line(&mut self.test.message, line.trim_end());
        }
    }

    /// The failed test.
    pub(crate) fn finish(mut self) -> TestCase {
        self.test.message.truncate(self.test.message.trim_end().len());
        if let Some((file, line)) = self.outermost {
            scan::push_line(&mut self.test.message, &format!("called from {file}:{line}"));
        }
        self.test
    }
}

/// The numbers that a runner gives at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u32,
    failed: u32,
    skipped: u32,
}

impl Counts {
    /// Puts the runner's numbers in place of what was counted. The runner does not count the files that failed before
    /// their tests ran.
    pub(crate) fn settle(self, cases: &mut Cases, suites: u32) {
        (cases.passed, cases.skipped) = (self.passed, self.skipped);
        cases.failed = cases.failed.max(self.failed.saturating_add(suites));
    }
}

/// Reads `3 failed`, `2 passed`, `1 todo` and so on; None when one is not a number and a word.
pub(crate) fn counts<'a>(parts: impl Iterator<Item = &'a str>) -> Option<Counts> {
    let mut found = Counts::default();
    for part in parts {
        let (count, word) = scan::number(part.trim())?;
        let field = match word.trim() {
            "passed" => &mut found.passed,
            "failed" => &mut found.failed,
            "skipped" | "todo" => &mut found.skipped,
            _ => continue,
        };
        *field = field.saturating_add(count);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_all_runners_are_read() {
        for (line, file) in [
            ("      at Object.toBe (src/till.test.js:5:27)", "src/till.test.js"),
            ("    at node:internal/modules/run_main:164:12", "node:internal/modules/run_main"),
            ("    at async file:///home/dev/a.mjs:1:2", "/home/dev/a.mjs"),
            (" ❯ refuse src/till.ts:5:9", "src/till.ts"),
        ] {
            assert_eq!(frame(line).map(|place| place.file), Some(file), "{line}");
        }
        assert_eq!(frame("    at new Promise (<anonymous>)"), None);
        assert_eq!(frame("at 10:30 it stopped"), None);
    }

    #[test]
    fn excerpts_are_told_from_messages() {
        assert!(
            is_excerpt("    > 5 |     expect(x)") && is_excerpt("      6| x") && is_excerpt("       | ^")
        );
        assert!(!is_excerpt("expected 3 | 4") && !is_excerpt("  a | b"));
    }
}
