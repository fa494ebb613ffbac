//! `AGENTS.md` below the root: which directories a call is in, and how the model is given what their files say. It is given
//! once, as a message of its own, and again when the file changed or the message is no longer in the context.

use std::collections::BTreeMap;

use protocol::chat::Message;

use crate::policy;
use crate::tools::Invocation;

/// The files that instructions are in, in the order in which one is preferred.
pub const FILES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// Where the work is.
const WORKSPACE: &str = "/workspace/";
/// How a message begins that gives such a file.
const OPENING: &str = "Instructions of the repository for ";

/// A file with instructions for a directory below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guide {
    /// The directory, from the root.
    pub directory: String,
    /// The file's name.
    pub file: String,
    /// What it says.
    pub text: String,
}

/// The directories below the root that a call is in, from the root on. The last may be a file.
pub fn directories(call: &Invocation) -> Vec<String> {
    let mut all = Vec::new();
    for path in policy::paths(call) {
        for directory in below_root(&path) {
            if !all.contains(&directory) {
                all.push(directory);
            }
        }
    }
    all
}

/// The directories below the root on the way to a path, and the path itself.
fn below_root(path: &str) -> Vec<String> {
    let Some(inside) = path.strip_prefix(WORKSPACE) else { return Vec::new() };
    let parts: Vec<&str> = inside.split('/').filter(|part| !part.is_empty()).collect();
    // What git keeps to itself has no instructions for anybody.
    if parts.first() == Some(&".git") {
        return Vec::new();
    }
    (1..=parts.len()).map(|end| parts[..end].join("/")).collect()
}

/// The directories of files, from the root on.
pub fn directories_of<'a>(files: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for file in files {
        let Some((directory, _)) = file.rsplit_once('/') else { continue };
        for directory in below_root(&format!("{WORKSPACE}{directory}")) {
            if !all.contains(&directory) {
                all.push(directory);
            }
        }
    }
    all
}

/// What the model reads, with at most so many bytes of the file.
pub fn told(guide: &Guide, most: usize) -> String {
    let Guide { directory, file, text } = guide;
    let whole = text.trim();
    let said = &whole[..whole.floor_char_boundary(most)];
    let more = if said.len() < whole.len() {
        format!("\n(This was cut here; the whole file can be read: {directory}/{file})")
    } else {
        String::new()
    };
    format!(
        "{OPENING}{directory}/ ({directory}/{file}). They hold for the files in there, beside those of the directories above it; where they differ, the nearest to a file win.\n\n{said}{more}"
    )
}

/// What a conversation has of such files: the last message for each directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given(BTreeMap<String, String>);

impl Given {
    /// What these messages have.
    pub fn of(messages: &[Message]) -> Self {
        let mut given = Self::default();
        for message in messages {
            if let Message::User { text, .. } = message {
                given.note(text);
            }
        }
        given
    }

    /// Takes in a message; whether it was not there yet.
    pub fn note(&mut self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(OPENING) else { return false };
        let Some((directory, _)) = rest.split_once("/ (") else { return false };
        let before = self.0.insert(directory.to_owned(), text.to_owned());
        before.as_deref() != Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::parse_any as parse;

    fn guide(text: &str) -> Guide {
        Guide { directory: "a/b".to_owned(), file: "AGENTS.md".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_call_is_in_every_directory_down_to_its_file() {
        let of = |tool: &str, arguments: &str| directories(&parse(tool, arguments).unwrap());
        assert_eq!(of("read", r#"{"path": "a/b/c.rs"}"#), ["a", "a/b", "a/b/c.rs"]);
        assert_eq!(of("list", r#"{"path": "/workspace/a/../d/"}"#), ["d"]);
        assert_eq!(of("search", r#"{"pattern": "x"}"#), Vec::<String>::new());
        assert_eq!(of("read", r#"{"path": "/etc/hosts"}"#), Vec::<String>::new());
        assert_eq!(of("read", r#"{"path": ".git/config"}"#), Vec::<String>::new());
        assert_eq!(of("shell", r#"{"command": "ls a"}"#), Vec::<String>::new());
        let patch = r#"{"patch": "*** Delete File: a/x\n*** Delete File: a/y"}"#;
        assert_eq!(of("apply_patch", patch), ["a", "a/x", "a/y"]);
        assert_eq!(directories_of(["x.rs", "a/x.rs", "a/b/y.rs"]), ["a", "a/b"]);
    }

    #[test]
    fn what_was_given_is_known_until_it_changes_or_is_left_out() {
        let first = told(&guide("Use tabs.\n"), 1000);
        assert!(first.starts_with("Instructions of the repository for a/b/ (a/b/AGENTS.md). "), "{first}");
        assert!(first.contains("the nearest to a file win") && first.ends_with("\n\nUse tabs."), "{first}");
        let mut given = Given::of(&[Message::user("Do it"), Message::user(first.clone())]);
        assert!(!given.note(&first), "it is there");
        let changed = told(&guide("Use spaces."), 1000);
        assert!(given.note(&changed) && !given.note(&changed));
        assert!(Given::of(&[]).note(&changed), "it was left out");
        let long = told(&guide(&"word ".repeat(1000)), 500);
        assert!(long.len() < 900 && long.ends_with("can be read: a/b/AGENTS.md)"), "{long}");
    }
}
