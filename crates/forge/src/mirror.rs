//! Mirrors: one bare copy of each repository, in a directory of their own. A mirror's remote branches are under
//! `refs/remotes/origin/`, its HEAD names the remote's default branch, and the work of sessions is under `refs/slipway/`.

use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::forges::Forges;
use crate::git::{Git, LONG};
use crate::name;
use crate::objects::Root;
use crate::remote::{self, Listing};
use crate::scratch::{self, Scratch};
use crate::url::{Url, public_url};
use crate::{Error, Refusal};

/// The file in a mirror that says, for people, what it is a mirror of.
pub(crate) const URL_FILE: &str = "slipway-url";
/// The file in a mirror that says what the remote had when all of it was fetched last. It is gone while something is fetched.
const SEEN_FILE: &str = "slipway-seen";
/// Where the remote's branches are.
const BRANCHES: &str = "refs/remotes/origin/";
/// As many branches are named in an error.
const KNOWN_BRANCHES: usize = 20;
/// A temporary directory of this age was left behind by a server that was killed.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The mirrors of all repositories, in one directory. Cheap to clone; clones share their locks.
#[derive(Debug, Clone)]
pub struct Mirrors {
    dir: PathBuf,
    locks: Arc<Mutex<HashMap<String, Arc<Locks>>>>,
    forges: Forges,
    /// Where repositories are now, by the keys of the addresses that they had.
    moved: Arc<Mutex<HashMap<String, String>>>,
}

/// What keeps the work of one process on one mirror in order.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// Fetches are made one at a time.
    pub(crate) fetching: tokio::sync::Mutex<()>,
    /// Changes of refs are made beside each other, and what must be alone waits for them.
    pub(crate) changing: tokio::sync::RwLock<()>,
    /// The root directory that was read last. A commit never changes, and the same one is asked for a dozen names in a row.
    pub(crate) root: Mutex<Option<Arc<Root>>>,
}

impl Mirrors {
    /// Mirrors in this directory, which is made when the first is needed.
    pub fn new(dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self { dir, locks: Arc::default(), forges: Forges::default(), moved: Arc::default() }
    }

    /// Where the logins of git come from for addresses that bring none. They are asked for whenever git goes to the remote,
    /// reach it by its environment, and are neither kept nor seen by a sandbox.
    #[must_use]
    pub fn with_logins(self, forges: Forges) -> Self {
        Self { forges, ..self }
    }

