//! Taking work out of a bundle that an untrusted sandbox wrote. The bundle is unpacked in a scratch repository and
//! examined there; only what passes is fetched into the mirror, and git's fsck looks at every new object on that way.

use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::confined::{self, ONE_THREAD, outgrown};
use crate::git::{Failure, Git, LARGE, LONG, Output, Overflow};
use crate::mirror::is_ancestor;
use crate::scratch::Scratch;
use crate::signing::{Renewed, Signing};
use crate::{Error, Mirror, dot_git, name, remote, unfolds};

/// Larger bundles are refused.
pub const BUNDLE_LIMIT: u64 = 256 * 1024 * 1024;

/// No system takes a longer path as the target of a link.
const LINK_LIMIT: usize = 4096;
/// A repository whose paths take more bytes than this is not taken; enough for about a million files.
const LISTING_LIMIT: usize = 64 * 1024 * 1024;
/// The mode of a submodule.
const SUBMODULE: &str = "160000";
/// Where the scratch repository has what came.
const INCOMING: &str = "refs/slipway/incoming";

/// What was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The commit, as it is here.
    pub commit: String,
    /// The commits that are not what they were in the sandbox, the oldest first.
    pub renewed: Vec<Renewed>,
}

impl Mirror {
    /// Takes the branch out of a bundle from a sandbox, verified: only that ref, descends from `base`, fsck, size
    /// limits, no new submodules, no links out of the repository. Stores it under `refs/slipway/<name>`, and under
    /// the name of a turn beside that, and gives the commit. The bundle needs to hold no more than `base..branch`. With
    /// somebody to sign them the commits that were made in there are written anew.
    pub async fn take(
        &self,
        bundle: &Path,
        branch: &str,
        base: &str,
        (name, turn): (&str, Option<&str>),
        signing: Option<Signing<'_>>,
    ) -> Result<Taken, Error> {
        let base = name::commit(base)?;
        let kept = name::kept(name)?;
        let of_turn = match turn {
            Some(turn) if name::is_branch(turn) => Some(format!("{}/{turn}", name::turns(name)?)),
            Some(turn) => return Err(Error::Io(format!("{turn:?} cannot be part of a ref's name"))),
            None => None,
        };
        if !name::is_branch(branch) {
            return Err(Error::Refused(format!("{branch:?} cannot be the name of a branch")));
        }
        self.must_have(base).await?;
        let scratch = Scratch::beside(&self.path, base).await?;
        let copy = scratch.file("incoming.bundle");
        copy_bounded(bundle, &copy).await?;
        only_branch(&scratch, &copy, branch).await?;
        unfolds::check(&copy, base.len() / 2).await?;

        // Git takes a bundle's prerequisites for granted only if some ref of the repository leads to them.
        scratch.point("refs/slipway/base", base).await?;
        let before = self.resolve(&kept).await?;
        if let Some(before) = &before {
            scratch.point("refs/slipway/before", before).await?;
        }
        unpack(&scratch, &copy, branch).await?;
        let commit = incoming(&scratch).await?;
        if !is_ancestor(git_at(&scratch, "merge-base"), base, &commit).await? {
            return Err(Error::Refused(format!(
                "the branch {branch} no longer descends from {}, the commit it began from",
                &base[..12]
            )));
        }
        has_an_end(&scratch, &commit).await?;
        examine(&scratch, base, &commit).await?;
        let mut taken = Taken { commit, renewed: Vec::new() };
        if let Some(signing) = signing {
            let known: Vec<&str> = signing.known.iter().copied().chain(before.as_deref()).collect();
            let signing = Signing { known: &known, ..signing };
            taken.renewed = self.sign(&scratch, (base, &taken.commit), &signing).await?;
        }
        if let Some(Renewed { is, .. }) = taken.renewed.iter().find(|one| one.was == taken.commit) {
            scratch.point(INCOMING, is).await?;
            taken.commit.clone_from(is);
        }
        self.accept(&scratch, &kept, of_turn.as_deref()).await?;
        Ok(taken)
    }

    /// The mirror holds everything else already, so this moves the new objects only, through git's fsck.
    async fn accept(&self, scratch: &Scratch, kept: &str, of_turn: Option<&str>) -> Result<(), Error> {
        let fetch = || {
            self.git("fetch")
                .setting("fetch.fsckObjects=true")
                .setting("transfer.fsckObjects=true")
                .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--"])
                .arg(scratch.repository())
                .args(std::iter::once(kept).chain(of_turn).map(|name| format!("+{INCOMING}:{name}")))
                .limit(LONG)
                .confined()
        };
        settle(scratch).await?;
        let output = self.change(fetch).await?;
        refuse_unless(&output, "git found a fault in its objects")
    }
}

