//! Pushing a session's branch: a new branch, or forward over what we pushed before, and nothing else. A push that is
//! made again after a crash finds the commit already there and is content.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;

use crate::git::{Failure, Git, Running};
use crate::url::Url;
use crate::{Error, Mirror, name, remote};

/// The branches that were pushed from this mirror, each with the commit that went last.
const PUSHED: &str = "refs/slipway-pushed/";
/// The same, each with the commit that was last seen to have arrived. A claim can be ahead of that, for a push that failed.
const LANDED: &str = "refs/slipway-landed/";

/// What the branch is at the remote and what that means for a push.
enum Standing {
    /// There is nothing to do.
    UpToDate,
    /// The push may replace exactly this; empty when the branch must not be there.
    Replaces(String),
}

/// What others did to a branch of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Theirs {
    /// Nothing: it is as we pushed it, or is not there.
    Nothing,
    /// They added commits, and it ends with this one.
    Ahead(String),
    /// They added commits to what was pushed last, while there is more here that was not; it ends with this one.
    Beside(String),
    /// They replaced commits of ours, and it ends with this one.
    Apart(String),
}

/// What became of a push that may be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The remote has the commit.
    Yes,
    /// It was given up before anything was sent.
    No,
    /// It was given up while it was sent: the remote may have the commit. Nothing of git is left on this machine.
    Perhaps,
}

impl Mirror {
    /// Pushes a commit as a branch. Never the default branch; never a branch that was there before we first pushed it,
    /// as the one that a session began from; never over commits that are not ancestors.
    pub async fn push(&self, commit: &str, branch: &str) -> Result<(), Error> {
        self.push_unless(commit, branch, std::future::pending()).await.map(drop)
    }

    /// Pushes a commit as a branch, until somebody does not want it any more. Then git and everything it started are
    /// ended, and have ended when this returns.
    pub async fn push_unless(
        &self,
        commit: &str,
        branch: &str,
        given_up: impl Future<Output = ()>,
    ) -> Result<Sent, Error> {
        let (running, mut ended) = mpsc::channel(1);
        let begun = AtomicBool::new(false);
        let pushed = tokio::select! {
            pushed = self.push_to_the_end(commit, branch, running, &begun) => Some(pushed),
            () = given_up => None,
        };
        match pushed {
            Some(result) => result.map(|()| Sent::Yes),
            None => {
                if let Some(never) = ended.recv().await {
                    match never {}
                }
                Ok(if begun.load(Ordering::Relaxed) { Sent::Perhaps } else { Sent::No })
            }
        }
    }

    async fn push_to_the_end(
        &self,
        commit: &str,
        branch: &str,
        running: Running,
        begun: &AtomicBool,
    ) -> Result<(), Error> {
        let commit = name::commit(commit)?;
        if !name::is_branch(branch) {
            return Err(Error::Refused(format!("{branch:?} cannot be the name of a branch")));
        }
        self.must_have(commit).await?;
        // What a server that is gone began has ended then, and is seen below.
        let pushing = self.claim_push(branch, commit).await?;
        let expected = match self.standing(commit, branch).await? {
            Standing::UpToDate => {
                self.has_landed(branch, commit).await;
                return Ok(());
            }
            Standing::Replaces(expected) => expected,
        };
        // What the commits point at is there before they are: a branch without it is of no use to anybody.
        self.push_large(commit, branch, &running).await?;
        // The claim comes first: were it lost in a crash after the push, the branch would look like someone else's.
        let claim = format!("{PUSHED}{branch}");
        let claimed_before = self.resolve(&claim).await?;
        self.must_change(|| self.git("update-ref").args([claim.as_str(), commit])).await?;
        let url = self.signed().await?;
        begun.store(true, Ordering::Relaxed);
        let (git, started) = pushing.start(push_command(self, &url, commit, branch, &expected));
        let result = send(&url, git.running(running), branch).await;
        // A push that was cut off may still be taken; of any other it is known how it ended.
        let known = result.as_ref().err().is_none_or(|error| !error.is_passing());
        if known {
            started.ended();
        }
        let Err(error) = result else {
            self.has_landed(branch, commit).await;
            return Ok(());
        };
        match self.remote_tip(branch).await {
            // The answer was lost, or a push that a server began before it died came to its end meanwhile.
            Ok(Some(tip)) if tip == commit => {
                self.has_landed(branch, commit).await;
                return Ok(());
            }
            // Somebody was faster: what they did is told as if it had been seen before.
            Ok(Some(_)) if matches!(error, Error::Refused(_)) => {
                self.standing(commit, branch).await?;
            }
            Ok(None) if claimed_before.is_none() => {
                self.must_change(|| self.git("update-ref").args(["-d", &claim])).await?;
            }
            // The error of the push says more than that of the look.
            Ok(_) | Err(_) => {}
        }
        Err(error)
    }

    /// What others did to a branch since we pushed this commit to it; what is new is fetched.
    pub async fn theirs(&self, branch: &str, ours: &str) -> Result<Theirs, Error> {
        let ours = name::commit(ours)?;
        let Some(tip) = self.remote_tip(branch).await? else { return Ok(Theirs::Nothing) };
        let tip = name::commit(&tip)?;
        if self.resolve(tip).await?.is_none() {
            self.fetch_branch(branch).await?;
        }
        if self.is_ancestor(tip, ours).await? {
            Ok(Theirs::Nothing)
        } else if self.is_ancestor(ours, tip).await? {
            Ok(Theirs::Ahead(tip.to_owned()))
        } else if self.is_added(branch, tip).await? {
            Ok(Theirs::Beside(tip.to_owned()))
        } else {
            Ok(Theirs::Apart(tip.to_owned()))
        }
    }