    /// The same mirrors for somebody who knows of repositories that moved, which the others need not know.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { moved: Arc::default(), ..self.clone() }
    }

    /// From now on the mirror of a repository goes to another address, and stays where it is, with everything that was kept in
    /// it. An address that cannot be read changes nothing: git says of the old one what is wrong with it.
    pub fn follow(&self, url: &str, now: &str) {
        let (Ok(url), Ok(_)) = (Url::parse(url), Url::parse(now)) else { return };
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.insert(url.key, now.to_owned());
    }

    /// Whether the repository at an address is at another one now, as far as that can be known: the forge says so; or there is
    /// none any more at the old address, and the one at the new one has the commit that work began from.
    pub async fn is_now(&self, url: &str, now: &str, base: &str) -> bool {
        if let Some(told) = self.forges.moved(url).await {
            return self.forges.is_called(url, now, &told);
        }
        let Ok(parsed) = Url::parse(url) else { return false };
        let before = self.mirror(parsed);
        let there = match before.signed().await {
            Ok(url) => remote::list(&url, "*").await,
            Err(error) => Err(error),
        };
        if !there.is_err_and(|error| error.says_not_there()) {
            return false;
        }
        match self.fetch(now).await {
            Ok(mirror) => mirror.is_at_remote(base).await.unwrap_or(false),
            Err(error) => {
                tracing::debug!(url = public_url(now), %error, "a new address of a repository cannot be read");
                false
            }
        }
    }

    /// The mirror of this repository, fetched anew.
    pub async fn fetch(&self, url: &str) -> Result<Mirror, Error> {
        let url = Url::parse(url).map_err(|detail| Error::Unavailable { url: public_url(url), detail })?;
        self.fetch_url(url).await
    }

    /// Whether a forge of the configuration serves this address.
    pub(crate) fn serves(&self, url: &str) -> bool {
        self.forges.of(url).is_some()
    }

    pub(crate) async fn fetch_url(&self, url: Url) -> Result<Mirror, Error> {
        let mirror = self.mirror(url);
        let _one_at_a_time = mirror.locks.fetching.lock().await;
        let url = mirror.signed().await?;
        let listing = remote::list(&url, "*").await?;
        if mirror.is_there() {
            if mirror.has_seen(&listing) {
                return Ok(Mirror { listing: Some(Arc::new(listing)), ..mirror.clone() });
            }
            mirror.update(&mirror.path, &listing).await?;
        } else if listing.any().is_none() {
            // There is nothing to mirror yet.
            return Err(Error::Empty { url: mirror.url.public.clone() });
        } else {
            self.create(&mirror, &listing).await?;
        }
        Ok(mirror.clone())
    }

    /// The mirror as it is, without going to the remote; None when it was never fetched.
    pub fn existing(&self, url: &str) -> Option<Mirror> {
        Some(self.mirror(Url::parse(url).ok()?)).filter(Mirror::is_there)
    }

    fn mirror(&self, url: Url) -> Mirror {
        let now = self.moved.lock().unwrap_or_else(PoisonError::into_inner).get(&url.key).cloned();
        let now = now.and_then(|now| Url::parse(&now).ok());
        Mirror {
            path: self.path_of(&url.key),
            locks: self.locks_of(&url.key),
            url: Arc::new(now.unwrap_or(url).known_to(&self.forges)),
            forges: self.forges.clone(),
            listing: None,
            place: Arc::from(""),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn path_of(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.git"))
    }

    pub(crate) fn locks_of(&self, key: &str) -> Arc<Locks> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(key.to_owned()).or_default().clone()
    }

    pub(crate) fn make_dir(&self) -> Result<(), Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|error| Error::io(format_args!("make the directory {}", self.dir.display()), &error))
    }

    /// Fetches into a temporary directory and moves it into place, so that a mirror is whole or not there.
    async fn create(&self, mirror: &Mirror, listing: &Listing) -> Result<(), Error> {
        self.make_dir()?;
        self.sweep();
        let temporary = scratch::temporary(&self.dir)?;
        let path = temporary.path().join("mirror.git");
        scratch::init(&path, listing.any().unwrap_or_default()).await?;
        mirror.update(&path, listing).await?;
        let place = async {
            tokio::fs::write(path.join(URL_FILE), format!("{}\n", mirror.url.public)).await?;
            tokio::fs::rename(&path, &mirror.path).await
        };
        match place.await {
            // Another process was quicker; its mirror is as good as this one.
            Err(_) if mirror.is_there() => Ok(()),
            result => {
                result.map_err(|error| Error::io(format_args!("make {}", mirror.path.display()), &error))
            }
        }
    }

    /// Removes temporary directories that a killed server left behind. Commands use mirrors beside the server, so only those
    /// that are too old to be theirs.
    pub fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let ours = entry.file_name().to_string_lossy().starts_with(scratch::PREFIX);
            let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if ours
                && age.is_some_and(|age| age > ABANDONED)
                && let Err(error) = std::fs::remove_dir_all(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "cannot remove an abandoned directory");
            }
        }
    }
}

/// A branch's tip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// The branch.
    pub branch: String,
    /// The commit it points at.
    pub commit: String,
}

/// The bare copy of one repository. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mirror {
    pub(crate) path: PathBuf,
    pub(crate) url: Arc<Url>,
    pub(crate) locks: Arc<Locks>,
    forges: Forges,
    /// What the remote has, and the mirror too, for whoever has just asked.
    listing: Option<Arc<Listing>>,
    /// Where the repository lies among others, for the names in patches; empty where it is alone.
    place: Arc<str>,
}

impl Mirror {
    /// The repository's URL without credentials.
    pub fn url(&self) -> &str {
        &self.url.public
    }

    /// The same mirror for somebody who has the repository in this directory: patches name its files there.
    #[must_use]
    pub fn placed(self, place: &str) -> Self {
        Self { place: Arc::from(place), ..self }
    }

    /// Options that make a patch name files where they are.
    pub(crate) fn prefixes(&self) -> [String; 2] {
        let below = placed(&self.place, "");
        [format!("--src-prefix=a/{below}"), format!("--dst-prefix=b/{below}")]
    }

    /// A patch with every name where it is.
    pub(crate) fn with_places(&self, patch: String) -> String {
        place_names(&self.place, patch)
    }

    /// The tip of the branch, or of the remote's default branch, as of the last fetch.
    pub async fn tip(&self, branch: Option<&str>) -> Result<Tip, Error> {
        if let Some(listing) = &self.listing
            && let Some(branch) = branch.or(listing.default.as_deref())
            && name::is_branch(branch)
            && let Some(commit) = listing.tip(branch)
        {
            return Ok(Tip { branch: branch.to_owned(), commit: commit.to_owned() });
        }
        let branch = match branch {
            Some(branch) => branch.to_owned(),
            None => self.default_branch().await?.unwrap_or_else(|| "HEAD".into()),
        };
        if name::is_branch(&branch)
            && let Some(commit) = self.resolve(&format!("{BRANCHES}{branch}")).await?
        {
            return Ok(Tip { branch, commit });
        }
        let known = self.branches(KNOWN_BRANCHES).await?;
        let url = self.url.public.clone();
        if known.is_empty() { Err(Error::Empty { url }) } else { Err(Error::NoBranch { url, branch, known }) }
    }

