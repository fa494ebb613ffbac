//! Reading a mirror's objects: a file, the names in the root directory, the difference between two commits.

use std::sync::{Arc, PoisonError};

use crate::git::{Git, LONG, Overflow};
use crate::{Error, Mirror, name};

/// Larger files are not read.
pub const READ_LIMIT: u64 = 1024 * 1024;
/// A longer patch is cut, and says so in its last line.
pub const PATCH_LIMIT: usize = 8 * 1024 * 1024;

impl Mirror {
    /// A file at a commit; None when the path is not there or is not a regular file.
    pub async fn read(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some((size, object)) = self.find(commit, path).await? else { return Ok(None) };
        if size > READ_LIMIT {
            return Err(Error::Io(format!(
                "{path} in {} has {size} bytes, which is more than the {READ_LIMIT} that are read",
                self.url()
            )));
        }
        self.blob(&object).await.map(Some)
    }

    /// The same of a file that nothing depends on: None, too, where it is larger than what is read.
    pub async fn read_small(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.find(commit, path).await? {
            Some((size, object)) if size <= READ_LIMIT => self.blob(&object).await.map(Some),
            _ => Ok(None),
        }
    }

    /// The first bytes of a file of any size; None when the path is not there or is not a regular file.
    pub async fn read_beginning(
        &self,
        commit: &str,
        path: &str,
        most: usize,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some((_, object)) = self.find(commit, path).await? else { return Ok(None) };
        let git = self.git("cat-file").args(["blob", &object]).confined().bound(most, Overflow::Cut);
        Ok(Some(git.succeed().await?.stdout))
    }

    async fn blob(&self, object: &str) -> Result<Vec<u8>, Error> {
        Ok(self.git("cat-file").args(["blob", object]).confined().succeed().await?.stdout)
    }

    /// Size and object of a regular file.
    async fn find(&self, commit: &str, path: &str) -> Result<Option<(u64, String)>, Error> {
        let commit = name::commit(commit)?;
        if path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(None);
        }
        let root = self.root_of(commit).await?;
        Ok(match path.split_once('/') {
            None => root.file(path),
            Some((directory, _)) if !root.has_directory(directory) => None,
            Some(_) => {
                let listed = self.git("ls-tree").args(["-z", "--long", commit, "--", path]);
                regular_file(&listed.confined().succeed().await?.text(), path)
            }
        })
    }

    /// Names in the root directory at a commit.
    pub async fn root(&self, commit: &str) -> Result<Vec<String>, Error> {
        let root = self.root_of(name::commit(commit)?).await?;
        Ok(root.names().map(Into::into).collect())
    }

    /// The root directory at a commit.
    pub(crate) async fn root_of(&self, commit: &str) -> Result<Arc<Root>, Error> {
        let last = || self.locks.root.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = last().as_ref().filter(|root| root.commit == commit) {
            return Ok(Arc::clone(root));
        }
        let listed = self.git("ls-tree").args(["-z", "--long", commit, "--"]).confined().succeed().await?;
        let root = Arc::new(Root { commit: commit.to_owned(), listing: listed.text() });
        *last() = Some(Arc::clone(&root));
        Ok(root)
    }

    /// Names of the directories in the root directory at a commit.
    pub async fn root_folders(&self, commit: &str) -> Result<Vec<String>, Error> {
        let root = self.root_of(name::commit(commit)?).await?;
        Ok(root.names().filter(|name| root.has_directory(name)).map(Into::into).collect())
    }

    /// The paths in folders of a commit; none of one that it does not have.
    pub async fn in_folders(&self, commit: &str, folders: &[&str]) -> Result<Vec<String>, Error> {
        if folders.is_empty() {
            return Ok(Vec::new());
        }
        let inside: Vec<String> =
            folders.iter().map(|folder| format!("{}/", folder.trim_end_matches('/'))).collect();
        let git = self.git("ls-tree").args(["-z", "--name-only", name::commit(commit)?, "--"]);
        let output = git.args(inside).confined().succeed().await?;
        Ok(output.text().split_terminator('\0').map(Into::into).collect())
    }

    /// A unified diff between two commits with counts. Binary files are named in it and not shown.
    pub async fn diff(&self, base: &str, commit: &str) -> Result<protocol::Diff, Error> {
        let (base, commit) = (name::commit(base)?, name::commit(commit)?);
        let compare = |how: &[&str]| -> Git {
            let git = self.git("diff").limit(LONG).confined();
            let fixed = ["--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"];
            git.args(fixed).args(self.prefixes()).args(how).args([base, commit, "--"])
        };
        let counts = compare(&["--numstat", "-z"]).succeed().await?;
        let (files, insertions, deletions) = count(&counts.text());
        let output = compare(&["--patch"]).bound(PATCH_LIMIT, Overflow::Cut).succeed().await?;
        let mut patch = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.cut {
            patch.truncate(patch.rfind('\n').map_or(0, |end| end + 1));
            patch.push_str(&format!("[the rest is left out: the diff is longer than {PATCH_LIMIT} bytes]\n"));
        }
        let patch = self.with_places(patch);
        Ok(protocol::Diff { base: base.into(), patch, files, insertions, deletions })
    }

    /// The diff of two commits with all of the changed files around what changed, also of files that are not text; None where
    /// that is longer than [`PATCH_LIMIT`].
    pub async fn whole_files(&self, base: &str, commit: &str) -> Result<Option<String>, Error> {
        let (base, commit) = (name::commit(base)?, name::commit(commit)?);
        let git = self.git("diff").limit(LONG).confined();
        let fixed = ["--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--text"];
        let git = git.args(fixed).args(self.prefixes());
        let git = git.args(["--unified=1000000", "--patch", base, commit, "--"]);
        let output = git.bound(PATCH_LIMIT, Overflow::Cut).succeed().await?;
        let patch = || self.with_places(String::from_utf8_lossy(&output.stdout).into_owned());
        Ok((!output.cut).then(patch))
    }
}

