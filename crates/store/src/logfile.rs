//! The file of one session's log: events in a checksum chain, and one `head` row that says who owns the log and where it
//! ends. The head is written in the transaction of the events, so that an end that went missing is noticed.

mod folds;
mod salvage;

use std::cell::OnceCell;
use std::path::Path;

use protocol::{Event, SessionId, Timestamp};
use rusqlite::{Connection, params};

use crate::Error;
use crate::chain::Chain;
use crate::database::{Database, Kind, PAGE_SIZE};
use crate::layout::Layout;
use crate::log::Epoch;
use crate::row::Row;

pub use folds::KeptFold;

const KIND: Kind = Kind {
    name: "session log",
    application_id: 0x736c_7031,
    // What is left of a damaged log is found by the columns of `events`: `salvage` knows them too.
    migrations: &[
        "
        CREATE TABLE events (
            seq        INTEGER PRIMARY KEY,
            at         INTEGER NOT NULL,
            actor_kind TEXT NOT NULL,
            actor      TEXT NOT NULL,
            type       TEXT NOT NULL,
            data       TEXT NOT NULL,
            hash       INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE head (
            id      INTEGER PRIMARY KEY,
            session TEXT NOT NULL,
            epoch   INTEGER NOT NULL,
            seq     INTEGER NOT NULL,
            at      INTEGER NOT NULL,
            hash    INTEGER NOT NULL
        ) STRICT;
    ",
        "
        CREATE TABLE folds (
            seq    INTEGER PRIMARY KEY,
            hash   INTEGER NOT NULL,
            format INTEGER NOT NULL,
            sum    INTEGER NOT NULL,
            data   BLOB NOT NULL
        ) STRICT;
    ",
    ],
};

/// How many events at the end are checked each time the file is opened.
const TAIL: u64 = 8;

/// One read ends after this many bytes, so that it does not keep the other sessions of its thread waiting.
const READ_BYTES: usize = 4 << 20;

/// Pages of a write-ahead log that are brought into the file at the latest. A few thousand are read in some milliseconds.
const FAR_AHEAD: usize = 1000;

/// Where the log ends, and whose it is.
#[derive(Debug, Clone, Copy)]
struct Head {
    epoch: u64,
    seq: u64,
    at: i64,
    /// None when the head row could not be read.
    hash: Option<u64>,
}

/// Where a log ends that may be written to: what the next event follows on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) epoch: Epoch,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) hash: u64,
}

/// Some events and whether more follow.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<Event>,
    pub(crate) more: bool,
    /// What is wrong with the event after them.
    pub(crate) damage: Option<Error>,
}

/// Rows as they are in the file, for a copy.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<(Row, u64)>,
    pub(crate) more: bool,
    /// What is wrong with the row after them.
    pub(crate) damage: Option<Error>,
}

/// An open log.
pub(crate) struct LogFile {
    database: Database,
    session: SessionId,
    /// Where the log ends, and where the file does: the rows between them are not in it yet, and only the journal has them.
    head: Head,
    filed: Head,
    pending: Vec<(Row, u64)>,
    /// Why nobody can say where it ends, or why SQLite cannot read all of it. Nothing is written then.
    broken: OnceCell<Error>,
    /// About how many pages the write-ahead log has that the file has not.
    ahead: usize,
}

impl LogFile {
    /// Makes the log of a new session; its first epoch is 1.
    pub(crate) fn create(layout: &Layout, session: SessionId) -> Result<(), Error> {
        let path = layout.log(session);
        if path.exists() {
            return Err(Error::other(&path, "this session has a log already"));
        }
        layout.make_session_dir(session)?;
        Self::create_at(&path, session)
    }

    /// Makes an empty log under this name.
    pub(crate) fn create_at(path: &Path, session: SessionId) -> Result<(), Error> {
        let name = session.to_string();
        Database::create(path, &KIND, |connection| {
            let hash = Chain::genesis(&name).cast_signed();
            connection
                .execute("INSERT INTO head VALUES (1, ?1, 1, 0, 0, ?2)", params![name, hash])
                .map(|_| ())
        })
    }

    /// Opens the log and reads where it ends; [`LogFile::scan`] checks the rest where it is read.
    pub(crate) fn open(layout: &Layout, session: SessionId) -> Result<Self, Error> {
        let path = layout.log(session);
        if !path.try_exists().map_err(|e| Error::io(&path, &e))? {
            return Err(Error::NoSession(session));
        }
        Self::open_at(&path, session)
    }

