//! What is left of a damaged log, for readers: the events before the damage, page by page, and nothing that happens now.

use protocol::{Problem, SessionId};
use store::Store;

use super::{Frame, PAGE};

/// A log that can be read up to its damage and does nothing more.
pub(super) struct Remains {
    pub(super) store: Store,
    pub(super) session: SessionId,
    /// Why the session cannot be opened.
    pub(super) problem: Problem,
}

impl Remains {
    /// The sound events after `after`; the problem when there are no more.
    pub(super) async fn page(&self, after: u64) -> Result<Vec<Frame>, Problem> {
        match self.store.read_sound(self.session, after, PAGE).await {
            Ok((events, _)) if !events.is_empty() => Ok(events.iter().map(Frame::durable).collect()),
            Ok(_) => Err(self.problem.clone()),
            Err(error) => {
                tracing::debug!(session = %self.session, %error, "nothing of a damaged log can be read");
                Err(self.problem.clone())
            }
        }
    }
}