/// Copies the bundle to where nobody else can change it. A link in its place is not followed, and what is looked at is what
/// was opened: something else may have its name by then.
async fn copy_bounded(from: &Path, to: &Path) -> Result<(), Error> {
    let doing = |what: &str, path: &Path, error| Error::io(format_args!("{what} {}", path.display()), &error);
    let not_a_file = || Error::Refused("the bundle is not a regular file".into());
    // Nobody may be at the other end of a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        tokio::fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(from).await;
    let source = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP | Errno::NXIO) => not_a_file(),
        _ => doing("read", from, error),
    })?;
    let metadata = source.metadata().await.map_err(|error| doing("read", from, error))?;
    if !metadata.is_file() {
        return Err(not_a_file());
    }
    let too_large = || Error::Refused(format!("it is larger than {} MiB", BUNDLE_LIMIT >> 20));
    if metadata.len() > BUNDLE_LIMIT {
        return Err(too_large());
    }
    let mut target = tokio::fs::File::create(to).await.map_err(|error| doing("write", to, error))?;
    let copied = tokio::io::copy(&mut source.take(BUNDLE_LIMIT + 1), &mut target)
        .await
        .map_err(|error| doing("copy", from, error))?;
    if copied > BUNDLE_LIMIT {
        return Err(too_large());
    }
    // Dropping a tokio file does not wait for its last write.
    target.flush().await.map_err(|error| doing("write", to, error))
}

async fn only_branch(scratch: &Scratch, bundle: &Path, branch: &str) -> Result<(), Error> {
    let output = git_at(scratch, "bundle").arg("list-heads").arg(bundle).run().await?;
    refuse_unless(&output, "its bundle cannot be read")?;
    let expected = format!("refs/heads/{branch}");
    let mut found = false;
    for line in output.text().lines() {
        let reference = line.split_once(' ').map_or(line, |(_, reference)| reference);
        match reference {
            "HEAD" => {}
            _ if reference == expected && !found => found = true,
            _ => return Err(Error::Refused(format!("it brings {reference:?}; only {expected} is expected"))),
        }
    }
    if found { Ok(()) } else { Err(Error::Refused(format!("it does not have the branch {branch}"))) }
}

async fn unpack(scratch: &Scratch, bundle: &Path, branch: &str) -> Result<(), Error> {
    let git = git_at(scratch, "fetch")
        .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--"])
        .arg(bundle)
        .arg(format!("+refs/heads/{branch}:{INCOMING}"));
    let output = git.limit(LONG).run().await?;
    refuse_unless(&output, "its bundle cannot be unpacked")
}

/// The commit that came; a branch must point at one, not at a tag or a tree.
async fn incoming(scratch: &Scratch) -> Result<String, Error> {
    let object = succeed(git_at(scratch, "rev-parse").args(["--verify", INCOMING])).await?.text();
    let kind = succeed(git_at(scratch, "cat-file").args(["-t", &object])).await?.text();
    match kind.as_str() {
        "commit" => Ok(object),
        other => Err(Error::Refused(format!("the branch points at a {other}, not at a commit"))),
    }
}

/// A few small trees that hold each other many times over unfold to more paths than a machine has memory for. Listing
/// them is the one way through such a tree that gives its output as it goes and so can be cut short.
async fn has_an_end(scratch: &Scratch, commit: &str) -> Result<(), Error> {
    let git = git_at(scratch, "ls-tree").args(["-r", "-z", "--name-only", commit, "--"]);
    match git.bound(LISTING_LIMIT, Overflow::Fail).run().await {
        Err(Failure::TooMuch { .. } | Failure::TimedOut { .. }) => {
            Err(Error::Refused("it has more files than can be looked at".into()))
        }
        result => refuse_unless(&result?, "its files cannot be listed"),
    }
}

/// Looks at every path that differs from the base.
async fn examine(scratch: &Scratch, base: &str, commit: &str) -> Result<(), Error> {
    let git = git_at(scratch, "diff-tree").args([
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        base,
        commit,
        "--",
    ]);
    let listing = succeed(git.bound(8 * LISTING_LIMIT, Overflow::Fail)).await?.stdout;
    let mut links = Vec::new();
    let mut fields = listing.split(|&byte| byte == 0).filter(|field| !field.is_empty());
    while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
        let change = String::from_utf8_lossy(change);
        let path = String::from_utf8_lossy(path).into_owned();
        let parts: Vec<&str> = change.trim_start_matches(':').split(' ').collect();
        let [before, mode, _, object, status] = parts[..] else {
            return Err(Error::Io(format!("git diff-tree gave a line that is not understood: {change:?}")));
        };
        if status == "D" {
            continue;
        }
        if dot_git::leads_inside(&path) {
            return Err(Error::Refused(format!("{path:?} is inside a .git directory")));
        }
        match mode {
            // Whether one that was moved may go is decided when it is to be delivered.
            SUBMODULE if before == SUBMODULE => {}
            SUBMODULE => return Err(Error::Refused(submodule(&path, object))),
            "120000" => links.push((path, object.to_owned())),
            _ => {}
        }
    }
    examine_links(scratch, links).await
}