    /// Opens the log under this name.
    pub(crate) fn open_at(path: &Path, session: SessionId) -> Result<Self, Error> {
        let database = Database::open(path, &KIND)?;
        let (owner, head) = read_head(&database)?;
        if owner != session.to_string() {
            return Err(Error::damaged(path, format!("it is the log of session {owner}")));
        }
        Ok(Self::ending(database, session, head))
    }

    fn ending(database: Database, session: SessionId, head: Head) -> Self {
        Self { database, session, head, filed: head, pending: Vec::new(), broken: OnceCell::new(), ahead: 0 }
    }

    /// What is appended from now on is made durable by the journal; the file itself is written later, and synced last.
    pub(crate) fn with_journal(self) -> Result<Self, Error> {
        self.database.leave_syncs_to_checkpoints()?;
        Ok(self)
    }

    /// Writes what the file does not have yet.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        match self.adopt(pending.iter()) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.pending = pending;
                Err(error)
            }
        }
    }

    /// Rows that the file does not have yet.
    pub(crate) fn pending(&self) -> &[(Row, u64)] {
        &self.pending
    }

    /// Those after an event; they follow on what the file has without a gap.
    fn pending_after(&self, seq: u64) -> &[(Row, u64)] {
        let skipped = usize::try_from(seq.saturating_sub(self.filed.seq)).unwrap_or(usize::MAX);
        self.pending.get(skipped..).unwrap_or_default()
    }

    /// Makes everything durable in the file itself.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Error> {
        self.settle()?;
        self.database.checkpoint()?;
        self.ahead = 0;
        Ok(())
    }

    /// Whether the write-ahead log is so long that the next opening would be slow.
    pub(crate) fn is_far_ahead(&self) -> bool {
        self.ahead > FAR_AHEAD
    }

    /// Goes on with what the journal has and the file has not, as far as it fits. Gives whether the file has to be written.
    pub(crate) fn catch_up(&mut self, rows: Vec<(Row, u64)>) -> bool {
        for (row, sum) in rows {
            let fits =
                row.seq == self.head.seq + 1 && self.head.hash.is_some_and(|hash| row.hash(hash) == sum);
            if fits {
                self.head = Head { seq: row.seq, at: row.at, hash: Some(sum), ..self.head };
                self.pending.push((row, sum));
            }
        }
        !self.pending.is_empty()
    }

    /// Opens what can still be read of a log that cannot be opened because of `broken`. Where that ends is seen when it is
    /// read.
    pub(crate) fn salvage(layout: &Layout, session: SessionId, broken: Error) -> Result<Self, Error> {
        let database = Database::stand_in(&layout.log(session))?;
        let head = Head { epoch: 0, seq: u64::MAX, at: 0, hash: None };
        Ok(Self { broken: OnceCell::from(broken), ..Self::ending(database, session, head) })
    }

    /// Notes that the log once had this event. One that ends earlier has lost its end: it is read up to there, and nothing
    /// is written to it.
    pub(crate) fn must_reach(&mut self, known: u64) {
        if self.head.seq < known {
            self.broken.get_or_init(|| self.ends_early(self.head.seq, known));
        }
    }

    fn ends_early(&self, last: u64, known: u64) -> Error {
        self.damaged(format!("it ends with event {last}, but there was an event {known}"))
    }

    /// For a copy that counts only once it is whole, and is synced by whoever makes it.
    pub(crate) fn without_syncs(self) -> Result<Self, Error> {
        self.database.without_syncs()?;
        Ok(self)
    }

    /// Writes rows of another file of the same log after those that are here.
    pub(crate) fn adopt<'a>(
        &mut self,
        rows: impl DoubleEndedIterator<Item = &'a (Row, u64)> + Clone,
    ) -> Result<(), Error> {
        let before = self.filed;
        let Some((last, hash)) = rows.clone().next_back() else { return Ok(()) };
        let head = Head { seq: last.seq, at: last.at, hash: Some(*hash), ..before };
        let mut bytes = 0;
        self.database.transaction(|connection| {
            let fail = |error: rusqlite::Error| self.database.fail(&error);
            let mut insert = connection
                .prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
                .map_err(fail)?;
            for (row, hash) in rows {
                let (seq, hash) = (row.seq.cast_signed(), hash.cast_signed());
                bytes += row.data.len();
                insert
                    .execute(params![seq, row.at, row.actor_kind, row.actor, row.name, row.data, hash])
                    .map_err(fail)?;
            }
            match move_head(connection, before, head).map_err(fail)? {
                1 => Ok(()),
                _ => Err(Error::Fenced),
            }
        })?;
        self.filed = head;
        if self.head.seq < head.seq {
            self.head = head;
        }
        // The last page of events, that of the head, and what is new.
        self.ahead += 2 + bytes.div_ceil(PAGE_SIZE);
        Ok(())
    }

    /// Refuses a log whose end is damaged or which ends before `known`, an event that was certainly confirmed.
    pub(crate) fn check_end(&mut self, known: u64) -> Result<(), Error> {
        self.settle()?;
        let last: Option<i64> = self
            .database
            .connection()
            .query_row("SELECT max(seq) FROM events", (), |row| row.get(0))
            .map_err(|e| self.database.fail_reading(&e))?;
        let last = last.unwrap_or(0).cast_unsigned();
        if last != self.head.seq {
            return Err(self.damaged(format!("it should end with event {}, not {last}", self.head.seq)));
        }
        if last < known {
            return Err(self.ends_early(last, known));
        }
        let mut after = last.saturating_sub(TAIL);
        while after < last {
            after = self.scan(after, last - after, |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// Takes the log over: whoever had it before is refused from now on. A file of an older version is brought up to
    /// date first.
    pub(crate) fn take(&mut self) -> Result<Epoch, Error> {
        self.check_writable()?;
        self.settle()?;
        self.database.upgrade(&KIND)?;
        let epoch = self.head.epoch + 1;
        self.database.transaction(|connection| {
            connection
                .execute("UPDATE head SET epoch = ?1 WHERE id = 1", [epoch.cast_signed()])
                .map_err(|e| self.database.fail(&e))
        })?;
        self.head.epoch = epoch;
        self.filed.epoch = epoch;
        Ok(Epoch(epoch))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.head.epoch)
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.head.seq
    }

    /// Where the next event goes. Fails when nothing may be written.
    pub(crate) fn end(&self) -> Result<End, Error> {
        self.check_writable()?;
        let Head { epoch, seq, at, hash } = self.head;
        let hash = hash.ok_or_else(|| self.damaged("its head row makes no sense".into()))?;
        let at = Timestamp::from_microsecond(at).map_err(|e| self.damaged(format!("its last time: {e}")))?;
        Ok(End { epoch: Epoch(epoch), seq, at, hash })
    }

    /// Events after `after`, at most `limit` and not too many bytes at once; before damage, those that are sound.
    pub(crate) fn read(&self, after: u64, limit: u64) -> Result<Page, Error> {
        let mut events = Vec::new();
        let (more, damage) = self.collect(after, limit, |row, _| {
            // The row is as it was written, so whoever wrote it knows more than we do.
            let unknown = || Error::Newer(self.database.path().to_owned());
            events.push(row.into_event(self.session).ok_or_else(unknown)?);
            Ok(())
        })?;
        Ok(Page { events, more, damage })
    }

    /// Rows after `after`, like [`LogFile::read`].
    pub(crate) fn rows(&self, after: u64, limit: u64) -> Result<Rows, Error> {
        let mut rows = Vec::new();
        let (more, damage) = self.collect(after, limit, |row, hash| {
            rows.push((row, hash));
            Ok(())
        })?;
        Ok(Rows { rows, more, damage })
    }

    /// Hands out rows; gives whether more follow, and what is wrong with the next.
    fn collect(
        &self,
        after: u64,
        limit: u64,
        mut each: impl FnMut(Row, u64) -> Result<(), Error>,
    ) -> Result<(bool, Option<Error>), Error> {
        let mut last = after;
        let read = self.scan(after, limit, |row, hash| {
            last = row.seq;
            each(row, hash)
        });
        match read {
            Ok(last) if last < self.filed.seq => Ok((true, None)),
            Ok(filed) => {
                let mut last = filed;
                let left = usize::try_from(limit.saturating_sub(filed - after)).unwrap_or(usize::MAX);
                for (row, hash) in self.pending_after(filed).iter().take(left) {
                    last = row.seq;
                    each(row.clone(), *hash)?;
                }
                // At the end of a broken one nothing says that this is all there was.
                let broken = self.broken.get().filter(|_| last >= self.head.seq);
                Ok((last < self.head.seq || broken.is_some(), broken.cloned()))
            }
            Err(damage @ Error::Damaged { .. }) => self.beyond(damage, last, limit - (last - after), each),
            Err(error) => Err(error),
        }
    }

    /// Checks some events after `after`; gives where to go on, or None at the end of a sound log.
    pub(crate) fn verify(&mut self, after: u64, limit: u64) -> Result<Option<u64>, Error> {
        self.settle()?;
        if after >= self.head.seq {
            self.check_end(0)?;
            return self.database.check().map(|()| None);
        }
        self.scan(after, limit, |_, _| Ok(())).map(Some)
    }

    /// Walks the chain from `after`, handing out each row that fits with its checksum, and gives the last one's number.
    fn scan(
        &self,
        after: u64,
        limit: u64,
        mut each: impl FnMut(Row, u64) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        if after >= self.filed.seq || limit == 0 {
            return Ok(after);
        }
        let end = self.filed.seq.min(after.saturating_add(limit));
        let mut link = match after {
            0 => Chain::genesis(&self.session.to_string()),
            _ => self.hash_of(after)?,
        };
        let mut last = after;
        let mut bytes = 0;
        let unreadable = |seq: u64, e: &rusqlite::Error| match self.database.fail_reading(e) {
            Error::Damaged { detail, .. } => self.damaged(format!("event {seq} cannot be read: {detail}")),
            other => other,
        };
        let mut query = self
            .database
            .connection()
            .prepare_cached(
                "SELECT seq, at, actor_kind, actor, type, data, hash FROM events
                 WHERE seq > ?1 AND seq <= ?2 ORDER BY seq",
            )
            .map_err(|e| self.database.fail(&e))?;
        let mut rows =
            query.query([after.cast_signed(), end.cast_signed()]).map_err(|e| unreadable(after + 1, &e))?;
        while last < end && bytes < READ_BYTES {
            let expected = last + 1;
            let found = rows.next().map_err(|e| unreadable(expected, &e))?;
            let Some(found) = found else {
                return Err(self.damaged(format!("event {expected} is missing")));
            };
            let (row, hash) = read_row(found).map_err(|e| unreadable(expected, &e))?;
            if row.seq != expected {
                return Err(self.damaged(format!("event {expected} is missing")));
            }
            link = row.hash(link);
            let is_head = row.seq == self.filed.seq && self.filed.hash.is_some();
            if link != hash || (is_head && Some(link) != self.filed.hash) {
                return Err(self.damaged(format!("event {expected} does not fit its checksum")));
            }
            last = expected;
            bytes += row.data.len();
            each(row, hash)?;
        }
        Ok(last)
    }

    fn hash_of(&self, seq: u64) -> Result<u64, Error> {
        if seq > self.filed.seq
            && let Some((_, hash)) = self.pending_after(seq - 1).first()
        {
            return Ok(*hash);
        }
        let hash: rusqlite::Result<i64> = self
            .database
            .connection()
            .prepare_cached("SELECT hash FROM events WHERE seq = ?1")
            .and_then(|mut query| query.query_row([seq.cast_signed()], |row| row.get(0)));
        match hash {
            Ok(hash) => Ok(hash.cast_unsigned()),
            Err(rusqlite::Error::QueryReturnedNoRows) => Err(self.damaged(format!("event {seq} is missing"))),
            Err(error) => Err(self.database.fail_reading(&error)),
        }
    }

    /// Nothing is written to a log that is known to be broken.
    fn check_writable(&self) -> Result<(), Error> {
        self.broken.get().map_or(Ok(()), |broken| Err(broken.clone()))
    }

    pub(crate) fn close(self) -> Result<(), Error> {
        self.database.close()
    }

    fn damaged(&self, detail: String) -> Error {
        Error::damaged(self.database.path(), detail)
    }
}

fn read_head(database: &Database) -> Result<(String, Head), Error> {
    let (owner, epoch, seq, at, hash) = database
        .connection()
        .query_row("SELECT session, epoch, seq, at, hash FROM head WHERE id = 1", (), |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
                row.get(3)?,
                row.get::<_, i64>(4)?,
            ))
        })
        .map_err(|e| database.fail_reading(&e))?;
    // Half of the range is far more than any log will use, and sums stay far from overflow.
    let sane = |value: i64| u64::try_from(value).ok().filter(|value| *value < 1 << 62);
    match (sane(epoch), sane(seq)) {
        (Some(epoch), Some(seq)) => Ok((owner, Head { epoch, seq, at, hash: Some(hash.cast_unsigned()) })),
        _ => Err(Error::damaged(database.path(), "its head row makes no sense")),
    }
}

fn move_head(connection: &Connection, from: Head, to: Head) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "UPDATE head SET seq = ?1, at = ?2, hash = ?3 WHERE id = 1 AND epoch = ?4 AND seq = ?5",
        )?
        .execute(params![
            to.seq.cast_signed(),
            to.at,
            to.hash.unwrap_or_default().cast_signed(),
            from.epoch.cast_signed(),
            from.seq.cast_signed()
        ])
}

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Row, u64)> {
    let fields = Row {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        at: row.get(1)?,
        actor_kind: row.get(2)?,
        actor: row.get(3)?,
        name: row.get(4)?,
        data: row.get(5)?,
    };
    Ok((fields, row.get::<_, i64>(6)?.cast_unsigned()))
}
