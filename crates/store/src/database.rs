//! One SQLite file: how it is made (whole or not at all), opened, recognised and brought up to the current schema. What
//! a file was like before is kept beside it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::Error;
use crate::layout::{beside, remove_unfinished, sync_dir, unfinished};

/// Bytes of a page in every file. What reads a damaged log without SQLite cannot ask the file.
pub(crate) const PAGE_SIZE: usize = 4096;

/// What a file is for.
#[derive(Debug)]
pub(crate) struct Kind {
    /// For messages.
    pub(crate) name: &'static str,
    /// Marks the file as ours.
    pub(crate) application_id: i32,
    /// Statements that bring a file from version `n` (the place in the list) to `n + 1`. Only ever added to. Each
    /// changes the schema, which tells the version too should the number be damaged.
    pub(crate) migrations: &'static [&'static str],
}

impl Kind {
    /// The current version of the schema.
    pub(crate) fn version(&self) -> i64 {
        self.migrations.len() as i64
    }
}

/// An open file.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    /// Of the schema.
    version: i64,
}

impl Database {
    /// Makes a new file with the current schema and what `seed` writes. It appears under its name only when it is whole.
    pub(crate) fn create(
        path: &Path,
        kind: &Kind,
        seed: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        remove_unfinished(path)?;
        let made = Self::make(path, kind, seed);
        if made.is_err() {
            // Of a full disk, this gives the room back. What cannot be removed now is removed by the next try.
            drop(remove_unfinished(path));
        }
        made
    }

    fn make(
        path: &Path,
        kind: &Kind,
        seed: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        let io = |error: std::io::Error| Error::io(path, &error);
        let new = unfinished(path);
        // SQLite would make the file readable for others; what it makes beside it later follows this mode.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(io)?;
        let database = Self::connect(&new)?;
        // The one sync comes after the file is complete.
        database.set("synchronous", "OFF")?;
        database.set("page_size", PAGE_SIZE as i64)?;
        database.set("journal_mode", "WAL")?;
        database.set("application_id", kind.application_id)?;
        database.migrate(kind, 0)?;
        seed(&database.connection).map_err(|e| database.fail(&e))?;
        // Closing would do this too, but it keeps quiet when the disk is full: the file would go without its content.
        database.empty_wal()?;
        database.close()?;
        File::open(&new).and_then(|file| file.sync_all()).map_err(io)?;
        fs::rename(&new, path).map_err(io)?;
        path.parent().map_or(Ok(()), sync_dir)
    }

    /// Opens a file that exists, after checking that it is what it should be. Its schema may be an older one:
    /// [`Database::upgrade`] is for whoever wants to write.
    pub(crate) fn open(path: &Path, kind: &Kind) -> Result<Self, Error> {
        // SQLite would take it for a new file, and remove the write-ahead log that belongs to it.
        if fs::metadata(path).is_ok_and(|file| file.len() == 0) {
            return Err(Error::damaged(path, "it is empty"));
        }
        let mut database = Self::connect(path)?;
        if database.get("application_id")? != i64::from(kind.application_id) {
            return Err(Error::damaged(path, format!("it is not a {}", kind.name)));
        }
        let version = database.get("user_version")?;
        if version > kind.version() {
            return Err(database.misnumbered(kind, version)?.unwrap_or(Error::Newer(path.to_owned())));
        }
        // Of a file that it could write SQLite says this only when the head of the file does.
        let read_only = database.connection.is_readonly(rusqlite::MAIN_DB).map_err(|e| database.fail(&e))?;
        if read_only && OpenOptions::new().append(true).open(path).is_ok() {
            return Err(Error::damaged(path, "it says that this version of SQLite may not write it"));
        }
        if version < 1 {
            return Err(Error::damaged(path, format!("its version {version} was never in use")));
        }
        database.set("journal_mode", "WAL")?;
        database.set("synchronous", "FULL")?;
        // A small write-ahead log keeps opening after a crash quick, and thousands of sessions small on disk.
        database.set("wal_autocheckpoint", 256)?;
        database.set("journal_size_limit", 1 << 20)?;
        database.version = version;
        Ok(database)
    }

