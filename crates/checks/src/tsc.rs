//! The TypeScript compiler's errors, plain (`a.ts(1,7): error TS2322: …`) and pretty (`a.ts:1:7 - error TS2322: …`), and
//! those that have no place.

use protocol::{Diagnostic, Report, Severity};

use crate::findings::Findings;
use crate::places::{self, parenthesised, placed};
use crate::{Parser, scan};

/// The parser `tsc`.
pub(crate) struct Tsc;

impl Parser for Tsc {
    fn name(&self) -> &'static str {
        "tsc"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| found(line).is_some())
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        let mut last: Option<Diagnostic> = None;
        for line in places::lines(output) {
            if let Some(found) = found(line) {
                last.replace(found).into_iter().for_each(|found| findings.push(found));
            } else if let Some(found) = &mut last {
                // Plain output explains an error on indented lines directly below it.
                if line.starts_with("  ") && !line.trim().is_empty() && !line.contains('~') {
                    scan::push_line(&mut found.message, line.trim_end());
                } else {
                    last.take().into_iter().for_each(|found| findings.push(found));
                }
            }
        }
        last.into_iter().for_each(|found| findings.push(found));
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

fn found(line: &str) -> Option<Diagnostic> {
    if let Some(rest) = line.strip_prefix("error TS") {
        let (number, message) = scan::number(rest)?;
        return Some(Diagnostic {
            severity: Severity::Error,
            file: None,
            line: None,
            column: None,
            code: Some(format!("TS{number}")),
            message: message.strip_prefix(": ")?.to_owned(),
            ..Diagnostic::default()
        });
    }
    let found = parenthesised(line).or_else(|| placed(line)).filter(|_| !line.starts_with(' '))?;
    let code = found.code.as_deref()?.strip_prefix("TS")?;
    code.bytes().all(|byte| byte.is_ascii_digit()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_belong_to_the_error_above() {
        let report = Tsc.parse("a.ts(1,7): error TS2322: Type 'A' is not assignable to type 'B'.\n  Property 'x' is missing.\nerror TS18003: No inputs were found.\n");
        assert_eq!(
            report.diagnostics[0].message,
            "Type 'A' is not assignable to type 'B'.\n  Property 'x' is missing."
        );
        assert_eq!(report.diagnostics[1].code.as_deref(), Some("TS18003"));
        assert_eq!(report.diagnostics[1].file, None);
    }
}
