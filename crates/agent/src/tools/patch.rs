//! `apply_patch`: changes one or more files with a patch in the form that some models are trained on: a section for each
//! file, and in it lines that stay, go and come. All of it is applied, or nothing.

mod unified;

use serde::Deserialize;
use serde_json::Value;

use super::Invocation;
use super::arguments::{Field, Kind, Need, Tool, said, typed};
use super::edit::line_end;
use super::matching::find;
use super::nearest::nearest;

pub(super) const TOOL: Tool = Tool {
    name: "apply_patch",
    about: "Changes files with a patch. It begins with `*** Begin Patch` and ends with `*** End Patch`. Between them stands a section for each file: `*** Update File: PATH`, followed by hunks that begin with `@@` and whose lines begin with a space (stays), `-` (goes) or `+` (comes), with three lines around each change; `*** Add File: PATH`, followed by its lines, each after a `+`; or `*** Delete File: PATH`.",
    fields: &[Field { name: "patch", kind: Kind::String, need: Need::Required, about: "The patch." }],
    aliases: &[("input", "patch"), ("diff", "patch")],
    read,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    patch: String,
}

fn read(object: Value) -> Result<Invocation, String> {
    let args: Args = typed(object)?;
    let changes = parse(&said("patch", args.patch)?)?;
    Ok(Invocation::Patch { changes })
}

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: String,
    /// What is done to it.
    pub kind: ChangeKind,
}

/// The kinds of change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new file with this text.
    Add(String),
    /// The file goes.
    Delete,
    /// The file changes, and has another name afterwards if one is given.
    Update {
        /// Its new name.
        to: Option<String>,
        /// What changes in it, in order.
        hunks: Vec<Hunk>,
    },
}

/// One place of a file that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// A line that stands somewhere before the change.
    pub anchor: String,
    /// The lines that are there.
    pub old: String,
    /// The lines that take their place.
    pub new: String,
}

/// The form that is wanted, for who gave another one.
const FORM: &str = "write it like this:\n*** Begin Patch\n*** Update File: src/a.txt\n@@\n a line that stays\n-a line that \
                    goes\n+a line that comes\n*** End Patch";

/// Reads a patch; one as git writes it, too. The error completes "the arguments cannot be used: …".
fn parse(patch: &str) -> Result<Vec<Change>, String> {
    if !patch.lines().any(|line| line.starts_with("*** ")) && unified::is(patch) {
        return unified::parse(patch);
    }
    sections(patch)
}

fn sections(patch: &str) -> Result<Vec<Change>, String> {
    let mut changes: Vec<Change> = Vec::new();
    for (index, line) in patch.lines().enumerate() {
        let number = index + 1;
        if let Some(rest) = line.trim_end().strip_prefix("*** ") {
            match rest.split_once(": ") {
                Some(("Add File", path)) => changes.push(change(path, ChangeKind::Add(String::new()))),
                Some(("Delete File", path)) => changes.push(change(path, ChangeKind::Delete)),
                Some(("Update File", path)) => {
                    changes.push(change(path, ChangeKind::Update { to: None, hunks: Vec::new() }));
                }
                Some(("Move to", path)) => match changes.last_mut() {
                    Some(Change { kind: ChangeKind::Update { to, .. }, .. }) => {
                        *to = Some(path.trim().to_owned())
                    }
                    Some(_) | None => return Err(format!("line {number} moves nothing")),
                },
                _ if matches!(rest.trim(), "Begin Patch" | "End Patch" | "End of File") => {}
                _ => {
                    return Err(format!("line {number} of the patch, `{line}`, is no section that is known"));
                }
            }
            continue;
        }
        match changes.last_mut() {
            None if line.trim().is_empty() => {}
            None => {
                return Err(format!(
                    "line {number} of the patch stands before any `*** Update File: PATH`; {FORM}"
                ));
            }
            Some(Change { kind: ChangeKind::Delete, .. }) => {}
            Some(Change { kind: ChangeKind::Add(text), .. }) => {
                // A line without its sign is meant as it is.
                text.push_str(line.strip_prefix('+').unwrap_or(line));
                text.push('\n');
            }
            Some(Change { kind: ChangeKind::Update { hunks, .. }, .. }) => hunk_line(hunks, line),
        }
    }
    if changes.is_empty() {
        return Err(format!("the patch has no section such as `*** Update File: PATH`; {FORM}"));
    }
    Ok(changes)
}

fn change(path: &str, kind: ChangeKind) -> Change {
    Change { path: path.trim().to_owned(), kind }
}

fn hunk_line(hunks: &mut Vec<Hunk>, line: &str) {
    if let Some(anchor) = line.strip_prefix("@@") {
        let anchor = anchor.trim().trim_end_matches("@@").trim();
        // Line numbers of a usual diff say nothing that holds.
        let anchor = if anchor.starts_with('-') { "" } else { anchor };
        hunks.push(Hunk { anchor: anchor.to_owned(), ..Hunk::default() });
        return;
    }
    if hunks.is_empty() {
        hunks.push(Hunk::default());
    }
    let Some(hunk) = hunks.last_mut() else { return };
    let mut push = |old: bool, new: bool, text: &str| {
        if old {
            hunk.old.push_str(text);
            hunk.old.push('\n');
        }
        if new {
            hunk.new.push_str(text);
            hunk.new.push('\n');
        }
    };
    match line.as_bytes().first() {
        Some(b'+') => push(false, true, &line[1..]),
        Some(b'-') => push(true, false, &line[1..]),
        Some(b' ') => push(true, true, &line[1..]),
        _ => push(true, true, line),
    }
}

