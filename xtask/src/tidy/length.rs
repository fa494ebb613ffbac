//! How long a Rust file may be.

use super::Finding;
use crate::project::Project;

/// More than this is refused.
const MOST: usize = 800;
/// More than this is worth a thought.
const MUCH: usize = 500;

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in project.texts(|path| path.ends_with(".rs")) {
        let lines = text.lines().count();
        if lines > MOST {
            let message = format!("{lines} lines, and {MOST} is the most: split it by concept");
            findings.push(Finding::error(file, MOST + 1, message));
        } else if lines > MUCH {
            findings.push(Finding::note(
                file,
                MUCH + 1,
                format!("{lines} lines; does it hold two concepts?"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Severity;

    #[test]
    fn long_files_are_refused_and_longish_ones_noted() {
        let check = |lines: usize| {
            let project = Project::of_files(&[("a.rs", &"x\n".repeat(lines)), ("a.md", &"x\n".repeat(2000))]);
            check(&project).iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        assert_eq!(check(MUCH), []);
        assert_eq!(check(MUCH + 1), [Severity::Note]);
        assert_eq!(check(MOST), [Severity::Note]);
        assert_eq!(check(MOST + 1), [Severity::Error]);
    }
}
