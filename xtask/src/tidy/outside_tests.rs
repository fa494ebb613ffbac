//! The code of a crate without its tests and comments, line by line. It leans on rustfmt: an inline test module ends
//! at the closing brace with the indentation of its `mod`.

use std::collections::BTreeSet;

use crate::project::Project;

/// A line of code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) file: &'a str,
    pub(super) number: usize,
    pub(super) code: &'a str,
}

/// The lines of the Rust files below a folder that are neither tests nor comments.
pub(super) fn lines<'a>(project: &'a Project, folder: &str) -> Vec<Line<'a>> {
    let sources: Vec<_> = project.texts(|path| path.starts_with(folder) && path.ends_with(".rs")).collect();
    let modules: BTreeSet<String> =
        sources.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    let is_test = |file: &str| {
        let module = file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix(".rs")).unwrap_or(file);
        modules.iter().any(|test| {
            module.strip_prefix(test.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    sources.into_iter().filter(|(file, _)| !is_test(file)).flat_map(|(file, text)| code(file, text)).collect()
}

/// Modules in files of their own that are only built for tests, as paths without an ending.
fn test_modules(file: &str, text: &str) -> Vec<String> {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let inside = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => file.trim_end_matches(".rs").to_owned(),
    };
    let mut lines = text.lines().map(str::trim);
    let mut modules = Vec::new();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]"
            && let Some(name) = lines.next().and_then(module_name)
        {
            modules.push(format!("{inside}/{name}"));
        }
    }
    modules
}

/// The name in `mod name;`.
fn module_name(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    declaration.strip_prefix("mod ").or_else(|| declaration.split_once(" mod ").map(|(_, name)| name))
}

fn code<'a>(file: &'a str, text: &'a str) -> Vec<Line<'a>> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let indentation = line.len() - line.trim_start().len();
        if line.trim() == "#[cfg(test)]" {
            // Skips the item that follows: to its end when it has a body, else only its one line.
            let mut item = lines.by_ref().skip_while(|(_, line)| line.trim_start().starts_with("#["));
            if item.next().is_some_and(|(_, line)| line.trim_end().ends_with('{')) {
                let end = format!("{}}}", " ".repeat(indentation));
                let _closing = lines.by_ref().find(|(_, line)| *line == end);
            }
            continue;
        }
        let code = line.split_once(" // ").map_or(line, |(code, _)| code);
        if !code.trim_start().starts_with("//") && !code.trim().is_empty() {
            kept.push(Line { file, number: index + 1, code });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_comments_are_left_out() {
        let text = "//! Docs.\nfn one() {} // why\n#[cfg(test)]\nmod tests {\n    fn hidden() {\n    }\n}\nfn two() {}\n";
        let project = Project::of_files(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod b;\n"),
            ("crates/a/src/tests.rs", "fn hidden() {}\n"),
            ("crates/a/src/tests/more.rs", "fn hidden() {}\n"),
            ("crates/a/src/b.rs", text),
            ("crates/a/src/b/c.rs", "#[cfg(test)]\npub(crate) mod fake;\n"),
            ("crates/a/src/b/c/fake.rs", "fn hidden() {}\n"),
        ]);
        let found: Vec<_> =
            lines(&project, "crates/a/src/").iter().map(|line| (line.number, line.code)).collect();
        assert_eq!(found, [(2, "fn one() {}"), (8, "fn two() {}"), (3, "mod b;")]);
    }
}
