//! For output that no other parser knows: finds places as compilers, linters, runtimes and test runners of many languages print
//! them, ESLint's table, stack traces and Python's doctests. What it does not find is still in the tail.

mod doctest;
mod told;

use protocol::{Diagnostic, Report, Severity};

use crate::cases::Cases;
use crate::eslint::Table;
use crate::findings::Findings;
use crate::places::{self, Arrow, diagnostic, parenthesised, placed};
use crate::traces::{Line, Traces, frames};
use crate::{Parser, scan};
use doctest::Doctests;
use told::{Headline, Told};

/// Most lines that are added to what stands above them.
const MAX_MORE: usize = 8;

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
        places::lines(output).for_each(|line| reader.line(line));
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    findings: Findings,
    cases: Cases,
    table: Table,
    /// Where the Python traceback under way failed.
    frame: Option<Python>,
    doctests: Doctests,
    traces: Traces,
    /// A finding that the lines below it explain, and how many more may.
    open: Option<(Diagnostic, usize)>,
    /// The place that was told last without a trace, which some runtimes repeat.
    last: Option<(String, u32)>,
    arrow: Arrow,
    headline: Headline,
}

/// The last frame of a Python traceback, of the project where it has one.
struct Python {
    file: String,
    line: u32,
    own: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if let Some(test) = self.doctests.line(line) {
            self.cases.push(test);
        }
        if self.doctests.is_inside() {
            return;
        }
        if self.open.is_some() && self.explained(line) {
            return;
        }
        if self.traceback(line) {
            return;
        }
        if let Some(found) = self.table.line(line) {
            self.push(found);
            return;
        }
        // Where Swift's own library fails is no place of the project; the stack has that.
        let found = placed(line)
            .filter(|found| !found.file.as_deref().is_some_and(|file| file.starts_with("Swift/")));
        let found = found.map(told::settle).or_else(|| parenthesised(line));
        // A frame of Lua or Elixir has a place and words too.
        let frame = || frames::frame(line).is_some();
        if let Some(found) = found.filter(|_| !(line.starts_with([' ', '\t']) && frame())) {
            self.arrow.line(line);
            self.tell(found, told::is_open(line));
            return;
        }
        if let Some(found) = self.arrow.line(line).or_else(|| self.headline.line(line)) {
            self.push(found);
            return;
        }
        match told::told(line) {
            Some(Told::Whole(found)) => self.tell(found, false),
            Some(Told::Open(found)) => self.tell(found, true),
            None => {
                let part = self.traces.line(line);
                self.traces.take().into_iter().for_each(|raised| self.raised(raised.into()));
                if part == Line::Other
                    && let Some(found) = told::within(line)
                {
                    self.push(found);
                }
            }
        }
    }

    /// Takes what a line says by itself: no trace below it is about something else.
    fn tell(&mut self, found: Diagnostic, open: bool) {
        self.traces.finish().into_iter().for_each(|raised| self.raised(raised.into()));
        let place = found.file.clone().zip(found.line);
        if place.is_some() && place == self.last && !open && found.column.is_none() && found.code.is_none() {
            // Of PHP's two lines and Ruby's two, the first has said it.
            return;
        }
        self.last = place;
        if open {
            self.open = Some((found, MAX_MORE));
        } else {
            self.push(found);
        }
    }

    /// Whether the line explains the finding above it; an empty line ends that.
    fn explained(&mut self, line: &str) -> bool {
        let Some((found, left)) = &mut self.open else { return false };
        let text = line.trim();
        let ends = text.is_empty()
            || *left == 0
            || text.starts_with("note: ")
            || text.starts_with("stack backtrace:")
            || !found.message.is_empty() && placed(line).is_some();
        if !ends {
            scan::push_line(&mut found.message, text);
            *left -= 1;
            return true;
        }
        if let Some((found, _)) = self.open.take() {
            self.push(found);
        }
        false
    }

    /// A trace's finding, unless it has no place at all.
    fn raised(&mut self, found: Diagnostic) {
        if found.file.is_some() {
            self.push(found);
        }
    }

    fn push(&mut self, found: Diagnostic) {
        self.findings.push(found);
    }

    /// A Python traceback: its last frame in the project and the line that ends it.
    fn traceback(&mut self, line: &str) -> bool {
        if let Some(frame) = scan::python_frame(line) {
            let own = frames::is_own(frame.file);
            if own || !self.frame.as_ref().is_some_and(|known| known.own) {
                self.frame = Some(Python { file: frame.file.to_owned(), line: frame.line, own });
            }
            return true;
        }
        // Below a frame stands its code; OCaml numbers it.
        let code =
            line.starts_with(' ') || line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" | ");
        if self.frame.is_none() || code {
            return self.frame.is_some();
        }
        let Some(frame) = self.frame.take() else { return false };
        let raised = line.split(':').next().unwrap_or(line);
        let exception =
            !raised.is_empty() && raised.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
        if exception {
            let mut found = diagnostic(&frame.file, frame.line, None, line);
            found.severity = Severity::Error;
            self.push(found);
        }
        exception
    }

    fn finish(mut self) -> Report {
        if let Some(test) = self.doctests.finish() {
            self.cases.push(test);
        }
        if let Some((found, _)) = self.open.take() {
            self.push(found);
        }
        self.traces.finish().into_iter().for_each(|raised| self.raised(raised.into()));
        let failed = self.doctests.failed();
        self.cases.failed = self.cases.failed.max(failed);
        self.cases.passed = self.doctests.passed();
        self.cases.report(self.findings.into_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, u32, Severity, String)> {
        let found = Fallback.parse(text).diagnostics.into_iter();
        found
            .map(|found| {
                (
                    found.file.unwrap_or_default(),
                    found.line.unwrap_or_default(),
                    found.severity,
                    found.message,
                )
            })
            .collect()
    }

    #[test]
    fn times_hosts_and_prose_are_no_places() {
        let text = "12:30:45: started\nexample.com:443: refused\nlocalhost:80: refused\nhttp://x.y/a.js:3: no\nsee a.c:3: maybe\n[a.c:3]: x\n";
        assert_eq!(Fallback.parse(text).diagnostics, []);
        assert_eq!(Fallback.parse("src/app.ts:12: listening\n").diagnostics[0].severity, Severity::Note);
        for text in [
            "Error: connect ECONNREFUSED 127.0.0.1:5432",
            "error at 12:30: http://localhost:3000/a.js:8080 failed",
            "Failed to fetch https://example.com:8443/index.html",
            "2026-11-19 02:21:16 ERROR worker-3.local:8080 failed",
            "error: node:internal/fs:12 failed",
            "10:15 PM error in the shop",
            "assertion failed: ratio 3:4",
            "    at 10:30 it failed",
            "postgres://till:secret@db.internal:5432/shop: connection error",
            "ERROR: image shop/till:12 not found",
            "failed to pull registry/app:3",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn what_a_line_says_by_itself_is_found_in_many_languages() {
        for (text, file, line, message) in [
            ("as: as.c:3: main: Assertion `x == 4' failed.", "as.c", 3, "main: Assertion `x == 4' failed."),
            (
                "Assertion failed: (x == 4), function main, file as.c, line 3.",
                "as.c",
                3,
                "Assertion failed: (x == 4), function main",
            ),
            ("Assertion failed: x == 4 (as.c: main: 3)", "as.c", 3, "main: Assertion failed: x == 4"),
            (
                "a.rb:3:in `add': no till (RuntimeError)\n\tfrom a.rb:6:in `<main>'",
                "a.rb",
                3,
                "no till (RuntimeError)",
            ),
            (
                "a.rb:3:in 'Till#add': no till (RuntimeError)\n\tfrom a.rb:6:in '<main>'",
                "a.rb",
                3,
                "no till (RuntimeError)",
            ),
            (
                "PHP Fatal error:  Uncaught TypeError: no till in /home/dev/a.php:3\nStack trace:\n#0 /home/dev/a.php(5): add()\n#1 {main}\n  thrown in /home/dev/a.php on line 3\nFatal error: Uncaught TypeError: no till in /home/dev/a.php:3",
                "/home/dev/a.php",
                3,
                "Fatal error: Uncaught TypeError: no till",
            ),
            (
                "Parse error: syntax error, unexpected token \"}\" in /home/dev/a.php on line 7",
                "/home/dev/a.php",
                7,
                "Parse error: syntax error, unexpected token \"}\"",
            ),
            ("the till is closed at t.pl line 2.", "t.pl", 2, "the till is closed"),
            ("syntax error at t.pl line 3, near \"}\"", "t.pl", 3, "syntax error, near \"}\""),
            (
                "lua: a.lua:3: no till\nstack traceback:\n\ta.lua:3: in function 'add'\n\t[C]: in ?",
                "a.lua",
                3,
                "no till",
            ),
            ("s.sh: line 2: till: command not found", "s.sh", 2, "till: command not found"),
            ("s.sh: 2: till: not found", "s.sh", 2, "till: not found"),
            (
                "CMake Error at CMakeLists.txt:3 (add_till):\n  Unknown CMake command \"add_till\".\n\n",
                "CMakeLists.txt",
                3,
                "add_till\nUnknown CMake command \"add_till\".",
            ),
            (
                "till_test.cc:5: Failure\nExpected equality of these values:\n  3\n  5\n\n",
                "till_test.cc",
                5,
                "Failure\nExpected equality of these values:\n3\n5",
            ),
            (
                "  1) Failure:\nTillTest#test_adds [test/till_test.rb:6]:\nExpected: 5\n  Actual: 3\n\n",
                "test/till_test.rb",
                6,
                "TillTest#test_adds\nExpected: 5\nActual: 3",
            ),
            (
                "Till.hs:3:5: error: [GHC-88464]\n    Variable not in scope: till\n\n",
                "Till.hs",
                3,
                "[GHC-88464]\nVariable not in scope: till",
            ),
            ("Makefile:2: *** missing separator.  Stop.", "Makefile", 2, "missing separator.  Stop."),
            (
                "Fatal error: Index out of range: file main.swift, line 3",
                "main.swift",
                3,
                "Fatal error: Index out of range",
            ),
            ("main/main.swift:3: Fatal error: no till", "main/main.swift", 3, "no till"),
            (
                "thread 'main' (77) panicked at src/main.rs:2:5:\nno till\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                "src/main.rs",
                2,
                "no till",
            ),
            ("thread 'main' panicked at 'no till', src/main.rs:2:5", "src/main.rs", 2, "no till"),
            (
                "[error] src/a.js: SyntaxError: Unexpected token (1:22)",
                "src/a.js",
                1,
                "SyntaxError: Unexpected token",
            ),
            (
                "SyntaxError: /home/dev/a.js: Unexpected token (1:22)",
                "/home/dev/a.js",
                1,
                "SyntaxError: Unexpected token",
            ),
            (
                "error: cannot format a.py: Cannot parse: 1:4: def f(:",
                "a.py",
                1,
                "cannot format: Cannot parse: def f(:",
            ),
            (
                "✘ [ERROR] Expected \")\" but found \";\"\n\n    a.js:1:22:\n      1 │ f(;\n",
                "a.js",
                1,
                "Expected \")\" but found \";\"",
            ),
            (
                "Error: Unsupported block type\n\n  on main.tf line 3, in resource \"till\":",
                "main.tf",
                3,
                "Error: Unsupported block type",
            ),
            (
                "ERROR [shop] no till in (src/till.ts:12:3)",
                "src/till.ts",
                12,
                "[shop] no till in (src/till.ts:12:3)",
            ),
            (
                "  File \"till.ml\", line 3, characters 4-7:\n3 | let x = y\n        ^\nError: Unbound value y",
                "till.ml",
                3,
                "Unbound value y",
            ),
        ] {
            let found = found(text);
            assert_eq!(found, [(file.to_owned(), line, Severity::Error, message.to_owned())], "{text}");
        }
    }

    #[test]
    fn a_trace_is_one_finding_at_the_projects_own_frame() {
        for (text, file, line) in [
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: closed\n\tat java.base/java.util.Objects.f(Objects.java:2)\n\tat Main.main(Main.java:5)\n",
                "Main.java",
                5,
            ),
            (
                "Unhandled exception. System.InvalidOperationException: no till\n   at Shop.Till.Add(Int32 a) in /home/dev/Till.cs:line 5\n   at Shop.Program.Main() in /home/dev/Program.cs:line 3\n",
                "/home/dev/Till.cs",
                5,
            ),
            (
                "panic: no till [recovered]\n\ngoroutine 1 [running]:\nmain.add(...)\n\t/home/dev/main.go:8\nmain.main()\n\t/home/dev/main.go:4 +0x1d\nexit status 2\n",
                "/home/dev/main.go",
                8,
            ),
            (
                "Swift/ContiguousArrayBuffer.swift:600: Fatal error: Index out of range\nThread 0 crashed:\n\n0 [ra] 0x000055d0 add + 12 in app at /home/dev/main.swift:3:5\n",
                "/home/dev/main.swift",
                3,
            ),
            (
                "** (RuntimeError) no till\n    (elixir 1.15) lib/enum.ex:3: Enum.map/2\n    a.exs:3: Till.add/2\n",
                "lib/enum.ex",
                3,
            ),
            (
                "There was 1 failure:\n\n1) TillTest::testAdds\nFailed asserting that 3 matches expected 5.\n\n/home/dev/vendor/a.php:3\n/home/dev/tests/TillTest.php:12\n\nFAILURES!\n",
                "/home/dev/tests/TillTest.php",
                12,
            ),
            (
                "  1) till\n       adds up:\n\n      AssertionError [ERR_ASSERTION]: 3 == 5\n      + expected - actual\n\n      -3\n      +5\n      \n      at Context.<anonymous> (test/till.js:5:12)\n      at process.processImmediate (node:internal/timers:483:21)\n",
                "test/till.js",
                5,
            ),
            (
                "Traceback (most recent call last):\n  File \"/home/dev/a.py\", line 3, in <module>\n    json.loads(\"\")\n  File \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\n    raise JSONDecodeError\njson.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
                "/home/dev/a.py",
                3,
            ),
            (
                "Uncaught SyntaxError: x\n    at ext:core/01_core.js:3:4\n    at file:///home/dev/a.ts:3:7\n",
                "/home/dev/a.ts",
                3,
            ),
        ] {
            let found = found(text);
            assert_eq!(found.len(), 1, "{text}\n{found:?}");
            assert_eq!(
                (found[0].0.as_str(), found[0].1, found[0].2),
                (file, line, Severity::Error),
                "{text}"
            );
        }
    }
}
