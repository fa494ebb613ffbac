//! Idempotency keys: a request that is sent twice is done once and answered twice.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use protocol::SessionId;
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::now;
use crate::Error;
use crate::database::Database;

/// How long an answer is kept.
const KEPT_MICROSECONDS: i64 = 24 * 60 * 60 * 1_000_000;
/// Most keys that are kept, however young they are. The oldest go first.
const MOST: i64 = 100_000;
/// It is looked how many there are after so many new ones.
const LOOK_AFTER: i64 = 128;
/// Keys grow older by no more than this while no server runs, whatever the clock on the wall says then.
const MOST_UNSEEN: i64 = KEPT_MICROSECONDS / 2;
/// The status of a key whose work may have been begun and that nobody works on. No answer has it.
const ABANDONED: u16 = 0;
/// The status of a key whose work was done and has no answer yet. No answer has it.
const DONE: u16 = 1;

/// The time that keys grow old by, in microseconds. It goes on from the youngest key, with a clock that nobody can set:
/// when the one on the wall jumps by years, keys are neither forgotten at once nor kept for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    base: i64,
    since: Instant,
}

impl Clock {
    pub(crate) fn start(db: &Database) -> Result<Self, Error> {
        Self::start_at(db, now())
    }

    fn start_at(db: &Database, wall: i64) -> Result<Self, Error> {
        let youngest: Option<i64> = db
            .connection()
            .query_row("SELECT max(created_at) FROM keys", (), |row| row.get(0))
            .map_err(|e| db.fail(&e))?;
        let base = youngest.map_or(wall, |at| wall.clamp(at, at.saturating_add(MOST_UNSEEN)));
        Ok(Self { base, since: Instant::now() })
    }

    pub(crate) fn now(self) -> i64 {
        self.base.saturating_add(i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX))
    }
}

/// What became of an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is new: do the work, then settle it.
    New,
    /// The same request was worked on and never answered. Nobody knows how far it came: look for what goes by this name,
    /// do what is missing, then settle it.
    Again {
        /// The name that its first claim gave to the work.
        name: String,
    },
    /// The same request was done, as far as the catalogue is concerned, and never answered: find the answer.
    Done {
        /// The name that its first claim gave to the work.
        name: String,
    },
    /// The same request was answered like this.
    Settled {
        /// HTTP status.
        status: u16,
        /// Body.
        body: String,
    },
    /// The same request is being worked on.
    Pending,
    /// The key belongs to another request.
    Mismatch,
}

