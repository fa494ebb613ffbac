//! The texts of many files at once: which there are at a commit, and all of them poured into another process.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use crate::git::Git;
use crate::{Error, Mirror, name};

/// Most bytes of a listing: some three hundred thousand files.
const LISTING: usize = 32 * 1024 * 1024;
/// How long pouring may take.
const POUR: Duration = Duration::from_secs(120);

/// A regular file at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The object that has its text.
    pub object: String,
    /// Its size.
    pub bytes: u64,
    /// Its place.
    pub path: String,
}

impl Mirror {
    /// All regular files at a commit whose names are text of one line.
    pub async fn files(&self, commit: &str) -> Result<Vec<Listed>, Error> {
        let git = self.git("ls-tree").args(["-r", "-z", "--long", "--full-tree", name::commit(commit)?]);
        let output = git.bound(LISTING, crate::git::Overflow::Fail).confined().succeed().await?;
        let entries =
            output.stdout.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        Ok(entries.filter_map(listed).collect())
    }

    /// Writes the texts of these files to `into`, each after a line `OBJECT SIZE PATH` and with a line end after it.
    pub async fn pour(&self, files: &[Listed], into: OwnedFd) -> Result<(), Error> {
        let wanted: String = files.iter().map(|file| format!("{} {}\n", file.object, file.path)).collect();
        let git: Git = self.git("cat-file").arg("--batch=%(objectname) %(objectsize) %(rest)");
        git.stdin(wanted.into_bytes()).limit(POUR).confined().says_to(into).succeed().await.map(drop)
    }

    /// A place for something that follows from the mirror. It is removed with the mirror.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn listed(entry: &str) -> Option<Listed> {
    let (fields, path) = entry.split_once('\t')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    match fields[..] {
        ["100644" | "100755" | "100664", "blob", object, bytes] if !path.contains('\n') => {
            Some(Listed { object: object.into(), bytes: bytes.parse().ok()?, path: path.into() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_listed() {
        let file = listed("100644 blob 1f     12\tsrc/a b.rs").unwrap();
        assert_eq!((file.object.as_str(), file.bytes, file.path.as_str()), ("1f", 12, "src/a b.rs"));
        for other in ["120000 blob 1f 3\tlink", "160000 commit 1f -\tsub", "100644 blob 1f 3\ta\nb", ""] {
            assert_eq!(listed(other), None, "{other}");
        }
    }
}
