//! ESLint's table, a file's name and below it one row per finding, and its JSON.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json, places, scan};

/// The parser `eslint`.
pub(crate) struct Eslint;

impl Parser for Eslint {
    fn name(&self) -> &'static str {
        "eslint"
    }

    fn recognises(&self, output: &str) -> bool {
        let mut table = Table::default();
        is_json(output)
            || places::lines(output).any(|line| {
                let summary = line.strip_prefix("✖ ").and_then(scan::number);
                summary.is_some_and(|(_, rest)| rest.starts_with(" problem")) || table.line(line).is_some()
            })
    }

    fn parse(&self, output: &str) -> Report {
        let mut table = Table::default();
        let mut findings = Findings::default();
        if is_json(output) {
            let files = json::embedded(output, |value| value.pointer("/0/filePath").is_some());
            let files = files.as_ref().and_then(Value::as_array).into_iter().flatten();
            for (file, list) in
                files.filter_map(|file| Some((json::text(file, "/filePath")?, file.get("messages")?)))
            {
                let list = list.as_array().into_iter().flatten();
                list.for_each(|message| findings.push(from_json(file, message)));
            }
        }
        places::lines(output).filter_map(|line| table.line(line)).for_each(|found| findings.push(found));
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

fn is_json(output: &str) -> bool {
    output.contains("[{\"filePath\":") && output.contains("\"messages\":")
}

/// One message of the JSON. What ESLint calls 2 is an error, and so is what keeps it from reading the file.
fn from_json(file: &str, message: &Value) -> Diagnostic {
    let warning = json::number(message, "/severity") == Some(1);
    Diagnostic {
        severity: if warning { Severity::Warning } else { Severity::Error },
        file: Some(file.to_owned()),
        line: json::number(message, "/line"),
        column: json::number(message, "/column"),
        end_line: json::number(message, "/endLine"),
        end_column: json::number(message, "/endColumn"),
        code: json::text(message, "/ruleId").map(str::to_owned),
        message: json::text(message, "/message").unwrap_or_default().to_owned(),
        source: None,
    }
}

/// The table while its lines come in.
#[derive(Default)]
pub(crate) struct Table {
    /// The file above the rows.
    file: Option<String>,
}

impl Table {
    /// The finding in this line, if it is a row below a file's name.
    pub(crate) fn line(&mut self, line: &str) -> Option<Diagnostic> {
        let found = self.row(line);
        if found.is_none() {
            self.file = places::is_path(line)
                .then(|| line.to_owned())
                .or(self.file.take().filter(|_| !line.is_empty()));
        }
        found
    }

    /// `  1:12  error  Missing semicolon  semi` below a file's name.
    fn row(&self, line: &str) -> Option<Diagnostic> {
        let file = self.file.as_deref()?;
        let (number, rest) = line.strip_prefix("  ").map(str::trim_start).and_then(scan::number)?;
        let (column, rest) = rest.strip_prefix(':').and_then(scan::number)?;
        let rest = rest.trim();
        let (severity, rest) = match rest.strip_prefix("error ") {
            Some(rest) => (Severity::Error, rest),
            None => (Severity::Warning, rest.strip_prefix("warning ")?),
        };
        let (message, code) = match rest.trim().rsplit_once("  ") {
            Some((message, rule)) => (message.trim_end(), Some(rule.to_owned())),
            None => (rest.trim(), None),
        };
        Some(Diagnostic { column: Some(column), code, ..places::found(severity, file, number, message) })
    }
}
