//! What sandboxes of each environment were refused, as it was last written: one short list for each.

use protocol::RefusedHost;
use rusqlite::params;

use crate::Error;
use crate::database::Database;

/// The first version of the catalogue that has them. One without is used only while the disk is full.
const SINCE: i64 = 2;

pub(crate) fn list(db: &Database) -> Result<Vec<(String, Vec<RefusedHost>)>, Error> {
    if db.version() < SINCE {
        return Ok(Vec::new());
    }
    let rows: Vec<(String, String)> = db
        .connection()
        .prepare_cached("SELECT environment, hosts FROM refused ORDER BY environment")
        .and_then(|mut query| query.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(|e| db.fail(&e))?;
    rows.into_iter()
        .map(|(environment, hosts)| match serde_json::from_str(&hosts) {
            Ok(hosts) => Ok((environment, hosts)),
            Err(error) => Err(Error::damaged(
                db.path(),
                format!("what {environment} was refused cannot be read: {error}"),
            )),
        })
        .collect()
}

pub(crate) fn put(db: &Database, environment: &str, hosts: &[RefusedHost]) -> Result<(), Error> {
    if db.version() < SINCE {
        return Err(Error::Full(db.path().to_owned()));
    }
    let connection = db.connection();
    let written = if hosts.is_empty() {
        connection
            .prepare_cached("DELETE FROM refused WHERE environment = ?1")
            .and_then(|mut statement| statement.execute([environment]))
    } else {
        let hosts = serde_json::to_string(hosts).map_err(|e| Error::other(db.path(), e.to_string()))?;
        connection
            .prepare_cached("INSERT OR REPLACE INTO refused VALUES (?1, ?2)")
            .and_then(|mut statement| statement.execute(params![environment, hosts]))
    };
    written.map(|_| ()).map_err(|e| db.fail(&e))
}
