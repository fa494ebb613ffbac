//! Environments that were made by command, not by configuration.

use protocol::Environment;
use rusqlite::params;

use super::now;
use crate::Error;
use crate::database::Database;

pub(crate) fn list(db: &Database) -> Result<Vec<(String, Environment)>, Error> {
    let rows: Vec<(String, String)> = db
        .connection()
        .prepare_cached("SELECT name, recipe FROM environments ORDER BY name")
        .and_then(|mut query| query.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(|e| db.fail(&e))?;
    rows.into_iter()
        .map(|(name, recipe)| match serde_json::from_str(&recipe) {
            Ok(recipe) => Ok((name, recipe)),
            Err(error) => {
                Err(Error::damaged(db.path(), format!("environment {name} cannot be read: {error}")))
            }
        })
        .collect()
}

pub(crate) fn put(db: &Database, name: &str, recipe: &Environment) -> Result<(), Error> {
    let recipe = serde_json::to_string(recipe).map_err(|e| Error::other(db.path(), e.to_string()))?;
    db.connection()
        .prepare_cached("INSERT OR REPLACE INTO environments VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.execute(params![name, recipe, now()]))
        .map(|_| ())
        .map_err(|e| db.fail(&e))
}

pub(crate) fn remove(db: &Database, name: &str) -> Result<bool, Error> {
    db.connection()
        .prepare_cached("DELETE FROM environments WHERE name = ?1")
        .and_then(|mut statement| statement.execute([name]))
        .map(|removed| removed > 0)
        .map_err(|e| db.fail(&e))
}
