//! The file of one session's log: events in a checksum chain, and one `head` row that says who owns the log and where it
//! ends. The head is written in the transaction of the events, so that an end that went missing is noticed.

use protocol::{Event, SessionId, Timestamp};
use rusqlite::{Connection, params};

use crate::Error;
use crate::chain::Chain;
use crate::database::{Database, Kind};
use crate::layout::Layout;
use crate::log::Epoch;
use crate::row::{Encoded, Row, actor_word, link};

const KIND: Kind = Kind {
    name: "session log",
    application_id: 0x736c_7031,
    migrations: &["
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
    "],
};

/// How many events at the end are checked each time the file is opened.
const TAIL: u64 = 8;

/// One read ends after this many bytes, so that it does not keep the other sessions of its thread waiting.
const READ_BYTES: usize = 4 << 20;

/// Where the log ends, and whose it is.
#[derive(Debug, Clone, Copy)]
struct Head {
    epoch: u64,
    seq: u64,
    at: i64,
    hash: u64,
}

/// Where appended events went: one after the other from `first`, all at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) first: u64,
    pub(crate) at: Timestamp,
}

/// Some events and whether more follow.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<Event>,
    pub(crate) more: bool,
}

/// An open log.
pub(crate) struct LogFile {
    database: Database,
    session: SessionId,
    head: Head,
}

impl LogFile {
    /// Makes the log of a new session; its first epoch is 1.
    pub(crate) fn create(layout: &Layout, session: SessionId) -> Result<Self, Error> {
        let path = layout.log(session);
        if path.exists() {
            return Err(Error::other(&path, "this session has a log already"));
        }
        layout.make_session_dir(session)?;
        let name = session.to_string();
        Database::create(&path, &KIND, |connection| {
            let hash = Chain::genesis(&name).cast_signed();
            connection
                .execute("INSERT INTO head VALUES (1, ?1, 1, 0, 0, ?2)", params![name, hash])
                .map(|_| ())
        })?;
        Self::open(layout, session)
    }

    /// Opens the log and checks its end; [`LogFile::scan`] checks the rest where it is read.
    pub(crate) fn open(layout: &Layout, session: SessionId) -> Result<Self, Error> {
        let path = layout.log(session);
        if !path.try_exists().map_err(|e| Error::io(&path, &e))? {
            return Err(Error::NoSession(session));
        }
        let database = Database::open(&path, &KIND)?;
        let (owner, head) = read_head(&database)?;
        if owner != session.to_string() {
            return Err(Error::damaged(&path, format!("it is the log of session {owner}")));
        }
        Ok(Self { database, session, head })
    }

