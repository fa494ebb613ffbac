//! Bringing a workspace that began from an image to the tip of its branch, while it can already be read.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use forge::Tip;
use protocol::event::SandboxState;
use protocol::{Actor, Code, EventBody, Problem, SetupStep};
use sandbox::Sandbox;

use super::clones::Clones;
use super::extras;
use super::prepare::{BUNDLE, Witness, begun, copy_in, remote, set_up};
use super::{Saved, Workspace, changed, git, recipe};
use crate::builds::Unbuilt;
use crate::failure::Failure;
use crate::joint::{Joint, of};
use crate::recorder::Recorder;
use crate::stop::Stop;

/// A remote that is silent for longer than this is not waited for.
pub(super) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
/// Most files that a note names.
const NAMED: usize = 20;

/// What is left to do before a workspace takes writes.
pub(crate) struct Sync {
    pub(super) sandbox: Arc<dyn Sandbox>,
    /// Where the image is.
    pub(super) tip: Tip,
    /// How the workspace begins if the branch has not moved.
    pub(super) saved: Saved,
    pub(super) began: Instant,
    /// Why the set-up fails at the tip, if that was seen: then what the image has must do.
    pub(super) failed: Option<String>,
}

/// How that went.
pub(crate) enum Came {
    /// The workspace takes writes.
    There(Box<Synced>),
    /// The set-up failed at the tip. Nobody knows what it left, so the sandbox is of no use.
    NotSetUp(Problem),
}

/// A workspace that takes writes.
pub(crate) struct Synced {
    pub(crate) saved: Saved,
    /// What the model should know: that what it read may have changed.
    pub(crate) note: Option<String>,
}

/// How a workspace goes from where its image is to the tip.
struct Plan {
    saved: Saved,
    /// Set-up steps to run there.
    steps: Vec<SetupStep>,
    trouble: Option<Trouble>,
}

/// What does not work at the tip.
struct Trouble {
    what: String,
    /// Whether the set-up is left as it is in the image.
    left_out: bool,
}

impl Workspace {
    /// Brings the workspace to the tip. A remote that does not answer is no obstacle: the work then begins where the image
    /// is, and that is told. Nor is a tip that no image can be built of: the work begins there with what the last good
    /// image has.
    pub(crate) async fn sync(
        &self,
        recorder: &Arc<Recorder>,
        sync: Sync,
        stop: &Stop,
    ) -> Result<Came, Failure> {
        let fetched = tokio::select! {
            fetched = tokio::time::timeout(PATIENCE, self.fetch_tip()) => fetched,
            () = stop.given() => return Err(Failure::Stopped),
        };
        let fetched = match fetched {
            Ok(fetched) => fetched.map_err(|failure| failure.into_problem().title),
            Err(_) => Err(format!("the remote gave no answer in {} s", PATIENCE.as_secs())),
        };
        let Sync { sandbox, tip: from, saved, began, failed } = sync;
        let (to, mut note) = match fetched {
            Ok(tip) => (tip, None),
            Err(error) => (
                from.clone(),
                Some(format!(
                    "The branch could not be fetched: {error}. The work begins at commit {} of {}, which may be behind.",
                    shortened(&from.commit),
                    from.branch,
                )),
            ),
        };
        let mirror = self.mirrors().await?;
        let mut plan = Plan { saved, steps: Vec::new(), trouble: None };
        if to.commit != from.commit {
            plan = self.plan(&mirror, &from, &to, plan.saved, failed).await?;
            note = Some(what_came(&mirror, &from, &to).await?);
        }
        let Plan { saved, steps, trouble } = plan;
        let scratch = self.scratch()?;
        let way = Way { mirror: &mirror, from: &from, to: &to };
        let git = self.git(&*sandbox);
        way.go(&git, &saved, scratch.path(), stop).await?;
        let whence = self.whence(&saved.setup).await;
        let changes = (&mirror, to.commit.as_str(), Some(from.commit.as_str()));
        let laid = extras::lay_all(&whence.source(self), &git, changes, scratch.path(), stop).await?;
        note = note.into_iter().chain(laid).reduce(|one, other| format!("{one}\n{other}"));
        for step in &steps {
            match set_up(
                &*sandbox,
                step,
                stop,
                Some(Witness { workspace: self, recorder, state: SandboxState::Syncing }),
            )
            .await
            {
                Err(Failure::Problem(problem)) if problem.code == Code::SetupFailed => {
                    return Ok(Came::NotSetUp(problem));
                }
                other => other?,
            }
        }
        self.record.put(saved.clone())?;
        let mut events = Vec::new();
        if let Some(trouble) = trouble {
            events.push(trouble.event(&self.environment, &from));
            note = Some([note, trouble.note(&from)].into_iter().flatten().collect::<Vec<_>>().join("\n"));
        }
        let duration = u64::try_from(began.elapsed().as_millis()).ok();
        events.push(changed(sandbox.id(), SandboxState::Ready, None, duration));
        recorder.append(&Actor::system(), events).await?;
        Ok(Came::There(Box::new(Synced { saved, note })))
    }

