//! Reading a mirror's objects: a file, the names in the root directory, the difference between two commits.

use crate::git::{Git, LONG, Overflow};
use crate::{Error, Mirror, name};

/// Larger files are not read.
pub const READ_LIMIT: u64 = 1024 * 1024;
/// A longer patch is cut, and says so in its last line.
pub const PATCH_LIMIT: usize = 8 * 1024 * 1024;

impl Mirror {
    /// A file at a commit; None when the path is not there or is not a regular file.
    pub async fn read(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let commit = name::commit(commit)?;
        if path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(None);
        }
        let output =
            self.git("ls-tree").args(["-z", "--long", commit, "--", path]).confined().succeed().await?;
        let Some((size, object)) = regular_file(&output.text(), path) else { return Ok(None) };
        if size > READ_LIMIT {
            return Err(Error::Io(format!(
                "{path} in {} has {size} bytes, which is more than the {READ_LIMIT} that are read",
                self.url()
            )));
        }
        Ok(Some(self.git("cat-file").args(["blob", &object]).confined().succeed().await?.stdout))
    }

    /// Names in the root directory at a commit.
    pub async fn root(&self, commit: &str) -> Result<Vec<String>, Error> {
        let git = self.git("ls-tree").args(["-z", "--name-only", name::commit(commit)?, "--"]);
        let output = git.confined().succeed().await?;
        Ok(output.text().split_terminator('\0').map(Into::into).collect())
    }

    /// The paths in a folder of a commit; none where it has no such folder.
    pub async fn folder(&self, commit: &str, folder: &str) -> Result<Vec<String>, Error> {
        let inside = format!("{}/", folder.trim_end_matches('/'));
        let git = self.git("ls-tree").args(["-z", "--name-only", name::commit(commit)?, "--", &inside]);
        let output = git.confined().succeed().await?;
        Ok(output.text().split_terminator('\0').map(Into::into).collect())
    }

    /// A unified diff between two commits with counts. Binary files are named in it and not shown.
    pub async fn diff(&self, base: &str, commit: &str) -> Result<protocol::Diff, Error> {
        let (base, commit) = (name::commit(base)?, name::commit(commit)?);
        let compare = |how: &[&str]| -> Git {
            let git = self.git("diff").limit(LONG).confined();
            let fixed = ["--no-ext-diff", "--no-textconv", "--no-color", "--find-renames"];
            git.args(fixed).args(how).args([base, commit, "--"])
        };
        let counts = compare(&["--numstat", "-z"]).succeed().await?;
        let (files, insertions, deletions) = count(&counts.text());
        let output = compare(&["--patch"]).bound(PATCH_LIMIT, Overflow::Cut).succeed().await?;
        let mut patch = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.cut {
            patch.truncate(patch.rfind('\n').map_or(0, |end| end + 1));
            patch.push_str(&format!("[the rest is left out: the diff is longer than {PATCH_LIMIT} bytes]\n"));
        }
        Ok(protocol::Diff { base: base.into(), patch, files, insertions, deletions })
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