    /// Refuses a log whose end is damaged or which ends before `known`, an event that was certainly confirmed.
    pub(crate) fn check_end(&self, known: u64) -> Result<(), Error> {
        let last: Option<i64> = self
            .database
            .connection()
            .query_row("SELECT max(seq) FROM events", (), |row| row.get(0))
            .map_err(|e| self.database.fail(&e))?;
        let last = last.unwrap_or(0).cast_unsigned();
        if last != self.head.seq {
            return Err(self.damaged(format!("it should end with event {}, not {last}", self.head.seq)));
        }
        if last < known {
            return Err(self.damaged(format!("it ends with event {last}, but there was an event {known}")));
        }
        let mut after = last.saturating_sub(TAIL);
        while after < last {
            after = self.scan(after, last - after, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Takes the log over: whoever had it before is refused from now on.
    pub(crate) fn take(&mut self) -> Result<Epoch, Error> {
        let epoch = self.head.epoch + 1;
        self.database.transaction(|connection| {
            connection
                .execute("UPDATE head SET epoch = ?1 WHERE id = 1", [epoch.cast_signed()])
                .map_err(|e| self.database.fail(&e))
        })?;
        self.head.epoch = epoch;
        Ok(Epoch(epoch))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.head.epoch)
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.head.seq
    }

    /// Appends in one transaction. The caller has checked the epoch; the statement checks it once more on the file.
    pub(crate) fn append<'a>(&mut self, drafts: impl Iterator<Item = &'a Encoded>) -> Result<Placed, Error> {
        let before = self.head;
        let at = Timestamp::now().as_microsecond().max(before.at);
        let time =
            Timestamp::from_microsecond(at).map_err(|e| self.damaged(format!("its last time: {e}")))?;
        let mut head = Head { at, ..before };
        self.database.transaction(|connection| {
            let fail = |error: rusqlite::Error| self.database.fail(&error);
            let mut insert = connection
                .prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
                .map_err(fail)?;
            for draft in drafts {
                let (kind, actor) = (actor_word(draft.actor.kind), &draft.actor.id);
                let name = draft.body.name();
                head.seq += 1;
                head.hash = link(head.hash, head.seq, at, [kind, actor, name, &draft.data]);
                let (seq, hash) = (head.seq.cast_signed(), head.hash.cast_signed());
                insert.execute(params![seq, at, kind, actor, name, draft.data, hash]).map_err(fail)?;
            }
            match move_head(connection, before, head).map_err(fail)? {
                1 => Ok(()),
                _ => Err(Error::Fenced),
            }
        })?;
        self.head = head;
        Ok(Placed { first: before.seq + 1, at: time })
    }

    /// Events after `after`, at most `limit` and not too many bytes at once.
    pub(crate) fn read(&self, after: u64, limit: u64) -> Result<Page, Error> {
        let mut events = Vec::new();
        let last = self.scan(after, limit, |row| {
            // The row is as it was written, so whoever wrote it knows more than we do.
            let unknown = || Error::Newer(self.database.path().to_owned());
            events.push(row.into_event(self.session).ok_or_else(unknown)?);
            Ok(())
        })?;
        Ok(Page { events, more: last < self.head.seq })
    }

    /// Checks some events after `after`; gives where to go on, or None at the end of a sound log.
    pub(crate) fn verify(&self, after: u64, limit: u64) -> Result<Option<u64>, Error> {
        if after >= self.head.seq {
            self.check_end(0)?;
            return self.database.check().map(|()| None);
        }
        self.scan(after, limit, |_| Ok(())).map(Some)
    }

    /// Walks the chain from `after`, handing out each row that fits, and gives the last one's number.
    fn scan(
        &self,
        after: u64,
        limit: u64,
        mut each: impl FnMut(Row) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        if after >= self.head.seq || limit == 0 {
            return Ok(after);
        }
        let end = self.head.seq.min(after.saturating_add(limit));
        let mut link = match after {
            0 => Chain::genesis(&self.session.to_string()),
            _ => self.hash_of(after)?,
        };
        let mut last = after;
        let mut bytes = 0;
        let unreadable = |seq: u64, e: &rusqlite::Error| match self.database.fail(e) {
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
            if link != hash || (row.seq == self.head.seq && link != self.head.hash) {
                return Err(self.damaged(format!("event {expected} does not fit its checksum")));
            }
            last = expected;
            bytes += row.data.len();
            each(row)?;
        }
        Ok(last)
    }

    fn hash_of(&self, seq: u64) -> Result<u64, Error> {
        let hash: rusqlite::Result<i64> = self
            .database
            .connection()
            .prepare_cached("SELECT hash FROM events WHERE seq = ?1")
            .and_then(|mut query| query.query_row([seq.cast_signed()], |row| row.get(0)));
        match hash {
            Ok(hash) => Ok(hash.cast_unsigned()),
            Err(rusqlite::Error::QueryReturnedNoRows) => Err(self.damaged(format!("event {seq} is missing"))),
            Err(error) => Err(self.database.fail(&error)),
        }
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
        .map_err(|e| database.fail(&e))?;
    // Half of the range is far more than any log will use, and sums stay far from overflow.
    let sane = |value: i64| u64::try_from(value).ok().filter(|value| *value < 1 << 62);
    match (sane(epoch), sane(seq)) {
        (Some(epoch), Some(seq)) => Ok((owner, Head { epoch, seq, at, hash: hash.cast_unsigned() })),
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
            to.hash.cast_signed(),
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
