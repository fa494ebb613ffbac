//! Findings and the files they are in: which file of the workspace a printed path means, and the few lines around a place.

use std::collections::BTreeMap;

use protocol::{Excerpt, Report};

/// Lines shown before and after the place.
const AROUND: u32 = 2;
/// Longest line that is shown whole.
const MAX_LINE: usize = 200;
/// Most findings of a report that get their lines.
const MAX_EXCERPTS: usize = 40;

/// Which file of the workspace a tool means that ran in a folder of it: the path as it is from there or below the workspace, or
/// the one file whose path ends so, as tools print that name only the package's part or the file's name.
pub fn locate<'a>(names: &'a [String], workspace: &str, folder: &str, printed: &str) -> Option<&'a str> {
    let path = printed.strip_prefix("file://").unwrap_or(printed);
    let inside = path.strip_prefix(workspace).and_then(|rest| rest.strip_prefix('/'));
    let is = |path: &str| names.iter().find(|name| *name == path).map(String::as_str);
    let path = match inside {
        Some(inside) => inside,
        // An absolute path elsewhere is a file of the system or of a package.
        None if path.starts_with('/') => return None,
        None => {
            if let Some(known) = joined(folder, path).and_then(|path| is(&path)) {
                return Some(known);
            }
            path.strip_prefix("./").unwrap_or(path)
        }
    };
    if path.is_empty() || path.split('/').any(|part| part == "..") {
        return None;
    }
    if let Some(name) = is(path) {
        return Some(name);
    }
    let mut ending =
        names.iter().filter(|name| name.strip_suffix(path).is_some_and(|folder| folder.ends_with('/')));
    match (ending.next(), ending.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// A path from the workspace out of one from a folder; None where it leads out.
fn joined(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The files that the report's findings are in, as the tool printed them, each once.
pub fn files_of(report: &Report) -> Vec<&str> {
    let tests =
        report.tests.iter().filter(|test| test.line.is_some()).filter_map(|test| test.file.as_deref());
    let found = report.diagnostics.iter().filter(|found| found.line.is_some());
    let mut files = Vec::new();
    for file in tests.chain(found.filter_map(|found| found.file.as_deref())) {
        if !files.contains(&file) {
            files.push(file);
        }
        if files.len() == MAX_EXCERPTS {
            break;
        }
    }
    files
}

/// Puts the lines around each place into the report, and the file's path in the workspace in place of what was printed.
/// `texts` has path and text of a file by what the tool printed.
pub fn show_sources(report: &mut Report, texts: &BTreeMap<String, (String, String)>) {
    let mut shown = 0;
    let mut show = |file: &mut Option<String>, line: Option<u32>, source: &mut Option<Excerpt>| {
        let Some((path, text)) = file.as_ref().and_then(|file| texts.get(file)) else { return };
        if shown < MAX_EXCERPTS {
            *source = line.and_then(|line| excerpt(text, line));
            shown += usize::from(source.is_some());
        }
        *file = Some(path.clone());
    };
    for test in &mut report.tests {
        show(&mut test.file, test.line, &mut test.source);
    }
    for found in &mut report.diagnostics {
        show(&mut found.file, found.line, &mut found.source);
    }
}

/// The lines around a line, if the text has it.
fn excerpt(text: &str, line: u32) -> Option<Excerpt> {
    if line == 0 {
        return None;
    }
    let first = line.saturating_sub(AROUND).max(1);
    let before = usize::try_from(first - 1).ok()?;
    let wanted = usize::try_from(line - first + 1 + AROUND).ok()?;
    let lines: Vec<String> = text
        .lines()
        .skip(before)
        .take(wanted)
        .map(|line| {
            let mut line = crate::clean(line.trim_end());
            crate::clean::clip(&mut line, MAX_LINE);
            line
        })
        .collect();
    let there = u32::try_from(lines.len()).ok()? > line - first;
    there.then(|| Excerpt { first, text: lines.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Diagnostic, TestCase};

    #[test]
    fn printed_paths_are_found_in_the_workspace() {
        let names: Vec<String> = [
            "src/lib.rs",
            "a/till_test.go",
            "b/till_test.go",
            "c/only_test.go",
            "src/main/java/shop/Till.java",
        ]
        .map(str::to_owned)
        .to_vec();
        let found = |printed| locate(&names, "/workspace", "", printed);
        assert_eq!(found("src/lib.rs"), Some("src/lib.rs"));
        assert_eq!(found("./src/lib.rs"), Some("src/lib.rs"));
        assert_eq!(found("/workspace/src/lib.rs"), Some("src/lib.rs"));
        assert_eq!(found("file:///workspace/src/lib.rs"), Some("src/lib.rs"));
        assert_eq!(found("only_test.go"), Some("c/only_test.go"));
        assert_eq!(found("Till.java"), Some("src/main/java/shop/Till.java"));
        for none in ["till_test.go", "/usr/lib.rs", "../src/lib.rs", "", "ib.rs", "/workspaces/src/lib.rs"] {
            assert_eq!(found(none), None, "{none}");
        }
        let found = |printed| locate(&names, "/workspace", "b", printed);
        assert_eq!(found("till_test.go"), Some("b/till_test.go"), "where it ran");
        assert_eq!(found("../a/till_test.go"), Some("a/till_test.go"));
        assert_eq!(found("src/lib.rs"), Some("src/lib.rs"));
        assert_eq!(found("../../src/lib.rs"), None);
    }

    #[test]
    fn lines_around_a_place_are_shown() {
        let text = "one\ntwo\nthree\n\tfour\nfive\nsix\n";
        let lines = |line| excerpt(text, line).map(|found| (found.first, found.text));
        assert_eq!(lines(1), Some((1, "one\ntwo\nthree".to_owned())));
        assert_eq!(lines(4), Some((2, "two\nthree\n\tfour\nfive\nsix".to_owned())));
        assert_eq!(lines(6), Some((4, "\tfour\nfive\nsix".to_owned())));
        assert_eq!((lines(7), lines(u32::MAX), lines(0)), (None, None, None));
    }

    #[test]
    fn sources_are_put_where_they_belong() {
        let mut report = Report {
            tests: vec![TestCase { file: Some("t.py".into()), line: Some(2), ..TestCase::default() }],
            diagnostics: vec![Diagnostic {
                file: Some("gone.py".into()),
                line: Some(1),
                ..Diagnostic::default()
            }],
            ..Report::default()
        };
        assert_eq!(files_of(&report), ["t.py", "gone.py"]);
        let texts =
            BTreeMap::from([("t.py".to_owned(), ("tests/t.py".to_owned(), "a\nb\u{1b}[31m\n".to_owned()))]);
        show_sources(&mut report, &texts);
        assert_eq!(report.tests[0].file.as_deref(), Some("tests/t.py"));
        assert_eq!(report.tests[0].source.as_ref().map(|source| source.text.as_str()), Some("a\nb"));
        assert_eq!(report.diagnostics[0].source, None);
    }
}
