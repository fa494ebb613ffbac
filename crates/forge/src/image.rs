//! What an environment's image is made from: the ids of its inputs, the repository's files in a directory, and the
//! commits that came since.

use std::path::Path;

use crate::git::LONG;
use crate::scratch::Scratch;
use crate::{Error, Mirror, links, name};

impl Mirror {
    /// What a file or directory at a commit is, with all that links lead to from there: it changes when the content does.
    /// None when the path, or what it leads to, is not in the repository.
    pub async fn object(&self, commit: &str, path: &str) -> Result<Option<String>, Error> {
        let commit = name::commit(commit)?;
        let path = path.trim_end_matches('/');
        let path = path.strip_prefix("./").unwrap_or(path);
        if path.contains('\0') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Ok(None);
        }
        let output = self.git("ls-tree").args(["-z", commit, "--", path]).succeed().await?;
        let found = links::entries(&output.stdout).find(|(name, _)| *name == path.as_bytes());
        let own = found.map(|(_, entry)| entry);
        let linked = match own {
            Some(entry) if entry.is_directory() => self.has_links(commit, path).await?,
            Some(entry) => entry.is_link(),
            // A link may be on the way there.
            None => path.contains('/'),
        };
        if !linked {
            return Ok(own.map(|entry| entry.to_string()));
        }
        let behind = self.behind(commit, path).await?;
        Ok(behind.map(|behind| own.map_or_else(|| behind.clone(), |own| format!("{own}\n{behind}"))))
    }

    /// Writes a bundle with what `commit` has and `since` has not, with the commit as the branch. False, and no file,
    /// when there is nothing.
    pub async fn bundle_since(
        &self,
        branch: &str,
        commit: &str,
        since: &str,
        to: &Path,
    ) -> Result<bool, Error> {
        let (commit, since) = (name::commit(commit)?, name::commit(since)?);
        if !name::is_branch(branch) {
            return Err(Error::Io(format!("{branch:?} cannot be the name of a branch")));
        }
        self.must_have(commit).await?;
        self.must_have(since).await?;
        if self.is_ancestor(commit, since).await? {
            return Ok(false);
        }
        let to = std::path::absolute(to).map_err(|error| Error::io("find the current directory", &error))?;
        let scratch = Scratch::beside(&self.path, commit).await?;
        let full = format!("refs/heads/{branch}");
        scratch.begin_at(&full, commit)?;
        let bundle = scratch.git("bundle").args(["create", "--quiet"]).arg(to);
        bundle.arg(&full).arg(format!("^{since}")).limit(LONG).succeed().await?;
        Ok(true)
    }

    /// How many commits `commit` has that `since` has not, and the names of files that differ between them, at most
    /// `most`.
    pub async fn between(&self, since: &str, commit: &str, most: usize) -> Result<(u64, Vec<String>), Error> {
        let (since, commit) = (name::commit(since)?, name::commit(commit)?);
        let count = self.git("rev-list").args(["--count", commit, &format!("^{since}"), "--"]);
        let count = count.succeed().await?.text().trim().parse().unwrap_or(0);
        let names = self.git("diff").args(["--no-ext-diff", "--name-only", "-z", since, commit, "--"]);
        let names = names.limit(LONG).succeed().await?.text();
        Ok((count, names.split_terminator('\0').take(most).map(Into::into).collect()))
    }

    /// Writes the files of a commit below `to`, which must be an empty directory of ours.
    pub async fn checkout(&self, commit: &str, to: &Path) -> Result<(), Error> {
        let commit = name::commit(commit)?;
        let to = std::path::absolute(to).map_err(|error| Error::io("find the current directory", &error))?;
        let scratch = Scratch::beside(&self.path, commit).await?;
        let index = scratch.file("index");
        scratch.git("read-tree").env("GIT_INDEX_FILE", &index).arg(commit).limit(LONG).succeed().await?;
        let write = scratch.git("checkout-index").args(["--all", "--quiet"]);
        write.env("GIT_INDEX_FILE", &index).env("GIT_WORK_TREE", &to).limit(LONG).succeed().await.map(drop)
    }
}
