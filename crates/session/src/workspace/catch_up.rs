//! Taking in what came about outside since the session began: commits that others pushed to its branch, and what its base has
//! become. Git in the sandbox does it; what it cannot do by itself is left as it is and given to the agent.

use std::time::Duration;

use forge::{Mirror, Theirs};
use sandbox::Sandbox;

use super::extras;
use super::prepare::{BUNDLE, copy_in};
use super::sync::shortened;
use super::{Saved, Workspace};
use crate::failure::Failure;
use crate::joint::{Joint, join, of, split};
use crate::stop::Stop;

/// A remote that is silent for longer than this is not waited for: where somebody asked for what it has, and else.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_secs(10);
/// Longest answer of git, and most files that are named.
const ANSWER: usize = 64 * 1024;
const NAMED: usize = 20;

/// Fetches the bundle `$1`, and goes forward to commit `$2`, if nothing is in the way. Then it is at least `origin/$3`.
const FORWARD: &str = r#"
g fetch -q --no-tags --no-write-fetch-head "$1" '+refs/heads/*:refs/slipway/in/*'
rm -f "$1"
g update-ref "refs/remotes/origin/$3" "$2"
g for-each-ref --format='delete %(refname)' refs/slipway/in | g update-ref --stdin
if g merge -q --ff-only "$2" >/dev/null 2>&1; then echo taken; else echo left; fi
"#;

/// Fetches the bundle `$1`, and merges commit `$2` of the branch `$3`. Where that does not go by itself, the merge stays as it is,
/// and the files with conflicts are printed.
const MERGE: &str = r#"
g fetch -q --no-tags --no-write-fetch-head "$1" '+refs/heads/*:refs/slipway/in/*'
rm -f "$1"
g update-ref "refs/remotes/origin/$3" "$2"
g for-each-ref --format='delete %(refname)' refs/slipway/in | g update-ref --stdin
if g merge -q --no-edit -m "Merge branch '$3'" "$2" >/dev/null 2>&1; then
  echo merged
elif g rev-parse -q --verify MERGE_HEAD >/dev/null; then
  echo conflicts
  g -c core.quotePath=true diff --name-only --diff-filter=U
else
  echo left
fi
"#;

/// Why it is looked for what others pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Somebody asked for it, or for something that builds on it.
    Asked,
    /// A turn begins.
    Begin,
    /// The work is about to be handed over.
    End,
}

impl Workspace {
    /// Takes in what others pushed to the session's branch, in each repository. Gives what the model should know of it; at the
    /// end only of what it can do something about.
    pub(crate) async fn take_theirs(
        &self,
        sandbox: &dyn Sandbox,
        look: Look,
        stop: &Stop,
    ) -> Result<Option<String>, Failure> {
        let mut told = Vec::new();
        for number in 0..self.places.len() {
            told.extend(self.take_theirs_of(number, sandbox, look, stop).await?);
        }
        Ok((!told.is_empty()).then(|| told.join("\n")))
    }

