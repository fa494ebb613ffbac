//! SARIF 2.1.0, the interchange format of static analysis tools.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
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
        // The schema may be absent; the version may not.
        let named = output.contains("sarif") || output.contains("\"driver\"") && output.contains("\"2.1.0\"");
        output.contains("\"runs\"") && named
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        if let Some(document) = json::embedded(output, |value| value.get("runs").is_some_and(Value::is_array))
        {
            let runs = document.get("runs").and_then(Value::as_array).into_iter().flatten();
            for run in runs {
                let rules = run.pointer("/tool/driver/rules").and_then(Value::as_array);
                let results = run.get("results").and_then(Value::as_array).into_iter().flatten();
                for result in results.filter(|result| is_finding(result)) {
                    findings.push(diagnostic(result, rules.map(Vec::as_slice).unwrap_or_default()));
                }
            }
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

/// Whether a result is something to mend: nobody suppressed it, and it is none that says that all is well.
fn is_finding(result: &Value) -> bool {
    let suppressed =
        result.get("suppressions").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    !suppressed && !matches!(json::text(result, "/kind"), Some("pass" | "notApplicable"))
}

fn diagnostic(result: &Value, rules: &[Value]) -> Diagnostic {
    let location = result.pointer("/locations/0/physicalLocation").unwrap_or(&Value::Null);
    let file =
        json::text(location, "/artifactLocation/uri").map(|uri| uri.strip_prefix("file://").unwrap_or(uri));
    let listed = || {
        let index =
            result.get("ruleIndex").or_else(|| result.pointer("/rule/index")).and_then(Value::as_u64)?;
        json::text(rules.get(usize::try_from(index).ok()?)?, "/id")
    };
    let rule = json::text(result, "/ruleId").or_else(|| json::text(result, "/rule/id")).or_else(listed);
    Diagnostic {
        // The standard's level for a result that has none is a warning.
        severity: match json::text(result, "/level") {
            Some("error") => Severity::Error,
            Some("note" | "none") => Severity::Note,
            Some(_) | None => Severity::Warning,
        },
        file: file.map(decoded),
        line: json::number(location, "/region/startLine"),
        column: json::number(location, "/region/startColumn"),
        end_line: json::number(location, "/region/endLine"),
        end_column: json::number(location, "/region/endColumn"),
        code: rule.map(str::to_owned),
        message: filled(json::text(result, "/message/text").or(rule).unwrap_or_default(), result),
        ..Diagnostic::default()
    }
}

/// A message with its arguments where `{0}` and the like stand.
fn filled(message: &str, result: &Value) -> String {
    let arguments = result.pointer("/message/arguments").and_then(Value::as_array).map(Vec::as_slice);
    let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) else {
        return message.to_owned();
    };
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(open) = rest.find('{') {
        let (before, at) = rest.split_at(open);
        text.push_str(before);
        // No number is so long that one has to look far for its end.
        let close = at.bytes().take(8).position(|byte| byte == b'}');
        let place = close.and_then(|close| Some((close, at[1..close].parse::<usize>().ok()?)));
        let argument = place.and_then(|(close, index)| Some((close, arguments.get(index)?.as_str()?)));
        match argument {
            Some((close, argument)) => {
                text.push_str(argument);
                rest = &at[close + 1..];
            }
            None => {
                text.push('{');
                rest = &at[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// An address with the bytes that `%20` and the like stand for; as it is where they are no text.
fn decoded(uri: &str) -> String {
    percent_decode_str(uri).decode_utf8().map_or_else(|_| uri.to_owned(), Cow::into_owned)
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

    #[test]
    fn what_the_standard_leaves_out_and_refers_to_is_found() {
        let text = r#"{"version":"2.1.0","runs":[{"tool":{"driver":{"name":"t","rules":[{"id":"r0"},{"id":"r1"}]}},"results":[
            {"ruleIndex":1,"message":{"text":"{0} is {2} {x {1}","arguments":["a","b"]},
             "locations":[{"physicalLocation":{"artifactLocation":{"uri":"file:///a%20b/%C3%A9%zz.c"}}}]},
            {"kind":"pass","message":{"text":"well"}}]}]}"#;
        assert!(Sarif.recognises(text), "a document need not name its schema");
        let found = Sarif.parse(text).diagnostics;
        assert_eq!(found.len(), 1, "what passed is no finding");
        assert_eq!((found[0].code.as_deref(), found[0].message.as_str()), (Some("r1"), "a is {2} {x b"));
        assert_eq!(found[0].file.as_deref(), Some("/a b/é%zz.c"));
    }
}
