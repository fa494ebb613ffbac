//! Sessions whose log cannot be written, because it is damaged or the disk is full: they do nothing, but what is there can
//! be read, up to the damage.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{Code, EventPage, LineageId, Problem, Session, SessionId, Status};

use crate::feed::Feed;
use crate::{Position, Sessions, problem};

/// Sessions that were found to be damaged, and what is wrong with them, for lists.
#[derive(Default)]
pub(crate) struct Damages(Mutex<HashMap<SessionId, String>>);

impl Damages {
    /// What was found when a session was opened; anything but damage says nothing.
    pub(crate) fn note(&self, id: SessionId, problem: &Problem) {
        if problem.code == Code::StorageDamaged {
            self.all().insert(id, problem.title.clone());
        }
    }

    /// The session can be used, or another log took the place of the damaged one.
    pub(crate) fn forget(&self, id: SessionId) {
        self.all().remove(&id);
    }

    /// Marks the row of a session that is known to be damaged.
    pub(crate) fn mark(&self, row: &mut Session) {
        if let Some(reason) = self.all().get(&row.id) {
            (row.status, row.turn, row.reason) = (Status::Failed, None, Some(reason.clone()));
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        position: Position,
        limit: usize,
        problem: Problem,
    ) -> Result<EventPage, Problem> {
        if !can_be_read(&problem) {
            return Err(problem);
        }
        let lineage = self.damaged_lineage(id, position).await?;
        let after = position.after;
        let (events, _) = self.store().read_sound(id, after, limit).await.map_err(|_| problem.clone())?;
        let Some(last) = events.last() else { return Err(problem) };
        Ok(EventPage { next_after: last.seq, events, more: true, lineage })
    }

    /// The events before the damage, as a stream that ends with the problem.
    pub(crate) async fn sound_feed(
        &self,
        id: SessionId,
        position: Position,
        problem: Problem,
    ) -> Result<Feed, Problem> {
        if !can_be_read(&problem) {
            return Err(problem);
        }
        let lineage = self.damaged_lineage(id, position).await?;
        let closed = self.registry.closed.clone();
        let feed = Feed::remains(self.store().clone(), id, position.after, problem, closed).await?;
        Ok(feed.of(lineage))
    }

    /// The lineage of a log that cannot be folded, as lists last showed it. A reader that has events of another, or of one
    /// of which nobody can say any more whether it is the same, is told.
    async fn damaged_lineage(&self, id: SessionId, position: Position) -> Result<Option<LineageId>, Problem> {
        let row = self.store().indexed_one(id).await.map_err(problem::store)?;
        let lineage = row.and_then(|row| row.lineage);
        match position.lineage {
            Some(known) if position.after > 0 && lineage != Some(known) => {
                Err(problem::other_lineage(id, position.after))
            }
            _ => Ok(lineage),
        }
    }
}

/// Whether a session that cannot be opened for this can still be read.
fn can_be_read(problem: &Problem) -> bool {
    matches!(problem.code, Code::StorageDamaged | Code::StorageFull)
}