    /// Remembers that the remote has a commit as this branch, so that it is known later whether others replaced it. That is
    /// told worse without, and nothing else, so a failure costs only that.
    pub async fn has_landed(&self, branch: &str, commit: &str) {
        let landed = format!("{LANDED}{branch}");
        let noted = self.must_change(|| self.git("update-ref").args([landed.as_str(), commit])).await;
        if let Err(error) = noted {
            tracing::debug!(branch, %error, "that a push arrived is not remembered");
        }
    }

    /// Whether a commit has everything that was pushed to the branch from here.
    async fn is_added(&self, branch: &str, tip: &str) -> Result<bool, Error> {
        let landed = match self.resolve(&format!("{LANDED}{branch}")).await? {
            Some(landed) => Some(landed),
            None => self.resolve(&format!("{PUSHED}{branch}")).await?,
        };
        match landed {
            Some(landed) => self.is_ancestor(&landed, tip).await,
            None => Ok(false),
        }
    }

    /// Whether a commit is in the history of another.
    pub async fn has_in(&self, commit: &str, history: &str) -> Result<bool, Error> {
        self.is_ancestor(name::commit(commit)?, name::commit(history)?).await
    }

    async fn standing(&self, commit: &str, branch: &str) -> Result<Standing, Error> {
        let url = self.signed().await?;
        let listing = remote::list(&url, branch).await?;
        let known_default = self.default_branch().await?;
        if [&listing.default, &known_default].into_iter().flatten().any(|default| default == branch) {
            return Err(Error::Refused(format!(
                "{branch} is the repository's default branch, which is never pushed to"
            )));
        }
        let Some(tip) = listing.tip(branch) else { return Ok(Standing::Replaces(String::new())) };
        if tip == commit {
            return Ok(Standing::UpToDate);
        }
        if self.resolve(&format!("{PUSHED}{branch}")).await?.is_none() {
            return Err(Error::Refused(format!(
                "the branch {branch} was there before and is not ours to move: rename or remove it there and deliver \
                 again, or fork the session, which gives it a branch of its own"
            )));
        }
        let tip = name::commit(tip)?;
        if self.resolve(tip).await?.is_none() {
            self.fetch_branch(branch).await?;
        }
        if self.is_ancestor(tip, commit).await? {
            Ok(Standing::Replaces(tip.to_owned()))
        } else if self.is_ancestor(commit, tip).await? {
            Ok(Standing::UpToDate)
        } else {
            let others = self.others(commit, tip).await;
            Err(if self.is_added(branch, tip).await? {
                added(branch, &others)
            } else {
                moved(branch, &others)
            })
        }
    }

    /// Words for the commits that the remote has and we have not. They are for show, so a failure costs only that.
    async fn others(&self, commit: &str, tip: &str) -> String {
        let (not_ours, last) = (format!("^{commit}"), "--format=%h %s, by %an");
        let count = self.git("rev-list").args(["--count", tip, &not_ours, "--"]).confined().succeed().await;
        let last = self.git("log").args(["-1", last, tip, "--"]).confined().succeed().await;
        match (count, last) {
            (Ok(count), Ok(last)) => {
                format!(" ({} new, the last is {})", count.text(), remote::reason(&last.text()))
            }
            (Err(_), _) | (_, Err(_)) => String::new(),
        }
    }
}

fn push_command(mirror: &Mirror, url: &Url, commit: &str, branch: &str, expected: &str) -> Git {
    let git = Git::remote("push").inside(&mirror.path).args([
        "--porcelain",
        "--no-verify",
        "--no-signed",
        "--no-follow-tags",
        "--recurse-submodules=no",
    ]);
    let git = git.arg(format!("--force-with-lease=refs/heads/{branch}:{expected}"));
    url.operand_of(git).arg(format!("{commit}:refs/heads/{branch}"))
}

async fn send(url: &Url, git: Git, branch: &str) -> Result<(), Error> {
    let failed = |detail| Error::Push { url: url.public.clone(), branch: branch.to_owned(), detail };
    let output = git.run().await.map_err(|failure| match failure {
        Failure::NoGit => Error::NoGit,
        Failure::Start(_) | Failure::TimedOut { .. } | Failure::TooMuch { .. } => failed(failure.to_string()),
    })?;
    if output.success() {
        return Ok(());
    }
    if let Some(signal) = output.status.signal() {
        return Err(failed(format!("git {} {signal}", crate::error::KILLED)));
    }
    let text = output.text();
    let summary = text.lines().find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1));
    match summary {
        Some(summary) if summary.contains("stale info") => Err(moved(branch, "")),
        Some(summary) => {
            let said = remote_lines(&output.stderr);
            let detail = if said.is_empty() { summary.into() } else { format!("{summary}: {said}") };
            Err(failed(url.redact(&detail)))
        }
        None => Err(failed(url.redact(&remote::explain(url, &output.stderr)))),
    }
}

/// They added to what is there, so it can be had together with what is here.
fn added(branch: &str, what: &str) -> Error {
    Error::Refused(format!(
        "someone else pushed to {branch}{what}, on top of what was pushed from here: `slipway rebase` of the session takes it in, \
         has the checks run on both together, and delivers that"
    ))
}

fn moved(branch: &str, what: &str) -> Error {
    Error::Refused(format!(
        "someone else pushed to {branch}{what}, and what is theirs is not overwritten: move it to another branch there and deliver \
         again, or fork the session, which gives it a branch of its own"
    ))
}

/// Only what the remote's hooks and rules said, shortened; empty when they were silent.
fn remote_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().filter(|line| line.starts_with("remote:")).collect();
    if lines.is_empty() { String::new() } else { remote::reason(&lines.join("\n")) }
}
