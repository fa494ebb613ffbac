//! The notes of the memory: `memory.db`, with a full-text index and a vector for each note. What is searched for, and what
//! replaces what, is decided by the crate `memory`; here is only what SQL does.
//!
//! Calls block: they are for a thread that may wait.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::{Note, NoteId, NoteKind, NoteScope};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::database::{Database, Kind};

/// The words are given already taken apart, so that names in code are found by their parts; the stems are SQLite's.
const KIND: Kind = Kind {
    name: "slipway memory",
    application_id: 0x736c_706d,
    migrations: &[
        "
        CREATE TABLE notes (
            row      INTEGER PRIMARY KEY,
            id       TEXT NOT NULL UNIQUE,
            scope    TEXT NOT NULL,
            replaced INTEGER NOT NULL,
            body     TEXT NOT NULL,
            model    TEXT NOT NULL,
            vector   BLOB NOT NULL
        ) STRICT;
        CREATE INDEX notes_by_scope ON notes (scope, replaced);
        CREATE VIRTUAL TABLE notes_text USING fts5 (
            words,
            content = '',
            contentless_delete = 1,
            tokenize = 'porter unicode61 remove_diacritics 2'
        );
    ",
        "
        CREATE TABLE done (
            key    TEXT PRIMARY KEY,
            answer TEXT NOT NULL,
            at     INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX done_by_age ON done (at);
    ",
    ],
};

/// What a note is found by.
#[derive(Debug, Clone, PartialEq)]
pub struct NoteKeys {
    /// Its words, with spaces between.
    pub words: String,
    /// The embedding model that made the vector.
    pub model: String,
    /// What the note means; empty when no model could be asked.
    pub vector: Vec<f32>,
}

/// Marks a change as done, in the transaction that makes it: whoever asks for it again is given the answer.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// What was asked for.
    pub key: &'a str,
    /// What came of it.
    pub answer: &'a str,
    /// The time, in seconds since 1970.
    pub at: i64,
}

/// For as many seconds it is known that a change was done. Only a server that died asks again, when it is started.
const KNOWN_FOR: i64 = 90 * 24 * 3600;

/// Notes that have a word, by their rows.
pub type Matches = Vec<(i64, f64)>;

/// The open file.
pub struct Notes {
    database: Mutex<Database>,
}

