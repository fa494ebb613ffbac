//! Sessions whose log cannot be written, because it is damaged or the disk is full: they do nothing, but what is there can
//! be read, up to the damage.

use protocol::{Code, EventPage, Problem, Session, SessionId, Status};

use crate::feed::Feed;
use crate::{Sessions, problem};

impl Sessions {
    /// The session as lists last showed it, when its log cannot be opened for `problem`.
    pub(crate) async fn damaged(&self, id: SessionId, problem: Problem) -> Result<Session, Problem> {
        if !can_be_read(&problem) {
            return Err(problem);
        }
        let row = self.store().indexed_one(id).await.map_err(problem::store)?;
        let row = row.ok_or_else(|| problem.clone())?;
        let status = match problem.code {
            Code::StorageDamaged => Status::Failed,
            // It goes on when there is room.
            _ => row.status,
        };
        Ok(Session { status, reason: Some(problem.title), turn: None, ..row })
    }

    /// Events before the damage. The page after the last of them is the problem itself.
    pub(crate) async fn sound_page(
        &self,
        id: SessionId,
        after: u64,
        limit: usize,
        problem: Problem,
    ) -> Result<EventPage, Problem> {
        if !can_be_read(&problem) {
            return Err(problem);
        }
        let (events, _) = self.store().read_sound(id, after, limit).await.map_err(|_| problem.clone())?;
        let Some(last) = events.last() else { return Err(problem) };
        Ok(EventPage { next_after: last.seq, events, more: true })
    }

    /// The events before the damage, as a stream that ends with the problem.
    pub(crate) async fn sound_feed(
        &self,
        id: SessionId,
        after: u64,
        problem: Problem,
    ) -> Result<Feed, Problem> {
        if !can_be_read(&problem) {
            return Err(problem);
        }
        let closed = self.registry.closed.clone();
        Feed::remains(self.store().clone(), id, after, problem, closed).await
    }
}

/// Whether a session that cannot be opened for this can still be read.
fn can_be_read(problem: &Problem) -> bool {
    matches!(problem.code, Code::StorageDamaged | Code::StorageFull)
}