    async fn take_theirs_of(
        &self,
        number: usize,
        sandbox: &dyn Sandbox,
        look: Look,
        stop: &Stop,
    ) -> Result<Option<String>, Failure> {
        let Some(saved) = self.saved() else { return Ok(None) };
        let Some(all) = saved.tip.clone() else { return Ok(None) };
        let ours = of(&all, number).to_owned();
        let mirrors = self.mirrors().await?;
        let Some(mirror) = mirrors.mirror(number) else { return Ok(None) };
        let patience = if look == Look::Asked { PATIENCE } else { GLANCE };
        let theirs = tokio::select! {
            theirs = tokio::time::timeout(patience, mirror.theirs(&saved.branch, &ours)) => theirs,
            () = stop.given() => return Err(Failure::Stopped),
        };
        // A remote that does not answer is seen when the work is pushed; until then there is work to do.
        let Ok(Ok(theirs)) = theirs else { return Ok(None) };
        let (branch, place) = (saved.branch.clone(), self.place_of(number));
        let tip = match theirs {
            Theirs::Nothing => return Ok(None),
            Theirs::Ahead(tip) => tip,
            Theirs::Beside(tip) => {
                return self
                    .merge_theirs((number, mirror), sandbox, (&branch, &tip, &ours), stop)
                    .await
                    .map(Some);
            }
            Theirs::Apart(_) if look == Look::End => return Ok(None),
            Theirs::Apart(tip) => {
                return Ok(Some(format!(
                    "Somebody replaced commits of the branch {branch}{place} on the remote: it is at {} there, which does not \
                     have what was pushed from here. Work that is done here cannot be delivered to it.",
                    shortened(&tip)
                )));
            }
        };
        let (said, laid) =
            self.run_with(sandbox, (number, mirror), FORWARD, (&branch, &tip, &ours), stop).await?;
        let (commits, files) = mirror.between(&ours, &tip, NAMED + 1).await?;
        let more = if files.len() > NAMED { " and others" } else { "" };
        let files = files.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
        if said.trim() != "taken" {
            return Ok(Some(format!(
                "Others pushed {commits} commits to {branch}{place}, which could not be taken in because of changes in the \
                 workspace that are not committed. They are at origin/{branch}: commit, then merge that."
            )));
        }
        if saved.unfinished {
            // What is kept is on top of the commit that was left, and has to stay so until it is kept anew.
            return Ok(Some(format!(
                "Others pushed {commits} commits to {branch}{place}, which were taken in below the work that is not committed. These \
                 files changed; read them again if you read them before: {files}{more}.{}",
                below(&laid)
            )));
        }
        let with = |joint: &str| {
            join(split(joint).enumerate().map(|(at, known)| if at == number { tip.as_str() } else { known }))
        };
        // What others made public is not ours to look through.
        let cleared = saved.cleared.as_deref().map(with);
        let now = with(&all);
        self.record.put(Saved { tip: Some(now.clone()), kept: Some(now), cleared, ..saved })?;
        Ok(Some(format!(
            "Others pushed {commits} commits to {branch}{place}, which were taken in: it is at {} now. These files changed; read \
             them again if you read them before: {files}{more}.{}",
            shortened(&tip),
            below(&laid)
        )))
    }

    /// Merges what others added to the branch with what is here and was not pushed. Gives what the model is told.
    async fn merge_theirs(
        &self,
        (number, mirror): (usize, &Mirror),
        sandbox: &dyn Sandbox,
        (branch, tip, ours): (&str, &str, &str),
        stop: &Stop,
    ) -> Result<String, Failure> {
        let (said, laid) = self.run_with(sandbox, (number, mirror), MERGE, (branch, tip, ours), stop).await?;
        let (commits, files) = mirror.between(ours, tip, NAMED + 1).await?;
        let more = if files.len() > NAMED { " and others" } else { "" };
        let files = files.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
        let told = self.merged(&said, number, branch, tip)?;
        Ok(format!(
            "Others pushed {commits} commits to the branch of this session, which have to be in what is delivered; they changed: \
             {files}{more}. {told}{}",
            below(&laid)
        ))
    }

