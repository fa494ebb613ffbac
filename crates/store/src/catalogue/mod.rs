//! The catalogue: what spans sessions. One thread has its file; requests that wait are done in one transaction.

pub(crate) mod environments;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod listing;
pub(crate) mod refused;
pub(crate) mod statistics;

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::Error;
use crate::database::{Database, Kind};
use crate::thread::{Thread, answer, drain};

pub use keys::{Claim, SavedKey};
pub use listing::Page;
pub use statistics::Outline;

/// How often it is tried to bring an old catalogue up to date, when there was no room for that.
const RETRY: Duration = Duration::from_secs(1);

const KIND: Kind = Kind {
    name: "slipway catalogue",
    application_id: 0x736c_7063,
    migrations: &[
        "
        CREATE TABLE environments (
            name       TEXT PRIMARY KEY,
            recipe     TEXT NOT NULL,
            updated_at INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE sessions (
            id         TEXT PRIMARY KEY,
            seq        INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            body       TEXT NOT NULL
        ) STRICT;
        CREATE INDEX sessions_by_change ON sessions (updated_at, id);
        CREATE TABLE keys (
            key         TEXT PRIMARY KEY,
            fingerprint TEXT NOT NULL,
            status      INTEGER,
            body        TEXT,
            created_at  INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX keys_by_age ON keys (created_at);
    ",
        "
        CREATE TABLE refused (
            environment TEXT PRIMARY KEY,
            hosts       TEXT NOT NULL
        ) STRICT;
    ",
        "
        CREATE TABLE listed (
            id           TEXT PRIMARY KEY,
            updated_at   INTEGER NOT NULL,
            created_at   INTEGER NOT NULL,
            part         TEXT NOT NULL,
            status       TEXT NOT NULL,
            archived     INTEGER NOT NULL,
            environment  TEXT NOT NULL,
            model        TEXT NOT NULL,
            origin       TEXT NOT NULL,
            parent       TEXT,
            person       TEXT,
            cost         INTEGER NOT NULL,
            done_at      INTEGER,
            delivered_at INTEGER,
            opened_at    INTEGER,
            merged_at    INTEGER,
            closed_at    INTEGER,
            words        TEXT NOT NULL
        ) STRICT;
        CREATE INDEX listed_by_change ON listed (updated_at, id);
        CREATE INDEX listed_by_creation ON listed (created_at);
        CREATE TABLE authors (
            session TEXT NOT NULL,
            person  TEXT NOT NULL,
            last_at INTEGER NOT NULL,
            PRIMARY KEY (session, person)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX authors_by_time ON authors (last_at, person);
    ",
    ],
};

/// The way to the catalogue's thread.
pub(crate) struct Catalogue {
    thread: Thread<Box<dyn Task>>,
    path: PathBuf,
    key_clock: keys::Clock,
}

impl Catalogue {
    pub(crate) fn start(path: &Path) -> Result<Self, Error> {
        if !path.try_exists().map_err(|e| Error::io(path, &e))? {
            Database::create(path, &KIND, |_| Ok(()))?;
        }
        let mut database = Database::open(path, &KIND)?;
        match database.upgrade(&KIND) {
            Err(error @ Error::Full(_)) => {
                tracing::warn!(%error, "the catalogue is used as an older version left it until there is room")
            }
            result => result?,
        }
        match keys::abandon_all(&database) {
            // A server on a full disk still has to show what there is.
            Err(error @ Error::Full(_)) => {
                tracing::warn!(%error, "idempotency keys of the last run stay claimed")
            }
            result => result?,
        }
        let key_clock = keys::Clock::start(&database)?;
        let thread = Thread::spawn("store-catalogue", move |queue| run(database, &queue))
            .map_err(|e| Error::io(path, &e))?;
        Ok(Self { thread, path: path.to_owned(), key_clock })
    }

    /// The clock that idempotency keys grow old by.
    pub(crate) fn key_clock(&self) -> keys::Clock {
        self.key_clock
    }

    /// Does `work` on the catalogue's thread. It may be done a second time when its first transaction failed.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnMut(&Database) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, result) = oneshot::channel();
        self.thread.send(Box::new(Call { work, done: None, reply }));
        let stopped = "the store's thread for it has stopped; restart the server";
        result.await.unwrap_or_else(|_| Err(Error::other(&self.path, stopped)))
    }
}

/// One request: done inside a transaction, answered after its commit.
trait Task: Send {
    fn work(&mut self, database: &Database) -> Result<(), Error>;
    fn answer(self: Box<Self>, committed: Result<(), Error>);
}

struct Call<T, F> {
    work: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T: Send, F: FnMut(&Database) -> Result<T, Error> + Send> Task for Call<T, F> {
    fn work(&mut self, database: &Database) -> Result<(), Error> {
        self.done = Some((self.work)(database)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        match (committed, self.done) {
            (Ok(()), Some(done)) => answer(self.reply, Ok(done)),
            (Err(error), _) => answer(self.reply, Err(error)),
            // Not answering reads as a stopped thread; a commit without work does not happen.
            (Ok(()), None) => {}
        }
    }
}

fn run(mut database: Database, queue: &Receiver<Box<dyn Task>>) {
    let mut tried = Instant::now();
    while let Ok(first) = queue.recv() {
        if database.version() < KIND.version() && tried.elapsed() > RETRY {
            tried = Instant::now();
            // It said so when it began; what waits is done on the catalogue as it is.
            if let Err(error) = database.upgrade(&KIND) {
                tracing::debug!(%error, "the catalogue is still as an older version left it");
            }
        }
        commit(&database, drain(first, queue));
    }
    if let Err(error) = database.close() {
        tracing::warn!(%error, "the catalogue was not closed cleanly");
    }
}

/// Does all tasks in one transaction; when that fails, each in its own, so that only those fail that must.
fn commit(database: &Database, mut tasks: Vec<Box<dyn Task>>) {
    let result = database.transaction(|_| tasks.iter_mut().try_for_each(|task| task.work(database)));
    match result {
        Err(_) if tasks.len() > 1 => tasks.into_iter().for_each(|task| commit(database, vec![task])),
        result => tasks.into_iter().for_each(|task| task.answer(result.clone())),
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}
