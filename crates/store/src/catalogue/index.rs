//! The index of sessions: the last fold of each log, for lists. A row that cannot be read is left out, because folding the
//! log makes it again.

use protocol::{Session, SessionId};
use rusqlite::{OptionalExtension, params};

use super::listing;
use crate::Error;
use crate::database::Database;

/// Writes a row, unless a later one is there; and what the session is found by.
pub(crate) fn put(db: &Database, session: &Session, words: &str) -> Result<(), Error> {
    let body = serde_json::to_string(session).map_err(|e| Error::other(db.path(), e.to_string()))?;
    db.connection()
        .prepare_cached(
            "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at, body = excluded.body
             WHERE excluded.seq >= sessions.seq",
        )
        .and_then(|mut statement| {
            let updated_at = session.updated_at.as_microsecond();
            statement.execute(params![session.id.to_string(), session.seq.cast_signed(), updated_at, body])
        })
        .map_err(|e| db.fail(&e))
        .and_then(|written| if written > 0 { listing::put(db, session, words) } else { Ok(()) })
}

pub(crate) fn list(db: &Database, limit: usize) -> Result<Vec<Session>, Error> {
    let rows: Vec<String> = db
        .connection()
        .prepare_cached("SELECT body FROM sessions ORDER BY updated_at DESC, id DESC LIMIT ?1")
        .and_then(|mut query| {
            query.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| row.get(0))?.collect()
        })
        .map_err(|e| db.fail(&e))?;
    Ok(rows.iter().filter_map(|body| decode(body)).collect())
}

/// Sessions whose rows have this text in them, the last changed first.
pub(crate) fn naming(db: &Database, text: &str) -> Result<Vec<Session>, Error> {
    let rows: Vec<String> = db
        .connection()
        .prepare_cached(
            "SELECT body FROM sessions WHERE instr(body, ?1) > 0 ORDER BY updated_at DESC LIMIT 1000",
        )
        .and_then(|mut query| query.query_map([text], |row| row.get(0))?.collect())
        .map_err(|e| db.fail(&e))?;
    Ok(rows.iter().filter_map(|body| decode(body)).collect())
}

pub(crate) fn one(db: &Database, id: SessionId) -> Result<Option<Session>, Error> {
    let body: Option<String> = db
        .connection()
        .prepare_cached("SELECT body FROM sessions WHERE id = ?1")
        .and_then(|mut query| query.query_row([id.to_string()], |row| row.get(0)).optional())
        .map_err(|e| db.fail(&e))?;
    Ok(body.as_deref().and_then(decode))
}

/// Every session that has a row.
pub(crate) fn ids(db: &Database) -> Result<Vec<SessionId>, Error> {
    let ids: Vec<String> = db
        .connection()
        .prepare_cached("SELECT id FROM sessions ORDER BY id")
        .and_then(|mut query| query.query_map((), |row| row.get(0))?.collect())
        .map_err(|e| db.fail(&e))?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Removes a row.
pub(crate) fn forget(db: &Database, id: SessionId) -> Result<(), Error> {
    db.connection()
        .prepare_cached("DELETE FROM sessions WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id.to_string()]))
        .map_err(|e| db.fail(&e))
        .and_then(|_| listing::forget(db, id))
}

/// The last event that the index has seen of a session.
pub(crate) fn seq(db: &Database, id: SessionId) -> Result<u64, Error> {
    let seq: Option<i64> = db
        .connection()
        .prepare_cached("SELECT seq FROM sessions WHERE id = ?1")
        .and_then(|mut query| query.query_row([id.to_string()], |row| row.get(0)).optional())
        .map_err(|e| db.fail(&e))?;
    Ok(seq.unwrap_or(0).max(0).cast_unsigned())
}

pub(super) fn decode(body: &str) -> Option<Session> {
    serde_json::from_str(body)
        .inspect_err(|error| tracing::warn!(%error, "a row of the index cannot be read and is left out"))
        .ok()
}
