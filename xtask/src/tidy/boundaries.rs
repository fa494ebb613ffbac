//! Who may depend on whom. These are the invariants of ARCHITECTURE.md; what tests need in addition is free.

use super::{Finding, line_of};
use crate::project::{Crate, Project};

/// Never reached, not even through another crate.
const UNREACHABLE: [(&str, &[&str], &str); 6] = [
    ("agent", &["tokio", "reqwest", "axum", "hyper", "rusqlite"], "it decides, and `session` acts"),
    ("checks", &["tokio", "reqwest", "axum", "hyper", "rusqlite"], "it is text in, report out"),
    (
        "llm",
        &["sandbox", "forge", "session"],
        "a model call knows nothing of the rest; join them in `session`",
    ),
    ("sandbox", &["llm", "forge", "session"], "a sandbox knows nothing of the rest; join them in `session`"),
    ("forge", &["llm", "sandbox", "session"], "git knows nothing of the rest; join them in `session`"),
    (
        "mcp",
        &["llm", "forge", "sandbox", "guest", "session", "store"],
        "a connection knows nothing of the rest; join them in `session`",
    ),
];

/// Named only by these crates.
const RESERVED: [(&str, &[&str], &str); 4] = [
    ("rusqlite", &["store", "bench"], "all SQL is in `store`; add a function there"),
    ("axum", &["server", "testkit", "bench"], "all routes are in `server`; add one there"),
    ("launcher", &["sandbox"], "the launcher is a part of the native driver; go through `sandbox`"),
    ("testkit", &["bench"], "it is for tests; make it a dev-dependency"),
];

/// All that `protocol` may stand on.
const PROTOCOL: [&str; 6] = ["serde", "serde_json", "jiff", "ulid", "thiserror", "utoipa"];

/// Names that say nothing, and so collect everything.
const VAGUE: [&str; 5] = ["core", "common", "utils", "util", "helpers"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    project.crates.iter().flat_map(|krate| check_crate(project, krate)).collect()
}

fn check_crate(project: &Project, krate: &Crate) -> Vec<Finding> {
    let Crate { name, manifest, dependencies, reaches, .. } = krate;
    let text = project.text(manifest).unwrap_or_default();
    let error = |wanted: &str, message| Finding::error(manifest, line_of(text, wanted), message);
    let mut findings = Vec::new();
    for (_, forbidden, reason) in UNREACHABLE.iter().filter(|(owner, ..)| owner == name) {
        for other in forbidden
            .iter()
            .copied()
            .filter(|other| reaches.contains(*other) || dependencies.contains(*other))
        {
            let how = if dependencies.contains(other) { "depends on" } else { "reaches, through others," };
            findings.push(error(other, format!("`{name}` {how} `{other}`: {reason}")));
        }
    }
    for (reserved, owners, reason) in RESERVED {
        if dependencies.contains(reserved) && !owners.contains(&name.as_str()) {
            findings.push(error(reserved, format!("`{name}` depends on `{reserved}`: {reason}")));
        }
    }
    if name == "protocol" {
        for other in dependencies.iter().filter(|other| !PROTOCOL.contains(&other.as_str())) {
            let message = format!(
                "`protocol` depends on `{other}`: it is words only; move what needs this to its user"
            );
            findings.push(error(other, message));
        }
    }
    if VAGUE.contains(&name.as_str()) {
        let message = format!("a crate called `{name}` says nothing: name it after what it is for");
        findings.push(error("name", message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(project: &Project) -> Vec<String> {
        check(project).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_keeps_the_boundaries_passes() {
        let project = Project::default()
            .with_crate("protocol", &["serde", "utoipa"])
            .with_crate("agent", &["protocol", "serde"])
            .with_crate("store", &["rusqlite", "tokio"])
            .with_crate("server", &["axum", "session", "store"])
            .with_crate("sandbox", &["launcher", "guest"])
            .with_crate("bench", &["testkit"]);
        assert_eq!(messages(&project), Vec::<String>::new());
    }

    #[test]
    fn each_boundary_is_kept() {
        for (name, dependency) in [
            ("agent", "tokio"),
            ("checks", "hyper"),
            ("llm", "sandbox"),
            ("sandbox", "forge"),
            ("forge", "session"),
            ("session", "rusqlite"),
            ("cli", "axum"),
            ("session", "launcher"),
            ("cli", "testkit"),
            ("protocol", "tokio"),
        ] {
            let project = Project::default().with_crate(name, &[dependency]);
            let messages = messages(&project);
            assert_eq!(messages.len(), 1, "{name} on {dependency}: {messages:?}");
            assert!(messages[0].contains(&format!("`{name}` depends on `{dependency}`")), "{messages:?}");
        }
        assert_eq!(messages(&Project::default().with_crate("utils", &[])).len(), 1);
    }

    #[test]
    fn a_forbidden_crate_is_found_behind_another_one() {
        let mut project = Project::default().with_crate("agent", &["protocol"]);
        project.crates[0].reaches.insert("tokio".to_owned());
        assert!(messages(&project)[0].contains("`agent` reaches, through others, `tokio`"));
    }

    #[test]
    fn the_line_of_the_manifest_is_named() {
        let manifest = "[package]\nname = \"cli\"\n[dependencies]\naxum.workspace = true\n";
        let project = Project::of_files(&[("crates/cli/Cargo.toml", manifest)]).with_crate("cli", &["axum"]);
        assert!(messages(&project)[0].starts_with("crates/cli/Cargo.toml:4: "));
    }
}
