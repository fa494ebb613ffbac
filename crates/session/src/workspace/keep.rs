//! Keeping the work: what changed since a turn began, as a commit in the host's copy of the repository; and, where git cannot
//! have it, as an archive beside the log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::{Code, Problem, TurnId};
use sandbox::{Sandbox, WORKSPACE};

use super::git::{Commit, Git, harmless};
use super::saved::Found;
use super::tree::FILE_LIMIT;
use super::{Patience, Workspace, short};
use crate::failure::Failure;
use crate::process::Command;

/// How long an archive of a workspace may take that git cannot keep. A person waits for the end of the turn, and there are
/// trees that no program gets to the end of; the snapshot has them anyway.
const RESCUE: Duration = Duration::from_secs(30);
/// Largest archive that is taken out of a sandbox.
const ARCHIVE_LIMIT: u64 = forge::BUNDLE_LIMIT;
/// Most files that are named at once.
const NAMED: usize = 5;

/// Prints an archive of the workspace. What may not be read is left out, and what is larger than `$1` too; the rest is still
/// worth having. Only GNU's tar can leave out by size, and does not fill the holes of sparse files.
const ARCHIVE: &str = r#"
if tar --version 2>/dev/null | grep -q GNU; then
  find . -path ./.git -prune -o -type f -size "+${1}c" -o -print0 |
    tar -cSf - --ignore-failed-read --null --no-recursion -T -
else
  tar -cf - --exclude=./.git .
fi
"#;

/// How the work is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// As a commit on the session's branch, which can be delivered.
    Commit,
    /// As work in progress, which becomes uncommitted changes again.
    Progress,
}

/// What was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) commit: String,
    pub(crate) files: u32,
    pub(crate) insertions: u32,
    pub(crate) deletions: u32,
}

/// What a turn made of the workspace.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The working tree.
    pub(crate) tree: String,
    /// Whether it differs from how the turn found it.
    pub(crate) by_turn: bool,
    /// What is to be said of files that are left out of it, unless it was said.
    pub(crate) left_out: Option<String>,
}

