//! `agent` and `checks` decide; they touch no file, no network, no process and no clock, so that their tests need none
//! and the same input always gives the same answer.

use super::Finding;
use super::outside_tests::{Line, lines};
use crate::project::Project;

const PURE: [&str; 2] = ["agent", "checks"];

/// Modules of `std` with effects.
const MODULES: [&str; 5] = ["env", "fs", "net", "process", "thread"];

/// Clocks.
const NAMES: [&str; 4] = ["SystemTime", "Instant", "Timestamp::now", "Zoned::now"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in PURE {
        let Some(folder) = project.folder(name) else { continue };
        let mut group = false;
        for line in lines(project, &format!("{folder}src/")) {
            // A group of imports may go over several lines.
            group |= line.code.trim_start().starts_with("use std::{");
            if let Some(found) = impurity(&line, group) {
                let message = format!(
                    "`{name}` uses {found}: it is pure; make it an effect, and perform it in `session`"
                );
                findings.push(Finding::error(line.file, line.number, message));
            }
            group &= !line.code.contains(';');
        }
    }
    findings
}

fn impurity(line: &Line<'_>, in_std_group: bool) -> Option<String> {
    let modules = MODULES.iter().map(|module| (format!("std::{module}"), *module));
    for (full, module) in modules {
        if has_word(line.code, &full) || (in_std_group && has_word(line.code, module)) {
            return Some(full);
        }
    }
    NAMES.iter().find(|name| has_word(line.code, name)).map(|name| (*name).to_owned())
}

fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let project = Project::of_files(&[("crates/agent/src/lib.rs", code)]).with_crate("agent", &[]);
        check(&project).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn effects_are_found_however_they_are_imported() {
        for code in [
            "let text = std::fs::read_to_string(path);",
            "use std::net::TcpStream;",
            "use std::{fs, io};",
            "use std::{\n    collections::BTreeMap,\n    process::Command,\n};",
            "use std::time::Instant;",
            "let now = SystemTime::now();",
            "let now = protocol::Timestamp::now();",
        ] {
            let found = found(code);
            assert_eq!(found.len(), 1, "{code}: {found:?}");
        }
    }

    #[test]
    fn names_that_only_look_alike_pass() {
        let code = "use std::{fmt, mem};\nlet process = Instantly;\n// std::fs is not used here\n";
        assert_eq!(found(code), Vec::<String>::new());
        let test = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(found(test), Vec::<String>::new());
    }

    #[test]
    fn other_crates_may_do_as_they_like() {
        let project =
            Project::of_files(&[("crates/store/src/lib.rs", "use std::fs;")]).with_crate("store", &[]);
        assert!(check(&project).is_empty());
    }
}
