//! The compiler's messages as JSON: cargo's `--message-format=json` and rustc's own `--error-format=json`, one to a line.

use protocol::{Diagnostic, Severity};
use serde_json::Value;

use super::Region;
use super::rustc::Rustc;
use crate::json;

/// Whether the line is a message of cargo or rustc.
pub(super) fn is_message(line: &str) -> bool {
    line.starts_with('{') && (line.contains("\"reason\":\"compiler-") || line.contains("\"reason\":\"build-"))
        || line.starts_with("{\"$message_type\":\"")
}

/// Reads a message, and gives what it says of the code.
pub(super) fn message(line: &str, into: &mut Rustc) {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return };
    let message = value.get("message").filter(|message| message.is_object()).unwrap_or(&value);
    let level = json::text(message, "/level");
    let severity = match level {
        Some("error" | "error: internal compiler error") => Severity::Error,
        Some("warning") => Severity::Warning,
        _ => return,
    };
    let spans = message.get("spans").and_then(Value::as_array);
    let primary = spans.into_iter().flatten().find(|span| json_true(span, "is_primary"));
    // The text that people are shown has the label and the hints at their places, so it is read as such.
    let told = json::text(message, "/rendered").and_then(from_text);
    if told.is_none() && primary.is_none() {
        return;
    }
    let mut found = told.unwrap_or_else(|| Diagnostic {
        severity,
        message: json::text(message, "/message").unwrap_or_default().to_owned(),
        ..Diagnostic::default()
    });
    if let Some(code) = json::text(message, "/code/code") {
        found.code = Some(code.to_owned());
    }
    if let Some(span) = primary {
        found.file = json::text(span, "/file_name").map(str::to_owned);
        found.line = json::number(span, "/line_start");
        found.column = json::number(span, "/column_start");
        found.end_line = json::number(span, "/line_end");
        found.end_column = json::number(span, "/column_end");
    }
    into.push(found);
}

fn json_true(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool) == Some(true)
}

/// The one finding of a rendered message; closing remarks give none.
fn from_text(rendered: &str) -> Option<Diagnostic> {
    let mut reader = Rustc::default();
    let text = crate::clean(rendered);
    text.lines().for_each(|line| reader.line(line, Region::Build));
    reader.finish().into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_its_text_is_still_read() {
        let line = r#"{"reason":"compiler-message","message":{"level":"error","message":"no","code":null,"spans":[{"is_primary":true,"file_name":"a.rs","line_start":1,"line_end":2,"column_start":3,"column_end":4}]}}"#;
        let mut reader = Rustc::default();
        message(line, &mut reader);
        message(
            r#"{"reason":"compiler-message","message":{"level":"failure-note","message":"x"}}"#,
            &mut reader,
        );
        message(r#"{"reason":"compiler-message","message":"#, &mut reader);
        let found = reader.finish();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].end_line, found[0].end_column), (Some(1), Some(2), Some(4)));
        assert_eq!(found[0].message, "no");
    }
}
