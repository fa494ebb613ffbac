//! Trailing whitespace, in what people write. Recorded output of other programs is as it is.

use super::Finding;
use crate::project::Project;

const ENDINGS: [&str; 8] = [".md", ".rs", ".sh", ".toml", ".yml", ".yaml", "Makefile", ".ci/run"];
const RECORDED: [&str; 3] = ["/fixtures/", "/golden/", "/snapshots/"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let written = |path: &str| {
        ENDINGS.iter().any(|ending| path.ends_with(ending))
            && !RECORDED.iter().any(|part| path.contains(part))
    };
    let mut findings = Vec::new();
    for (file, text) in project.texts(written) {
        for (index, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::error(
                    file,
                    index + 1,
                    "whitespace at the end of the line: remove it",
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_is_found_where_people_write() {
        let project = Project::of_files(&[
            ("README.md", "a\nb \n"),
            ("Makefile", "a:\r\n"),
            ("crates/checks/tests/golden/pytest.toml", "a \n"),
            ("notes.txt", "a \n"),
        ]);
        let found: Vec<_> = check(&project).into_iter().map(|finding| (finding.file, finding.line)).collect();
        assert_eq!(found, [("Makefile".to_owned(), 1), ("README.md".to_owned(), 2)]);
    }
}
