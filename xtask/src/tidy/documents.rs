//! Documents that lead somewhere: links that exist, a map with every crate on it, an example of the configuration.

use super::Finding;
use crate::project::Project;

const MAP: &str = "ARCHITECTURE.md";

/// What a reader is promised.
const OWED: [&str; 8] = [
    MAP,
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "LICENSE",
    "README.md",
    "config.example.toml",
    "docs/threat-model.md",
];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings: Vec<Finding> = OWED
        .iter()
        .filter(|file| project.text(file).is_none())
        .map(|file| Finding::error(file, 1, "it is missing: write it"))
        .collect();
    if let Some(map) = project.text(MAP) {
        for krate in project.crates.iter().filter(|krate| !map.contains(&format!("`{}`", krate.name))) {
            let message =
                format!("`{}` is not on the map: say what it owns and what it must not know", krate.name);
            findings.push(Finding::error(MAP, 1, message));
        }
    }
    for (file, text) in project.texts(|path| path.ends_with(".md")) {
        for (line, target) in links(text) {
            if !exists(project, file, target) {
                findings.push(Finding::error(
                    file,
                    line,
                    format!("the link to {target} leads nowhere: correct it"),
                ));
            }
        }
    }
    findings
}

/// Relative links with their lines; code is left out.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let Some((target, _)) = line[at + 2..].split_once(')').filter(|_| !in_code) else { continue };
            let target = target.split([' ', '#']).next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !elsewhere {
                links.push((index + 1, target));
            }
        }
    }
    links
}

fn exists(project: &Project, from: &str, target: &str) -> bool {
    let mut path: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if path.pop().is_none() => return false,
            ".." => {}
            name => path.push(name),
        }
    }
    let path = path.join("/");
    path.is_empty()
        || project
            .files
            .keys()
            .any(|file| file.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(project: &Project) -> Vec<String> {
        let found = check(project);
        found.iter().map(ToString::to_string).filter(|message| !message.contains("it is missing")).collect()
    }

    #[test]
    fn links_must_lead_somewhere() {
        let text = "[a](../README.md#top) [b](https://example.com) [c](#here) [d](decisions)\n\
                    `[e](code)` [f](gone.md)\n```\n[g](fenced)\n```\n[h](/README.md) [i](../../out.md)\n";
        let project =
            Project::of_files(&[("README.md", ""), ("docs/a.md", text), ("docs/decisions/1.md", "")]);
        let found = messages(&project);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:2: the link to gone.md"));
        assert!(found[1].starts_with("docs/a.md:6: the link to ../../out.md"));
    }

    #[test]
    fn every_crate_is_on_the_map() {
        let project = Project::of_files(&[(MAP, "`store` keeps logs; storekeeper is no crate")]);
        let project = project.with_crate("store", &[]).with_crate("keeper", &[]);
        let found = messages(&project);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`keeper` is not on the map"));
    }

    #[test]
    fn what_is_owed_is_missed() {
        assert_eq!(check(&Project::default()).len(), OWED.len());
    }
}
