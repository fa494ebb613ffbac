//! Keeping the work: what changed since a turn began, as a commit in the host's copy of the repository; and, where git cannot
//! have it, as an archive beside the log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forge::{Renewed, Signing};
use protocol::{Code, Problem, TurnId};
use sandbox::{Sandbox, WORKSPACE};

use super::clones::Clones;
use super::git::{Commit, RENEWED, harmless};
use super::ground::Index;
use super::prepare::copy_in;
use super::saved::Found;
use super::tree::{FILE_LIMIT, Reading, Unlike};
use super::{Patience, Saved, Workspace, short};
use crate::failure::Failure;
use crate::joint::{about, join, of, split};
use crate::people::Author;
use crate::process::Command;
use crate::runner::message::Words;
use crate::stop::Stop;

/// How long an archive of a workspace may take that git cannot keep. A person waits for the end of the turn, and there are
/// trees that no program gets to the end of; the snapshot has them anyway.
const RESCUE: Duration = Duration::from_secs(30);
/// Largest archive that is taken out of a sandbox.
const ARCHIVE_LIMIT: u64 = forge::BUNDLE_LIMIT;
/// Most objects of large files that are taken out at the end of a turn, and what they may have together.
const LARGE_MOST: usize = 1000;
const LARGE_SUM: u64 = 4 * forge::BUNDLE_LIMIT;
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
    /// What of the tree is not what is on the disk, or was not.
    pub(crate) unlike: Unlike,
}

