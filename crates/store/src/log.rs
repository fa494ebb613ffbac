//! The handle of one session's log. It holds no file: the session's writer thread opens that when it is needed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use protocol::{Actor, Event, EventBody, SessionId};

use crate::Error;
use crate::logfile::KeptFold;
use crate::row::Encoded;
use crate::store::Inner;
use crate::writer::{Append, Job, Opened};

/// An event before it has its place in the log.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Who caused it.
    pub actor: Actor,
    /// What happened.
    pub body: EventBody,
}

/// Which ownership of a session a write belongs to. A server that lost its lease has an older epoch and is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// One session's log.
pub struct Log {
    store: Arc<Inner>,
    session: SessionId,
    epoch: Epoch,
    confirmed: Arc<Confirmed>,
}

/// The last event that is on disk, and since when. It is moved on before the answer is sent, so that it is right even when
/// nobody waits for the answer.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    seq: AtomicU64,
    at: Mutex<Option<Instant>>,
}

impl Confirmed {
    pub(crate) fn move_on(&self, seq: u64, at: Instant) {
        self.seq.fetch_max(seq, Ordering::Release);
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }
}

impl Log {
    pub(crate) fn new(store: Arc<Inner>, session: SessionId, (epoch, last_seq): Opened) -> Self {
        let confirmed = Arc::new(Confirmed { seq: AtomicU64::new(last_seq), ..Confirmed::default() });
        Self { store, session, epoch, confirmed }
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The ownership that this handle's appends belong to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Appends all drafts or none; they are on disk when this returns. Dropping the future does not take them back. After
    /// an error other than `Full` or `Fenced` read the log again: the disk may have kept what it did not confirm.
    pub async fn append(&self, drafts: Vec<Draft>) -> Result<Vec<Event>, Error> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        let drafts = drafts
            .into_iter()
            .map(Encoded::new)
            .collect::<Result<_, _>>()
            .map_err(|detail| Error::other(&self.store.log_path(self.session), detail))?;
        let (epoch, confirmed) = (self.epoch, Arc::clone(&self.confirmed));
        self.store.append(self.session, |reply| Append { epoch, drafts, confirmed, reply }).await
    }

    /// Events with `seq > after`, in order, at most `limit`. Fails with `Damaged` when one of them is not as it was
    /// written; those before it can be read with a smaller `limit`.
    pub async fn read(&self, after: u64, limit: usize) -> Result<Vec<Event>, Error> {
        self.store.read(self.session, after, limit).await
    }

    /// Sequence number of the last event; 0 for an empty log.
    pub fn last_seq(&self) -> u64 {
        self.confirmed.seq.load(Ordering::Acquire)
    }

    /// Since when the last event is on disk that was appended here.
    pub fn confirmed_at(&self) -> Option<Instant> {
        *self.confirmed.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last fold of the log that was kept in this format and is whole; None when there is none, so fold from the start.
    pub async fn kept_fold(&self, format: u64) -> Result<Option<KeptFold>, Error> {
        self.store.ask(self.session, |reply| Job::KeptFold { format, reply }).await
    }

    /// Keeps a fold of the log, so that the next one who opens it folds only what came later. The one before it is kept too.
    pub async fn keep_fold(&self, fold: KeptFold) -> Result<(), Error> {
        let epoch = self.epoch;
        self.store.ask(self.session, |reply| Job::KeepFold { epoch, fold, reply }).await
    }

    /// Checks every event's checksum and the structure of the whole file.
    pub async fn verify(&self) -> Result<(), Error> {
        let mut next = Some(0);
        while let Some(after) = next {
            next = self.store.ask(self.session, |reply| Job::Verify { after, reply }).await?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log")
            .field("session", &self.session)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