/// The root directory of a commit.
#[derive(Debug)]
pub(crate) struct Root {
    commit: String,
    /// As `ls-tree -z --long` gives it.
    listing: String,
}

impl Root {
    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.listing.split_terminator('\0').filter_map(|entry| entry.split_once('\t'))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.entries().map(|(_, name)| name)
    }

    /// The size and the object of a regular file.
    fn file(&self, name: &str) -> Option<(u64, String)> {
        regular_file(&self.listing, name)
    }

    /// Whether it has a directory of this name.
    pub(crate) fn has_directory(&self, name: &str) -> bool {
        self.entries().any(|(fields, entry)| entry == name && fields.starts_with("040000 "))
    }
}

/// Size and object id out of `<mode> SP <type> SP <object> SP+ <size> TAB <path>`.
fn regular_file(listing: &str, path: &str) -> Option<(u64, String)> {
    let entry = listing.split_terminator('\0').find_map(|entry| {
        let (fields, name) = entry.split_once('\t')?;
        (name == path).then_some(fields)
    })?;
    let fields: Vec<&str> = entry.split_ascii_whitespace().collect();
    match fields[..] {
        ["100644" | "100755" | "100664", "blob", object, size] => Some((size.parse().ok()?, object.into())),
        _ => None,
    }
}

/// Files, insertions and deletions out of `--numstat -z`, where a rename's two names follow as fields of their own.
fn count(numstat: &str) -> (u32, u32, u32) {
    let (mut files, mut insertions, mut deletions) = (0, 0, 0);
    let mut fields = numstat.split_terminator('\0');
    while let Some(field) = fields.next() {
        let mut parts = field.splitn(3, '\t');
        // Binary files have "-" for a number.
        let mut number = || parts.next().and_then(|n| n.parse::<u32>().ok()).unwrap_or_default();
        insertions += number();
        deletions += number();
        files += 1;
        if parts.next() == Some("") {
            fields.by_ref().take(2).for_each(drop);
        }
    }
    (files, insertions, deletions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_see_renames_and_binary_files() {
        assert_eq!(count("3\t1\ta b.rs\0-\t-\tlogo.png\x001\t0\t\0old\0new\0"), (3, 4, 1));
        assert_eq!(count(""), (0, 0, 0));
    }
}