    /// The remote's default branch as of the last fetch. Where the remote's HEAD names none, because it is detached or
    /// names a branch that is not there, this is the only branch, or `main`, or `master`.
    pub async fn default_branch(&self) -> Result<Option<String>, Error> {
        let head = self.git("symbolic-ref").args(["--quiet", "HEAD"]).succeed().await?.text();
        if let Some(branch) = head.strip_prefix(BRANCHES) {
            return Ok(Some(branch.to_owned()));
        }
        for branch in ["main", "master"] {
            if self.resolve(&format!("{BRANCHES}{branch}")).await?.is_some() {
                return Ok(Some(branch.to_owned()));
            }
        }
        let mut known = self.branches(2).await?;
        Ok(if known.len() == 1 { known.pop() } else { None })
    }

    /// Writes a bundle with this commit as the branch and as HEAD, for a clone inside the sandbox.
    pub async fn bundle(&self, branch: &str, commit: &str, to: &Path) -> Result<(), Error> {
        let commit = name::commit(commit)?;
        if !name::is_branch(branch) {
            return Err(Error::Io(format!("{branch:?} cannot be the name of a branch")));
        }
        let to = std::path::absolute(to).map_err(|error| Error::io("find the current directory", &error))?;
        let scratch = Scratch::beside(&self.path, commit).await?;
        let full = format!("refs/heads/{branch}");
        scratch.begin_at(&full, commit)?;
        let bundle = scratch.git("bundle").args(["create", "--quiet"]).arg(to).args(["HEAD", &full]);
        let Err(error) = bundle.limit(LONG).succeed().await else { return Ok(()) };
        // Git's words for a commit that is not there are about something else.
        self.must_have(commit).await?;
        Err(error)
    }

    /// The commit kept under `refs/slipway/<name>`.
    pub async fn kept(&self, name: &str) -> Result<Option<String>, Error> {
        self.resolve(&name::kept(name)?).await
    }

    /// What the remote has for this branch now.
    pub async fn remote_tip(&self, branch: &str) -> Result<Option<String>, Error> {
        if !name::is_branch(branch) {
            return Ok(None);
        }
        let url = self.signed().await?;
        Ok(remote::list(&url, branch).await?.tip(branch).map(Into::into))
    }

    /// The address with a login that is good now.
    pub(crate) async fn signed(&self) -> Result<Arc<Url>, Error> {
        if !self.url.takes_login() {
            return Ok(Arc::clone(&self.url));
        }
        match self.forges.login(&self.url.public).await {
            Ok(Some(login)) => Ok(Arc::new(self.url.with_login(&login))),
            Ok(None) => Ok(Arc::clone(&self.url)),
            Err(refusal) => {
                let url = self.url.public.clone();
                let detail = match refusal {
                    Refusal::Final { message } => message,
                    Refusal::Later { message, .. } => format!("{message}; {}", crate::error::LATER),
                };
                Err(Error::Unavailable { url, detail })
            }
        }
    }

    fn is_there(&self) -> bool {
        self.path.join(URL_FILE).is_file()
    }

    /// Git at work in this mirror.
    pub(crate) fn git(&self, command: &'static str) -> Git {
        Git::local(command, &self.path)
    }

    /// The commit that a ref of the mirror points at.
    pub(crate) async fn resolve(&self, reference: &str) -> Result<Option<String>, Error> {
        let git = self.git("rev-parse").args(["--verify", "--quiet", "--end-of-options"]);
        let output = git.arg(format!("{reference}^{{commit}}")).run().await?;
        Ok(output.success().then(|| output.text()))
    }

    /// Whether the commit is in a branch that the remote had when it was fetched last.
    pub async fn is_at_remote(&self, commit: &str) -> Result<bool, Error> {
        let commit = name::commit(commit)?;
        if self.resolve(commit).await?.is_none() {
            return Ok(false);
        }
        let git = self.git("for-each-ref").args(["--count=1", "--format=x", "--contains", commit, BRANCHES]);
        Ok(!git.succeed().await?.stdout.is_empty())
    }

    pub(crate) async fn must_have(&self, commit: &str) -> Result<(), Error> {
        match self.resolve(commit).await? {
            Some(_) => Ok(()),
            None => Err(Error::Io(format!("the mirror of {} has no commit {commit}", self.url.public))),
        }
    }

    /// Whether the second commit has the first in its history.
    pub(crate) async fn is_ancestor(&self, ancestor: &str, commit: &str) -> Result<bool, Error> {
        is_ancestor(self.git("merge-base"), ancestor, commit).await
    }

