//! What lists filter and sort by: a few columns of each session beside its row of the index. The last fold of the log makes them,
//! so a filter reads no log.

use protocol::{Archived, GroupCounts, Session, SessionFilter, SessionId};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use super::index;
use crate::Error;
use crate::database::Database;

/// The first version of the catalogue that has them. One without is used only while the disk is full.
pub(super) const SINCE: i64 = 3;

/// Most words that are searched for.
const WORDS: usize = 16;

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The last changed first.
    pub sessions: Vec<Session>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// How many there are in each part.
    pub counts: GroupCounts,
}

/// Writes what a session is found by, unless something later was written.
pub(crate) fn put(db: &Database, session: &Session, words: &str) -> Result<(), Error> {
    if db.version() < SINCE {
        return Ok(());
    }
    let listing = &session.listing;
    let micros = |at: Option<protocol::Timestamp>| at.map(protocol::Timestamp::as_microsecond);
    // Millionths of a dollar, as far as they go.
    let cost = i64::try_from(session.spend.cost_usd.pico() / 1_000_000).unwrap_or(i64::MAX);
    let id = session.id.to_string();
    let connection = db.connection();
    let write = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "INSERT OR REPLACE INTO listed VALUES
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?;
        statement.execute(params![
            id,
            session.updated_at.as_microsecond(),
            session.created_at.as_microsecond(),
            listing.group.as_str(),
            session.status.as_str(),
            listing.archived,
            session.environment,
            session.model,
            listing.origin.as_str(),
            listing.parent.map(|parent| parent.to_string()),
            listing.authors.first().map(|author| author.name.as_str()),
            cost,
            micros(listing.done_at),
            micros(listing.delivered_at),
            micros(listing.opened_at),
            micros(listing.merged_at),
            micros(listing.closed_at),
            format!("{}\n{words}", session.title).to_lowercase(),
        ])?;
        let mut author = connection.prepare_cached("INSERT OR REPLACE INTO authors VALUES (?1, ?2, ?3)")?;
        for one in &listing.authors {
            author.execute(params![id, one.name, one.last_prompt_at.as_microsecond()])?;
        }
        Ok(())
    };
    write().map_err(|e| db.fail(&e))
}

/// Removes what a session is found by.
pub(crate) fn forget(db: &Database, id: SessionId) -> Result<(), Error> {
    if db.version() < SINCE {
        return Ok(());
    }
    let id = id.to_string();
    for statement in ["DELETE FROM listed WHERE id = ?1", "DELETE FROM authors WHERE session = ?1"] {
        db.connection()
            .prepare_cached(statement)
            .and_then(|mut delete| delete.execute([&id]))
            .map_err(|e| db.fail(&e))?;
    }
    Ok(())
}

/// Sessions that have a row of the index and nothing to be found by: an older version wrote it.
pub(crate) fn missing(db: &Database) -> Result<Vec<SessionId>, Error> {
    if db.version() < SINCE {
        return Ok(Vec::new());
    }
    let ids: Vec<String> = db
        .connection()
        .prepare_cached("SELECT id FROM sessions WHERE id NOT IN (SELECT id FROM listed)")
        .and_then(|mut query| query.query_map((), |row| row.get(0))?.collect())
        .map_err(|e| db.fail(&e))?;
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Conditions of a query, and what they are about.
#[derive(Default)]
struct Conditions {
    text: String,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        let place = format!("?{}", self.values.len());
        self.text.push_str(" AND ");
        self.text.push_str(&condition.replace('?', &place));
    }

    fn of(filter: &SessionFilter) -> Self {
        let mut this = Self::default();
        match filter.archived {
            Archived::False => this.text.push_str(" AND l.archived = 0"),
            Archived::True => this.text.push_str(" AND l.archived = 1"),
            Archived::All => {}
        }
        let words = filter.q.as_deref().unwrap_or_default().to_lowercase();
        for word in words.split_whitespace().take(WORDS) {
            this.add("instr(l.words, ?) > 0", word.to_owned());
        }
        let texts = [
            ("l.status = ?", filter.status.map(|status| status.as_str().to_owned())),
            ("l.environment = ?", filter.environment.clone()),
            ("l.model = ?", filter.model.clone()),
            ("l.origin = ?", filter.origin.map(|origin| origin.as_str().to_owned())),
            ("l.parent = ?", filter.parent.map(|parent| parent.to_string())),
            (
                "EXISTS (SELECT 1 FROM authors a WHERE a.session = l.id AND a.person = ?)",
                filter.author.clone(),
            ),
        ];
        for (condition, value) in texts {
            if let Some(value) = value {
                this.add(condition, value);
            }
        }
        this
    }
}

