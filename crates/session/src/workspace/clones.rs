//! Git in all clones of a workspace. Commits, trees and branches go in and come out under joint names, so that whoever works with
//! them does not mind how many repositories there are.

use protocol::{Diff, DiffSummary};
use sandbox::{Sandbox, WORKSPACE};

use super::git::{Commit, Committed, Git, SUMMED};
use super::ground::{Ground, Index};
use super::tree::{Reading, Tree};
use super::{Patience, Saved};
use crate::failure::Failure;
use crate::joint::{self, join, of};
use crate::people::Author;
use crate::process::Command;

/// How long making directories may take.
const MAKE: std::time::Duration = std::time::Duration::from_secs(20);

/// The clones of a workspace.
#[derive(Clone, Copy)]
pub(crate) struct Clones<'a> {
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) author: &'a Author,
    pub(crate) patience: Patience<'a>,
    /// Where they lie.
    pub(crate) places: &'a [String],
}

impl<'a> Clones<'a> {
    /// Each of them, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = Git<'a>> + use<'a> {
        let Self { sandbox, author, patience, places } = *self;
        places.iter().map(move |place| Git { sandbox, author, patience, place })
    }

    /// Makes the directories that they lie in.
    pub(super) async fn make_places(&self) -> Result<(), Failure> {
        let places: Vec<&str> = self.places.iter().map(String::as_str).filter(|at| !at.is_empty()).collect();
        if places.is_empty() {
            return Ok(());
        }
        let make = Command {
            script: r#"mkdir -p -- "$@""#,
            args: &places,
            env: Default::default(),
            cwd: WORKSPACE,
            timeout: MAKE,
            limit: 0,
        };
        make.run(self.sandbox, None).await.map(drop)
    }

    /// Puts the workspace on a branch, as it is.
    pub(crate) async fn branch(&self, name: &str) -> Result<(), Failure> {
        for git in self.each() {
            git.branch(name).await?;
        }
        Ok(())
    }

    /// Lets what the agent commits be by the same person as what is committed for it.
    pub(crate) async fn sign(&self) -> Result<(), Failure> {
        for git in self.each() {
            git.sign().await?;
        }
        Ok(())
    }

    /// What is in the clones that git neither tracks nor ignores, as patterns that begin at the workspace.
    pub(crate) async fn products(&self) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for git in self.each() {
            let root = root(git.place);
            all.extend(git.products().await?.into_iter().map(|pattern| format!("{root}{pattern}")));
        }
        Ok(all)
    }

    /// The trees of the last commits, if the workspace is that and nobody was at work in it.
    pub(crate) async fn untouched(&self) -> Result<Option<String>, Failure> {
        let mut trees = Vec::new();
        for git in self.each() {
            let Some(tree) = git.untouched().await? else { return Ok(None) };
            trees.push(tree);
        }
        Ok(Some(join(trees)))
    }

    /// The whole working trees, without what git ignores, what the set-up left there, and what is too large.
    /// Gives the sum of the index that each kept, where it was settled.
    pub(crate) async fn trees(
        &self,
        saved: &Saved,
        reading: Reading,
    ) -> Result<(Tree, Vec<Option<String>>), Failure> {
        let products = saved.products.as_deref();
        let (mut ids, mut sums, mut whole) = (Vec::new(), Vec::new(), Tree::default());
        let unknown = Ground::default();
        for (number, git) in self.each().enumerate() {
            let ground = saved.grounds.get(number).unwrap_or(&unknown);
            let root = root(git.place);
            let own = |pattern: &String| pattern.strip_prefix(&root).map(str::to_owned);
            let products: Option<Vec<String>> =
                products.map(|all| all.iter().filter_map(own).filter(|at| at.starts_with('/')).collect());
            let tree = git.tree(products.as_deref(), ground, reading).await?;
            whole.left_out.extend(tree.left_out.iter().map(|name| match name.strip_prefix("//") {
                Some(module) => format!("//{}", forge::placed(git.place, module)),
                None => forge::placed(git.place, name),
            }));
            whole.unlike.extend(tree.unlike.placed(git.place));
            ids.push(tree.id);
            sums.push(tree.index);
        }
        Ok((Tree { id: join(ids), ..whole }, sums))
    }

    /// The whole working trees, as `trees` has them.
    pub(crate) async fn tree(&self, saved: &Saved, reading: Reading) -> Result<Tree, Failure> {
        self.trees(saved, reading).await.map(|(tree, _)| tree)
    }

    /// What git does with the files by the will of people.
    pub(crate) async fn grounds(&self, index: Index) -> Result<Vec<Ground>, Failure> {
        let mut grounds = Vec::new();
        for git in self.each() {
            grounds.push(git.ground(index).await?);
        }
        Ok(grounds)
    }

    /// Commits the trees.
    pub(crate) async fn commit(&self, commit: &Commit<'_>) -> Result<Committed, Failure> {
        let (mut commits, mut parents) = (Vec::new(), Vec::new());
        for (number, git) in self.each().enumerate() {
            let own = Commit { tree: of(commit.tree, number), tip: of(commit.tip, number), ..*commit };
            let committed = git.commit(&own).await?;
            commits.push(committed.commit);
            parents.push(committed.parent);
        }
        Ok(Committed { commit: join(commits), parent: join(parents) })
    }

    /// Whether commits have others in their history.
    pub(crate) async fn has_in(&self, commit: &str, history: &str) -> Result<bool, Failure> {
        for (number, git) in self.each().enumerate() {
            if !git.has_in(of(commit, number), of(history, number)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Files, lines added and lines removed between two commits or trees.
    pub(crate) async fn counts(&self, from: &str, to: &str) -> Result<(u32, u32, u32), Failure> {
        let mut sum = (0u32, 0u32, 0u32);
        for (number, git) in self.each().enumerate() {
            let (files, insertions, deletions) = git.counts(of(from, number), of(to, number)).await?;
            sum.0 = sum.0.saturating_add(files);
            sum.1 = sum.1.saturating_add(insertions);
            sum.2 = sum.2.saturating_add(deletions);
        }
        Ok(sum)
    }

    /// What changed between two commits or trees, file by file.
    pub(crate) async fn summary(&self, from: &str, to: &str) -> Result<DiffSummary, Failure> {
        let mut whole = DiffSummary::default();
        for (number, git) in self.each().enumerate() {
            let DiffSummary { files, count, insertions, deletions } =
                git.summary(of(from, number), of(to, number)).await?;
            whole.files.extend(files);
            whole.count = whole.count.saturating_add(count);
            whole.insertions = whole.insertions.saturating_add(insertions);
            whole.deletions = whole.deletions.saturating_add(deletions);
        }
        whole.files.truncate(SUMMED);
        Ok(whole)
    }

    /// The patch between two commits or trees, up to a bound for each repository.
    pub(crate) async fn patch(&self, from: &str, to: &str) -> Result<String, Failure> {
        let mut patch = String::new();
        for (number, git) in self.each().enumerate() {
            patch.push_str(&git.patch(of(from, number), of(to, number)).await?);
        }
        Ok(patch)
    }

    /// The diff between two commits or trees.
    pub(crate) async fn diff(&self, from: &str, to: &str) -> Result<Diff, Failure> {
        let mut diffs = Vec::new();
        for (number, git) in self.each().enumerate() {
            diffs.push(git.diff(of(from, number), of(to, number)).await?);
        }
        Ok(Diff { base: from.to_owned(), ..joint::together(diffs) })
    }
}

/// What patterns of a clone begin with, seen from the workspace.
fn root(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("/{place}") }
}