impl Workspace {
    fn patient_git<'a>(&'a self, sandbox: &'a dyn Sandbox, patience: Patience<'a>) -> Git<'a> {
        Git { patience, ..self.git(sandbox) }
    }

    /// Remembers the working tree as a turn found it; a resumed turn keeps what it found first. Where git cannot read it,
    /// everything counts as the turn's work.
    pub(crate) async fn begin(
        &self,
        sandbox: &dyn Sandbox,
        turn: TurnId,
        patience: Patience<'_>,
    ) -> Result<(), Failure> {
        let mut saved = self.require()?;
        if saved.found.as_ref().is_some_and(|found| found.turn == turn) {
            return Ok(());
        }
        let git = self.patient_git(sandbox, patience);
        let mut found = Ok(());
        let is_first = saved.products.is_none() && saved.kept.is_none();
        if is_first {
            // What is there later may be the agent's: what could not be seen now is not looked for again.
            match git.products().await {
                Ok(products) => saved.products = Some(products),
                Err(failure @ Failure::Problem(_)) => {
                    saved.products = Some(Vec::new());
                    found = Err(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if found.is_ok() {
            match git.tree(saved.products.as_deref()).await {
                Ok(tree) => {
                    if is_first {
                        saved.began = Some(tree.id.clone());
                    }
                    saved.found = Some(Found { turn, tree: tree.id });
                }
                Err(failure @ Failure::Problem(_)) => found = Err(failure),
                Err(failure) => return Err(failure),
            }
        }
        self.record.put(saved)?;
        found
    }

    /// The working tree, and whether the turn changed it.
    pub(crate) async fn changed(
        &self,
        sandbox: &dyn Sandbox,
        turn: TurnId,
        patience: Patience<'_>,
    ) -> Result<Changed, Failure> {
        let mut saved = self.require()?;
        let tree = self.patient_git(sandbox, patience).tree(saved.products.as_deref()).await?;
        let found = saved.found.as_ref().filter(|found| found.turn == turn);
        let by_turn = found.is_none_or(|found| found.tree != tree.id);
        let new: Vec<&String> = tree.left_out.iter().filter(|name| !saved.left_out.contains(name)).collect();
        let left_out = left_out(sandbox, &new).await;
        if saved.left_out != tree.left_out {
            saved.left_out.clone_from(&tree.left_out);
            self.record.put(saved)?;
        }
        Ok(Changed { tree: tree.id, by_turn, left_out })
    }

    /// Keeps a tree of the workspace on the host. None when it is as the session began: there is nothing to keep.
    pub(crate) async fn keep(
        &self,
        sandbox: &dyn Sandbox,
        tree: &str,
        keep: Keep,
        message: &str,
        patience: Patience<'_>,
    ) -> Result<Option<Kept>, Failure> {
        let mut saved = self.require()?;
        let git = self.patient_git(sandbox, patience);
        let commit = Commit {
            tree,
            tip: saved.tip.as_deref().unwrap_or(&saved.base),
            branch: match keep {
                Keep::Commit => Some(&saved.branch),
                Keep::Progress => None,
            },
            message,
        };
        let committed = git.commit(&commit).await?;
        if committed.commit == saved.base {
            return Ok(None);
        }
        let (files, insertions, deletions) = git.counts(&saved.base, tree).await?;
        let scratch = self.scratch()?;
        let out = scratch.path().join("out.bundle");
        let bundled = format!("slipway-kept-{}", short(self.session));
        git.bundle(&committed.commit, &saved.base, &bundled, &out).await?;
        let mirror = self.mirror().await?;
        let name = self.session.to_string();
        let taken = patience.within(mirror.take(&out, &bundled, &saved.base, &name)).await?;
        let commit = taken.ok_or_else(|| {
            Problem::new(Code::DeliveryFailed, "the work could not be looked through in the time there was")
        })??;
        failpoint::hit(failpoint::Point::WorkKept);
        saved.kept = Some(commit.clone());
        saved.unfinished = keep == Keep::Progress && committed.commit != committed.parent;
        if keep == Keep::Commit {
            saved.tip = Some(commit.clone());
        }
        self.record.put(saved)?;
        Ok(Some(Kept { commit, files, insertions, deletions }))
    }

    /// Saves everything in the workspace but git's own files, and what is too large, as an archive beside the log. Nothing
    /// is written in the sandbox, which may be full.
    pub(crate) async fn rescue(
        &self,
        sandbox: &dyn Sandbox,
        most: Option<Duration>,
    ) -> Result<PathBuf, Failure> {
        let timeout = most.map_or(RESCUE, |most| most.min(RESCUE));
        let archive = Command {
            script: ARCHIVE,
            args: &[&FILE_LIMIT.to_string()],
            env: Default::default(),
            cwd: WORKSPACE,
            timeout,
            limit: usize::try_from(ARCHIVE_LIMIT).unwrap_or(usize::MAX),
        };
        let scratch = self.scratch()?;
        let part = scratch.path().join("rescued.tar");
        let archived = archive.run_into(sandbox, None, &part).await?;
        let bytes = std::fs::metadata(&part).map_err(|error| crate::problem::file(&part, &error))?.len();
        let why = if archived.cut {
            Some(format!("it has more than {} MiB", ARCHIVE_LIMIT >> 20))
        } else if archived.timed_out || archived.signal.is_some() || bytes == 0 {
            Some(archived.trouble(timeout))
        } else {
            None
        };
        if let Some(why) = why {
            let problem =
                Problem::new(Code::DeliveryFailed, format!("no archive of the workspace was made: {why}"));
            return Err(problem.hint("the snapshot of this turn has every file: fork it, or go on").into());
        }
        let path = self.dir.join("rescued.tar");
        std::fs::rename(&part, &path).map_err(|error| crate::problem::file(&path, &error))?;
        Ok(path)
    }

    /// What changed since the session began, file by file.
    pub(crate) async fn summary(
        &self,
        sandbox: &dyn Sandbox,
        patience: Patience<'_>,
    ) -> Result<protocol::DiffSummary, Failure> {
        let (git, saved) = (self.patient_git(sandbox, patience), self.require()?);
        let tree = git.tree(saved.products.as_deref()).await?;
        git.summary(&saved.base, &tree.id).await
    }

    /// Files, lines added and lines removed since the session began.
    pub(crate) async fn counts(
        &self,
        sandbox: &dyn Sandbox,
        patience: Patience<'_>,
    ) -> Result<(u32, u32, u32), Failure> {
        let (git, saved) = (self.patient_git(sandbox, patience), self.require()?);
        let tree = git.tree(saved.products.as_deref()).await?;
        git.counts(&saved.base, &tree.id).await
    }
}

/// What is said of files that are left out.
async fn left_out(sandbox: &dyn Sandbox, names: &[&String]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let mut words = Vec::new();
    for name in names.iter().take(NAMED) {
        let path = Path::new(WORKSPACE).join(name);
        let size = match sandbox.guest().stat(&path.to_string_lossy()).await {
            Ok(stat) => format!(" ({} MiB)", stat.size >> 20),
            Err(_) => String::new(),
        };
        words.push(format!("{}{size}", harmless(name)));
    }
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    Some(format!(
        "Left out of what is kept and delivered, because a file over {} MiB is too large for it: {}{more}. They stay in \
         the workspace. Remove what is not needed, list in .gitignore what is not to be delivered, and split the rest.",
        FILE_LIMIT >> 20,
        words.join(", "),
    ))
}