/// A page of those that fit, the last changed first, and how many there are of each part.
pub(crate) fn page(db: &Database, filter: &SessionFilter, limit: usize) -> Result<Page, Error> {
    if db.version() < SINCE {
        return Ok(Page { sessions: index::list(db, limit)?, ..Page::default() });
    }
    let mut conditions = Conditions::of(filter);
    let counts = counts(db, &conditions)?;
    if let Some(group) = filter.group {
        conditions.add("l.part = ?", group.as_str().to_owned());
    }
    if let Some((at, id)) = filter.cursor.as_deref().and_then(read_cursor) {
        conditions.add("l.updated_at <= ?", at);
        // Of those that changed in the same moment, the ones after it in the order of the page.
        conditions.values.push(Value::Text(id));
        let (moment, last) = (conditions.values.len() - 1, conditions.values.len());
        conditions.text.push_str(&format!(" AND (l.updated_at < ?{moment} OR l.id < ?{last})"));
    }
    let most = i64::try_from(limit).unwrap_or(i64::MAX - 1);
    conditions.values.push(Value::Integer(most.saturating_add(1)));
    let query = format!(
        "SELECT l.id, l.updated_at, s.body FROM listed l JOIN sessions s ON s.id = l.id WHERE 1{}
         ORDER BY l.updated_at DESC, l.id DESC LIMIT ?{}",
        conditions.text,
        conditions.values.len()
    );
    let rows: Vec<(String, i64, String)> = db
        .connection()
        .prepare_cached(&query)
        .and_then(|mut query| {
            let rows = query.query_map(params_from_iter(&conditions.values), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect()
        })
        .map_err(|e| db.fail(&e))?;
    let next = match rows.get(limit.wrapping_sub(1)) {
        Some((id, at, _)) if rows.len() > limit => Some(format!("{at}.{id}")),
        _ => None,
    };
    let sessions = rows.iter().take(limit).filter_map(|(_, _, body)| index::decode(body)).collect();
    Ok(Page { sessions, next, counts })
}

fn counts(db: &Database, conditions: &Conditions) -> Result<GroupCounts, Error> {
    let query = format!("SELECT l.part, count(*) FROM listed l WHERE 1{} GROUP BY l.part", conditions.text);
    let rows: Vec<(String, i64)> = db
        .connection()
        .prepare_cached(&query)
        .and_then(|mut query| {
            query
                .query_map(params_from_iter(&conditions.values), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .map_err(|e| db.fail(&e))?;
    let of =
        |part: &str| rows.iter().find(|(name, _)| name == part).map_or(0, |(_, n)| n.max(&0).unsigned_abs());
    Ok(GroupCounts { needs_you: of("needs_you"), working: of("working"), finished: of("finished") })
}

/// Where a page begins. What is no such place is the beginning.
fn read_cursor(text: &str) -> Option<(i64, String)> {
    let (at, id) = text.split_once('.')?;
    let id: SessionId = id.parse().ok()?;
    Some((at.parse().ok()?, id.to_string()))
}

/// Whether this is a place that a page gave.
pub(crate) fn is_cursor(text: &str) -> bool {
    read_cursor(text).is_some()
}