    /// What is to be done at the tip, and what cannot be.
    async fn plan(
        &self,
        mirror: &Joint,
        from: &Tip,
        to: &Tip,
        saved: Saved,
        failed: Option<String>,
    ) -> Result<Plan, Failure> {
        let commit = shortened(&to.commit);
        let resolved = match recipe::resolve(&self.recipe, mirror, to).await {
            Ok(resolved) => resolved,
            Err(Failure::Problem(problem)) if problem.code == Code::SetupFailed => {
                let what = format!("no image can be built at commit {commit}: {}", problem.title);
                let saved = Saved { source: to.branch.clone(), base: to.commit.clone(), ..saved };
                return Ok(Plan {
                    saved,
                    steps: Vec::new(),
                    trouble: Some(Trouble { what, left_out: true }),
                });
            }
            Err(failure) => return Err(failure),
        };
        let steps = Way { mirror, from, to }.steps_to_repeat(&saved.setup, &resolved.setup).await?;
        let saved = begun(resolved, to, saved.branch, saved.remote);
        if let Some(why) = failed.filter(|_| !steps.is_empty()) {
            let what = format!("the set-up failed at commit {commit}: {why}");
            return Ok(Plan { saved, steps: Vec::new(), trouble: Some(Trouble { what, left_out: true }) });
        }
        let Some(Unbuilt { why, set_up }) =
            self.platform.builds.unbuilt(&self.environment, &self.recipe, to).await
        else {
            return Ok(Plan { saved, steps, trouble: None });
        };
        let what = format!("the image of {} could not be built at commit {commit}: {why}", self.environment);
        let left_out = set_up && !steps.is_empty();
        let steps = if left_out { Vec::new() } else { steps };
        Ok(Plan { saved, steps, trouble: Some(Trouble { what, left_out }) })
    }

    async fn fetch_tip(&self) -> Result<Tip, Failure> {
        Ok(Joint::fetch(&self.copies, &self.recipe).await?.tip().await?)
    }
}

/// From where an image is to the tip of its branch.
pub(super) struct Way<'a> {
    pub(super) mirror: &'a Joint,
    pub(super) from: &'a Tip,
    pub(super) to: &'a Tip,
}

impl Way<'_> {
    /// Moves a workspace, by way of a bundle in `scratch`.
    pub(super) async fn go(
        &self,
        clones: &Clones<'_>,
        saved: &Saved,
        scratch: &Path,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let Self { mirror, from, to } = *self;
        let bundle = scratch.join("in.bundle");
        for ((number, git), (_, mirror)) in clones.each().enumerate().zip(mirror.parts()) {
            let (branch, commit) = (of(&to.branch, number), of(&to.commit, number));
            let bundled = mirror.bundle_since(branch, commit, of(&from.commit, number), &bundle).await?;
            if bundled {
                copy_in(git.sandbox, &bundle, BUNDLE, stop).await?;
            }
            let place = git::Move {
                bundle: bundled.then_some(BUNDLE),
                commit,
                branch: &saved.branch,
                source: of(&saved.source, number),
                base: of(&saved.base, number),
                remote: remote(saved, number),
                unfinished: false,
            };
            git.go(&place, stop).await?;
        }
        Ok(())
    }

    /// Set-up steps whose inputs are not what they were in the image, or that it did not have.
    pub(super) async fn steps_to_repeat(
        &self,
        before: &[SetupStep],
        now: &[SetupStep],
    ) -> Result<Vec<SetupStep>, Failure> {
        let Self { mirror, from, to } = *self;
        let mut again = Vec::new();
        for step in now {
            // What a step without inputs depends on is everything, and a step builds on those before it.
            let mut changed = !again.is_empty() || step.inputs.is_empty() || !before.contains(step);
            for path in &step.inputs {
                let now = mirror.object(&to.commit, path).await?;
                // Without one of its inputs it depends on everything too.
                changed |= now.is_none() || now != mirror.object(&from.commit, path).await?;
            }
            if changed {
                again.push(step.clone());
            }
        }
        Ok(again)
    }
}

impl Trouble {
    /// What people are told.
    fn event(&self, environment: &str, image: &Tip) -> EventBody {
        EventBody::ErrorRaised {
            code: Code::SetupFailed,
            message: self.what.clone(),
            hint: Some(format!(
                "the session begins at that commit with the last good image, which is of commit {}; when it is put right, \
                 build it again: slipway env build {environment}",
                shortened(&image.commit),
            )),
        }
    }

    /// What the model is told, if anything is not as it could expect.
    fn note(&self, image: &Tip) -> Option<String> {
        self.left_out.then(|| {
            format!(
                "Not everything could be set up: {}\nThe files are those of that commit; what the set-up makes is as it \
                 was at commit {}. Run yourself what you need of it.",
                self.what,
                shortened(&image.commit),
            )
        })
    }
}

/// What is said of commits that were taken in while the model may have read already.
async fn what_came(mirrors: &Joint, from: &Tip, to: &Tip) -> Result<String, Failure> {
    let (commits, files) = mirrors.between(&from.commit, &to.commit, NAMED + 1).await?;
    let more = if files.len() > NAMED { " and others" } else { "" };
    let files = files.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    let mut moved = Vec::new();
    for (number, (place, _)) in mirrors.parts().enumerate() {
        let (before, now) = (of(&from.commit, number), of(&to.commit, number));
        if before != now {
            let place = if place.is_empty() { "The workspace was brought" } else { place };
            let (before, now, branch) = (shortened(before), shortened(now), of(&to.branch, number));
            moved.push(format!("{place} from commit {before} to {now}, the tip of {branch}"));
        }
    }
    let begin = if mirrors.is_alone() { "" } else { "Brought forward: " };
    Ok(format!(
        "{begin}{} ({commits} new). These files changed; read them again if you read them before: {files}{more}.",
        moved.join("; ")
    ))
}

pub(super) fn shortened(commit: &str) -> String {
    crate::joint::short(commit)
}
