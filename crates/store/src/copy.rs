//! Copies of logs, for backups. A copy is made row by row from what the session's thread reads, so the session goes on
//! meanwhile, and every checksum is looked at on the way.

use std::fs::File;
use std::path::Path;

use protocol::{SessionId, Timestamp};

use crate::logfile::LogFile;
use crate::row::{Encoded, Row, actor_word};
use crate::writer::Job;
use crate::{Draft, Error, Store};

/// A copy of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its last event.
    pub seq: u64,
    /// Why it ends before the log does.
    pub damage: Option<Error>,
}

impl Store {
    /// Writes a copy of a log as it is now to a new file. Of a damaged one, it has what comes before the damage. This
    /// blocks: it is for a thread that may.
    pub fn copy_log(&self, session: SessionId, to: &Path) -> Result<Copied, Error> {
        LogFile::create_at(to, session)?;
        let mut copy = LogFile::open_at(to, session)?.without_syncs()?;
        // What is appended from now on is not in it, or a copy of a busy log would never end.
        let end = self.ask_blocking(session, Job::End).unwrap_or(u64::MAX);
        let mut damage = None;
        while damage.is_none() && copy.last_seq() < end {
            let after = copy.last_seq();
            let mut read = self.ask_blocking(session, |reply| Job::Rows { after, reply })?;
            read.rows.retain(|(row, _)| row.seq <= end);
            copy.adopt(read.rows.iter())?;
            damage = read.damage;
            if !read.more {
                break;
            }
        }
        let seq = copy.last_seq();
        copy.close()?;
        File::open(to).and_then(|file| file.sync_all()).map_err(|e| Error::io(to, &e))?;
        Ok(Copied { seq, damage })
    }
}

/// Checks every event of a copy that is to become a session's log; gives its last event. This blocks.
pub fn check_copy(path: &Path, session: SessionId) -> Result<u64, Error> {
    let mut copy = LogFile::open_at(path, session)?;
    let mut next = Some(0);
    while let Some(after) = next {
        next = copy.verify(after, u64::MAX)?;
    }
    let seq = copy.last_seq();
    copy.close()?;
    Ok(seq)
}

/// Appends an event to a copy that is to become a session's log; durable when this returns. This blocks.
pub fn append_to_copy(path: &Path, session: SessionId, draft: Draft) -> Result<(), Error> {
    let draft = Encoded::new(draft).map_err(|detail| Error::other(path, detail))?;
    let mut copy = LogFile::open_at(path, session)?;
    let end = copy.end()?;
    let row = Row {
        seq: end.seq + 1,
        // A clock that was set back does not turn back the log's.
        at: Timestamp::now().max(end.at).as_microsecond(),
        actor_kind: actor_word(draft.actor.kind).to_owned(),
        actor: draft.actor.id,
        name: draft.body.name().to_owned(),
        data: draft.data,
    };
    let hash = row.hash(end.hash);
    copy.adopt([(row, hash)].iter())?;
    copy.close()?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| Error::io(path, &e))
}
