//! The diagnostics of gcc, clang and the linker that they call.

use protocol::{Diagnostic, Report, Severity};

use crate::findings::Findings;
use crate::{Parser, places, scan, words};

/// The parser `gcc`.
pub(crate) struct Gcc;

impl Parser for Gcc {
    fn name(&self) -> &'static str {
        "gcc"
    }

    fn recognises(&self, output: &str) -> bool {
        places::lines(output).any(|line| {
            let own = compiler(line).is_some_and(|found| found.file.as_deref().is_some_and(is_source));
            own || line.starts_with("collect2: ") || undefined(line).is_some()
        })
    }

    fn parse(&self, output: &str) -> Report {
        let mut findings = Findings::default();
        for line in places::lines(output) {
            compiler(line).or_else(|| undefined(line)).into_iter().for_each(|found| findings.push(found));
        }
        Report { diagnostics: findings.into_vec(), ..Report::default() }
    }
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
