//! Where a reader begins, and whether what it has is of the log that there is.

use protocol::{LineageId, Problem, SessionId};

use crate::recorder::Recorder;
use crate::{Sessions, problem};

/// What a reader has of a session's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the last event that it has; 0 for none.
    pub after: u64,
    /// The lineage that those events are of, if it says so.
    pub lineage: Option<LineageId>,
}

impl From<u64> for Position {
    fn from(after: u64) -> Self {
        Self { after, lineage: None }
    }
}

impl Sessions {
    /// A reader that has other events than the log, or more, would take what follows for what it is not: it is told.
    pub(crate) async fn refuse_misplaced(
        &self,
        id: SessionId,
        recorder: &Recorder,
        position: Position,
    ) -> Result<(), Problem> {
        let Position { after, lineage } = position;
        let (seq, is_ours) = recorder
            .stream()
            .with_state(|state| (state.seq(), lineage.is_none_or(|lineage| state.has(lineage, after))));
        if !is_ours {
            return Err(problem::other_lineage(id, after));
        }
        if after <= seq {
            return Ok(());
        }
        // Another reader may have taken from the log what is not folded yet.
        let last = self.store().last_seq(id).await.map_err(problem::store)?;
        if after > last { Err(problem::after_end(id, after, last)) } else { Ok(()) }
    }
}
