//! One sandbox for turns and for people: whoever comes first makes it, the others wait for that.

use std::sync::Arc;

use protocol::Problem;
use sandbox::Sandbox;

use super::{Came, Held, Ready, Sync, Synced, Workspace};
use crate::failure::Failure;
use crate::recorder::Recorder;
use crate::stop::Stop;

impl Workspace {
    /// The sandbox of this session for a turn, made if there is none.
    pub(crate) async fn ensure(&self, recorder: &Arc<Recorder>, stop: &Stop) -> Result<Ready, Failure> {
        let _making = tokio::select! {
            making = self.making.lock() => making,
            () = stop.given() => return Err(Failure::Stopped),
        };
        self.ensure_now(recorder, stop).await
    }

    /// The sandbox of this session for a person, made and brought to the tip of its branch if there is none; with what
    /// the person should know. Not while a turn is under way, which may be about to make one.
    pub(crate) async fn ensure_for_person(
        &self,
        recorder: &Arc<Recorder>,
    ) -> Result<(Arc<dyn Sandbox>, Vec<String>), Failure> {
        let _making = self.making.lock().await;
        if let Some(held) = self.attached(recorder).await {
            return Ok((held.sandbox, Vec::new()));
        }
        let stop = Stop::default();
        let Ready { mut held, mut notices, sync, .. } = self.ensure_now(recorder, &stop).await?;
        if let Some(sync) = sync {
            let synced = match self.sync(recorder, sync, &stop).await {
                Ok(Came::There(synced)) => Ok((held.clone(), *synced)),
                Ok(Came::NotSetUp(problem)) => self.start_over_now(recorder, problem, &stop).await,
                Err(failure) => Err(failure),
            };
            match synced {
                Ok((there, synced)) => {
                    held = there;
                    notices.extend(synced.note);
                }
                Err(failure) => {
                    // Nobody knows how far it is.
                    self.remove(recorder, "its preparation was broken off").await?;
                    return Err(failure);
                }
            }
        }
        Ok((held.sandbox, notices))
    }

    /// Makes the sandbox again after the set-up failed at the tip of the branch: from the last good image, and brought to
    /// the tip without it.
    pub(crate) async fn start_over(
        &self,
        recorder: &Arc<Recorder>,
        failed: Problem,
        stop: &Stop,
    ) -> Result<(Held, Synced), Failure> {
        let _making = tokio::select! {
            making = self.making.lock() => making,
            () = stop.given() => return Err(Failure::Stopped),
        };
        self.start_over_now(recorder, failed, stop).await
    }

    /// The same. Whoever asks holds `making`.
    async fn start_over_now(
        &self,
        recorder: &Arc<Recorder>,
        failed: Problem,
        stop: &Stop,
    ) -> Result<(Held, Synced), Failure> {
        let how = failed.title.lines().next().unwrap_or_default().trim_end_matches(':');
        self.remove(recorder, &format!("{how}; it is made again from the last good image")).await?;
        let Ready { held, saved, notices, sync, .. } = self.ensure_now(recorder, stop).await?;
        let Some(sync) = sync else {
            let note = (!notices.is_empty()).then(|| notices.join("\n"));
            return Ok((held, Synced { saved, note }));
        };
        match self.sync(recorder, Sync { failed: Some(failed.title), ..sync }, stop).await? {
            Came::There(synced) => Ok((held, *synced)),
            Came::NotSetUp(problem) => Err(problem.into()),
        }
    }
}
