//! The data directory as a whole: the front door to logs and catalogue.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::{Environment, Event, RefusedHost, Session, SessionId};
use tokio::sync::oneshot;

use crate::catalogue::{Catalogue, Claim, SavedKey, environments, index, keys, refused};
use crate::database::Database;
use crate::layout::Layout;
use crate::lock::Lock;
use crate::logfile::KeptFold;
use crate::secrets::Secrets;
use crate::writer::{Append, Counts, Job, Reply, Writers};
use crate::{Error, Log};

/// The data directory, opened. Clones and logs share it; when the last of them is dropped, every file is closed and the
/// lock is given back.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

/// The fields are dropped in this order: the threads close their files before the lock goes.
pub(crate) struct Inner {
    writers: Writers,
    pub(crate) catalogue: Catalogue,
    layout: Layout,
    secrets: Secrets,
    /// Backups under way, and the names of keys that were answered since the first of them began.
    answered: Arc<Mutex<(usize, HashMap<String, String>)>>,
    /// Counts the changes of the index.
    changes: tokio::sync::watch::Sender<u64>,
    _lock: Lock,
}

/// Idempotency keys as they were when a backup began.
pub struct KeysBefore {
    keys: Vec<SavedKey>,
    answered: Arc<Mutex<(usize, HashMap<String, String>)>>,
}

impl Drop for KeysBefore {
    fn drop(&mut self) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.0 -= 1;
        if answered.0 == 0 {
            answered.1 = HashMap::new();
        }
    }
}