/// As long as there is no answer, the name is where the answer will be.
pub(crate) fn claim(
    db: &Database,
    key: &str,
    fingerprint: &str,
    name: &str,
    now: i64,
) -> Result<Claim, Error> {
    let fail = |error: rusqlite::Error| db.fail(&error);
    let connection = db.connection();
    connection
        .prepare_cached("DELETE FROM keys WHERE created_at < ?1")
        .and_then(|mut statement| statement.execute([now - KEPT_MICROSECONDS]))
        .map_err(fail)?;
    let found: Option<(String, Option<u16>, Option<String>)> = connection
        .prepare_cached("SELECT fingerprint, status, body FROM keys WHERE key = ?1")
        .and_then(|mut query| {
            query.query_row([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        })
        .map_err(fail)?;
    match found {
        Some((owner, _, _)) if owner != fingerprint => Ok(Claim::Mismatch),
        Some((_, Some(ABANDONED), Some(name))) => connection
            .prepare_cached("UPDATE keys SET status = NULL WHERE key = ?1")
            .and_then(|mut statement| statement.execute([key]))
            .map(|_| Claim::Again { name })
            .map_err(fail),
        Some((_, Some(DONE), Some(name))) => Ok(Claim::Done { name }),
        Some((_, Some(status), Some(body))) => Ok(Claim::Settled { status, body }),
        Some(_) => Ok(Claim::Pending),
        None => connection
            .prepare_cached("INSERT INTO keys VALUES (?1, ?2, NULL, ?3, ?4)")
            .and_then(|mut statement| statement.execute(params![key, fingerprint, name, now]))
            .map_err(fail)
            .and_then(|_| bound(db, MOST, connection.last_insert_rowid()))
            .map(|()| Claim::New),
    }
}

/// Forgets the oldest keys where there are too many; those that are worked on stay.
fn bound(db: &Database, most: i64, row: i64) -> Result<(), Error> {
    if row % LOOK_AFTER != 0 {
        return Ok(());
    }
    db.connection()
        .prepare_cached(
            "DELETE FROM keys WHERE status IS NOT NULL AND created_at <=
             (SELECT created_at FROM keys ORDER BY created_at DESC LIMIT 1 OFFSET ?1)",
        )
        .and_then(|mut statement| statement.execute([most]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

/// Writes, with what a command does in the catalogue, that it is done. The command goes by the name of its claim.
pub(crate) fn mark_done(db: &Database, name: Option<&str>) -> Result<(), Error> {
    let Some(name) = name else { return Ok(()) };
    db.connection()
        .prepare_cached("UPDATE keys SET status = ?2 WHERE body = ?1 AND status IS NULL")
        .and_then(|mut statement| statement.execute(params![name, DONE]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

pub(crate) fn settle(db: &Database, key: &str, status: u16, body: &str) -> Result<(), Error> {
    db.connection()
        .prepare_cached("UPDATE keys SET status = ?2, body = ?3 WHERE key = ?1")
        .and_then(|mut statement| statement.execute(params![key, status, body]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

pub(crate) fn release(db: &Database, key: &str) -> Result<(), Error> {
    db.connection()
        .prepare_cached("DELETE FROM keys WHERE key = ?1 AND status IS NULL")
        .and_then(|mut statement| statement.execute([key]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

/// Gives the work of a key that is being worked on another name, under which it is found when its server is gone.
pub(crate) fn rename(db: &Database, key: &str, name: &str) -> Result<(), Error> {
    db.connection()
        .prepare_cached("UPDATE keys SET body = ?2 WHERE key = ?1 AND (status IS NULL OR status = ?3)")
        .and_then(|mut statement| statement.execute(params![key, name, ABANDONED]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

/// The keys that begin so, that nobody works on and that have no answer, with the names of their work.
pub(crate) fn left(db: &Database, begin: &str) -> Result<Vec<(String, String)>, Error> {
    db.connection()
        .prepare_cached(
            "SELECT key, body FROM keys WHERE status = ?1 AND body IS NOT NULL AND substr(key, 1, length(?2)) = ?2
             ORDER BY created_at, key",
        )
        .and_then(|mut query| {
            query.query_map(params![ABANDONED, begin], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(|e| db.fail(&e))
}

/// Nobody works on it any more, and nobody knows how far it came.
pub(crate) fn abandon(db: &Database, key: &str) -> Result<(), Error> {
    db.connection()
        .prepare_cached("UPDATE keys SET status = ?2 WHERE key = ?1 AND status IS NULL")
        .and_then(|mut statement| statement.execute(params![key, ABANDONED]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

/// The same for all keys of a server that is gone. Those of one that gave no names are given back.
pub(crate) fn abandon_all(db: &Database) -> Result<(), Error> {
    let connection = db.connection();
    connection
        .execute("DELETE FROM keys WHERE status IS NULL AND body IS NULL", ())
        .and_then(|_| connection.execute("UPDATE keys SET status = ?1 WHERE status IS NULL", [ABANDONED]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

/// What a key's work goes by, as long as there is no answer.
pub(crate) fn name(db: &Database, key: &str) -> Result<Option<String>, Error> {
    db.connection()
        .prepare_cached("SELECT body FROM keys WHERE key = ?1 AND (status IS NULL OR status IN (?2, ?3))")
        .and_then(|mut query| {
            query.query_row(params![key, ABANDONED, DONE], |row| row.get::<_, Option<String>>(0)).optional()
        })
        .map(Option::flatten)
        .map_err(|e| db.fail(&e))
}

/// A key as a backup has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedKey {
    /// The key.
    pub key: String,
    /// What the request was.
    pub fingerprint: String,
    /// HTTP status of the answer; absent when there was none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Body of the answer, or the name that the work goes by.
    pub body: String,
    /// Microseconds since it was claimed.
    pub age: i64,
}

impl SavedKey {
    /// The session whose log tells what was done for it, if it is of a session's command.
    pub fn session(&self) -> Option<SessionId> {
        session_of(&self.key)
    }
}

/// A key ends with the path of the request and what the client calls it, and neither has a space. What a fork makes is
/// another session, with a log of its own.
fn session_of(key: &str) -> Option<SessionId> {
    let path = key.rsplit(' ').nth(1)?;
    let (session, command) = path.strip_prefix("/api/v1/sessions/")?.split_once('/')?;
    if command == "fork" { None } else { session.parse().ok() }
}

/// The keys of a backup that took a while. What was done for a key that got its answer meanwhile may be in the backup or not,
/// so it is saved as one without an answer: whoever asks again looks for what goes by its name.
pub(crate) fn saved_meanwhile(
    before: &[SavedKey],
    mut after: Vec<SavedKey>,
    names: &HashMap<String, String>,
) -> Vec<SavedKey> {
    let answered: HashSet<&str> =
        before.iter().filter(|key| key.status.is_some()).map(|key| key.key.as_str()).collect();
    for key in after.iter_mut().filter(|key| !answered.contains(key.key.as_str())) {
        // One that is done in the catalogue and not answered has its name here.
        if key.status.take() != Some(DONE)
            && let Some(name) = names.get(&key.key)
        {
            key.body.clone_from(name);
        }
    }
    after
}

/// Every key that still counts. Of one that gave no name to its work there is nothing to say.
pub(crate) fn saved(db: &Database, now: i64) -> Result<Vec<SavedKey>, Error> {
    let fields = |row: &rusqlite::Row<'_>| {
        let status: Option<u16> = row.get(2)?;
        Ok(SavedKey {
            key: row.get(0)?,
            fingerprint: row.get(1)?,
            status: status.filter(|status| *status != ABANDONED),
            body: row.get(3)?,
            age: now.saturating_sub(row.get::<_, i64>(4)?),
        })
    };
    db.connection()
        .prepare_cached(
            "SELECT key, fingerprint, status, body, created_at FROM keys
             WHERE body IS NOT NULL AND created_at >= ?1 ORDER BY created_at, key",
        )
        .and_then(|mut query| query.query_map([now - KEPT_MICROSECONDS], fields)?.collect())
        .map_err(|e| db.fail(&e))
}

/// Adds keys that are not here, as old as they were when they were saved. Nobody works on those without an answer. Gives how
/// many were added.
pub(crate) fn adopt(db: &Database, keys: &[SavedKey], now: i64) -> Result<usize, Error> {
    let mut added = 0;
    for SavedKey { key, fingerprint, status, body, age } in keys {
        added += db
            .connection()
            .prepare_cached("INSERT OR IGNORE INTO keys VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut insert| {
                let claimed = now.saturating_sub((*age).clamp(0, KEPT_MICROSECONDS));
                insert.execute(params![key, fingerprint, status.unwrap_or(ABANDONED), body, claimed])
            })
            .map_err(|e| db.fail(&e))?;
    }
    Ok(added)
}

/// For a session whose log is now that of a backup with these keys: forgets the answers to its commands that the backup does
/// not have, because what was done for them is not in the log, and adds the keys that are not here then. Gives how many were
/// added. Those without an answer stay: whoever asks again looks in the log.
pub(crate) fn put_back(
    db: &Database,
    session: SessionId,
    keys: &[SavedKey],
    now: i64,
) -> Result<usize, Error> {
    let fail = |error: rusqlite::Error| db.fail(&error);
    let saved: HashMap<&str, (&str, Option<u16>, &str)> = keys
        .iter()
        .map(|key| (key.key.as_str(), (key.fingerprint.as_str(), key.status, key.body.as_str())))
        .collect();
    let answered: Vec<(String, String, u16, String)> = db
        .connection()
        .prepare_cached(
            "SELECT key, fingerprint, status, body FROM keys
             WHERE instr(key, ?1) > 0 AND status NOT IN (?2, ?3) AND body IS NOT NULL",
        )
        .and_then(|mut query| {
            let fields = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            query.query_map(params![session.to_string(), ABANDONED, DONE], fields)?.collect()
        })
        .map_err(fail)?;
    for (key, fingerprint, status, body) in answered {
        let here = (fingerprint.as_str(), Some(status), body.as_str());
        if session_of(&key) == Some(session) && saved.get(key.as_str()) != Some(&here) {
            db.connection()
                .prepare_cached("DELETE FROM keys WHERE key = ?1")
                .and_then(|mut delete| delete.execute([&key]))
                .map_err(fail)?;
        }
    }
    adopt(db, keys, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(dir: &tempfile::TempDir) -> Database {
        let path = dir.path().join("catalogue.db");
        Database::create(&path, &super::super::KIND, |_| Ok(())).unwrap();
        Database::open(&path, &super::super::KIND).unwrap()
    }

    #[test]
    fn keys_are_neither_forgotten_nor_kept_for_ever_when_the_clock_jumps() {
        const HOUR: i64 = KEPT_MICROSECONDS / 24;
        let (dir, year) = (tempfile::tempdir().unwrap(), 365 * KEPT_MICROSECONDS);
        let db = catalogue(&dir);
        let start = |wall: i64| Clock::start_at(&db, wall).unwrap().base;
        assert_eq!(start(50 * year), 50 * year, "there is no key yet");
        assert_eq!(claim(&db, "k", "f", "n", 50 * year).unwrap(), Claim::New);
        settle(&db, "k", 201, "{}").unwrap();
        assert_eq!(start(50 * year + HOUR), 50 * year + HOUR, "an hour is an hour");
        let settled = Claim::Settled { status: 201, body: "{}".into() };
        for wall in [90 * year, 10 * year] {
            let now = start(wall);
            assert_eq!(claim(&db, "k", "f", "n", now).unwrap(), settled, "at {wall}");
            assert!(now + KEPT_MICROSECONDS > 50 * year);
            assert_eq!(saved(&db, now).unwrap().len(), 1);
        }
        // The server runs on for a day, whatever the clock on the wall says meanwhile.
        let later = start(10 * year) + KEPT_MICROSECONDS + 1;
        assert_eq!(claim(&db, "k", "f", "n", later).unwrap(), Claim::New);
    }

    #[test]
    fn only_so_many_are_kept_and_those_under_way_always() {
        let dir = tempfile::tempdir().unwrap();
        let db = catalogue(&dir);
        for at in 0..20 {
            assert_eq!(claim(&db, &format!("k{at}"), "f", "n", at).unwrap(), Claim::New);
            if at != 3 {
                settle(&db, &format!("k{at}"), 201, "{}").unwrap();
            }
        }
        bound(&db, 5, LOOK_AFTER + 1).unwrap();
        assert_eq!(saved(&db, 20).unwrap().len(), 20, "it is not looked each time");
        bound(&db, 5, LOOK_AFTER).unwrap();
        let left: Vec<String> = saved(&db, 20).unwrap().into_iter().map(|key| key.key).collect();
        assert_eq!(left, ["k3", "k15", "k16", "k17", "k18", "k19"]);
    }

    #[test]
    fn what_was_done_in_the_catalogue_is_known_after_the_server_died() {
        let dir = tempfile::tempdir().unwrap();
        let db = catalogue(&dir);
        for name in ["1", "2"] {
            assert_eq!(claim(&db, name, "f", name, 0).unwrap(), Claim::New);
        }
        mark_done(&db, Some("1")).unwrap();
        mark_done(&db, None).unwrap();
        abandon_all(&db).unwrap();
        assert_eq!(claim(&db, "1", "f", "n", 1).unwrap(), Claim::Done { name: "1".into() });
        assert_eq!(claim(&db, "1", "other", "n", 1).unwrap(), Claim::Mismatch);
        assert_eq!(claim(&db, "2", "f", "n", 1).unwrap(), Claim::Again { name: "2".into() });
        release(&db, "1").unwrap();
        assert_eq!(claim(&db, "1", "f", "n", 1).unwrap(), Claim::Done { name: "1".into() });
        settle(&db, "1", 200, "{}").unwrap();
        assert_eq!(claim(&db, "1", "f", "n", 1).unwrap(), Claim::Settled { status: 200, body: "{}".into() });
    }

    #[test]
    fn a_key_that_is_answered_during_a_backup_is_saved_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let db = catalogue(&dir);
        for key in ["before", "during", "under way"] {
            assert_eq!(claim(&db, key, "f", &format!("work {key}"), 0).unwrap(), Claim::New);
        }
        settle(&db, "before", 201, "{}").unwrap();
        let before = saved(&db, 1).unwrap();
        assert_eq!(claim(&db, "new", "f", "work new", 2).unwrap(), Claim::New);
        let mut names = HashMap::new();
        for key in ["during", "new"] {
            names.insert(key.to_owned(), name(&db, key).unwrap().unwrap());
            settle(&db, key, 202, "{}").unwrap();
            assert_eq!(name(&db, key).unwrap(), None, "it has its answer");
        }
        let keys = saved_meanwhile(&before, saved(&db, 3).unwrap(), &names);
        let found: Vec<_> =
            keys.iter().map(|key| (key.key.as_str(), key.status, key.body.as_str())).collect();
        assert_eq!(
            found,
            [
                ("before", Some(201), "{}"),
                ("during", None, "work during"),
                ("under way", None, "work under way"),
                ("new", None, "work new"),
            ]
        );
    }

    #[test]
    fn answers_of_a_session_that_is_put_back_are_those_of_the_backup() {
        let dir = tempfile::tempdir().unwrap();
        let db = catalogue(&dir);
        let (session, other) = (SessionId::from_u128(1), SessionId::from_u128(2));
        let key = |session: SessionId, what: &str, key: &str| {
            format!("a person POST /api/v1/sessions/{session}/{what} {key}")
        };
        let begin =
            |key: &str| assert_eq!(claim(&db, key, "f", &format!("work {key}"), 0).unwrap(), Claim::New);
        let answer = |key: &str| settle(&db, key, 202, "{}").unwrap();
        let [before, during, again, after, under_way, broken, fork, elsewhere] = [
            key(session, "prompts", "before"),
            key(session, "prompts", "during"),
            key(session, "prompts", "again"),
            key(session, "queue", "after"),
            key(session, "stop", "under-way"),
            key(session, "deliver", "broken"),
            key(session, "fork", "fork"),
            // What a client calls its command says nothing.
            key(other, "prompts", &format!("/api/v1/sessions/{session}/prompts")),
        ];
        for key in [&before, &during, &again] {
            begin(key);
        }
        answer(&before);
        settle(&db, &again, 202, "an answer of the day before").unwrap();
        let backup = saved(&db, 1).unwrap();
        for key in [&after, &under_way, &broken, &fork, &elsewhere] {
            begin(key);
        }
        for key in [&during, &again, &after, &fork, &elsewhere] {
            answer(key);
        }
        abandon(&db, &broken).unwrap();

        assert!(backup.iter().all(|key| key.session() == Some(session)), "{backup:?}");
        assert_eq!(put_back(&db, session, &backup, 2).unwrap(), 2);
        let now = |key: &str| claim(&db, key, "f", "another", 3).unwrap();
        let settled = |body: &str| Claim::Settled { status: 202, body: body.into() };
        assert_eq!(now(&before), settled("{}"));
        assert_eq!(now(&again), settled("an answer of the day before"));
        assert_eq!(now(&during), Claim::Again { name: format!("work {during}") });
        assert_eq!(now(&after), Claim::New, "the log does not have it");
        assert_eq!(now(&under_way), Claim::Pending);
        assert_eq!(now(&broken), Claim::Again { name: format!("work {broken}") });
        assert_eq!(now(&fork), settled("{}"), "it is another session");
        assert_eq!(now(&elsewhere), settled("{}"));
    }

    #[test]
    fn an_answer_is_kept_for_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let db = catalogue(&dir);
        assert_eq!(claim(&db, "k", "f", "n", 0).unwrap(), Claim::New);
        settle(&db, "k", 201, "{}").unwrap();
        let settled = Claim::Settled { status: 201, body: "{}".into() };
        assert_eq!(claim(&db, "k", "f", "n", KEPT_MICROSECONDS).unwrap(), settled);
        assert_eq!(claim(&db, "k", "f", "n", KEPT_MICROSECONDS + 1).unwrap(), Claim::New);
    }

    #[test]
    fn saved_keys_count_elsewhere_as_long_as_they_would_have_here() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = dir.path().join(name);
            Database::create(&path, &super::super::KIND, |_| Ok(())).unwrap();
            Database::open(&path, &super::super::KIND).unwrap()
        };
        let (here, there) = (open("here.db"), open("there.db"));
        for (key, at) in [("old", 0), ("done", 10), ("under way", 20), ("left", 30)] {
            assert_eq!(claim(&here, key, "f", key, at).unwrap(), Claim::New);
        }
        settle(&here, "old", 201, "{}").unwrap();
        settle(&here, "done", 202, "{}").unwrap();
        abandon(&here, "left").unwrap();
        let keys = saved(&here, KEPT_MICROSECONDS + 5).unwrap();
        assert_eq!(keys.len(), 3, "one does not count any more: {keys:?}");

        // Much later: the time in between does not count.
        let now = 100 * KEPT_MICROSECONDS;
        assert_eq!(claim(&there, "left", "another", "mine", now).unwrap(), Claim::New);
        assert_eq!(adopt(&there, &keys, now).unwrap(), 2, "what is there stays");
        assert_eq!(adopt(&there, &keys, now).unwrap(), 0);
        let done = Claim::Settled { status: 202, body: "{}".into() };
        assert_eq!(claim(&there, "done", "f", "n", now + 5).unwrap(), done);
        let again = Claim::Again { name: "under way".into() };
        assert_eq!(claim(&there, "under way", "f", "n", now + 5).unwrap(), again);
        assert_eq!(claim(&there, "left", "f", "n", now + 5).unwrap(), Claim::Mismatch);
        assert_eq!(claim(&there, "done", "f", "n", now + 6).unwrap(), Claim::New, "its day is over");
    }
}
