//! mypy's text output, plain, with columns or pretty, and its JSON lines.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json, places, scan};

/// The parser `mypy`.
pub(crate) struct Mypy;

impl Parser for Mypy {
    fn name(&self) -> &'static str {
        "mypy"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            let summary = line.strip_prefix("Found ").and_then(scan::number);
            summary.is_some_and(|(_, rest)| {
                rest.starts_with(" error") && rest.contains(" in ") && rest.contains(" file")
            }) || line.starts_with("Success: no issues found in ")
                || (line.starts_with("{\"file\": ") && line.contains("\"hint\": "))
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        let mut last: Option<Diagnostic> = None;
        for line in places::lines(output) {
            if let Some(found) = placed(line).or_else(|| from_json(line)) {
                last.replace(found).into_iter().for_each(|found| findings.push(found));
            } else if let Some(found) = &mut last {
                // Pretty output breaks a long message over lines that are not indented as code is.
                let goes_on = found.code.is_none() && found.severity == Severity::Error;
                if goes_on && !line.starts_with("   ") && !line.starts_with("Found ") && !line.is_empty() {
                    let message = format!("{} {}", found.message.trim_end(), line.trim());
                    let (code, message) = places::split_code(&message);
                    (found.code, found.message) = (code, message.to_owned());
                } else {
                    last.take().into_iter().for_each(|found| findings.push(found));
                }
            }
        }
        last.into_iter().for_each(|found| findings.push(found));
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

/// `a.py:6: error: …`, also with a column and with the place where it ends.
fn placed(line: &str) -> Option<Diagnostic> {
    let place = scan::place(line).filter(|place| places::is_path(place.file))?;
    let end = place
        .rest
        .strip_prefix(':')
        .and_then(scan::number)
        .and_then(|(_, rest)| scan::number(rest.strip_prefix(':')?).map(|(_, rest)| rest));
    let text = end.unwrap_or(place.rest).strip_prefix(": ")?;
    let told = ["error: ", "warning: ", "note: "].iter().any(|word| text.starts_with(word));
    told.then(|| places::diagnostic(place.file, place.line, place.column, text))
}

fn from_json(line: &str) -> Option<Diagnostic> {
    let value: Value = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    let severity = match json::text(&value, "/severity")? {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => Severity::Note,
    };
    Some(Diagnostic {
        // Only here does mypy count columns from nought.
        column: json::number(&value, "/column").and_then(|column| column.checked_add(1)),
        code: json::text(&value, "/code").map(str::to_owned),
        ..places::found(
            severity,
            json::text(&value, "/file")?,
            json::number(&value, "/line")?,
            json::text(&value, "/message")?,
        )
    })
}
