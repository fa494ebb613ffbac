//! Bringing a workspace that began from an image to the tip of its branch, while it can already be read.

use std::sync::Arc;
use std::time::Instant;

use forge::{Mirror, Tip};
use protocol::Actor;
use protocol::SetupStep;
use protocol::event::SandboxState;
use sandbox::Sandbox;

use super::prepare::{BUNDLE, Witness, begun, copy_in, set_up};
use super::{Saved, Workspace, changed, git, recipe};
use crate::failure::Failure;
use crate::recorder::Recorder;
use crate::stop::Stop;

/// A remote that is silent for longer than this is not waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
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
}

/// A workspace that takes writes.
pub(crate) struct Synced {
    pub(crate) saved: Saved,
    /// What the model should know: that what it read may have changed.
    pub(crate) note: Option<String>,
}

impl Workspace {
    /// Brings the workspace to the tip. A remote that does not answer is no obstacle: the work then begins where the image
    /// is, and that is told.
    pub(crate) async fn sync(
        &self,
        recorder: &Arc<Recorder>,
        sync: Sync,
        stop: &Stop,
    ) -> Result<Synced, Failure> {
        let fetched = tokio::select! {
            fetched = tokio::time::timeout(PATIENCE, self.fetch_tip()) => fetched,
            () = stop.given() => return Err(Failure::Stopped),
        };
        let fetched = match fetched {
            Ok(fetched) => fetched.map_err(|error| crate::problem::forge(&error).title),
            Err(_) => Err(format!("the remote gave no answer in {} s", PATIENCE.as_secs())),
        };
        let Sync { sandbox, tip: from, saved, began } = sync;
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
        let mirror = self.mirror().await?;
        let mut saved = saved;
        let mut again = Vec::new();
        if to.commit != from.commit {
            let resolved = recipe::resolve(&self.recipe, &mirror, &to).await?;
            again = steps_to_repeat(&mirror, &from, &to, &saved.setup, &resolved.setup).await?;
            saved = begun(resolved, &to, saved.branch, saved.remote);
            note = Some(what_came(&mirror, &from, &to).await?);
        }
        let scratch = self.scratch()?;
        let bundle = scratch.path().join("in.bundle");
        let bundled = mirror.bundle_since(&to.branch, &to.commit, &from.commit, &bundle).await?;
        if bundled {
            copy_in(&*sandbox, &bundle, BUNDLE, stop).await?;
        }
        let place = git::Move {
            bundle: bundled.then_some(BUNDLE),
            commit: &to.commit,
            branch: &saved.branch,
            source: &saved.source,
            base: &saved.base,
            remote: &saved.remote,
            unfinished: false,
        };
        self.git(&*sandbox).go(&place, stop).await?;
        for step in &again {
            set_up(&*sandbox, step, stop, Some(Witness { workspace: self, recorder })).await?;
        }
        self.record.put(saved.clone())?;
        let duration = u64::try_from(began.elapsed().as_millis()).ok();
        let event = changed(sandbox.id(), SandboxState::Ready, None, duration);
        recorder.append(&Actor::system(), vec![event]).await?;
        Ok(Synced { saved, note })
    }

    async fn fetch_tip(&self) -> Result<Tip, forge::Error> {
        let repo = self.recipe.repos.first();
        let mirror = self.options.mirrors.fetch(repo.map_or("", |repo| repo.url.as_str())).await?;
        mirror.tip(repo.and_then(|repo| repo.branch.as_deref())).await
    }
}

/// Set-up steps whose inputs are not what they were in the image, or that it did not have.
async fn steps_to_repeat(
    mirror: &Mirror,
    from: &Tip,
    to: &Tip,
    before: &[SetupStep],
    now: &[SetupStep],
) -> Result<Vec<SetupStep>, Failure> {
    let mut again = Vec::new();
    for step in now {
        // What a step without inputs depends on is everything, and a step builds on those before it.
        let mut changed = !again.is_empty() || step.inputs.is_empty() || !before.contains(step);
        for path in &step.inputs {
            changed |= mirror.object(&from.commit, path).await? != mirror.object(&to.commit, path).await?;
        }
        if changed {
            again.push(step.clone());
        }
    }
    Ok(again)
}

/// What is said of commits that were taken in while the model may have read already.
async fn what_came(mirror: &Mirror, from: &Tip, to: &Tip) -> Result<String, Failure> {
    let (commits, files) = mirror.between(&from.commit, &to.commit, NAMED + 1).await?;
    let more = if files.len() > NAMED { " and others" } else { "" };
    let files = files.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    Ok(format!(
        "The workspace was brought from commit {} to {}, the tip of {} ({commits} new). These files changed; read them \
         again if you read them before: {files}{more}.",
        shortened(&from.commit),
        shortened(&to.commit),
        to.branch,
    ))
}

fn shortened(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
