//! The forge against real repositories: what it reads, what it takes from a sandbox, and what it pushes.
#![allow(
    clippy::unwrap_used,
    reason = "clippy's exception for tests does not reach the helpers of an integration test"
)]

mod conformance;
mod github;
mod hostile;
mod image;
mod left;
mod logins;
mod mirror;
mod push;
mod signing;
mod take;
mod whole;

use std::path::{Path, PathBuf};

use forge::{Mirror, Mirrors};
use tempfile::TempDir;
use testkit::repo::{Repo, git_in};

/// A remote, its mirror, and a place that stands for the sandbox.
struct World {
    remote: Repo,
    mirror: Mirror,
    base: String,
    directory: TempDir,
}

impl World {
    async fn new() -> Self {
        let remote = Repo::plain();
        let directory = TempDir::new().unwrap();
        let mirror = Mirrors::new(&directory.path().join("mirrors")).fetch(&remote.url()).await.unwrap();
        let base = mirror.tip(None).await.unwrap().commit;
        Self { remote, mirror, base, directory }
    }

    /// A clone as the sandbox has it, out of a bundle, on the branch `work`.
    async fn clone_in_sandbox(&self) -> PathBuf {
        let bundle = self.directory.path().join("to-sandbox.bundle");
        self.mirror.bundle("work", &self.base, &bundle).await.unwrap();
        git_in(self.directory.path(), &["clone", "--quiet", "-b", "work", "to-sandbox.bundle", "clone"]);
        self.directory.path().join("clone")
    }

    /// What the sandbox hands back for these rev-list arguments.
    fn bundle_from(&self, clone: &Path, what: &[&str]) -> PathBuf {
        let bundle = self.directory.path().join("from-sandbox.bundle");
        let mut args = vec!["bundle", "create", "--quiet", bundle.to_str().unwrap()];
        args.extend(what);
        git_in(clone, &args);
        bundle
    }

    /// Takes everything that the clone's branch has above the base.
    async fn take(&self, clone: &Path) -> Result<String, forge::Error> {
        let bundle = self.bundle_from(clone, &[&format!("{}..work", self.base)]);
        self.mirror.take(&bundle, "work", &self.base, ("ses_1", None), None).await.map(|taken| taken.commit)
    }

    /// One good commit, taken into the mirror.
    async fn mended(&self) -> String {
        let clone = self.clone_in_sandbox().await;
        std::fs::write(clone.join("answer.txt"), "42\n").unwrap();
        git_in(&clone, &["commit", "--quiet", "-am", "Mend the answer"]);
        self.take(&clone).await.unwrap()
    }

    fn mirror_dir(&self) -> PathBuf {
        let entries = std::fs::read_dir(self.directory.path().join("mirrors")).unwrap();
        let dirs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        assert_eq!(dirs.len(), 1, "only the mirror may be left: {dirs:?}");
        dirs.into_iter().next().unwrap()
    }
}