impl Notes {
    /// Opens the file, and makes it when there is none.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // SQLite would take a relative name that begins with "file:" as a URI.
        let path = &std::path::absolute(path).map_err(|e| Error::io(path, &e))?;
        if !path.try_exists().map_err(|e| Error::io(path, &e))? {
            Database::create(path, &KIND, |_| Ok(()))?;
        }
        let mut database = Database::open(path, &KIND)?;
        database.upgrade(&KIND)?;
        // What is forgotten is not to be read in the file.
        database.overwrite_removed()?;
        Ok(Self { database: Mutex::new(database) })
    }

    /// Writes a new note; those in `replaced` are given to nobody from then on.
    pub fn add(&self, note: &Note, keys: &NoteKeys, replaced: &[Note]) -> Result<(), Error> {
        let old = replaced.iter().map(|old| (old, None));
        self.write_all(old.chain([(note, Some(keys))]), &[])
    }

    /// Writes a note that is there as it is now. Without keys it is found by those it had.
    pub fn put(&self, note: &Note, keys: Option<&NoteKeys>) -> Result<(), Error> {
        self.write_all([(note, keys)], &[])
    }

    /// Writes notes, in order, and marks what that does, all of it or nothing. A note without keys is found by those it
    /// had; one that is not there needs some.
    pub fn write_all<'a>(
        &self,
        notes: impl IntoIterator<Item = (&'a Note, Option<&'a NoteKeys>)>,
        marks: &[Mark<'_>],
    ) -> Result<(), Error> {
        let database = self.lock();
        database.transaction(|connection| {
            for (note, keys) in notes {
                write(&database, connection, note, keys)?;
            }
            let fail = |e: rusqlite::Error| database.fail(&e);
            for Mark { key, answer, at } in marks {
                let mark = "INSERT OR REPLACE INTO done (key, answer, at) VALUES (?1, ?2, ?3)";
                connection.execute(mark, params![key, answer, at]).map_err(fail)?;
                connection
                    .execute("DELETE FROM done WHERE at < ?1", [at.saturating_sub(KNOWN_FOR)])
                    .map_err(fail)?;
            }
            Ok(())
        })
    }

    /// What came of a change that was marked as done.
    pub fn done(&self, key: &str) -> Result<Option<String>, Error> {
        let database = self.lock();
        database
            .connection()
            .prepare_cached("SELECT answer FROM done WHERE key = ?1")
            .and_then(|mut query| query.query_row([key], |row| row.get(0)).optional())
            .map_err(|e| database.fail(&e))
    }

    /// Removes a note, also what it said from the file; tells whether there was one.
    pub fn remove(&self, id: NoteId) -> Result<bool, Error> {
        let database = self.lock();
        database
            .transaction(|connection| {
                let fail = |e: rusqlite::Error| database.fail(&e);
                let Some(row) = row_of(connection, id).map_err(fail)? else { return Ok(false) };
                connection.execute("DELETE FROM notes_text WHERE rowid = ?1", [row]).map_err(fail)?;
                connection.execute("DELETE FROM notes WHERE row = ?1", [row]).map_err(fail)?;
                // The index only marks it as gone until its parts are put together.
                connection
                    .execute("INSERT INTO notes_text (notes_text) VALUES ('optimize')", ())
                    .map_err(fail)?;
                Ok(true)
            })
            .and_then(|removed| database.empty_wal().map(|()| removed))
    }

    /// One note, with those that were replaced.
    pub fn get(&self, id: NoteId) -> Result<Option<Note>, Error> {
        let database = self.lock();
        let body = database
            .connection()
            .prepare_cached("SELECT body FROM notes WHERE id = ?1")
            .and_then(|mut query| query.query_row([id.to_string()], |row| row.get::<_, String>(0)).optional())
            .map_err(|e| database.fail(&e))?;
        body.map(|body| read(&database, &body)).transpose()
    }

    /// All notes of these scopes, or of all; also those that were replaced.
    pub fn list(&self, scopes: Option<&[NoteScope]>) -> Result<Vec<Note>, Error> {
        let database = self.lock();
        let scopes = scopes.map(|scopes| names(&database, scopes)).transpose()?;
        let bodies: Vec<String> = rows(
            &database,
            "SELECT body FROM notes WHERE ?1 IS NULL OR scope IN (SELECT value FROM json_each(?1)) ORDER BY row",
            params![scopes],
            |row| row.get(0),
        )?;
        bodies.iter().map(|body| read(&database, body)).collect()
    }

    /// The notes of these rows that may be given to somebody.
    pub fn at(&self, wanted: &[i64]) -> Result<Vec<(i64, Note)>, Error> {
        let database = self.lock();
        let list = serde_json::to_string(wanted).map_err(|e| Error::other(database.path(), e.to_string()))?;
        let found: Vec<(i64, String)> = rows(
            &database,
            "SELECT row, body FROM notes WHERE row IN (SELECT value FROM json_each(?1)) AND replaced = 0",
            params![list],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        found.into_iter().map(|(row, body)| Ok((row, read(&database, &body)?))).collect()
    }

    /// The notes of these scopes that have this word, each with its rank by BM25: the higher, the better.
    pub fn with_word(&self, word: &str, scopes: &[NoteScope]) -> Result<Matches, Error> {
        let database = self.lock();
        // In quotes it is a word, whatever it is made of.
        let phrase = format!("\"{}\"", word.replace('"', "\"\""));
        let scopes = names(&database, scopes)?;
        rows(
            &database,
            "SELECT notes.row, -bm25(notes_text) FROM notes_text JOIN notes ON notes.row = notes_text.rowid
             WHERE notes_text MATCH ?1 AND notes.replaced = 0
             AND notes.scope IN (SELECT value FROM json_each(?2))",
            params![phrase, scopes],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// The vectors that this model made for notes of these scopes, and empty ones for those of other models.
    pub fn vectors(&self, model: &str, scopes: &[NoteScope]) -> Result<Vec<(i64, Vec<f32>)>, Error> {
        let database = self.lock();
        let scopes = names(&database, scopes)?;
        rows(
            &database,
            "SELECT row, CASE model WHEN ?1 THEN vector ELSE x'' END FROM notes
             WHERE replaced = 0 AND scope IN (SELECT value FROM json_each(?2))",
            params![model, scopes],
            |row| Ok((row.get(0)?, from_bytes(row.get_ref(1)?.as_blob()?))),
        )
    }

    /// The rows of the notes of these scopes that are of this kind and may be given to somebody.
    pub fn of_kind(&self, kind: NoteKind, scopes: &[NoteScope]) -> Result<Vec<i64>, Error> {
        let database = self.lock();
        let scopes = names(&database, scopes)?;
        rows(
            &database,
            "SELECT row FROM notes WHERE replaced = 0 AND json_extract(body, '$.kind') = ?1
             AND scope IN (SELECT value FROM json_each(?2))",
            params![kind.as_str(), scopes],
            |row| row.get(0),
        )
    }

    /// At most `limit` notes that have no vector of this model.
    pub fn without_vector(&self, model: &str, limit: usize) -> Result<Vec<Note>, Error> {
        let database = self.lock();
        let bodies: Vec<String> = rows(
            &database,
            "SELECT body FROM notes WHERE replaced = 0 AND (model <> ?1 OR length(vector) = 0) LIMIT ?2",
            params![model, i64::try_from(limit).unwrap_or(i64::MAX)],
            |row| row.get(0),
        )?;
        bodies.iter().map(|body| read(&database, body)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Database> {
        // What a panic left undone was rolled back with its transaction.
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inserts or updates a note, and what it is found by.
fn write(
    database: &Database,
    connection: &Connection,
    note: &Note,
    keys: Option<&NoteKeys>,
) -> Result<(), Error> {
    let fail = |e: rusqlite::Error| database.fail(&e);
    let body = serde_json::to_string(note).map_err(|e| Error::other(database.path(), e.to_string()))?;
    let (id, scope) = (note.id.to_string(), note.scope.to_string());
    let replaced = note.replaced_by.is_some();
    let known = row_of(connection, note.id).map_err(fail)?;
    match (known, keys) {
        (Some(row), None) => connection
            .execute(
                "UPDATE notes SET scope = ?2, replaced = ?3, body = ?4 WHERE row = ?1",
                params![row, scope, replaced, body],
            )
            .map_err(fail)?,
        (Some(row), Some(keys)) => connection
            .execute(
                "UPDATE notes SET scope = ?2, replaced = ?3, body = ?4, model = ?5, vector = ?6 WHERE row = ?1",
                params![row, scope, replaced, body, keys.model, to_bytes(&keys.vector)],
            )
            .map_err(fail)?,
        (None, Some(keys)) => connection
            .execute(
                "INSERT INTO notes (id, scope, replaced, body, model, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![id, scope, replaced, body, keys.model, to_bytes(&keys.vector)],
            )
            .map_err(fail)?,
        // Somebody removed it meanwhile.
        (None, None) => return Ok(()),
    };
    let row = known.unwrap_or_else(|| connection.last_insert_rowid());
    if known.is_some() && (keys.is_some() || replaced) {
        connection.execute("DELETE FROM notes_text WHERE rowid = ?1", [row]).map_err(fail)?;
    }
    if let Some(keys) = keys.filter(|_| !replaced) {
        connection
            .execute("INSERT INTO notes_text (rowid, words) VALUES (?1, ?2)", params![row, keys.words])
            .map_err(fail)?;
    }
    Ok(())
}

fn row_of(connection: &Connection, id: NoteId) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT row FROM notes WHERE id = ?1")?
        .query_row([id.to_string()], |row| row.get(0))
        .optional()
}

fn rows<T>(
    database: &Database,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Error> {
    database
        .connection()
        .prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, read)?.collect())
        .map_err(|e| database.fail(&e))
}

fn read(database: &Database, body: &str) -> Result<Note, Error> {
    serde_json::from_str(body)
        .map_err(|error| Error::damaged(database.path(), format!("a note cannot be read: {error}")))
}

/// The scopes as SQL takes a list.
fn names(database: &Database, scopes: &[NoteScope]) -> Result<String, Error> {
    let names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    serde_json::to_string(&names).map_err(|e| Error::other(database.path(), e.to_string()))
}

fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::{Actor, NoteSource, Timestamp};

    use super::*;

    fn note(number: u128, scope: NoteScope) -> Note {
        Note {
            id: NoteId::from_u128(number),
            scope,
            kind: NoteKind::Fact,
            subject: None,
            text: format!("note {number}"),
            source: NoteSource::by(Actor::user("ana")),
            made_at: Timestamp::UNIX_EPOCH,
            changed_at: Timestamp::UNIX_EPOCH,
            uses: 0,
            useful: 0,
            used_at: None,
            replaced_by: None,
        }
    }

    fn keys(words: &str) -> NoteKeys {
        NoteKeys { words: words.to_owned(), model: "m".to_owned(), vector: vec![0.5, -1.0] }
    }

    #[test]
    fn notes_are_found_by_the_stem_of_a_word_in_their_scope_only() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::open(&dir.path().join("memory.db")).unwrap();
        let (shop, other) = (NoteScope::environment("shop"), NoteScope::environment("other"));
        notes.add(&note(1, shop.clone()), &keys("tests run nightly"), &[]).unwrap();
        notes.add(&note(2, other.clone()), &keys("tests run daily"), &[]).unwrap();
        let found = notes.with_word("testing", std::slice::from_ref(&shop)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(notes.at(&[found[0].0]).unwrap()[0].1, note(1, shop.clone()));
        assert_eq!(notes.with_word("test", &[shop.clone(), other]).unwrap().len(), 2);
        assert_eq!(notes.with_word("quote\" OR words:run", &[shop]).unwrap(), vec![]);
    }

    #[test]
    fn a_replaced_note_is_kept_and_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        let notes = Notes::open(&path).unwrap();
        let scope = NoteScope::person("ana");
        notes.add(&note(1, scope.clone()), &keys("npm"), &[]).unwrap();
        let old = Note { replaced_by: Some(NoteId::from_u128(2)), ..note(1, scope.clone()) };
        notes.add(&note(2, scope.clone()), &keys("pnpm"), std::slice::from_ref(&old)).unwrap();
        drop(notes);
        let notes = Notes::open(&path).unwrap();
        assert_eq!(notes.with_word("npm", std::slice::from_ref(&scope)).unwrap(), vec![]);
        assert_eq!(notes.vectors("m", std::slice::from_ref(&scope)).unwrap().len(), 1);
        assert_eq!(notes.get(old.id).unwrap(), Some(old));
        assert_eq!(notes.list(Some(&[scope])).unwrap().len(), 2);
    }

    #[test]
    fn what_was_done_is_known_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::open(&dir.path().join("memory.db")).unwrap();
        let scope = NoteScope::person("ana");
        let mark = |key, at| Mark { key, answer: "yes", at };
        notes.write_all([(&note(1, scope.clone()), Some(&keys("a")))], &[mark("first", 0)]).unwrap();
        assert_eq!(notes.done("first").unwrap().as_deref(), Some("yes"));
        assert_eq!(notes.done("second").unwrap(), None);
        notes.write_all(std::iter::empty(), &[mark("second", KNOWN_FOR + 1)]).unwrap();
        assert_eq!(notes.done("first").unwrap(), None, "it was long ago");
        assert_eq!(notes.of_kind(NoteKind::Fact, std::slice::from_ref(&scope)).unwrap().len(), 1);
        assert!(notes.of_kind(NoteKind::Decision, &[scope]).unwrap().is_empty());
    }

    #[test]
    fn a_file_of_the_first_version_is_brought_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.db");
        const FIRST: Kind = Kind { migrations: &[KIND.migrations[0]], ..KIND };
        Database::create(&path, &FIRST, |_| Ok(())).unwrap();
        let notes = Notes::open(&path).unwrap();
        assert_eq!(notes.done("anything").unwrap(), None);
        notes.add(&note(1, NoteScope::person("ana")), &keys("a"), &[]).unwrap();
    }

    #[test]
    fn a_changed_note_is_found_by_its_new_words_and_a_removed_one_by_none() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::open(&dir.path().join("memory.db")).unwrap();
        let scope = NoteScope::repository("https://forge.example/shop.git");
        let scopes = std::slice::from_ref(&scope);
        notes.add(&note(1, scope.clone()), &keys("yarn"), &[]).unwrap();
        notes
            .put(&note(1, scope.clone()), Some(&NoteKeys { model: "n".to_owned(), ..keys("pnpm") }))
            .unwrap();
        assert_eq!(notes.with_word("yarn", scopes).unwrap(), vec![]);
        assert_eq!(notes.with_word("pnpm", scopes).unwrap().len(), 1);
        assert_eq!(notes.vectors("m", scopes).unwrap()[0].1, Vec::<f32>::new());
        assert_eq!(notes.vectors("n", scopes).unwrap()[0].1, vec![0.5, -1.0]);
        assert_eq!(notes.without_vector("m", 9).unwrap().len(), 1);
        assert!(notes.remove(NoteId::from_u128(1)).unwrap());
        assert!(!notes.remove(NoteId::from_u128(1)).unwrap());
        assert_eq!(notes.with_word("pnpm", scopes).unwrap(), vec![]);
        // What was read before somebody removed it does not bring it back.
        notes.put(&note(1, scope.clone()), None).unwrap();
        assert_eq!(notes.list(None).unwrap(), vec![]);
    }
}