/// A file's text with these hunks applied. The error says which one does not fit, and what is there instead.
pub fn patched(content: &str, hunks: &[Hunk]) -> Result<String, String> {
    let line_end = line_end(content);
    let mut text = content.to_owned();
    let mut from = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        if hunk.old == hunk.new {
            continue;
        }
        let name = format!("hunk {}", index + 1);
        if !hunk.anchor.is_empty() {
            let at = text[from..].find(&hunk.anchor).or_else(|| text[from..].find(hunk.anchor.trim()));
            // An anchor that is not there is only a wrong comment if the lines themselves are found.
            from += at.unwrap_or(0);
        }
        if hunk.old.is_empty() {
            let at = if hunk.anchor.is_empty() {
                text.len()
            } else {
                text[from..].find('\n').map_or(text.len(), |end| from + end + 1)
            };
            let gap = if at > 0 && !text[..at].ends_with('\n') { line_end } else { "" };
            let new = format!("{gap}{}", hunk.new.replace('\n', line_end));
            text.insert_str(at, &new);
            from = at + new.len();
            continue;
        }
        let mut found = find(&text[from..], &hunk.old, &hunk.new, line_end);
        let mut base = from;
        if found.is_empty() {
            // The last line of a file may have no line end.
            let (old, new) = (hunk.old.trim_end_matches('\n'), hunk.new.trim_end_matches('\n'));
            found = find(&text[from..], old, new, line_end);
            found.retain(|place| from + place.range.end == text.len());
        }
        if found.is_empty() && from > 0 {
            base = 0;
            found = find(&text, &hunk.old, &hunk.new, line_end);
        }
        match found.as_slice() {
            [place] => {
                let (start, end) = (base + place.range.start, base + place.range.end);
                // A file whose last line has no end keeps it so.
                let open = end == text.len() && !text.ends_with('\n');
                let new = if open { place.text.trim_end_matches(['\r', '\n']) } else { &place.text };
                text.replace_range(start..end, new);
                from = start + new.len();
            }
            [] => {
                let near = nearest(&text, &hunk.old).map_or_else(
                    || " Read the file and copy the lines from there.".to_owned(),
                    |block| format!(" The nearest lines are:\n{block}"),
                );
                return Err(format!(
                    "The lines of {name} are not in the file, so nothing was changed.{near}"
                ));
            }
            several => {
                return Err(format!(
                    "The lines of {name} are in the file {} times, so nothing was changed. Give more lines around the change, or name the function after @@.",
                    several.len()
                ));
            }
        }
    }
    if text == content {
        return Err("The patch changes nothing: the file has these lines already.".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn a() {\n    one();\n    two();\n}\n\nfn b() {\n    one();\n    two();\n}\n";

    fn hunks(text: &str) -> Vec<Hunk> {
        let patch = format!("*** Begin Patch\n*** Update File: a.rs\n{text}*** End Patch");
        match parse(&patch).unwrap().remove(0).kind {
            ChangeKind::Update { hunks, .. } => hunks,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_patch_may_add_change_move_and_delete() {
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n+there\n*** Update File: a.rs\n*** Move to: b.rs\n@@ fn a() {\n-    one();\n+    three();\n*** Delete File: old.txt\n*** End Patch\n";
        let changes = parse(patch).unwrap();
        let hunk =
            Hunk { anchor: "fn a() {".into(), old: "    one();\n".into(), new: "    three();\n".into() };
        let expected = [
            change("new.txt", ChangeKind::Add("hello\nthere\n".into())),
            change("a.rs", ChangeKind::Update { to: Some("b.rs".into()), hunks: vec![hunk] }),
            change("old.txt", ChangeKind::Delete),
        ];
        assert_eq!(changes, expected);
        assert!(parse("hello").unwrap_err().contains("write it like this:\n*** Begin Patch"));
        for broken in ["", "hello", "*** Begin Patch\n*** End Patch", "*** Begin Patch\n*** Rename: x"] {
            assert!(parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn hunks_are_applied_where_they_fit() {
        let text =
            patched(FILE, &hunks("@@ fn b() {\n     one();\n-    two();\n+    three();\n }\n")).unwrap();
        assert_eq!(
            text,
            FILE.replacen("fn b() {\n    one();\n    two();", "fn b() {\n    one();\n    three();", 1)
        );
        // Two in a row: each is looked for after the one before it.
        let both = "@@\n fn a() {\n-    one();\n+    uno();\n     two();\n@@\n-    one();\n+    ein();\n     two();\n";
        assert_eq!(
            patched(FILE, &hunks(both)).unwrap(),
            FILE.replacen("one", "uno", 1).replacen("one", "ein", 1)
        );
        assert_eq!(patched("a\r\nb\r\n", &hunks("@@\n a\n-b\n+c\n")).unwrap(), "a\r\nc\r\n");
        assert_eq!(patched("a\nb", &hunks("@@\n a\n-b\n+c\n")).unwrap(), "a\nc");
        assert_eq!(patched("a\n", &hunks("@@\n+b\n")).unwrap(), "a\nb\n");
    }

    #[test]
    fn what_does_not_fit_is_told_and_changes_nothing() {
        let error = patched(FILE, &hunks("@@\n-    two();\n+    three();\n")).unwrap_err();
        assert!(error.contains("2 times"), "{error}");
        let error = patched(FILE, &hunks("@@\n-    onne();\n+    three();\n")).unwrap_err();
        assert!(error.contains("nearest lines") && error.contains("one();"), "{error}");
    }
}
