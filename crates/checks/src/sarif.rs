//! SARIF 2.1.0, the interchange format of static analysis tools.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json};

/// The parser `sarif`.
pub(crate) struct Sarif;

impl Parser for Sarif {
    fn name(&self) -> &'static str {
        "sarif"
    }

    fn recognises(&self, output: &str) -> bool {
        output.contains("\"runs\"") && output.contains("sarif")
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        if let Some(document) = json::embedded(output, |value| value.get("runs").is_some_and(Value::is_array))
        {
            let runs = document.get("runs").and_then(Value::as_array).into_iter().flatten();
            for result in runs.filter_map(|run| run.get("results").and_then(Value::as_array)).flatten() {
                if result.get("suppressions").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                    findings.push(diagnostic(result));
                }
            }
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

fn diagnostic(result: &Value) -> Diagnostic {
    let location = result.pointer("/locations/0/physicalLocation").unwrap_or(&Value::Null);
    let file =
        json::text(location, "/artifactLocation/uri").map(|uri| uri.strip_prefix("file://").unwrap_or(uri));
    let rule = json::text(result, "/ruleId").or_else(|| json::text(result, "/rule/id"));
    Diagnostic {
        // The standard's level for a result that has none is a warning.
        severity: match json::text(result, "/level") {
            Some("error") => Severity::Error,
            Some("note" | "none") => Severity::Note,
            Some(_) | None => Severity::Warning,
        },
        file: file.map(str::to_owned),
        line: json::number(location, "/region/startLine"),
        column: json::number(location, "/region/startColumn"),
        end_line: json::number(location, "/region/endLine"),
        end_column: json::number(location, "/region/endColumn"),
        code: rule.map(str::to_owned),
        message: json::text(result, "/message/text").or(rule).unwrap_or_default().to_owned(),
        ..Diagnostic::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_and_suppressed_results_left_out() {
        let text = "scanning…\n{\"$schema\":\"sarif\",\"runs\":[{\"results\":[{\"ruleId\":\"a\",\"level\":\"note\"},{\"message\":{\"text\":\"b\"}},{\"suppressions\":[{}]},3]},null]}\ndone";
        let found = Sarif.parse(text).diagnostics;
        assert_eq!(
            found.iter().map(|found| found.severity).collect::<Vec<_>>(),
            [Severity::Note, Severity::Warning, Severity::Warning]
        );
        assert_eq!(found[0].message, "a");
    }
}