impl Store {
    /// Opens (or makes) the data directory and takes its lock for the life of the value.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        Self::open_with(dir, None)
    }

    /// The same, with the key of the secrets in this file.
    pub fn open_with(dir: &Path, secret_key: Option<&Path>) -> Result<Self, Error> {
        let layout = Layout::prepare(dir)?;
        let lock = Lock::take(&layout)?;
        layout.sweep()?;
        let catalogue = Catalogue::start(&layout.catalogue())?;
        let writers = Writers::start(&layout)?;
        let secrets = Secrets::new(layout.root(), secret_key);
        let answered = Arc::default();
        let changes = tokio::sync::watch::Sender::new(0);
        let inner = Inner { writers, catalogue, layout, secrets, answered, changes, _lock: lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes the log of a new session.
    pub async fn create_log(&self, session: SessionId) -> Result<Arc<Log>, Error> {
        let opened = self.inner.ask(session, Job::Create).await?;
        failpoint::hit(failpoint::Point::LogCreated);
        Ok(Arc::new(Log::new(self.inner.clone(), session, opened)))
    }

    /// Opens the log of a session and takes a new epoch.
    pub async fn open_log(&self, session: SessionId) -> Result<Arc<Log>, Error> {
        // The index is written after the log, so a log that ends earlier has lost its end.
        let known = self.inner.catalogue.call(move |db| index::seq(db, session)).await?;
        let opened = self.inner.ask(session, |reply| Job::Open { known, reply }).await?;
        Ok(Arc::new(Log::new(self.inner.clone(), session, opened)))
    }

    /// Number of a log's last event, without taking the log over.
    pub async fn last_seq(&self, session: SessionId) -> Result<u64, Error> {
        self.inner.ask(session, Job::End).await
    }

    /// Reads a log like [`Log::read`] without taking it over; also when the disk is full, or the log's end damaged.
    pub async fn read_log(&self, session: SessionId, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
        self.inner.read(session, after, limit).await
    }

    /// Reads a log like [`Store::read_log`], up to damage: what is wrong with the event after those it gives comes with
    /// them.
    pub async fn read_sound(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<Event>, Option<Error>), Error> {
        self.inner.read_sound(session, after, limit).await
    }

    /// The last fold of a log that was kept in this format, like [`Log::kept_fold`] without taking the log over.
    pub async fn kept_fold(&self, session: SessionId, format: u64) -> Result<Option<KeptFold>, Error> {
        self.inner.ask(session, |reply| Job::KeptFold { format, reply }).await
    }

    /// Sends a job to the session's thread and blocks until the answer is there.
    pub(crate) fn ask_blocking<T>(
        &self,
        session: SessionId,
        job: impl FnOnce(Reply<T>) -> Job,
    ) -> Result<T, Error> {
        let (reply, result) = oneshot::channel();
        self.inner.writers.send(session, job(reply));
        result.blocking_recv().unwrap_or_else(|_| Err(self.inner.stopped(session)))
    }

    /// Every session that has a log, oldest first.
    pub async fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let layout = self.inner.layout.clone();
        self.inner.catalogue.call(move |_| layout.sessions()).await
    }

    /// Sessions that the index knows and that have no log any more, oldest first.
    pub async fn lost(&self) -> Result<Vec<SessionId>, Error> {
        let layout = self.inner.layout.clone();
        let lost = self.inner.catalogue.call(move |db| {
            let mut lost = index::ids(db)?;
            lost.retain(|session| !layout.log(*session).exists());
            Ok(lost)
        });
        lost.await
    }

    /// Writes the session's row of the index, and the words that it is found by. A row of a later event stays.
    pub async fn index(&self, session: &Session, words: &str) -> Result<(), Error> {
        let (session, words) = (session.clone(), words.to_owned());
        let written = self.inner.catalogue.call(move |db| index::put(db, &session, &words)).await;
        self.inner.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        written
    }

    /// Tells when a row of the index was written.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Rows of the index, the last changed first.
    pub async fn indexed(&self, limit: usize) -> Result<Vec<Session>, Error> {
        self.inner.catalogue.call(move |db| index::list(db, limit)).await
    }

    /// One row of the index.
    pub async fn indexed_one(&self, id: SessionId) -> Result<Option<Session>, Error> {
        self.inner.catalogue.call(move |db| index::one(db, id)).await
    }

    /// Environments made by `env add` or the API, by name.
    pub async fn environments(&self) -> Result<Vec<(String, Environment)>, Error> {
        self.inner.catalogue.call(environments::list).await
    }

    /// Writes one.
    pub async fn put_environment(&self, name: &str, recipe: &Environment) -> Result<(), Error> {
        self.put_environment_for(None, name, recipe).await
    }

    /// The same for a command that goes by this name under its idempotency key: both or neither are known to be done.
    pub async fn put_environment_for(
        &self,
        command: Option<&str>,
        name: &str,
        recipe: &Environment,
    ) -> Result<(), Error> {
        let (name, recipe, command) = (name.to_owned(), recipe.clone(), command.map(str::to_owned));
        let put = move |db: &Database| {
            keys::mark_done(db, command.as_deref())?;
            environments::put(db, &name, &recipe)
        };
        self.inner.catalogue.call(put).await
    }

    /// Removes one; false when it was not there.
    pub async fn remove_environment(&self, name: &str) -> Result<bool, Error> {
        self.remove_environment_for(None, name).await
    }

    /// The same for a command, like [`Store::put_environment_for`]. One that finds nothing to remove is not done.
    pub async fn remove_environment_for(&self, command: Option<&str>, name: &str) -> Result<bool, Error> {
        let (name, command) = (name.to_owned(), command.map(str::to_owned));
        let remove = move |db: &Database| {
            let removed = environments::remove(db, &name)?;
            keys::mark_done(db, command.as_deref().filter(|_| removed))?;
            Ok(removed)
        };
        self.inner.catalogue.call(remove).await
    }

    /// What sandboxes of each environment were refused, as it was last written.
    pub async fn refused(&self) -> Result<Vec<(String, Vec<RefusedHost>)>, Error> {
        self.inner.catalogue.call(refused::list).await
    }

    /// Writes what sandboxes of an environment were refused, in place of what was written before.
    pub async fn put_refused(&self, environment: &str, hosts: Vec<RefusedHost>) -> Result<(), Error> {
        self.put_refused_for(None, environment, hosts).await
    }

    /// The same for a command, like [`Store::put_environment_for`].
    pub async fn put_refused_for(
        &self,
        command: Option<&str>,
        environment: &str,
        hosts: Vec<RefusedHost>,
    ) -> Result<(), Error> {
        let (environment, command) = (environment.to_owned(), command.map(str::to_owned));
        let put = move |db: &Database| {
            keys::mark_done(db, command.as_deref())?;
            refused::put(db, &environment, &hosts)
        };
        self.inner.catalogue.call(put).await
    }

    /// Claims an idempotency key for a request with this fingerprint. What the work makes goes by the name, so that it
    /// can be found should the server end before the answer is stored.
    pub async fn claim_key(&self, key: &str, fingerprint: &str, name: &str) -> Result<Claim, Error> {
        let (key, fingerprint, name) = (key.to_owned(), fingerprint.to_owned(), name.to_owned());
        let now = self.inner.catalogue.key_clock().now();
        self.inner.catalogue.call(move |db| keys::claim(db, &key, &fingerprint, &name, now)).await
    }

    /// The sessions whose rows in the index have this text in them.
    pub async fn naming(&self, text: String) -> Result<Vec<protocol::Session>, Error> {
        self.inner.catalogue.call(move |db| index::naming(db, &text)).await
    }

    /// Stores the answer for a claimed key.
    pub async fn settle_key(&self, key: &str, status: u16, body: &str) -> Result<(), Error> {
        let (key, body) = (key.to_owned(), body.to_owned());
        let answered = Arc::clone(&self.inner.answered);
        let settle = move |db: &Database| {
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            if answered.0 > 0
                && let Some(name) = keys::name(db, &key)?
            {
                answered.1.insert(key.clone(), name);
            }
            keys::settle(db, &key, status, &body)
        };
        self.inner.catalogue.call(settle).await
    }

    /// Gives a claimed key back after a failure, so that the request can be tried again.
    pub async fn release_key(&self, key: &str) -> Result<(), Error> {
        let key = key.to_owned();
        self.inner.catalogue.call(move |db| keys::release(db, &key)).await
    }

    /// Gives a claimed key back after a failure of which nobody knows how far the work had come; whoever tries again
    /// gets the name of the first claim.
    pub async fn abandon_key(&self, key: &str) -> Result<(), Error> {
        let key = key.to_owned();
        self.inner.catalogue.call(move |db| keys::abandon(db, &key)).await
    }

    /// Gives the work of a claimed key another name, under which it is found when this server is gone.
    pub async fn rename_key(&self, key: &str, name: &str) -> Result<(), Error> {
        let (key, name) = (key.to_owned(), name.to_owned());
        self.inner.catalogue.call(move |db| keys::rename(db, &key, &name)).await
    }

    /// The keys that begin so and that an earlier server gave no answer to, the oldest first, with the names of their work.
    pub async fn left_keys(&self, begin: &str) -> Result<Vec<(String, String)>, Error> {
        let begin = begin.to_owned();
        self.inner.catalogue.call(move |db| keys::left(db, &begin)).await
    }

    /// To be asked before anything is copied for a backup.
    pub async fn keys_before(&self) -> Result<KeysBefore, Error> {
        let answered = Arc::clone(&self.inner.answered);
        answered.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        let mut before = KeysBefore { keys: Vec::new(), answered };
        before.keys = self.keys_now().await?;
        Ok(before)
    }

    /// Every idempotency key that still counts, for a backup in which everything else is already.
    pub async fn saved_keys(&self, before: &KeysBefore) -> Result<Vec<SavedKey>, Error> {
        let after = self.keys_now().await?;
        let answered = before.answered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(keys::saved_meanwhile(&before.keys, after, &answered.1))
    }

    async fn keys_now(&self) -> Result<Vec<SavedKey>, Error> {
        let now = self.inner.catalogue.key_clock().now();
        self.inner.catalogue.call(move |db| keys::saved(db, now)).await
    }

    /// Adds idempotency keys of a backup that are not here; gives how many were added.
    pub async fn adopt_keys(&self, keys: Vec<SavedKey>) -> Result<usize, Error> {
        let now = self.inner.catalogue.key_clock().now();
        self.inner.catalogue.call(move |db| keys::adopt(db, &keys, now)).await
    }

    /// Whether there is anything of this session, sound or not.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.inner.layout.session_dir(session).exists()
    }

    /// Whether anything tells that the session has, or had, a log with events.
    pub async fn is_known(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.has_session(session) || self.inner.is_known(session).await?)
    }

    /// Makes a directory with a log, and what belongs to it, that of a session which is not there yet. It must be on the same
    /// file system, and its files durable. What was known of an earlier log of the session does not count any more: answers
    /// to its commands are given again only where they are among `keys`, those of the backup that the log is from. Gives how
    /// many of these were added.
    pub async fn adopt_session(
        &self,
        session: SessionId,
        dir: &Path,
        keys: Vec<SavedKey>,
    ) -> Result<usize, Error> {
        self.inner.layout.check_absent(session)?;
        let now = self.inner.catalogue.key_clock().now();
        let forget = move |db: &Database| {
            index::forget(db, session)?;
            keys::put_back(db, session, &keys, now)
        };
        let added = self.inner.catalogue.call(forget).await?;
        self.inner.ask(session, Job::Forget).await?;
        self.inner.layout.adopt(session, dir)?;
        Ok(added)
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        self.inner.layout.root()
    }

    /// Directory for files of a session (outputs too long for the log). Exists once the log does.
    pub fn session_dir(&self, session: SessionId) -> PathBuf {
        self.inner.layout.session_dir(session)
    }

    /// Where the key is that placeholders of secrets are made from.
    pub fn placeholder_key(&self) -> PathBuf {
        self.inner.layout.root().join("placeholders")
    }

    /// The secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// How much was written to logs since the store was opened.
    pub fn counts(&self) -> Counts {
        self.inner.writers.counts()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dir", &self.inner.layout.root()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Sends a job to the session's thread and waits for the answer.
    pub(crate) async fn ask<T>(
        &self,
        session: SessionId,
        job: impl FnOnce(Reply<T>) -> Job,
    ) -> Result<T, Error> {
        self.answer(session, |reply| self.writers.send(session, job(reply))).await
    }

    /// Appends, and waits until that is on disk.
    pub(crate) async fn append(
        &self,
        session: SessionId,
        append: impl FnOnce(Reply<Vec<Event>>) -> Append,
    ) -> Result<Vec<Event>, Error> {
        self.answer(session, |reply| self.writers.append(session, append(reply))).await
    }

    async fn answer<T>(&self, session: SessionId, ask: impl FnOnce(Reply<T>)) -> Result<T, Error> {
        let (reply, result) = oneshot::channel();
        ask(reply);
        match result.await.unwrap_or_else(|_| Err(self.stopped(session))) {
            Err(Error::NoSession(_)) if self.is_known(session).await? => {
                Err(Error::damaged(&self.log_path(session), "it is missing"))
            }
            result => result,
        }
    }

    /// Whether something beside the log tells that it had events.
    async fn is_known(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.writers.had_events(session)
            || self.catalogue.call(move |db| index::seq(db, session)).await? > 0)
    }

    fn stopped(&self, session: SessionId) -> Error {
        Error::other(&self.log_path(session), "the store's thread for it has stopped; restart the server")
    }

    /// Reads in pieces, so that a long read does not hold up the other sessions.
    pub(crate) async fn read(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, Error> {
        match self.read_sound(session, after, limit).await? {
            (_, Some(damage)) => Err(damage),
            (events, None) => Ok(events),
        }
    }

    async fn read_sound(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<Event>, Option<Error>), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut more = true;
        while more && events.len() < limit {
            let after = events.last().map_or(after, |event| event.seq);
            let limit = (limit - events.len()) as u64;
            let page = self.ask(session, |reply| Job::Read { after, limit, reply }).await?;
            more = page.more;
            events.extend(page.events);
            if page.damage.is_some() {
                return Ok((events, page.damage));
            }
        }
        Ok((events, None))
    }

    pub(crate) fn log_path(&self, session: SessionId) -> PathBuf {
        self.layout.log(session)
    }
}
