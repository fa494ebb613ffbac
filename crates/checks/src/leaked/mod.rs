//! Finds in the patches of commits what looks like a key, a token or a password, before they leave the machine. What is
//! found is told by its place and kind; the value itself is in no finding. It is for accidents: whoever wants to hide a
//! value from it can.

mod shapes;

use std::borrow::Cow;
use std::rc::Rc;

use crate::clean::clip;

/// Most findings given.
const MAX_FOUND: usize = 50;
/// Added lines of a file are compared with known values in pieces of about this size.
const PIECE: usize = 256 * 1024;
/// Most bytes of a file's name.
const NAME: usize = 400;

/// Something that looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// The commit that brings it; empty where the patch does not say.
    pub commit: String,
    /// The file.
    pub file: String,
    /// The line, in the file as that commit has it; 0 where it is in the file's name.
    pub line: u32,
    /// What it looks like, such as "a GitHub token", or is.
    pub kind: Cow<'static, str>,
    /// As much of it as can be shown.
    pub shown: String,
}

impl std::fmt::Display for Leak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { commit, file, line, kind, shown } = self;
        match line {
            0 => write!(f, "{file}: in its name, {kind}, {shown}")?,
            line => write!(f, "{file}:{line}: {kind}, {shown}")?,
        }
        match commit.get(..12) {
            Some(commit) => write!(f, " (commit {commit})"),
            None => Ok(()),
        }
    }
}

/// What in the lines that patches add looks like a secret. The patches are as git prints them, one after the other, those of
/// merges with a column for each parent; a line `commit ID` may stand before each.
pub fn leaked(patches: &str) -> Vec<Leak> {
    leaked_or_known(patches, &|_| None)
}

/// The same, and what in them is a secret: `known` gives what it is called whose value stands in a text.
pub fn leaked_or_known(patches: &str, known: &dyn Fn(&str) -> Option<String>) -> Vec<Leak> {
    let mut found = Vec::new();
    let mut at = At::default();
    let mut piece = Piece::default();
    for text in patches.lines() {
        let added = at.next(text);
        if let Some(name) = at.made.take() {
            let named = look(&name, known(&name));
            found.extend(named.map(|(kind, shown)| Leak {
                commit: at.commit.to_owned(),
                file: "a file".to_owned(),
                line: 0,
                kind,
                shown,
            }));
        }
        let Some(added) = added else {
            // Between two parts of a file something is left out, and a value that goes over it is none.
            piece.end(known, &mut found);
            continue;
        };
        piece.lines.push(Line { commit: at.commit, file: at.file.clone(), number: at.line - 1, text: added });
        piece.size += added.len() + 1;
        if piece.size > PIECE {
            piece.end(known, &mut found);
        }
        if found.len() >= MAX_FOUND {
            break;
        }
    }
    piece.end(known, &mut found);
    found.truncate(MAX_FOUND);
    found
}

/// What a line looks like it has in it, such as "a GitHub token".
pub fn secret_in(line: &str) -> Option<&'static str> {
    shapes::of(&readable(line)).first().map(|(kind, _)| *kind)
}

/// A text as people read it that has two or four bytes for each letter.
fn readable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "")),
        false => Cow::Borrowed(text),
    }
}

/// What there is to say of a text, of which it may be known what it has in it.
fn look(text: &str, told: Option<String>) -> impl Iterator<Item = (Cow<'static, str>, String)> {
    let known = told.map(|name| (Cow::Owned(name), "whose value stands there".to_owned()));
    let shapes = if known.is_some() { Vec::new() } else { shapes::of(text) };
    let shapes = shapes.into_iter().map(|(kind, shown)| (Cow::Borrowed(kind), shown));
    known.into_iter().chain(shapes)
}

/// Some lines that were added one after the other.
#[derive(Default)]
struct Piece<'a> {
    lines: Vec<Line<'a>>,
    size: usize,
}

struct Line<'a> {
    commit: &'a str,
    file: Rc<str>,
    number: u32,
    text: &'a str,
}

