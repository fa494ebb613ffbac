//! Names that some system takes for `.git`: in other letters, with what Windows and macOS do not see, or by the short name
//! that Windows gives it. Whoever checks such a tree out there has its files where git keeps its own.

/// Letters that macOS leaves out when it compares names.
const UNSEEN: [char; 16] = [
    '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{206a}', '\u{206b}', '\u{206c}', '\u{206d}', '\u{206e}', '\u{206f}', '\u{feff}',
];

/// Whether a path leads into a directory that some system takes for git's own.
pub(crate) fn leads_inside(path: &str) -> bool {
    // Windows takes both for a separator.
    path.split(['/', '\\']).any(is_dot_git)
}

/// Whether some system takes a name for `.git`.
fn is_dot_git(name: &str) -> bool {
    // What follows a colon is a stream of the same file.
    let name = name.split(':').next().unwrap_or_default();
    let seen: String = name.chars().filter(|letter| !UNSEEN.contains(letter)).collect();
    let seen = seen.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    matches!(seen.as_str(), ".git" | "git~1")
}

#[cfg(test)]
mod tests {
    use super::leads_inside;

    #[test]
    fn every_spelling_is_known() {
        for path in [
            ".git/config",
            "a/.GIT/hooks/x",
            "git~1/config",
            "a/GIT~1",
            ".git /x",
            ".git./x",
            ".git . ./x",
            ".g\u{200c}it/x",
            "\u{feff}.git/x",
            ".git::$INDEX_ALLOCATION/config",
            "a\\.git\\config",
        ] {
            assert!(leads_inside(path), "{path:?}");
        }
        for path in [".gitignore", ".github/x", "git", "git~2", "a.git/x", ".git-old/x", "x/.gitattributes"] {
            assert!(!leads_inside(path), "{path:?}");
        }
    }
}