    /// Merges what the branches that the session began from have become. Gives what the model is told.
    pub(crate) async fn take_base(
        &self,
        sandbox: &dyn Sandbox,
        stop: &Stop,
    ) -> Result<Option<String>, Failure> {
        let Some(saved) = self.saved() else { return Ok(None) };
        let fetch = async {
            let mirrors = Joint::fetch(&self.copies, &self.recipe).await?;
            let tip = mirrors.tip_of(&saved.source).await?;
            Ok::<_, Failure>((mirrors, tip))
        };
        let (mirrors, tip) = tokio::select! {
            fetched = fetch => fetched?,
            () = stop.given() => return Err(Failure::Stopped),
        };
        let (mut told, mut onto) = (Vec::new(), Vec::new());
        for number in 0..self.places.len() {
            let Some(mirror) = mirrors.mirror(number) else { continue };
            let (base, source) = (of(&saved.base, number), of(&saved.source, number));
            let (tip, place) = (of(&tip.commit, number), self.place_of(number));
            if tip == base || mirror.has_in(tip, base).await? {
                told.push(format!("{source}{place} has not moved: it is at {} still.", shortened(tip)));
                onto.push(base);
                continue;
            }
            let merge = (source, tip, base);
            let (said, laid) = self.run_with(sandbox, (number, mirror), MERGE, merge, stop).await?;
            told.push(format!("{}{}", self.merged(&said, number, source, tip)?, below(&laid)));
            onto.push(tip);
        }
        let onto = join(onto);
        if onto != saved.base {
            let saved = self.require()?;
            self.record.put(Saved { onto: Some(onto), ..saved })?;
        }
        Ok(Some(told.join("\n")))
    }

    /// What the model is told of a merge. One with conflicts is remembered until they are resolved.
    fn merged(&self, said: &str, number: usize, source: &str, tip: &str) -> Result<String, Failure> {
        let (short, place) = (shortened(tip), self.place_of(number));
        let mut lines = said.lines();
        Ok(match lines.next() {
            Some("merged") => format!(
                "{source}{place} has moved to {short}, and was merged into the workspace without conflicts. See whether the work \
                 still fits what came, and run the checks."
            ),
            Some("conflicts") => {
                self.begin_merge(number, tip)?;
                let at = self.places.get(number).map_or("", String::as_str);
                let mut names: Vec<String> = lines.map(|name| forge::placed(at, name)).collect();
                let more = names.len().saturating_sub(NAMED);
                names.truncate(NAMED);
                let more = if more > 0 { format!("\n- and {more} more") } else { String::new() };
                format!(
                    "{source}{place} has moved to {short}. Merging it left conflicts in these files, marked with <<<<<<< and \
                     >>>>>>>:\n- {}{more}\nResolve each of them so that both the work and what came from {source} are right, remove \
                     the marks, and run the checks. The merge is committed for you.",
                    names.join("\n- ")
                )
            }
            _ => format!(
                "{source}{place} has moved to {short}, and could not be merged because of changes in the workspace that are not \
                 committed. It is at origin/{source}: commit, then merge that."
            ),
        })
    }

    /// Where a repository lies, in words; nothing where it is the only one.
    fn place_of(&self, number: usize) -> String {
        self.name_of(number).map(|name| format!(" of {name}")).unwrap_or_default()
    }

    /// Brings what a commit has and another has not into the sandbox, and runs a script on it.
    async fn run_with(
        &self,
        sandbox: &dyn Sandbox,
        (number, mirror): (usize, &Mirror),
        script: &str,
        (branch, commit, since): (&str, &str, &str),
        stop: &Stop,
    ) -> Result<(String, Vec<String>), Failure> {
        let scratch = self.scratch()?;
        let bundle = scratch.path().join("in.bundle");
        mirror.bundle_since(branch, commit, since, &bundle).await?;
        copy_in(sandbox, &bundle, BUNDLE, stop).await?;
        let Some(git) = self.git(sandbox).each().nth(number) else { return Ok((String::new(), Vec::new())) };
        let said = git.run(script, &[BUNDLE, commit, branch], ANSWER).await?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut notices = Vec::new();
        if !said.starts_with("left") {
            let steps = self.saved().map(|saved| saved.setup).unwrap_or_default();
            let whence = self.whence(&steps).await;
            let changes = (mirror, commit, Some(since));
            notices = extras::lay(&whence.source(self), &git, changes, scratch.path(), stop).await?;
        }
        Ok((said, notices))
    }
}

/// Notices below what is said already.
fn below(notices: &[String]) -> String {
    notices.iter().map(|notice| format!("\n{notice}")).collect()
}
