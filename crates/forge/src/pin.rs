//! A revision that stays: the commit behind a branch or a tag, and the files of some folders at that commit.

use crate::git::Overflow;
use crate::{Error, Mirror, name};

/// Most bytes of a listing.
const LISTING: usize = 4 * 1024 * 1024;
/// Where tags are that somebody asked for.
const TAGS: &str = "refs/slipway-tags/";

/// A regular file in a folder at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The object that has its bytes.
    pub object: String,
    /// Its size.
    pub bytes: u64,
    /// Its place in the repository.
    pub path: String,
    /// Whether it is a program.
    pub executable: bool,
    /// Whether it is a link; its bytes say where it leads.
    pub link: bool,
}

impl Mirror {
    /// The commit that a revision names: a commit's full id, a branch as of the last fetch, or a tag, which is fetched. The
    /// default branch without one.
    pub async fn pin(&self, revision: Option<&str>) -> Result<String, Error> {
        let Some(tag) =
            revision.filter(|revision| name::is_branch(revision) && name::commit(revision).is_err())
        else {
            return self.pin_known(revision).await;
        };
        if let Ok(tip) = self.tip(Some(tag)).await {
            return Ok(tip.commit);
        }
        // The remote says of a tag that it does not have what it says of everything that it does not have.
        match self.fetch_ref(&format!("+refs/tags/{tag}:{TAGS}{tag}")).await {
            Ok(()) => self.pin_known(Some(tag)).await,
            Err(error) => {
                tracing::debug!(url = self.url(), tag, %error, "there is no such tag");
                self.tip(Some(tag)).await.map(|tip| tip.commit)
            }
        }
    }

    /// The same without going to the remote: a tag is as it was when it was last asked for.
    pub async fn pin_known(&self, revision: Option<&str>) -> Result<String, Error> {
        let Some(revision) = revision else { return Ok(self.tip(None).await?.commit) };
        if let Ok(commit) = name::commit(revision) {
            let missing = || Error::Io(format!("{} has no commit {commit} on any branch", self.url()));
            return self.resolve(commit).await?.ok_or_else(missing);
        }
        match self.tip(Some(revision)).await {
            Ok(tip) => Ok(tip.commit),
            Err(error @ Error::NoBranch { .. }) if name::is_branch(revision) => {
                self.resolve(&format!("{TAGS}{revision}")).await?.ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The regular files below these folders at a commit, by name; all files for no folder. Links and submodules are left out.
    pub async fn below(&self, commit: &str, folders: &[&str]) -> Result<Vec<Placed>, Error> {
        Ok(self.listed(commit, folders).await?.into_iter().filter(|file| !file.link).collect())
    }

    /// The same, with the links.
    pub async fn listed(&self, commit: &str, folders: &[&str]) -> Result<Vec<Placed>, Error> {
        let commit = name::commit(commit)?;
        let inside = |folder: &&str| !folder.split('/').any(|part| matches!(part, "" | "." | ".."));
        let mut wanted: Vec<&str> = folders.iter().copied().filter(inside).collect();
        if wanted.len() < folders.len() {
            return Ok(Vec::new());
        }
        if !wanted.is_empty() {
            let root = self.root_of(commit).await?;
            wanted.retain(|folder| root.has_directory(folder.split('/').next().unwrap_or(folder)));
            if wanted.is_empty() {
                return Ok(Vec::new());
            }
        }
        let git = self.git("ls-tree").args(["-r", "-z", "--long", "--full-tree", commit, "--"]).args(&wanted);
        let output = git.bound(LISTING, Overflow::Fail).confined().succeed().await?;
        let entries = output.stdout.split(|byte| *byte == 0);
        Ok(entries.filter_map(|entry| placed(std::str::from_utf8(entry).ok()?)).collect())
    }

    /// Git's id of a folder at a commit, of the whole tree where it is empty; None where there is none.
    pub async fn tree(&self, commit: &str, folder: &str) -> Result<Option<String>, Error> {
        let commit = name::commit(commit)?;
        let git = self.git("rev-parse").args(["--verify", "--quiet", "--end-of-options"]);
        let output = git.arg(format!("{commit}:{folder}")).run().await?;
        Ok(output.success().then(|| output.text()))
    }

    /// The bytes of a file.
    pub async fn bytes(&self, file: &Placed) -> Result<Vec<u8>, Error> {
        let object = name::commit(&file.object)?;
        Ok(self.git("cat-file").args(["blob", object]).confined().succeed().await?.stdout)
    }
}

fn placed(entry: &str) -> Option<Placed> {
    let (fields, path) = entry.split_once('\t')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    match fields[..] {
        [mode @ ("100644" | "100755" | "100664" | "120000"), "blob", object, bytes] => Some(Placed {
            object: object.into(),
            bytes: bytes.parse().ok()?,
            path: path.into(),
            executable: mode == "100755",
            link: mode == "120000",
        }),
        _ => None,
    }
}
