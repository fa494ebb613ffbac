//! What came of the sessions, out of the columns that lists have: each is written when its session changes, so nothing here reads a
//! log or a row's body.

use rusqlite::params;

use super::listing::SINCE;
use crate::Error;
use crate::database::Database;

/// What statistics need of a session. Times are in microseconds, money in millionths of a dollar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// When it was made.
    pub created_at: i64,
    /// Its environment.
    pub environment: String,
    /// Its model.
    pub model: String,
    /// Who asked first.
    pub person: Option<String>,
    /// What it cost.
    pub cost: i64,
    /// When a turn was first done.
    pub done_at: Option<i64>,
    /// When its branch first reached the remote.
    pub delivered_at: Option<i64>,
    /// When its pull request was opened.
    pub opened_at: Option<i64>,
    /// When that was merged.
    pub merged_at: Option<i64>,
    /// When that was closed without being merged.
    pub closed_at: Option<i64>,
}

/// Sessions of which something happened between two moments, the second not included.
pub(crate) fn outlines(db: &Database, from: i64, to: i64) -> Result<Vec<Outline>, Error> {
    if db.version() < SINCE {
        return Ok(Vec::new());
    }
    db.connection()
        .prepare_cached(
            "SELECT created_at, environment, model, person, cost, done_at, delivered_at, opened_at, merged_at, closed_at
             FROM listed WHERE (created_at >= ?1 AND created_at < ?2) OR (delivered_at >= ?1 AND delivered_at < ?2)
             OR (merged_at >= ?1 AND merged_at < ?2) OR (closed_at >= ?1 AND closed_at < ?2)",
        )
        .and_then(|mut query| {
            let rows = query.query_map(params![from, to], |row| {
                Ok(Outline {
                    created_at: row.get(0)?,
                    environment: row.get(1)?,
                    model: row.get(2)?,
                    person: row.get(3)?,
                    cost: row.get(4)?,
                    done_at: row.get(5)?,
                    delivered_at: row.get(6)?,
                    opened_at: row.get(7)?,
                    merged_at: row.get(8)?,
                    closed_at: row.get(9)?,
                })
            })?;
            rows.collect()
        })
        .map_err(|e| db.fail(&e))
}

/// Who asked for something since a moment, by name.
pub(crate) fn prompting(db: &Database, since: i64) -> Result<Vec<String>, Error> {
    if db.version() < SINCE {
        return Ok(Vec::new());
    }
    db.connection()
        .prepare_cached("SELECT DISTINCT person FROM authors WHERE last_at >= ?1 ORDER BY person")
        .and_then(|mut query| query.query_map([since], |row| row.get(0))?.collect())
        .map_err(|e| db.fail(&e))
}