    /// Fetches one branch, for a look at what someone else pushed.
    pub(crate) async fn fetch_branch(&self, branch: &str) -> Result<(), Error> {
        self.fetch_ref(&format!("+refs/heads/{branch}:{BRANCHES}{branch}")).await
    }

    pub(crate) async fn fetch_ref(&self, refspec: &str) -> Result<(), Error> {
        let _one_at_a_time = self.locks.fetching.lock().await;
        self.fetch_into(&self.path, refspec).await
    }

    /// Whether the last fetch was of just this, so that another would bring nothing.
    fn has_seen(&self, listing: &Listing) -> bool {
        std::fs::read_to_string(self.path.join(SEEN_FILE)).is_ok_and(|seen| seen == listing.to_string())
    }

    async fn update(&self, path: &Path, listing: &Listing) -> Result<(), Error> {
        self.fetch_into(path, &format!("+refs/heads/*:{BRANCHES}*")).await?;
        let head = match &listing.default {
            Some(branch) if name::is_branch(branch) => format!("{BRANCHES}{branch}"),
            _ => "refs/heads/none".into(),
        };
        let point = || Git::local("symbolic-ref", path).args(["HEAD", &head]);
        if path == self.path { self.must_change(point).await } else { point().succeed().await }?;
        // Where the remote moved meanwhile, what it said before is not what it has when it is asked next.
        let seen = path.join(SEEN_FILE);
        tokio::fs::write(&seen, listing.to_string())
            .await
            .map_err(|error| Error::io(format_args!("write {}", seen.display()), &error))
    }

    async fn fetch_into(&self, path: &Path, refspec: &str) -> Result<(), Error> {
        let url = self.signed().await?;
        forget(&path.join(SEEN_FILE))?;
        let fetch = || {
            let git = Git::remote("fetch").inside(path).args([
                "--quiet",
                "--prune",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--no-recurse-submodules",
            ]);
            url.operand_of(remote::reading(git, &url)).arg(refspec)
        };
        let fetched = if path == self.path { self.change(fetch).await } else { fetch().run().await };
        let output = fetched.map_err(|failure| remote::stopped(&url, failure))?;
        if output.success() { Ok(()) } else { Err(remote::unavailable(&url, &output).await) }
    }

    async fn branches(&self, most: usize) -> Result<Vec<String>, Error> {
        let git = self.git("for-each-ref").arg(format!("--count={most}"));
        let output = git.args(["--format=%(refname)", BRANCHES]).succeed().await?;
        Ok(output.text().lines().filter_map(|line| line.strip_prefix(BRANCHES)).map(Into::into).collect())
    }
}

/// Removes a file that need not be there.
fn forget(file: &Path) -> Result<(), Error> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format_args!("remove {}", file.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Answers by way of `merge-base`, in whichever repository that runs.
pub(crate) async fn is_ancestor(merge_base: Git, ancestor: &str, commit: &str) -> Result<bool, Error> {
    let output = merge_base.args(["--is-ancestor", ancestor, commit]).run().await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(Error::Io(format!("git merge-base failed: {}", remote::reason(&output.stderr)))),
    }
}

/// A name of a repository where it is seen that the repository lies in a directory.
pub fn placed(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}/{name}") }
}

/// Puts the directory before the names of a patch that git gives no prefix to: those of what was moved and copied.
pub fn place_names(place: &str, patch: String) -> String {
    const HEADS: [&str; 4] = ["rename from ", "rename to ", "copy from ", "copy to "];
    if place.is_empty() || !HEADS.iter().any(|head| patch.contains(head)) {
        return patch;
    }
    let mut text = String::with_capacity(patch.len() + 64);
    for line in patch.split_inclusive('\n') {
        // Whatever a file has in it begins with another letter.
        match HEADS.iter().find_map(|head| Some((head, line.strip_prefix(head)?))) {
            Some((head, name)) => {
                let (quote, name) = name.strip_prefix('"').map_or(("", name), |name| ("\"", name));
                text.push_str(&format!("{head}{quote}{place}/{name}"));
            }
            None => text.push_str(line),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_is_named_where_it_is() {
        let patch = "diff --git a/api/x b/api/y\nrename from x\nrename to \"y\\t\"\n@@ -1 +1 @@\n-rename from x\n+b\n";
        let placed = "diff --git a/api/x b/api/y\nrename from api/x\nrename to \"api/y\\t\"\n@@ -1 +1 @@\n-rename from x\n+b\n";
        assert_eq!(place_names("api", patch.to_owned()), placed);
        assert_eq!(place_names("", patch.to_owned()), patch);
        assert_eq!((placed_name("", "a"), placed_name("api", "a")), ("a".to_owned(), "api/a".to_owned()));
    }

    fn placed_name(place: &str, name: &str) -> String {
        super::placed(place, name)
    }
}
