//! The diagnostics of gcc, clang and the linker that they call.

use protocol::{Diagnostic, Report, Severity};
use serde_json::Value;

use crate::findings::Findings;
use crate::{Parser, json, places, scan, words};

/// The parser `gcc`.
pub(crate) struct Gcc;

impl Parser for Gcc {
    fn name(&self) -> &'static str {
        "gcc"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            let own = compiler(line).is_some_and(|found| found.file.as_deref().is_some_and(is_source));
            own || is_json(line) || line.starts_with("collect2: ") || undefined(line).is_some()
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        for whole in output.lines().filter(|line| is_json(line)) {
            // Each compilation writes one array; what was cut off is no JSON.
            let found: Vec<Value> = serde_json::from_str(whole).unwrap_or_default();
            found.iter().filter_map(from_json).for_each(|found| findings.push(found));
        }
        for line in places::lines(output).filter(|line| !is_json(line)) {
            compiler(line).or_else(|| undefined(line)).into_iter().for_each(|found| findings.push(found));
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
}

/// Whether the line is of `-fdiagnostics-format=json`.
fn is_json(line: &str) -> bool {
    line.starts_with("[{") && line.contains("\"kind\": \"") && line.contains("\"locations\": [")
}

/// One diagnostic of the JSON, with the notes below it; a note by itself is no finding.
fn from_json(found: &Value) -> Option<Diagnostic> {
    let severity = words::severity(json::text(found, "/kind")?)?;
    let mut message = json::text(found, "/message")?.to_owned();
    for note in found.get("children").and_then(Value::as_array).into_iter().flatten() {
        if let Some(text) = json::text(note, "/message") {
            scan::push_line(&mut message, &format!("note: {text}"));
        }
    }
    let number = |pointer| json::number(found, pointer);
    Some(Diagnostic {
        severity,
        file: json::text(found, "/locations/0/caret/file").map(str::to_owned),
        line: number("/locations/0/caret/line"),
        column: number("/locations/0/caret/column"),
        end_line: number("/locations/0/finish/line"),
        // gcc names the last column, not the one behind it.
        end_column: number("/locations/0/finish/column").map(|column| column.saturating_add(1)),
        code: json::text(found, "/option").map(str::to_owned),
        message,
        source: None,
    })
}

/// `main.c:4:14: error: …`; what has a place but no word for how bad it is comes from other tools.
fn compiler(line: &str) -> Option<Diagnostic> {
    let place = scan::place(line).filter(|place| !line.starts_with(' ') && places::is_path(place.file))?;
    words::leading(place.rest.strip_prefix(": ")?)?;
    places::placed(line)
}

/// ``a.c:(.text+0xa): undefined reference to `f'``, and what a linker says of a symbol that is there twice. The place in
/// the object file tells it in any language.
fn undefined(line: &str) -> Option<Diagnostic> {
    let sections = [".text", ".data", ".rodata", ".bss", ".init_array"];
    let in_object = || {
        let at = line.find("):")?;
        let section = line[..at].rfind(":(").map(|begin| &line[begin + 2..at])?;
        sections.iter().any(|known| section.starts_with(known)).then_some(at + 1)
    };
    let at = [": undefined reference to ", ": multiple definition of "]
        .iter()
        .find_map(|words| line.find(words))
        .or_else(in_object)
        .filter(|at| line.len() > at + 2)?;
    let place = line[..at].rsplit_once(": ").map_or(&line[..at], |(_, last)| last);
    let file = place.split(":(").next().filter(|file| places::is_path(file));
    Some(Diagnostic {
        severity: Severity::Error,
        file: file.map(str::to_owned),
        line: None,
        column: None,
        code: None,
        message: line[at + 1..].trim_start().to_owned(),
        ..Diagnostic::default()
    })
}

fn is_source(file: &str) -> bool {
    const ENDINGS: [&str; 13] =
        ["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "C", "m", "mm", "inl", "s"];
    file.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}
