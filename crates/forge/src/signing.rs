//! In whose name the commits of a sandbox are taken. Whoever works in there can write any name, any address and any words into
//! a commit, and forges act on all three. So those that were made in there are written anew: by whom the host says, with words
//! that it has seen to. Trees, order, merges and times stay, and the same commits always become the same ones.

use std::collections::HashMap;
use std::time::Duration;

use ring::digest;

use crate::git::{LONG, Overflow};
use crate::scratch::Scratch;
use crate::{Error, Mirror, name};

/// Longest text of new commits that is read.
const COMMITS: usize = 64 * 1024 * 1024;
/// How long the remote may take to say whose commits are that nobody here made.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is asked of each commit, line by line; its message is the rest.
const FIELDS: &str = "--format=%H%n%T%n%P%n%an%n%ae%n%ad%n%cn%n%ce%n%cd%n%B";

/// In whose name commits are taken.
#[derive(Clone, Copy)]
pub struct Signing<'a> {
    /// Who they are by.
    pub name: &'a str,
    /// The address of that person.
    pub email: &'a str,
    /// Commits that stay as they are, with all that led to them. Those that the remote has stay too.
    pub known: &'a [&'a str],
    /// What a message is to be.
    pub words: &'a (dyn Fn(&str) -> String + Send + Sync),
}

/// A commit that was written anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// What it was in the sandbox.
    pub was: String,
    /// What it is now.
    pub is: String,
}

/// A commit as it came.
struct Came {
    id: String,
    tree: String,
    parents: Vec<String>,
    author: (String, String),
    authored: String,
    committer: (String, String),
    committed: String,
    message: String,
}

impl Mirror {
    /// Writes the new commits that lead to `commit` anew, and gives those that are not what they were, the oldest first.
    pub(crate) async fn sign(
        &self,
        scratch: &Scratch,
        (base, commit): (&str, &str),
        signing: &Signing<'_>,
    ) -> Result<Vec<Renewed>, Error> {
        let mut new = self.new_commits(scratch, (base, commit), signing).await?;
        let ours = |who: &(String, String)| who.0 == signing.name && who.1 == signing.email;
        if new.iter().any(|one| !ours(&one.author) || !ours(&one.committer)) {
            // They may be of others, and have come from the remote by another way than this mirror.
            let fetch = self.fetch_ref("+refs/heads/*:refs/remotes/origin/*");
            match tokio::time::timeout(PATIENCE, fetch).await {
                Ok(Ok(())) => new = self.new_commits(scratch, (base, commit), signing).await?,
                Ok(Err(error)) => {
                    tracing::debug!(url = self.url(), %error, "whose commits are could not be asked")
                }
                Err(_) => tracing::debug!(url = self.url(), "whose commits are could not be asked in time"),
            }
        }
        let mut is: HashMap<&str, String> = HashMap::new();
        let (mut renewed, mut files) = (Vec::new(), String::new());
        for (number, one) in new.iter().enumerate() {
            let bytes = one.signed(signing, &is);
            let id = id_of(&bytes, one.id.len());
            if id == one.id {
                continue;
            }
            let file = scratch.file(&format!("commit-{number}"));
            tokio::fs::write(&file, &bytes)
                .await
                .map_err(|error| Error::io(format_args!("write {}", file.display()), &error))?;
            files.push_str(&format!("{}\n", file.display()));
            renewed.push(Renewed { was: one.id.clone(), is: id.clone() });
            is.insert(&one.id, id);
        }
        if renewed.is_empty() {
            return Ok(renewed);
        }
        let write = scratch.git("hash-object").args(["-t", "commit", "-w", "--no-filters", "--stdin-paths"]);
        let written = write.stdin(files.into_bytes()).limit(LONG).confined().succeed().await?.text();
        if !written.lines().eq(renewed.iter().map(|one| one.is.as_str())) {
            return Err(Error::Io("git hash-object gave commits other ids than they have".to_owned()));
        }
        Ok(renewed)
    }

