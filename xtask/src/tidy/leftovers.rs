//! What a finished change does not leave behind: placeholders and debugging in the code, and paths of the machine it
//! was written on.

use super::Finding;
use crate::project::Project;

/// Macros of unfinished code, written in pieces so that this file does not find itself.
const MACROS: [(&str, &str); 3] = [("todo", "write it"), ("unimplemented", "write it"), ("dbg", "remove it")];

/// Top-level directories of machines that this was written on. Sandboxes show `/workspace`, which is another.
const PLACES: [&str; 2] = ["work", "farm"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in project.texts(|_| true) {
        let source = file.ends_with(".rs") && (file.starts_with("src/") || file.contains("/src/"));
        for (index, line) in text.lines().enumerate() {
            for (name, advice) in MACROS.iter().filter(|_| source) {
                if line.contains(&format!("{name}!(")) {
                    findings.push(Finding::error(file, index + 1, format!("`{name}!` is left: {advice}")));
                }
            }
            for place in PLACES {
                if begins_a_path(line, &format!("/{place}/")) {
                    let message =
                        format!("a path of some machine (/{place}/): use a relative or a temporary one");
                    findings.push(Finding::error(file, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Whether the text is there as the beginning of a path, not as a part in the middle of one.
fn begins_a_path(line: &str, wanted: &str) -> bool {
    line.match_indices(wanted).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}>/~*$".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_in_sources_are_found() {
        for (name, _) in MACROS {
            let project =
                Project::of_files(&[("crates/a/src/lib.rs", &format!("fn f() {{\n    {name}!()\n}}\n"))]);
            let found = check(&project);
            assert_eq!(found.len(), 1);
            assert_eq!((found[0].file.as_str(), found[0].line), ("crates/a/src/lib.rs", 2));
        }
    }

    #[test]
    fn paths_of_a_machine_are_found_anywhere() {
        let line = format!("cd /{}/main", PLACES[0]);
        assert_eq!(check(&Project::of_files(&[("docs/a.md", &line)])).len(), 1);
        let inside = format!("sandboxes/<id>/{0}/ and upper/{0}/x and /{0}space/src", PLACES[0]);
        assert!(check(&Project::of_files(&[("docs/a.md", &inside)])).is_empty());
    }
}
