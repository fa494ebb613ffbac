//! What every crate owes: a one-line reason, the workspace's lints, and a root module that opens with what it is for.

use super::{Finding, line_of};
use crate::project::{Crate, Project};

pub(super) fn check(project: &Project) -> Vec<Finding> {
    project.crates.iter().flat_map(|krate| check_crate(project, krate)).collect()
}

fn check_crate(project: &Project, krate: &Crate) -> Vec<Finding> {
    let Crate { name, manifest, description, roots, .. } = krate;
    let mut findings = Vec::new();
    let text = project.text(manifest).unwrap_or_default();
    if description.as_deref().is_none_or(|description| description.trim().is_empty()) {
        let message = format!("`{name}` has no description: say in one line what it is for");
        findings.push(Finding::error(manifest, line_of(text, "[package]"), message));
    }
    if !inherits_lints(text) {
        let message =
            format!("`{name}` does not have the workspace's lints: add [lints] with workspace = true");
        findings.push(Finding::error(manifest, line_of(text, "[lints]"), message));
    }
    for root in roots {
        if !project.text(root).unwrap_or_default().starts_with("//!") {
            let message = "it does not open with //!: say in two to five lines what the crate is for";
            findings.push(Finding::error(root, 1, message));
        }
    }
    findings
}

fn inherits_lints(manifest: &str) -> bool {
    let Ok(table) = manifest.parse::<toml::Table>() else { return false };
    table.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, root: &str) -> Vec<String> {
        let files = [("crates/a/Cargo.toml", manifest), ("crates/a/src/lib.rs", root)];
        check(&Project::of_files(&files).with_crate("a", &[])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_crate_that_says_what_it_is_for_passes() {
        assert_eq!(found("[lints]\nworkspace = true\n", "//! What it is for.\n"), Vec::<String>::new());
    }

    #[test]
    fn lints_and_opening_are_owed() {
        let found = found("[package]\n[lints.rust]\nmissing_docs = \"warn\"\n", "mod a;\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_description_is_owed() {
        let files = [("crates/a/Cargo.toml", "[lints]\nworkspace = true"), ("crates/a/src/lib.rs", "//! x")];
        let mut project = Project::of_files(&files).with_crate("a", &[]);
        project.crates[0].description = Some(" ".to_owned());
        assert_eq!(check(&project).len(), 1);
    }
}
