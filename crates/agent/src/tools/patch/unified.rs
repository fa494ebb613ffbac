//! A patch as git and `diff -u` write it. Models that know it well write it whatever they are told, so it is read as well. Its
//! line numbers say nothing that holds; its lines do.

use super::{Change, ChangeKind, FORM, Hunk, change, hunk_line};

/// Whether it looks like one.
pub(super) fn is(patch: &str) -> bool {
    patch.lines().any(|line| names(line, "--- ").is_some() || line.starts_with("diff --git "))
}

/// Reads it. The error completes "the arguments cannot be used: …".
pub(super) fn parse(patch: &str) -> Result<Vec<Change>, String> {
    let mut changes: Vec<Change> = Vec::new();
    let mut from = None;
    // Whether what comes is a hunk, or still stands above the first one of its file.
    let mut in_hunks = false;
    let mut lines = patch.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let number = index + 1;
        if line.starts_with("diff --git ") {
            (from, in_hunks) = (None, false);
        } else if let Some(path) = line.strip_prefix("rename from ").filter(|_| !in_hunks) {
            from = Some(path.to_owned());
        } else if let (Some(to), Some(from), false) = (line.strip_prefix("rename to "), &from, in_hunks) {
            changes.push(change(from, moved(to)));
        } else if let Some(old) = names(line, "--- ")
            && let Some(new) = lines.peek().and_then(|(_, next)| names(next, "+++ "))
        {
            lines.next();
            in_hunks = true;
            match (old, new) {
                // The hunks of a move that was named above.
                (Some(old), Some(new)) if changes.last() == Some(&change(&old, moved(&new))) => {}
                (None, Some(new)) => changes.push(change(&new, ChangeKind::Add(String::new()))),
                (Some(old), None) => changes.push(change(&old, ChangeKind::Delete)),
                (Some(old), Some(new)) if old == new => {
                    changes.push(change(&old, ChangeKind::Update { to: None, hunks: Vec::new() }));
                }
                (Some(old), Some(new)) => changes.push(change(&old, moved(&new))),
                (None, None) => return Err(format!("line {number} of the patch names no file; {FORM}")),
            }
        } else if in_hunks && !line.starts_with('\\') {
            match changes.last_mut().map(|change| &mut change.kind) {
                Some(ChangeKind::Add(text)) => {
                    if let Some(added) = line.strip_prefix('+') {
                        text.push_str(added);
                        text.push('\n');
                    }
                }
                Some(ChangeKind::Update { hunks, .. }) => hunk_line(hunks, line),
                Some(ChangeKind::Delete) | None => {}
            }
        }
    }
    if changes.is_empty() {
        return Err(format!("the patch names no file whose lines change; {FORM}"));
    }
    changes.iter_mut().for_each(without_blank_end);
    match changes.iter().find_map(|change| nowhere(change).map(|number| (change, number))) {
        Some((change, number)) => Err(format!(
            "hunk {number} for {} has no lines of the file around those that come: give three lines before and after each change",
            change.path
        )),
        None => Ok(changes),
    }
}

/// The file that a header names: the outer None where it is no header, the inner one where there is no file.
fn names(line: &str, sign: &str) -> Option<Option<String>> {
    // `diff -u` writes a time after a tab.
    let path = line.strip_prefix(sign)?.split('\t').next()?.trim_end();
    let path = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path);
    if path == "/dev/null" {
        return Some(None);
    }
    let side = if sign == "--- " { "a/" } else { "b/" };
    let path = path.strip_prefix(side).unwrap_or(path);
    (!path.is_empty()).then(|| Some(path.to_owned()))
}

fn moved(to: &str) -> ChangeKind {
    ChangeKind::Update { to: Some(to.trim().to_owned()), hunks: Vec::new() }
}

/// An empty line at the end of a patch is none of the file.
fn without_blank_end(change: &mut Change) {
    let ChangeKind::Update { hunks, .. } = &mut change.kind else { return };
    for hunk in hunks {
        while hunk.old.ends_with("\n\n") && hunk.new.ends_with("\n\n") {
            hunk.old.pop();
            hunk.new.pop();
        }
    }
}

/// The first hunk that could come anywhere, counted from one.
fn nowhere(change: &Change) -> Option<usize> {
    let ChangeKind::Update { hunks, .. } = &change.kind else { return None };
    let anywhere = |hunk: &Hunk| hunk.old.trim().is_empty() && hunk.anchor.is_empty();
    hunks.iter().position(anywhere).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{parse as parse_any, patched};
    use super::*;

    fn update(to: Option<&str>, hunks: &[(&str, &str)]) -> ChangeKind {
        let hunk =
            |(old, new): &(&str, &str)| Hunk { old: (*old).into(), new: (*new).into(), ..Hunk::default() };
        ChangeKind::Update { to: to.map(str::to_owned), hunks: hunks.iter().map(hunk).collect() }
    }

    #[test]
    fn a_patch_of_git_is_read() {
        let patch = "Here it is:\n\ndiff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,3 +1,3 @@ fn a() {\n one\n-two\n+three\n@@ -9,2 +9,1 @@\n ten\n--- old comment\n\\ No newline at end of file\ndiff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1,2 @@\n+++ a\n+b\ndiff --git a/gone.txt b/gone.txt\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\ndiff --git a/p.rs b/q.rs\nrename from p.rs\nrename to q.rs\n--- a/p.rs\n+++ b/q.rs\n@@ -1 +1 @@\n-p\n+q\n\n";
        let expected = [
            change(
                "src/a.rs",
                update(None, &[("one\ntwo\n", "one\nthree\n"), ("ten\n-- old comment\n", "ten\n")]),
            ),
            change("n.txt", ChangeKind::Add("++ a\nb\n".into())),
            change("gone.txt", ChangeKind::Delete),
            change("p.rs", update(Some("q.rs"), &[("p\n", "q\n")])),
        ];
        assert_eq!(parse_any(patch).unwrap(), expected);
    }

    #[test]
    fn a_patch_of_diff_is_read_and_applied() {
        let patch = "--- src/a.txt\t2026-01-01 10:00:00\n+++ src/a.txt\t2026-01-01 10:01:00\n@@ -2,2 +2,3 @@\n b\n+between\n c\n\n";
        let changes = parse_any(patch).unwrap();
        let [Change { path, kind: ChangeKind::Update { to: None, hunks } }] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        assert_eq!(path, "src/a.txt");
        assert_eq!(patched("a\nb\nc\nd\n", hunks).unwrap(), "a\nb\nbetween\nc\nd\n");
    }

    #[test]
    fn what_could_go_anywhere_or_names_nothing_is_refused() {
        let nowhere = parse_any("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n+only this\n").unwrap_err();
        assert!(nowhere.contains("hunk 1 for x has no lines"), "{nowhere}");
        for nothing in ["diff --git a/x b/x\nindex 1..2\n", "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n"] {
            assert!(parse_any(nothing).unwrap_err().contains("write it like this"), "{nothing}");
        }
    }
}
