//! For output that no other parser knows: finds `file:line[:column]: message` as compilers and linters of many languages
//! print it, ESLint's table and Python tracebacks. What it does not find is still in the tail.

use protocol::{Report, Severity};

use crate::eslint::Table;
use crate::findings::Findings;
use crate::places::{self, Arrow, diagnostic, parenthesised, placed};
use crate::{Parser, scan};

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
        Report { diagnostics: reader.findings.into_vec(), ..Report::default() }
    }
}

#[derive(Default)]
struct Reader {
    findings: Findings,
    table: Table,
    /// The last frame of the traceback under way.
    frame: Option<(String, u32)>,
    arrow: Arrow,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if self.traceback(line) {
            return;
        }
        if let Some(found) = self.table.line(line) {
            self.findings.push(found);
            return;
        }
        let found = placed(line).or_else(|| parenthesised(line));
        let headed = self.arrow.line(line);
        found.or(headed).into_iter().for_each(|found| self.findings.push(found));
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
            self.findings.push(found);
        }
        exception
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_hosts_and_prose_are_no_places() {
        let text = "12:30:45: started\nexample.com:443: refused\nlocalhost:80: refused\nhttp://x.y/a.js:3: no\nsee a.c:3: maybe\n[a.c:3]: x\n";
        assert_eq!(Fallback.parse(text).diagnostics, []);
        assert_eq!(Fallback.parse("src/app.ts:12: listening\n").diagnostics[0].severity, Severity::Note);
    }
}