impl Workspace {
    pub(super) fn patient_git<'a>(&'a self, sandbox: &'a dyn Sandbox, patience: Patience<'a>) -> Clones<'a> {
        Clones { patience, ..self.git(sandbox) }
    }

    fn git_of<'a>(
        &'a self,
        sandbox: &'a dyn Sandbox,
        author: &'a Author,
        patience: Patience<'a>,
    ) -> Clones<'a> {
        Clones { author, patience, ..self.git(sandbox) }
    }

    /// Remembers the working tree as a turn found it; a resumed turn keeps what it found first. Where git cannot read it,
    /// everything counts as the turn's work. What the agent commits by itself is by the same person as the turn.
    pub(crate) async fn begin(
        &self,
        sandbox: &dyn Sandbox,
        turn: TurnId,
        author: Option<&Author>,
        patience: Patience<'_>,
    ) -> Result<(), Failure> {
        let mut saved = self.require()?;
        if saved.found.as_ref().is_some_and(|found| found.turn == turn) {
            return Ok(());
        }
        let author = author.unwrap_or(&self.options.author);
        let git = self.git_of(sandbox, author, patience);
        let mut found = match git.sign().await {
            Err(failure @ Failure::Problem(_)) => Err(failure),
            signed => signed.map(Ok)?,
        };
        let is_first = saved.products.is_none() && saved.kept.is_none();
        if saved.grounds.len() != self.places.len() {
            let index = if is_first { Index::Ours } else { Index::Unknown };
            match git.grounds(index).await {
                Ok(grounds) => saved.grounds = grounds,
                Err(failure @ Failure::Problem(_)) => found = Err(failure),
                Err(failure) => return Err(failure),
            }
        }
        // Where no step has run, there is most often nothing but the commit, which is quickly seen.
        let is_bare = is_first && saved.setup.is_empty() && found.is_ok();
        let untouched = if is_bare { git.untouched().await? } else { None };
        if let Some(tree) = untouched {
            saved.products = Some(Vec::new());
            saved.began = Some(tree.clone());
            saved.found = Some(Found { turn, tree });
            return Ok(self.record.put(saved)?);
        }
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
            match git.tree(&saved, Reading::Look).await {
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
        reading: Reading,
        patience: Patience<'_>,
    ) -> Result<Changed, Failure> {
        let mut saved = self.require()?;
        let (tree, sums) = self.patient_git(sandbox, patience).trees(&saved, reading).await?;
        let found = saved.found.as_ref().filter(|found| found.turn == turn);
        let by_turn = found.is_none_or(|found| found.tree != tree.id);
        let new: Vec<&String> = tree.left_out.iter().filter(|name| !saved.left_out.contains(name)).collect();
        let left_out = left_out(sandbox, &new).await;
        let before = saved.clone();
        saved.left_out.clone_from(&tree.left_out);
        for (ground, sum) in saved.grounds.iter_mut().zip(sums) {
            if sum.is_some() {
                ground.index = sum;
            }
        }
        if saved != before {
            self.record.put(saved)?;
        }
        Ok(Changed { tree: tree.id, by_turn, left_out, unlike: tree.unlike })
    }

    /// Keeps a tree of the workspace on the host. None when it is as the session began: there is nothing to keep.
    pub(crate) async fn keep(
        &self,
        sandbox: &dyn Sandbox,
        tree: &str,
        keep: Keep,
        words: &Words,
        patience: Patience<'_>,
    ) -> Result<Option<Kept>, Failure> {
        let mut saved = self.require()?;
        let git = self.git_of(sandbox, &words.author, patience);
        let commit = Commit {
            tree,
            tip: saved.tip.as_deref().unwrap_or(&saved.base),
            branch: match keep {
                Keep::Commit => Some(&saved.branch),
                Keep::Progress => None,
            },
            message: &words.message,
        };
        let committed = git.commit(&commit).await?;
        if keep == Keep::Commit {
            // Nothing becomes a commit of the branch before that was looked at.
            saved.merges.clear();
        }
        if committed.commit == saved.base {
            return Ok(None);
        }
        if let Some(onto) = saved.onto.clone()
            && git.has_in(&onto, &committed.commit).await?
        {
            // What came from there is not the session's, and is not looked through as if it were.
            (saved.base, saved.onto) = (onto, None);
        }
        let (files, insertions, deletions) = git.counts(&saved.base, tree).await?;
        let turn = saved.found.as_ref().map(|found| found.turn.to_string());
        let commit = self.take_out(&git, &committed.commit, &saved, turn.as_deref(), words).await?;
        failpoint::hit(failpoint::Point::WorkKept);
        saved.kept = Some(commit.clone());
        saved.unfinished = keep == Keep::Progress && committed.commit != committed.parent;
        let in_progress = split(&committed.commit).zip(split(&committed.parent)).enumerate();
        saved.unfinished_in = match self.places.len() {
            1 => Vec::new(),
            _ => in_progress.filter(|(_, (commit, parent))| commit != parent).map(|(at, _)| at).collect(),
        };
        match keep {
            Keep::Commit => {
                saved.tip = Some(commit.clone());
                saved.shared_by = Vec::new();
            }
            // Whoever commits it shares the commit with them; what the agent committed has its author already.
            Keep::Progress if saved.unfinished => saved.shared_by.clone_from(&words.by),
            Keep::Progress => saved.shared_by = Vec::new(),
        }
        self.record.put(saved)?;
        Ok(Some(Kept { commit, files, insertions, deletions }))
    }

    /// Takes the objects of large files out of the sandbox that new commits point at. What cannot be had is missed when the
    /// commits are delivered, and said then; the commits are kept without it.
    async fn keep_large(
        &self,
        git: &super::git::Git<'_>,
        mirror: &forge::Mirror,
        commit: &str,
        scratch: &Path,
    ) -> Result<(), Failure> {
        if !mirror.uses_lfs(commit).await? {
            return Ok(());
        }
        let mut room = LARGE_SUM;
        let mut new = mirror.new_pointers(commit).await?;
        new.retain(|pointer| !mirror.is_large_there(pointer));
        for pointer in new.iter().take(LARGE_MOST) {
            if pointer.size > FILE_LIMIT || pointer.size > room {
                tracing::info!(session = %self.session, path = pointer.path, "a large file is too large to be kept");
                continue;
            }
            let file = scratch.join(&pointer.oid);
            let taken = match git.large_object(&pointer.oid, pointer.size, &file).await {
                Ok(()) => mirror.put_large(pointer, &file).await.map_err(Failure::from),
                Err(failure) => Err(failure),
            };
            match taken {
                Ok(()) => room -= pointer.size,
                Err(Failure::Problem(problem)) => {
                    tracing::info!(session = %self.session, path = pointer.path, %problem, "a large file is not kept");
                }
                Err(failure) => return Err(failure),
            }
            if let Err(error) = std::fs::remove_file(&file) {
                tracing::debug!(path = %file.display(), %error, "a copy is removed with its directory");
            }
        }
        Ok(())
    }

    /// Takes commits out of the sandbox, those of each repository that changed in a bundle of its own, and keeps them in the
    /// mirrors. What was made in there is by those who caused it, whatever it says; the workspace then goes on from what is
    /// kept. Gives that.
    async fn take_out(
        &self,
        git: &Clones<'_>,
        commits: &str,
        saved: &Saved,
        turn: Option<&str>,
        words: &Words,
    ) -> Result<String, Failure> {
        let scratch = self.scratch()?;
        let out = scratch.path().join("out.bundle");
        let (bundled, name) = (format!("slipway-kept-{}", short(self.session)), self.session.to_string());
        let mirrors = self.mirrors().await?;
        let mut kept = Vec::new();
        for ((number, one), (place, mirror)) in git.each().enumerate().zip(mirrors.parts()) {
            let (commit, base) = (of(commits, number), of(&saved.base, number));
            if commit == base {
                kept.push(base.to_owned());
                continue;
            }
            one.bundle(commit, base, &bundled, &out).await?;
            let known = [&saved.tip, &saved.kept, &saved.onto].into_iter().flatten();
            let known: Vec<&str> = known.map(|known| of(known, number)).collect();
            let signing = Signing {
                name: &words.author.name,
                email: &words.author.email,
                known: &known,
                words: &|message| words.instead_of(message),
            };
            let taken = mirror.take(&out, &bundled, base, (&name, turn), Some(signing));
            let taken = git.patience.within(taken).await?;
            let taken = taken.ok_or_else(|| {
                Problem::new(
                    Code::DeliveryFailed,
                    "the work could not be looked through in the time there was",
                )
            })?;
            let taken = taken.map_err(|error| about(place, error.into()))?;
            self.renew(&one, mirror, &taken.renewed, scratch.path()).await?;
            self.keep_large(&one, mirror, &taken.commit, scratch.path()).await?;
            kept.push(taken.commit);
        }
        Ok(join(kept))
    }

    /// Gives the workspace what was made of its commits. Until it has that, nothing of them counts as kept, so that the next
    /// keeping begins where this one did.
    async fn renew(
        &self,
        git: &super::git::Git<'_>,
        mirror: &forge::Mirror,
        renewed: &[Renewed],
        scratch: &Path,
    ) -> Result<(), Failure> {
        if renewed.is_empty() {
            return Ok(());
        }
        let pack = scratch.join("renewed.pack");
        let commits: Vec<&str> = renewed.iter().map(|one| one.is.as_str()).collect();
        mirror.pack_commits(&commits, &pack).await?;
        let never = Stop::default();
        let stop = git.patience.stop().unwrap_or(&never);
        copy_in(git.sandbox, &pack, RENEWED, stop).await?;
        git.renew(renewed).await
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

    /// Remembers that a commit was looked through, or let go as it is. What cannot be remembered is looked at again.
    pub(crate) fn clear(&self, commit: &str) {
        let Some(saved) = self.saved() else { return };
        if let Err(error) = self.record.put(super::Saved { cleared: Some(commit.to_owned()), ..saved }) {
            tracing::warn!(session = %self.session, %error, "what was looked through will be looked through again");
        }
    }

    /// What a tree of the workspace brings that is in no commit of the branch yet.
    pub(crate) async fn patch(
        &self,
        sandbox: &dyn Sandbox,
        tree: &str,
        patience: Patience<'_>,
    ) -> Result<String, Failure> {
        let saved = self.require()?;
        let from = saved.tip.as_deref().unwrap_or(&saved.base);
        self.patient_git(sandbox, patience).patch(from, tree).await
    }

    /// What changed since the session began, file by file.
    pub(crate) async fn summary(
        &self,
        sandbox: &dyn Sandbox,
        patience: Patience<'_>,
    ) -> Result<protocol::DiffSummary, Failure> {
        let (git, saved) = (self.patient_git(sandbox, patience), self.require()?);
        let tree = git.tree(&saved, Reading::Look).await?;
        git.summary(&saved.base, &tree.id).await
    }

    /// Files, lines added and lines removed since the session began.
    pub(crate) async fn counts(
        &self,
        sandbox: &dyn Sandbox,
        patience: Patience<'_>,
    ) -> Result<(u32, u32, u32), Failure> {
        let (git, saved) = (self.patient_git(sandbox, patience), self.require()?);
        let tree = git.tree(&saved, Reading::Look).await?;
        git.counts(&saved.base, &tree.id).await
    }
}

/// What is said of files that are left out.
async fn left_out(sandbox: &dyn Sandbox, names: &[&String]) -> Option<String> {
    let (modules, names): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|name| name.starts_with("//"));
    let files = too_large(sandbox, &names).await;
    let modules = (!modules.is_empty()).then(|| {
        let modules: Vec<String> = modules.iter().map(|name| harmless(&name[2..])).collect();
        format!(
            "Not kept and not delivered, because they are in repositories of their own: the changes in the submodules {}. \
             What is to be changed there is done in a session of that repository.",
            modules.join(", ")
        )
    });
    files.into_iter().chain(modules).reduce(|one, other| format!("{one}\n{other}"))
}

async fn too_large(sandbox: &dyn Sandbox, names: &[&String]) -> Option<String> {
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