async fn examine_links(scratch: &Scratch, links: Vec<(String, String)>) -> Result<(), Error> {
    if links.is_empty() {
        return Ok(());
    }
    let asked: String = links.iter().map(|(_, object)| format!("{object}\n")).collect();
    let git = git_at(scratch, "cat-file").arg("--batch-check=%(objectsize)").stdin(asked.clone().into());
    let sizes = succeed(git).await?;
    let text = sizes.text();
    for ((path, _), size) in links.iter().zip(text.lines()) {
        if size.parse::<usize>().map_or(true, |size| size > LINK_LIMIT) {
            return Err(Error::Refused(format!("{path:?} is a link with a target that is too long")));
        }
    }
    let bound = links.len() * (LINK_LIMIT + 16);
    let git = git_at(scratch, "cat-file").arg("--batch=%(objectsize)").stdin(asked.into());
    let output = succeed(git.bound(bound, Overflow::Fail)).await?;
    let mut rest = output.stdout.as_slice();
    for (path, _) in &links {
        let (target, after) = next_object(rest)
            .ok_or_else(|| Error::Io(format!("git cat-file did not give the target of {path:?}")))?;
        rest = after;
        if !stays_inside(path, &String::from_utf8_lossy(target)) {
            return Err(Error::Refused(format!("{path:?} is a link that points outside the repository")));
        }
    }
    Ok(())
}

/// One object out of the answer to `--batch=%(objectsize)`: its size, a newline, its bytes, a newline.
pub(crate) fn next_object(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = answer.iter().position(|&byte| byte == b'\n')?;
    let size: usize = std::str::from_utf8(&answer[..end]).ok()?.parse().ok()?;
    let start = end + 1;
    Some((answer.get(start..start + size)?, answer.get(start + size + 1..)?))
}

/// Whether a link at `path` leads to somewhere in the repository and not into its `.git`. A `..` may only stand at the
/// beginning: after a name it would be taken from wherever that name, perhaps another link, leads.
fn stays_inside(path: &str, target: &str) -> bool {
    if target.is_empty() || target.starts_with('/') || target.contains('\0') {
        return false;
    }
    let depth = path.split('/').count() - 1;
    let parts: Vec<&str> = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    up <= depth && parts[up..].iter().all(|part| *part != ".." && !dot_git::leads_inside(part))
}

/// What is said of a submodule that is new. Its commits are in another repository, which is not the session's: whoever is given
/// the branch could not find them.
fn submodule(path: &str, commit: &str) -> String {
    let commit = commit.get(..12).unwrap_or(commit);
    format!(
        "{path:?} adds a submodule (a repository in the repository, at {commit}), which is not delivered: remove its \
         .git directory to deliver its files, or remove it"
    )
}

/// Git at work on what came.
fn git_at(scratch: &Scratch, command: &'static str) -> Git {
    scratch.git(command).confined()
}

/// The other side of a fetch, which reads what came too, is a git that knows the repository's own settings only.
async fn settle(scratch: &Scratch) -> Result<(), Error> {
    let file = scratch.repository().join("config");
    let write = async {
        let mut text = tokio::fs::read_to_string(&file).await?;
        for setting in [ONE_THREAD].into_iter().chain(LARGE) {
            if let Some(((section, key), value)) =
                setting.split_once('=').and_then(|(name, value)| Some((name.split_once('.')?, value)))
            {
                text.push_str(&format!("[{section}]\n\t{key} = {value}\n"));
            }
        }
        tokio::fs::write(&file, text).await
    };
    write.await.map_err(|error| Error::io(format_args!("write {}", file.display()), &error))
}

/// Runs git on what came. That it takes more memory than there is for it is the fault of what came.
async fn succeed(git: Git) -> Result<Output, Error> {
    git.succeed().await.map_err(|error| match error {
        Error::Io(said) if outgrown(&said) => too_much(),
        error => error,
    })
}

fn too_much() -> Error {
    Error::Refused(format!("git takes more than {} MiB of memory to look at it", confined::MEMORY >> 20))
}

fn refuse_unless(output: &Output, otherwise: &str) -> Result<(), Error> {
    if output.success() {
        return Ok(());
    }
    if outgrown(&output.stderr) {
        return Err(too_much());
    }
    Err(Error::Refused(format!("{otherwise}: {}", remote::reason(&output.stderr))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        for (path, target) in
            [("a", "b"), ("a", "./b/c"), ("d/a", "../b"), ("d/e/a", "../../b"), ("d/a", "..")]
        {
            assert!(stays_inside(path, target), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("d/a", "../../b"),
            ("d/a", "x/../../../b"),
            ("a", "d/up/.."),
            ("a", ".git/config"),
            ("d/a", "../.GIT/hooks"),
            ("a", ""),
        ] {
            assert!(!stays_inside(path, target), "{path} -> {target}");
        }
    }
}
