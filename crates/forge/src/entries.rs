//! The entries of a directory at a commit, for people who look around.

use crate::{Error, Mirror, name};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its mode as git writes it, such as `100644`, `040000`, `120000` or `160000`.
    pub mode: String,
    /// Bytes of a file.
    pub size: Option<u64>,
}

impl Mirror {
    /// The entries of a directory of a commit, that of the root where the path is empty; None where there is no such directory.
    pub async fn entries(&self, commit: &str, path: &str) -> Result<Option<Vec<Entry>>, Error> {
        let commit = name::commit(commit)?;
        let inside = if path.is_empty() { String::new() } else { format!("{path}/") };
        // A path is taken as it is written, whatever stars are in it.
        let mut git = self.git("ls-tree").args(["-z", "--long", commit, "--"]);
        if !inside.is_empty() {
            git = git.arg(&inside);
        }
        let listing = git.confined().succeed().await?.text();
        let entries: Vec<Entry> =
            listing.split_terminator('\0').filter_map(|line| entry(line, &inside)).collect();
        Ok((path.is_empty() || !entries.is_empty()).then_some(entries))
    }
}

/// An entry out of `<mode> SP <type> SP <object> SP+ <size> TAB <path>`.
fn entry(line: &str, inside: &str) -> Option<Entry> {
    let (fields, path) = line.split_once('\t')?;
    let mut fields = fields.split_ascii_whitespace();
    let mode = fields.next()?.to_owned();
    let size = fields.nth(2)?.parse().ok();
    Some(Entry { name: path.strip_prefix(inside)?.to_owned(), mode, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_git_are_entries() {
        let file = entry("100644 blob 0123456789abcdef      42\tsrc/a b.js", "src/").unwrap();
        assert_eq!((file.name.as_str(), file.size), ("a b.js", Some(42)));
        let directory = entry("040000 tree 0123456789abcdef       -\tsrc", "").unwrap();
        assert_eq!((directory.mode.as_str(), directory.size), ("040000", None));
        assert_eq!(entry("100644 blob 0123 1\tother/x", "src/"), None);
    }
}
