//! ruff's findings: full (a headline with the place below it), concise (one line each) and JSON.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json, places, scan};

/// The parser `ruff`.
pub(crate) struct Ruff;

impl Parser for Ruff {
    fn name(&self) -> &'static str {
        "ruff"
    }

    fn recognises(&self, output: &str) -> bool {
        output.contains("\"noqa_row\"")
            || output.lines().any(|line| {
                let summary = line.strip_prefix("Found ").and_then(scan::number).map(|(_, rest)| rest);
                matches!(summary, Some(" error." | " errors.")) || line == "All checks passed!"
            })
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        if output.contains("\"noqa_row\"") {
            let document = json::embedded(output, Value::is_array);
            let list = document.as_ref().and_then(Value::as_array).into_iter().flatten();
            list.filter_map(from_json).for_each(|found| findings.push(found));
        } else {
            let mut arrow = places::Arrow::default();
            for line in places::lines(output) {
                let found =
                    arrow.line(line).or_else(|| places::placed(line).filter(|found| found.column.is_some()));
                found.into_iter().for_each(|found| findings.push(found));
            }
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

fn from_json(value: &Value) -> Option<Diagnostic> {
    let file = json::text(value, "/filename")?;
    let line = json::number(value, "/location/row")?;
    Some(Diagnostic {
        column: json::number(value, "/location/column"),
        end_line: json::number(value, "/end_location/row"),
        end_column: json::number(value, "/end_location/column"),
        code: json::text(value, "/code").map(str::to_owned),
        ..places::found(Severity::Error, file, line, json::text(value, "/message")?)
    })
}
