//! `slipway pull`: a session's branch in a checkout on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use protocol::SessionId;
use serde_json::json;

use super::Context;
use crate::api::Api;
use crate::exit::{Exit, Usage};
use crate::interrupt::Interrupts;
use crate::render::{print, style, text};

/// Bring a session's branch into a checkout of its repository, delivered or not. The branch must not be checked out there with
/// other commits; nothing that is yours is overwritten.
#[derive(Debug, clap::Args)]
pub(crate) struct Pull {
    /// The session
    #[arg(value_parser = super::session_id)]
    session: SessionId,
    /// Which of several repositories is meant, by the directory that it lies in; else the one that the checkout is of
    #[arg(long, value_name = "NAME")]
    repo: Option<String>,
    /// The checkout
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
    /// Go to the branch as well
    #[arg(long)]
    checkout: bool,
}

impl Pull {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let inside = git(&self.into, &["rev-parse", "--is-inside-work-tree"])?;
        if inside.code != Some(0) {
            return Err(Usage(anyhow!(
                "{} is in no checkout of a git repository\n  run it in a checkout of the session's repository, or name one with --into",
                self.into.display()
            ))
            .into());
        }
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let bundle = directory.path().join("session.bundle");
        let mut interrupts = Interrupts::catch()?;
        let link = context.look_for_long().await?;
        let fetched = async {
            let repo = match &self.repo {
                Some(name) => Some(name.clone()),
                None => self.fitting(&link.api).await?,
            };
            link.api.bundle(self.session, repo.as_deref(), &bundle).await
        };
        let fetched = fetched.await;
        link.close(&mut interrupts).await?;
        fetched?;
        let (branch, commit) = self.take(&bundle)?;
        if context.json {
            print::json(&json!({"branch": branch, "commit": commit}))?;
        } else {
            print::line(&branch)?;
            let short = commit.get(..12).unwrap_or(&commit);
            match self.checkout {
                true => style::note(&format!("checked out at {short}")),
                false => style::note(&format!("at {short}; go there with: git switch {branch}")),
            }
        }
        Ok(Exit::Done)
    }

    /// The one of a session's several repositories that this is a checkout of; None where the session has one.
    async fn fitting(&self, api: &Api) -> anyhow::Result<Option<String>> {
        let deliveries = api.session(self.session).await?.deliveries;
        if deliveries.is_empty() {
            return Ok(None);
        }
        let remotes = git(&self.into, &["config", "--get-regexp", r"^remote\..*\.url$"])?;
        let urls: Vec<String> = remotes
            .stdout
            .lines()
            .filter_map(|line| line.split_once(' ').map(|(_, url)| bare(&forge::public_url(url))))
            .collect();
        let names = || deliveries.iter().filter_map(|one| one.repository.clone());
        let fits = deliveries.iter().find(|one| urls.contains(&bare(&one.remote)));
        match fits.and_then(|one| one.repository.clone()) {
            Some(name) => Ok(Some(name)),
            None => Err(Usage(anyhow!(
                "the session has several repositories, and none of them is a remote of this checkout\n  name one with --repo: {}",
                names().collect::<Vec<_>>().join(", ")
            ))
            .into()),
        }
    }

    /// Takes the branch out of the bundle.
    fn take(&self, bundle: &Path) -> anyhow::Result<(String, String)> {
        let file = bundle.to_string_lossy();
        let heads = git(&self.into, &["bundle", "list-heads", &file])?;
        let head = heads.stdout.lines().find_map(|line| {
            let (commit, name) = line.split_once(' ')?;
            Some((commit.to_owned(), name.strip_prefix("refs/heads/")?.to_owned()))
        });
        let (commit, branch) = head.context("the server gave no bundle with a branch")?;
        if !branch.starts_with("slipway/") {
            bail!(
                "the server gave a bundle with another branch than a session's: {}",
                text::harmless(&branch)
            );
        }
        if git(&self.into, &["bundle", "verify", "--quiet", &file])?.code != Some(0) {
            let shallow = git(&self.into, &["rev-parse", "--is-shallow-repository"])?.stdout.trim() == "true";
            let fetch = if shallow { "git fetch --unshallow" } else { "git fetch" };
            bail!(
                "this checkout does not have the commit that the session began from\n  run it in a checkout of the session's \
                 repository, after: {fetch}"
            );
        }
        let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
        let current = git(&self.into, &["symbolic-ref", "--quiet", "--short", "HEAD"])?;
        let taken = if current.stdout.trim() == branch {
            // What is checked out only goes forward, with the files.
            let fetched =
                git(&self.into, &["fetch", "--quiet", "--no-tags", &file, &format!("refs/heads/{branch}")])?;
            match fetched.code {
                Some(0) => git(&self.into, &["merge", "--quiet", "--ff-only", "FETCH_HEAD"])?,
                _ => fetched,
            }
        } else {
            git(&self.into, &["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", &file, &refspec])?
        };
        if taken.code != Some(0) {
            bail!(in_the_way(&branch, &taken.stderr));
        }
        if self.checkout && current.stdout.trim() != branch {
            let switched = git(&self.into, &["switch", "--quiet", &branch])?;
            if switched.code != Some(0) {
                bail!(
                    "{branch} is there, but cannot be checked out: {}",
                    text::harmless(switched.stderr.trim())
                );
            }
        }
        Ok((branch, commit))
    }
}

