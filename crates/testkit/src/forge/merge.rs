//! The real repositories: what a branch is, and merging with git.

use std::path::Path;
use std::process::{Command, Stdio};

/// The commit at the tip of a branch.
pub(super) fn tip(repository: &Path, branch: &str) -> Option<String> {
    said(repository, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}^0")])
}

/// Whether the second commit has the first in its history.
pub(super) fn is_ancestor(repository: &Path, old: &str, new: &str) -> bool {
    said(repository, &["merge-base", "--is-ancestor", old, new]).is_some()
}

/// Whether a repository has this commit.
pub(super) fn has(repository: &Path, commit: &str) -> bool {
    said(repository, &["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_some()
}

/// Merges a commit into a branch, and gives the commit that the branch has then.
pub(super) fn merge(repository: &Path, base: &str, commit: &str, message: &str) -> Result<String, String> {
    let old = tip(repository, base).ok_or_else(|| format!("there is no branch {base}"))?;
    let tree = said(repository, &["merge-tree", "--write-tree", &old, commit])
        .ok_or_else(|| format!("{commit} does not merge into {base}"))?;
    let new = said(repository, &["commit-tree", &tree, "-p", &old, "-p", commit, "-m", message])
        .ok_or("the merge cannot be committed")?;
    let branch = format!("refs/heads/{base}");
    said(repository, &["update-ref", &branch, &new, &old]).ok_or("the branch has moved")?;
    Ok(new)
}

/// Puts all that a commit changed into a branch as one commit of its own, and removes the branch that it came from.
pub(super) fn squash(
    repository: &Path,
    (base, branch): (&str, &str),
    commit: &str,
    message: &str,
) -> Result<String, String> {
    let old = tip(repository, base).ok_or_else(|| format!("there is no branch {base}"))?;
    let tree = said(repository, &["merge-tree", "--write-tree", &old, commit])
        .ok_or_else(|| format!("{commit} does not merge into {base}"))?;
    let new = said(repository, &["commit-tree", &tree, "-p", &old, "-m", message])
        .ok_or("it cannot be committed")?;
    said(repository, &["update-ref", &format!("refs/heads/{base}"), &new, &old])
        .ok_or("the branch has moved")?;
    said(repository, &["update-ref", "-d", &format!("refs/heads/{branch}")]).ok_or("the branch stays")?;
    Ok(new)
}

fn said(repository: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repository).args(args).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in [("NAME", "forge"), ("EMAIL", "forge@example.com")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
