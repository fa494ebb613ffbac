//! Finds in the patches of commits what looks like a key, a token or a password, before they leave the machine. What is
//! found is told by its place and kind; the value itself is in no finding. It is for accidents: whoever wants to hide a
//! value from it can.

mod shapes;

use crate::clean::clip;

/// Most findings given.
const MAX_FOUND: usize = 50;
/// Longer lines are looked at up to here; they are what programs made.
const LINE: usize = 64 * 1024;
/// Most bytes of a file's name.
const NAME: usize = 400;

/// Something that looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The commit that brings it; empty where the patch does not say.
    pub commit: String,
    /// The file.
    pub file: String,
    /// The line, in the file as that commit has it.
    pub line: u32,
    /// What it looks like, such as "a GitHub token".
    pub kind: &'static str,
    /// As much of it as can be shown.
    pub shown: String,
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { commit, file, line, kind, shown } = self;
        write!(f, "{file}:{line}: {kind}, {shown}")?;
        match commit.get(..12) {
            Some(commit) => write!(f, " (commit {commit})"),
            None => Ok(()),
        }
    }
}

/// What in the lines that patches add looks like a secret. The patches are as git prints them, one after the other, those of
/// merges with a column for each parent; a line `commit ID` may stand before each.
pub fn leaked(patches: &str) -> Vec<Leak> {
    let mut found = Vec::new();
    let mut at = At::default();
    for text in patches.lines() {
        let Some(added) = at.next(text) else { continue };
        let mut end = added.len().min(LINE);
        while !added.is_char_boundary(end) {
            end -= 1;
        }
        for (kind, shown) in shapes::of(&added[..end]) {
            let (commit, file, line) = (at.commit.to_owned(), at.file.clone(), at.line - 1);
            found.push(Leak { commit, file, line, kind, shown });
        }
        if found.len() >= MAX_FOUND {
            found.truncate(MAX_FOUND);
            break;
        }
    }
    found
}

/// What a line looks like it has in it, such as "a GitHub token".
pub fn secret_in(line: &str) -> Option<&'static str> {
    let mut end = line.len().min(LINE);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    shapes::of(&line[..end]).first().map(|(kind, _)| *kind)
}

/// Where in the patches it is. Every line of a file's content has a column of its own before it, so that none can be taken
/// for a heading.
#[derive(Default)]
struct At<'a> {
    commit: &'a str,
    file: String,
    /// The number of the next line of the new file.
    line: u32,
    /// Columns before the content; 0 outside of it.
    columns: usize,
}

impl<'a> At<'a> {
    /// Takes one line; gives its content where it is added.
    fn next(&mut self, text: &'a str) -> Option<&'a str> {
        if text.starts_with("@@") {
            let marks = text.bytes().take_while(|byte| *byte == b'@').count();
            let new = text.split('+').nth(1)?.split([',', ' ']).next()?;
            (self.columns, self.line) = (marks - 1, new.parse().unwrap_or(0));
            return None;
        }
        if text.starts_with("diff ") {
            (self.columns, self.file) = (0, String::new());
            return None;
        }
        if let Some(commit) = text.strip_prefix("commit ") {
            (self.columns, self.commit) = (0, commit.trim());
            return None;
        }
        if self.columns == 0 {
            if let Some(name) = text.strip_prefix("+++ ") {
                let name = name.trim_end_matches('\t').trim_matches('"');
                self.file = name.strip_prefix("b/").unwrap_or(name).to_owned();
                clip(&mut self.file, NAME);
            }
            return None;
        }
        let marks = text.get(..self.columns)?;
        if marks.contains('-') || marks.starts_with('\\') {
            return None;
        }
        self.line = self.line.saturating_add(1);
        // Of a merge it is new when no parent has it.
        marks.bytes().all(|mark| mark == b'+').then(|| &text[self.columns..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Put together here, so that nobody who looks for keys in this file finds one.
    fn token() -> String {
        format!("ghp_{}", "a1B2c3D4e5F6".repeat(3))
    }

    #[test]
    fn a_token_is_found_where_it_is_added_and_nowhere_else() {
        let token = token();
        let patch = format!(
            "commit 1234567890abcdef\n\ndiff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n\
             @@ -3 +3,2 @@ def f():\n-old = \"{token}\"\n+one = 1\n+key = \"{token}\"\n"
        );
        let found = leaked(&patch);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            found[0].to_string(),
            "x.py:4: a GitHub token, ghp_… (40 characters) (commit 1234567890ab)"
        );
        assert!(!format!("{found:?}").contains(&token[4..]), "the value is not shown");
    }

    #[test]
    fn a_merge_is_looked_at_for_what_it_brings_itself() {
        let token = token();
        let patch = format!(
            "diff --cc x\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,3 @@@\n- a\n -b\n++{token}\n +{token}\n+ {token}\n"
        );
        let found = leaked(&patch);
        assert_eq!(found.iter().map(|leak| leak.line).collect::<Vec<_>>(), [1], "{found:?}");
    }

    #[test]
    fn content_that_looks_like_a_heading_hides_nothing() {
        let token = token();
        let patch = format!(
            "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,4 @@\n+diff --git a/y b/y\n+++ b/z\n+@@ -1 +1 @@\n+{token}\n"
        );
        let found = leaked(&patch);
        assert_eq!((found[0].file.as_str(), found[0].line), ("x", 4));
    }

    #[test]
    fn a_flood_is_cut_and_rubbish_is_nothing() {
        let lines: String = (0..200).map(|_| format!("+{}\n", token())).collect();
        let patch = format!("diff --git a/x b/x\n+++ b/x\n@@ -0,0 +1,200 @@\n{lines}");
        assert_eq!(leaked(&patch).len(), MAX_FOUND);
        assert_eq!(leaked("@@\n+x\n@@@@ +\n++\u{fffd}\n"), []);
        assert_eq!(leaked(&format!("+{}", token())), [], "it is in no file");
    }
}
