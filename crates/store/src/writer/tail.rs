//! The end of a log, where events get their places: what follows on what, and the rows that the log's file has not.

use protocol::Timestamp;

use crate::journal::{Entries, NewRow};
use crate::logfile::End;
use crate::row::{Encoded, Row, actor_word, link};

/// Where appended events went: one after the other from `first`, all at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(super) first: u64,
    pub(super) at: Timestamp,
}

/// The end of a log that is written to.
pub(crate) struct Tail {
    end: End,
    rows: Vec<(Row, u64)>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn new(end: End) -> Self {
        Self { end, rows: Vec::new(), bytes: 0 }
    }

    pub(super) fn end(&self) -> &End {
        &self.end
    }

    /// Gives events their places; the entries are for the journal.
    pub(crate) fn place(&mut self, drafts: &[Encoded], entries: &mut Entries) -> Placed {
        // A clock that was set back does not turn back the log's.
        let now = Timestamp::now().as_microsecond().max(self.end.at.as_microsecond());
        // Readers of the file get microseconds, so nobody gets more.
        let at = Timestamp::from_microsecond(now).unwrap_or(self.end.at);
        let microseconds = at.as_microsecond();
        let first = self.end.seq + 1;
        for draft in drafts {
            let texts = [actor_word(draft.actor.kind), &draft.actor.id, draft.body.name(), &draft.data];
            self.end.seq += 1;
            self.end.hash = link(self.end.hash, self.end.seq, microseconds, texts);
            let (seq, hash) = (self.end.seq, self.end.hash);
            entries.row(&NewRow { seq, at: microseconds, hash, texts });
            self.bytes += draft.data.len();
            let [actor_kind, actor, name, data] = texts.map(str::to_owned);
            self.rows.push((Row { seq, at: microseconds, actor_kind, actor, name, data }, hash));
        }
        self.end.at = at;
        Placed { first, at }
    }

    /// Bytes of the rows that the file has not.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Those rows; somebody else sees to them from now on.
    pub(crate) fn take_rows(&mut self) -> Vec<(Row, u64)> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}