impl Piece<'_> {
    /// Looks through it. To ask for known values line by line would take long, and some of them have several lines.
    fn end(&mut self, known: &dyn Fn(&str) -> Option<String>, found: &mut Vec<Leak>) {
        let Self { lines, .. } = std::mem::take(self);
        let Some(first) = lines.first() else { return };
        let leak = |line: &Line<'_>, (kind, shown): (Cow<'static, str>, String)| Leak {
            commit: line.commit.to_owned(),
            file: line.file.to_string(),
            line: line.number,
            kind,
            shown,
        };
        let whole: Vec<Cow<'_, str>> = lines.iter().map(|line| readable(line.text)).collect();
        let mut told = known(&whole.join("\n"));
        let in_all = told.clone();
        for (line, text) in lines.iter().zip(&whole) {
            let here = in_all.as_ref().and_then(|_| known(text));
            told = told.filter(|_| here.is_none());
            found.extend(look(text, here).map(|what| leak(line, what)));
        }
        found.extend(
            told.map(|name| leak(first, (Cow::Owned(name), "whose lines begin there or below".to_owned()))),
        );
    }
}

/// Where in the patches it is. Every line of a file's content has a column of its own before it, so that none can be taken
/// for a heading.
#[derive(Default)]
struct At<'a> {
    commit: &'a str,
    file: Rc<str>,
    /// The two names of a file, and that of one that is new.
    names: &'a str,
    made: Option<String>,
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
            (self.columns, self.file, self.names) = (0, Rc::from(""), text);
            return None;
        }
        if let Some(commit) = text.strip_prefix("commit ") {
            (self.columns, self.commit) = (0, commit.trim());
            return None;
        }
        if self.columns == 0 {
            if let Some(name) = text.strip_prefix("+++ ") {
                let name = name.trim_end_matches('\t').trim_matches('"');
                let mut file = name.strip_prefix("b/").unwrap_or(name).to_owned();
                clip(&mut file, NAME);
                self.file = Rc::from(file);
            } else if text.starts_with("new file mode ") {
                self.made = Some(std::mem::take(&mut self.names).to_owned());
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
    fn values_that_are_known_are_found_whatever_they_look_like() {
        let known = |text: &str| {
            let found = |value: &str| text.contains(value);
            found("hunter two")
                .then(|| "the secret DB".to_owned())
                .or_else(|| found("one\ntwo").then(|| "the secret KEY".to_owned()))
        };
        let found = |lines: &str| -> Vec<String> {
            let patch = format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,4 @@\n{lines}");
            leaked_or_known(&patch, &known).iter().map(ToString::to_string).collect()
        };
        assert_eq!(found("+a\n+it is hunter two!\n"), ["x:2: the secret DB, whose value stands there"]);
        assert_eq!(found("+a\n+one\n+two\n"), ["x:1: the secret KEY, whose lines begin there or below"]);
        assert_eq!(found("-hunter two\n+a\n"), Vec::<String>::new(), "it is taken out");
        assert_eq!(found("+one\n@@ -9 +9 @@\n+two\n"), Vec::<String>::new());
        let wide: String = "hunter two".chars().flat_map(|letter| [letter, '\0']).collect();
        assert_eq!(found(&format!("+{wide}\n")).len(), 1, "in UTF-16");
        let many = format!("+{}\n", "a".repeat(99)).repeat(9000);
        assert_eq!(
            found(&format!("{many}+hunter two\n")),
            ["x:9001: the secret DB, whose value stands there"]
        );
    }

    #[test]
    fn all_of_a_line_is_looked_at_in_any_width_and_so_are_names() {
        let token = token();
        let patch = |line: &str| format!("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+{line}\n");
        let long = format!("{}{token}", "x = 1; ".repeat(20_000));
        assert_eq!(leaked(&patch(&long)).len(), 1);
        for marks in ["\0", "\0\0\0"] {
            let wide: String = token.chars().map(|letter| format!("{marks}{letter}")).collect();
            assert_eq!(leaked(&patch(&wide)).len(), 1, "{marks:?}");
        }
        let named = format!("diff --git a/{token}.txt b/{token}.txt\nnew file mode 100644\nindex 0..1\n");
        let [leak] = &leaked(&named)[..] else { panic!("one") };
        assert_eq!(leak.to_string(), "a file: in its name, a GitHub token, ghp_… (40 characters)");
        let removed = named.replace("new file", "deleted file");
        assert_eq!(leaked(&removed), []);
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
