//! `cargo xtask tidy`: every rule that a machine can check, one file each. A finding says where, what is wrong, and
//! what to do; any error makes the command fail.

mod boundaries;
mod documents;
mod leftovers;
mod length;
mod licences;
mod lockfile;
mod manifests;
mod outside_tests;
mod purity;
mod whitespace;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use crate::project::Project;

/// A broken rule, or something worth a thought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    severity: Severity,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Error,
    Note,
}

impl Finding {
    fn error(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, severity: Severity::Error, message: message.into() }
    }

    fn note(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(file, line, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, severity, message } = self;
        match severity {
            Severity::Error => write!(f, "{file}:{line}: {message}"),
            Severity::Note => write!(f, "{file}:{line}: note: {message}"),
        }
    }
}

type Check = fn(&Project) -> Vec<Finding>;

const CHECKS: [Check; 9] = [
    boundaries::check,
    documents::check,
    leftovers::check,
    length::check,
    licences::check,
    lockfile::check,
    manifests::check,
    purity::check,
    whitespace::check,
];

/// Checks the repository and prints what was found.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let project = Project::read()?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&project)).collect();
    findings.sort();
    findings.dedup();
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(
        out,
        "tidy: {} files, {} crates, {} of at most {} packages in Cargo.lock, {}",
        project.files.len(),
        project.crates.len(),
        lockfile::count(&project),
        lockfile::MOST,
        match errors {
            0 => "no errors".to_owned(),
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        }
    )?;
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The line, from one, that holds the text; the first line when none does.
fn line_of(text: &str, wanted: &str) -> usize {
    text.lines().position(|line| line.contains(wanted)).map_or(1, |index| index + 1)
}
