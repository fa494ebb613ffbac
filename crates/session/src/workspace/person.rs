//! One sandbox for turns and for people: whoever comes first makes it, the others wait for that.

use std::sync::Arc;

use sandbox::Sandbox;

use super::{Ready, Workspace};
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
        let Ready { held, mut notices, sync, .. } = self.ensure_now(recorder, &stop).await?;
        if let Some(sync) = sync {
            match self.sync(recorder, sync, &stop).await {
                Ok(synced) => notices.extend(synced.note),
                Err(failure) => {
                    // Nobody knows how far it is.
                    self.remove(recorder, "its preparation was broken off").await?;
                    return Err(failure);
                }
            }
        }
        Ok((held.sandbox, notices))
    }
}
