//! What commits bring that others do not have: the patches of each of them, and the files that differ. For whoever looks
//! through the work before it leaves the machine.

use crate::git::{LONG, Overflow};
use crate::{Error, Mirror, name};

/// Longest text of patches that is read.
const PATCHES: usize = 64 * 1024 * 1024;
/// Longest list of names.
const NAMES: usize = 64 * 1024 * 1024;
/// What a commit is called in them by a line of its own.
const COMMIT: &str = "commit ";

/// The patches of commits, each after a line `commit ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patches {
    /// The text, without context. Of a merge it has what neither side had.
    pub text: String,
    /// Whether it was too long, and this is its beginning.
    pub cut: bool,
}

impl Mirror {
    /// The patches of the commits that lead to `commit` and to none of the others. Files are shown as text, whatever their
    /// names or attributes say: a byte that makes a file look binary must not hide what is in it.
    pub async fn patches(&self, commit: &str, others: &[&str]) -> Result<Patches, Error> {
        let commit = name::commit(commit)?;
        let mut git = self.git("log").args([
            format!("--format={COMMIT}%H").as_str(),
            "--patch",
            "--cc",
            "--text",
            "--unified=0",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-show-signature",
        ]);
        git = git.args(self.prefixes()).arg(commit);
        for other in others {
            git = git.arg(format!("^{}", name::commit(other)?));
        }
        let output = git.arg("--").bound(PATCHES, Overflow::Cut).limit(LONG).confined().succeed().await?;
        Ok(Patches { text: String::from_utf8_lossy(&output.stdout).into_owned(), cut: output.cut })
    }

    /// The messages of the same commits, each with its commit, below the names that stand in it.
    pub async fn messages(&self, commit: &str, others: &[&str]) -> Result<Vec<(String, String)>, Error> {
        let mut git = self.git("log").args([
            "-z",
            "--no-show-signature",
            "--format=%H%n%an <%ae>%n%cn <%ce>%n%B",
            name::commit(commit)?,
        ]);
        for other in others {
            git = git.arg(format!("^{}", name::commit(other)?));
        }
        let output = git.arg("--").bound(PATCHES, Overflow::Cut).limit(LONG).confined().succeed().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pair = |message: &str| {
            message.split_once('\n').map(|(commit, text)| (commit.to_owned(), text.to_owned()))
        };
        Ok(text.split('\0').filter_map(pair).collect())
    }

    /// The names of files that are not the same in two commits.
    pub async fn differing(&self, one: &str, other: &str) -> Result<Vec<String>, Error> {
        let (one, other) = (name::commit(one)?, name::commit(other)?);
        let git = self.git("diff-tree").args(["-r", "-z", "--name-only", "--no-renames", one, other, "--"]);
        let output = git.bound(NAMES, Overflow::Fail).limit(LONG).confined().succeed().await?;
        let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// The work that each turn of a session left, with its commit, by the name of the turn.
    pub async fn turns(&self, session: &str) -> Result<Vec<(String, String)>, Error> {
        let below = format!("{}/", name::turns(session)?);
        let git = self.git("for-each-ref").args(["--format=%(refname) %(objectname)", &below]);
        let output = git.succeed().await?.text();
        let pair = |line: &str| {
            let (reference, commit) = line.split_once(' ')?;
            Some((reference.strip_prefix(&below)?.to_owned(), commit.to_owned()))
        };
        Ok(output.lines().filter_map(pair).collect())
    }
}