/// Why a branch could not be taken, and what to do.
fn in_the_way(branch: &str, said: &str) -> String {
    let (said, what) = (said.trim(), text::harmless(said.trim()));
    let is = |words: &str| said.contains(words);
    if is("local changes")
        || is("untracked working tree files")
        || is("not possible because you have unmerged files")
    {
        return format!(
            "this checkout has changes that are not committed, which are not overwritten: {what}\n  commit them, or put them \
             aside (git stash), and pull again"
        );
    }
    if is("checked out at") || is("used by worktree") {
        return format!("{branch} is checked out in another worktree: {what}\n  pull there, with --into");
    }
    format!(
        "the branch {branch} of this checkout has other commits, which are not overwritten: {what}\n  rename it \
         (git branch -m {branch} NAME) and pull again"
    )
}

/// An address without what does not matter to which repository it is.
fn bare(url: &str) -> String {
    url.trim_end_matches('/').trim_end_matches(".git").to_lowercase()
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<Ran> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .context("cannot run git: is it installed?")?;
    Ok(Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_is_told_apart() {
        let run = |directory: &Path, arguments: &[&str]| {
            let ran = git(directory, &[&["-c", "user.name=a", "-c", "user.email=a@b"], arguments].concat())
                .unwrap();
            (ran.code == Some(0), ran.stderr)
        };
        let dir = tempfile::tempdir().unwrap();
        let one = dir.path().join("one");
        assert!(run(dir.path(), &["init", "-q", "-b", "main", "one"]).0);
        for text in ["old", "new"] {
            std::fs::write(one.join("a"), text).unwrap();
            assert!(run(&one, &["add", "a"]).0 && run(&one, &["commit", "-qm", text]).0);
        }
        assert!(run(&one, &["branch", "slipway/x", "HEAD^"]).0);
        assert!(run(&one, &["worktree", "add", "-q", "../two", "slipway/x"]).0);
        let (fetched, said) = run(&one, &["fetch", "-q", ".", "main:slipway/x"]);
        let told = in_the_way("slipway/x", &said);
        assert!(!fetched && told.contains("in another worktree") && told.contains("--into"), "{told}");
        let two = dir.path().join("two");
        std::fs::write(two.join("a"), "mine").unwrap();
        let (merged, said) = run(&two, &["merge", "-q", "--ff-only", "main"]);
        let told = in_the_way("slipway/x", &said);
        assert!(
            !merged && told.contains("changes that are not committed") && told.contains("git stash"),
            "{told}"
        );
        std::fs::write(two.join("a"), "old").unwrap();
        assert!(run(&two, &["commit", "-q", "--allow-empty", "-m", "mine"]).0);
        let (merged, said) = run(&two, &["merge", "-q", "--ff-only", "main"]);
        let told = in_the_way("slipway/x", &said);
        assert!(!merged && told.contains("has other commits") && told.contains("git branch -m"), "{told}");
    }
}