    /// The commits that only the sandbox has, parents before children.
    async fn new_commits(
        &self,
        scratch: &Scratch,
        (base, commit): (&str, &str),
        signing: &Signing<'_>,
    ) -> Result<Vec<Came>, Error> {
        let remotes = self.git("for-each-ref").args(["--format=%(objectname)", "refs/remotes/origin/"]);
        let remotes = remotes.succeed().await?.text();
        let mut asked = format!("{commit}\n");
        for known in signing.known.iter().copied().chain([base]).chain(remotes.lines()) {
            asked.push_str(&format!("^{}\n", name::commit(known)?));
        }
        let git = scratch.git("log").args([
            "--ignore-missing",
            "--topo-order",
            "--reverse",
            "-z",
            "--no-show-signature",
            "--no-mailmap",
            "--no-color",
            "--no-notes",
            "--no-patch",
            "--encoding=UTF-8",
            "--date=raw",
            FIELDS,
            "--stdin",
        ]);
        let git = git.stdin(asked.into_bytes()).bound(COMMITS, Overflow::Fail).limit(LONG).confined();
        let text = String::from_utf8_lossy(&git.succeed().await?.stdout).into_owned();
        let read = |record: &str| {
            Came::read(record).ok_or_else(|| Error::Refused("it has a commit that cannot be read".to_owned()))
        };
        text.split('\0').filter(|record| !record.trim().is_empty()).map(read).collect()
    }

    /// Writes a pack with these commits, and nothing of their trees, to a file.
    pub async fn pack_commits(&self, commits: &[&str], to: &std::path::Path) -> Result<(), Error> {
        let mut asked = String::new();
        for commit in commits {
            asked.push_str(&format!("{}\n", name::commit(commit)?));
        }
        let pack = self.git("pack-objects").args(["--stdout", "--quiet"]).stdin(asked.into_bytes());
        let bytes = pack.bound(COMMITS, Overflow::Fail).limit(LONG).confined().succeed().await?.stdout;
        tokio::fs::write(to, bytes)
            .await
            .map_err(|error| Error::io(format_args!("write {}", to.display()), &error))
    }
}

impl Came {
    fn read(record: &str) -> Option<Self> {
        let mut lines = record.trim_start_matches('\n').splitn(10, '\n');
        let mut next = || lines.next().map(str::to_owned);
        Some(Self {
            id: name::commit(&next()?).ok()?.to_owned(),
            tree: name::commit(&next()?).ok()?.to_owned(),
            parents: next()?.split_whitespace().map(str::to_owned).collect(),
            author: (next()?, next()?),
            authored: next()?,
            committer: (next()?, next()?),
            committed: next()?,
            message: lines.next().unwrap_or_default().to_owned(),
        })
    }

    /// The commit as it is to be, in git's form.
    fn signed(&self, signing: &Signing<'_>, is: &HashMap<&str, String>) -> Vec<u8> {
        let mut text = format!("tree {}\n", self.tree);
        for parent in &self.parents {
            text.push_str(&format!("parent {}\n", is.get(parent.as_str()).unwrap_or(parent)));
        }
        let Signing { name, email, words, .. } = signing;
        for (role, at) in [("author", &self.authored), ("committer", &self.committed)] {
            let at = if at.trim().is_empty() { "0 +0000" } else { at.as_str() };
            text.push_str(&format!("{role} {name} <{email}> {at}\n"));
        }
        let message = words(self.message.trim()).replace('\0', " ");
        text.push_str(&format!("\n{}\n", message.trim_end()));
        text.into_bytes()
    }
}

/// What git calls a commit with these bytes, in a repository whose ids are so long.
fn id_of(bytes: &[u8], length: usize) -> String {
    let algorithm = if length == 64 { &digest::SHA256 } else { &digest::SHA1_FOR_LEGACY_USE_ONLY };
    let mut sum = digest::Context::new(algorithm);
    sum.update(format!("commit {}\0", bytes.len()).as_bytes());
    sum.update(bytes);
    sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