    /// Stands for a file that SQLite refuses: it has the name, and no tables.
    pub(crate) fn stand_in(path: &Path) -> Result<Self, Error> {
        let connection = Connection::open_in_memory().map_err(|e| Error::sql(path, None, &e))?;
        Ok(Self { connection, path: path.to_owned(), version: 0 })
    }

    /// Says that a file is damaged which calls itself one of `version`, but has the schema of another that we know.
    fn misnumbered(&self, kind: &Kind, version: i64) -> Result<Option<Error>, Error> {
        let schema = self.schema()?;
        let model = Self::stand_in(&self.path)?;
        for (known, step) in (1..).zip(kind.migrations) {
            model.connection.execute_batch(step).map_err(|e| self.fail(&e))?;
            if known != version && model.schema()? == schema {
                let detail =
                    format!("it calls itself version {version}, but has the tables of version {known}");
                return Ok(Some(Error::damaged(&self.path, detail)));
            }
        }
        Ok(None)
    }

    /// The names and the text of all tables.
    fn schema(&self) -> Result<Vec<(String, String)>, Error> {
        self.connection
            .prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY name")
            .and_then(|mut query| query.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(|e| self.fail_reading(&e))
    }

    /// What is committed from now on is durable only after a checkpoint, and those are left to the caller.
    pub(crate) fn leave_syncs_to_checkpoints(&self) -> Result<(), Error> {
        self.set("synchronous", "NORMAL")?;
        self.set("wal_autocheckpoint", 0)?;
        self.set("journal_size_limit", 8 << 20)
    }

    /// Brings the write-ahead log into the file, and syncs both: everything that was committed is durable.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        let done: (i64, i64, i64) = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .map_err(|e| self.fail(&e))?;
        match done {
            (0, pages, brought) if pages == brought => Ok(()),
            _ => {
                Err(Error::other(&self.path, "its write-ahead log stays; does another program have it open?"))
            }
        }
    }

    /// What is written from now on is durable only when somebody syncs the file.
    pub(crate) fn without_syncs(&self) -> Result<(), Error> {
        self.set("synchronous", "OFF")
    }

    /// The version of the schema that the file has.
    pub(crate) fn version(&self) -> i64 {
        self.version
    }

    /// Brings the file to the current schema. Before that the file as it was is kept beside it, under its name with its
    /// version; when anything fails the old one stays in use.
    pub(crate) fn upgrade(&mut self, kind: &Kind) -> Result<(), Error> {
        if self.version == kind.version() {
            return Ok(());
        }
        if let Some(damaged) = self.misnumbered(kind, self.version)? {
            return Err(damaged);
        }
        let kept = beside(&self.path, &format!(".v{}", self.version));
        self.copy_to(&kept)?;
        self.migrate(kind, self.version).map_err(|error| match error {
            error @ Error::Full(_) => error,
            error => Error::other(
                &self.path,
                format!(
                    "it could not be brought up to this version of slipway, and is as it was ({} is a copy): {error}",
                    kept.display()
                ),
            ),
        })?;
        tracing::info!(path = %self.path.display(), kept = %kept.display(), "a file was brought up to date");
        self.version = kind.version();
        Ok(())
    }

    /// Writes a copy, as of now and durable, that appears under its name only when it is whole. It goes through the
    /// connection: opening the file a second time would give up this process's locks on it.
    pub(crate) fn copy_to(&self, path: &Path) -> Result<(), Error> {
        remove_unfinished(path)?;
        let copied = self.copy(path);
        if copied.is_err() {
            drop(remove_unfinished(path));
        }
        copied
    }

