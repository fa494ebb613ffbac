//! A unified diff as git prints it, taken apart into files, hunks and lines with their numbers.

/// One file of a diff.
#[derive(Debug, Default)]
pub(super) struct File<'a> {
    /// Its path before; empty where the file is new.
    pub(super) old: &'a str,
    /// Its path now; empty where it was deleted.
    pub(super) new: &'a str,
    /// Whether git shows nothing of it.
    pub(super) binary: bool,
    pub(super) hunks: Vec<Vec<Line<'a>>>,
}

impl File<'_> {
    /// The path that people know it by.
    pub(super) fn path(&self) -> &str {
        if self.new.is_empty() { self.old } else { self.new }
    }

    /// Every line.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line<'_>> {
        self.hunks.iter().flatten()
    }
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Kept,
    Added,
    Removed,
}

/// A line of a hunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) change: Change,
    /// Its number in the new file, or in the old one where it is gone.
    pub(super) number: u32,
    pub(super) text: &'a str,
}

/// The files of a diff. What is not a diff gives none.
pub(super) fn parse(diff: &str) -> Vec<File<'_>> {
    let mut files: Vec<File<'_>> = Vec::new();
    // How many lines of the old and the new file the hunk still has; a line of content may look like a heading.
    let (mut old_left, mut new_left) = (0_u32, 0_u32);
    let (mut old_at, mut new_at) = (0_u32, 0_u32);
    for line in diff.split_terminator('\n') {
        if (old_left > 0 || new_left > 0)
            && let Some(file) = files.last_mut()
            && let Some(hunk) = file.hunks.last_mut()
        {
            let text = line.get(1..).unwrap_or_default();
            let (change, number) = match line.as_bytes().first() {
                Some(b'+') => (Change::Added, new_at),
                Some(b'-') => (Change::Removed, old_at),
                Some(b' ') | None => (Change::Kept, new_at),
                Some(_) => continue,
            };
            if change != Change::Added {
                (old_at, old_left) = (old_at.saturating_add(1), old_left.saturating_sub(1));
            }
            if change != Change::Removed {
                (new_at, new_left) = (new_at.saturating_add(1), new_left.saturating_sub(1));
            }
            hunk.push(Line { change, number, text });
            continue;
        }
        if let Some(names) = line.strip_prefix("diff --git ") {
            let (old, new) = both(names);
            files.push(File { old, new, ..File::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if line.starts_with("Binary files ") {
            file.binary = true;
        } else if line.starts_with("deleted file mode") {
            file.new = "";
        } else if line.starts_with("new file mode") {
            file.old = "";
        } else if let Some(path) = line.strip_prefix("--- ").filter(|path| *path != "/dev/null") {
            file.old = named(path, "a/");
        } else if let Some(path) = line.strip_prefix("+++ ").filter(|path| *path != "/dev/null") {
            file.new = named(path, "b/");
        } else if let Some(path) = line.strip_prefix("rename from ") {
            file.old = path.trim_matches('"');
        } else if let Some(path) = line.strip_prefix("rename to ") {
            file.new = path.trim_matches('"');
        } else if let Some((old, new)) = line.strip_prefix("@@ -").and_then(numbers) {
            ((old_at, old_left), (new_at, new_left)) = (old, new);
            file.hunks.push(Vec::new());
        }
    }
    files
}

/// `a/x b/x`: without quotes and renames both names have the same length.
fn both(names: &str) -> (&str, &str) {
    let half = names.len() / 2;
    match names.get(..half).zip(names.get(half + 1..)) {
        Some((old, new)) => (named(old, "a/"), named(new, "b/")),
        None => (names, names),
    }
}

fn named<'a>(path: &'a str, prefix: &str) -> &'a str {
    let path = path.trim_end_matches('\t').trim_matches('"');
    path.strip_prefix(prefix).unwrap_or(path)
}

/// `3,4 +5,6 @@` as where each side begins and how many lines it has.
fn numbers(text: &str) -> Option<((u32, u32), (u32, u32))> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let side = |text: &str| match text.split_once(',') {
        Some((first, count)) => Some((first.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some((side(old)?, side(new)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hunks_and_numbers_are_read() {
        let text = "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -3,3 +3,3 @@ def f():\n a\n-b\n+c\n d\n@@ -9 +9,0 @@\n--- a/fake\ndiff --git a/old b/old\ndeleted file mode 100644\n--- a/old\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\ndiff --git a/m b/n\nsimilarity index 100%\nrename from m\nrename to n\n";
        let files = parse(text);
        let told: Vec<_> = files.iter().map(|file| (file.old, file.new, file.lines().count())).collect();
        assert_eq!(told, [("x.py", "x.py", 5), ("old", "", 1), ("m", "n", 0)]);
        let lines: Vec<_> = files[0].lines().map(|line| (line.change, line.number, line.text)).collect();
        assert_eq!(lines[1], (Change::Removed, 4, "b"));
        assert_eq!(lines[2], (Change::Added, 4, "c"));
        assert_eq!(lines[4], (Change::Removed, 9, "-- a/fake"));
        assert!(parse("no diff\n+ at all").is_empty());
    }
}
