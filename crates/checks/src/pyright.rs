//! pyright's findings, as text and as JSON.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json, places, scan};

/// The parser `pyright`.
pub(crate) struct Pyright;

impl Parser for Pyright {
    fn name(&self) -> &'static str {
        "pyright"
    }

    fn recognises(&self, output: &str) -> bool {
        output.contains("\"generalDiagnostics\"")
            || output.lines().any(|line| {
                scan::number(line).is_some_and(|(_, rest)| {
                    rest.starts_with(" error") && rest.contains(" warning") && rest.contains(" information")
                })
            })
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        if output.contains("\"generalDiagnostics\"") {
            let document = json::embedded(output, |value| value.get("generalDiagnostics").is_some());
            let list = document.as_ref().and_then(|document| document.get("generalDiagnostics"));
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(from_json).for_each(|found| findings.push(found));
        } else {
            text(output, &mut findings);
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

/// `  file:6:12 - error: message`, explained on lines with deeper indentation, the rule in brackets at the very end.
fn text(output: &str, findings: &mut Findings) {
    let mut last: Option<Diagnostic> = None;
    for line in places::lines(output) {
        if let Some(found) = places::placed(line).filter(|_| line.starts_with("  ") && line.contains(" - ")) {
            last.replace(found).into_iter().for_each(|found| findings.push(with_rule(found)));
        } else if line.chars().take_while(|c| c.is_whitespace()).count() >= 4 {
            last.iter_mut()
                .for_each(|found| scan::push_line(&mut found.message, &format!("  {}", line.trim())));
        } else {
            last.take().into_iter().for_each(|found| findings.push(with_rule(found)));
        }
    }
    last.into_iter().for_each(|found| findings.push(with_rule(found)));
}

fn with_rule(mut found: Diagnostic) -> Diagnostic {
    let split = found.message.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    if let Some((message, rule)) = split.filter(|(_, rule)| rule.starts_with("report")) {
        (found.code, found.message) = (Some(rule.to_owned()), message.to_owned());
    }
    found
}

fn from_json(value: &Value) -> Option<Diagnostic> {
    let severity = match json::text(value, "/severity")? {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => Severity::Note,
    };
    // Lines and columns count from nought here.
    let line = json::number(value, "/range/start/line")?.checked_add(1)?;
    Some(Diagnostic {
        column: json::number(value, "/range/start/character").and_then(|column| column.checked_add(1)),
        end_line: json::number(value, "/range/end/line").and_then(|line| line.checked_add(1)),
        end_column: json::number(value, "/range/end/character").and_then(|column| column.checked_add(1)),
        code: json::text(value, "/rule").map(str::to_owned),
        ..places::found(severity, json::text(value, "/file")?, line, json::text(value, "/message")?)
    })
}