    fn copy(&self, path: &Path) -> Result<(), Error> {
        let io = |error: std::io::Error| Error::io(path, &error);
        let new = unfinished(path);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(io)?;
        let mut copy = Self::connect(&new)?;
        copy.set("synchronous", "OFF")?;
        copy.set("journal_mode", "OFF")?;
        let backup = Backup::new(&self.connection, &mut copy.connection).map_err(|e| self.fail(&e))?;
        match backup.step(-1) {
            Ok(StepResult::Done) => {}
            Ok(_) => return Err(Error::other(path, "another program has one of the files open")),
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                return Err(Error::Full(path.to_owned()));
            }
            Err(error) => return Err(self.fail(&error)),
        }
        drop(backup);
        copy.close()?;
        File::open(&new).and_then(|file| file.sync_all()).map_err(io)?;
        fs::rename(&new, path).map_err(io)?;
        path.parent().map_or(Ok(()), sync_dir)
    }

    fn connect(path: &Path) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).map_err(|error| match fs::metadata(path) {
                Err(io) => Error::io(path, &io),
                // SQLite does not say what the system said, so it is asked again.
                Ok(_) => match File::open(path) {
                    Err(io) => Error::io(path, &io),
                    Ok(_) => Error::sql(path, None, &error),
                },
            })?;
        let database = Self { connection, path: path.to_owned(), version: 0 };
        database.connection.busy_timeout(Duration::from_secs(5)).map_err(|e| database.fail(&e))?;
        // One connection has the file: two descriptors instead of three, and no shared-memory file, for which a full disk
        // would have no room.
        database.set("locking_mode", "EXCLUSIVE")?;
        // KiB of page cache: many files are open at once and each is read mostly at its end.
        database.set("cache_size", -128)?;
        // The file may be damaged: notice it early, and run nothing that its schema might bring along.
        database.set("cell_size_check", true)?;
        database.set("trusted_schema", false)?;
        Ok(database)
    }

    fn migrate(&self, kind: &Kind, from: i64) -> Result<(), Error> {
        if from == kind.version() {
            return Ok(());
        }
        self.transaction(|connection| {
            for step in kind.migrations.iter().skip(usize::try_from(from).unwrap_or(0)) {
                connection.execute_batch(step).map_err(|e| self.fail(&e))?;
            }
            self.set("user_version", kind.version())
        })
    }

    /// Runs `work` in a transaction, all or nothing; what was committed is on disk when this returns.
    pub(crate) fn transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|e| self.fail(&e))?;
        let result = work(&transaction)?;
        transaction.commit().map_err(|e| self.fail(&e))?;
        Ok(result)
    }

    /// From now on what is removed is overwritten.
    pub(crate) fn overwrite_removed(&self) -> Result<(), Error> {
        // It answers with what holds now.
        self.connection
            .pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))
            .map_err(|e| self.fail(&e))
    }

    /// Brings what the write-ahead log has into the file, and empties it.
    pub(crate) fn empty_wal(&self) -> Result<(), Error> {
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
            .map_err(|e| self.fail(&e))
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Says what an error of this file's connection means.
    pub(crate) fn fail(&self, error: &rusqlite::Error) -> Error {
        Error::sql(&self.path, Some(&self.connection), error)
    }

    /// Says what an error means that came while reading, where a value that is too long was never written like that.
    pub(crate) fn fail_reading(&self, error: &rusqlite::Error) -> Error {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::TooBig) => Error::damaged(&self.path, error.to_string()),
            _ => self.fail(error),
        }
    }

    /// Checks the structure of the whole file.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let verdict: String = self
            .connection
            .query_row("PRAGMA integrity_check(1)", (), |row| row.get(0))
            .map_err(|e| self.fail_reading(&e))?;
        if verdict == "ok" { Ok(()) } else { Err(Error::damaged(&self.path, verdict)) }
    }

    /// Closes the file; the write-ahead log goes into it and away, unless the disk does not let it.
    pub(crate) fn close(self) -> Result<(), Error> {
        let Self { connection, path, .. } = self;
        connection.close().map_err(|(connection, error)| Error::sql(&path, Some(&connection), &error))
    }

    fn get(&self, pragma: &str) -> Result<i64, Error> {
        self.connection.pragma_query_value(None, pragma, |row| row.get(0)).map_err(|e| self.fail(&e))
    }

    fn set(&self, pragma: &str, value: impl rusqlite::ToSql) -> Result<(), Error> {
        self.connection.pragma_update(None, pragma, value).map_err(|e| self.fail(&e))
    }
}
