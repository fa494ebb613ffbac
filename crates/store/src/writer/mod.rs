//! The threads behind the logs. One gives all events their places and makes them durable together ([`appender`]); some
//! have the logs' files, which they bring up to date afterwards, and read ([`filer`]); one lets go of what the journal no
//! longer needs ([`tidier`]), and one notes where logs end ([`noter`]).
//!
//! Everything about a session goes through the appender, in order: whoever reads finds what was confirmed before.

mod appender;
mod filer;
mod noter;
mod tail;
mod tidier;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use protocol::{Event, SessionId};
use tokio::sync::oneshot;

use crate::Error;
use crate::ends::Ends;
use crate::journal::{Journal, Pen};
use crate::layout::Layout;
use crate::log::{Confirmed, Epoch};
use crate::logfile::{End, KeptFold, Page, Rows};
use crate::row::{Encoded, Row};
use crate::thread::Thread;
use appender::Appender;
use filer::{Filer, Filers};
use noter::Noter;

#[cfg(test)]
pub(crate) use tail::Tail;

/// A log that nothing was asked of for this long is let go.
const IDLE: Duration = Duration::from_secs(8);
/// Bytes that a log's file may be behind.
const SETTLE_BYTES: usize = 256 << 10;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A log that was just opened: the epoch that was taken and where the log ends.
pub(crate) type Opened = (Epoch, u64);

/// What is asked of a session's log and its file.
pub(crate) enum Job {
    /// Make the log.
    Create(Reply<Opened>),
    /// Take the log over; it must not end before `known`.
    Open { known: u64, reply: Reply<Opened> },
    /// Where the log ends, without taking it over.
    End(Reply<u64>),
    /// Read events after `after`, as many as one job reads at most.
    Read { after: u64, limit: u64, reply: Reply<Page> },
    /// Read rows after `after` for a copy, as many as one job reads at most.
    Rows { after: u64, reply: Reply<Rows> },
    /// The last fold that was kept in this format.
    KeptFold { format: u64, reply: Reply<Option<KeptFold>> },
    /// Keep a fold.
    KeepFold { epoch: Epoch, fold: KeptFold, reply: Reply<()> },
    /// Know nothing of an earlier log any more: another one is about to take its place.
    Forget(Reply<()>),
    /// Make everything durable that the log's own file has.
    Sync(Reply<()>),
    /// Check events after `after`; answers where to go on, or None at the end.
    Verify { after: u64, reply: Reply<Option<u64>> },
}

/// Drafts that go into the log together or not at all.
pub(crate) struct Append {
    pub(crate) epoch: Epoch,
    pub(crate) drafts: Vec<Encoded>,
    pub(crate) confirmed: Arc<Confirmed>,
    pub(crate) reply: Reply<Vec<Event>>,
}

/// What the appender hears.
enum Order {
    /// Somebody appends to a log.
    Append(SessionId, Append),
    /// Somebody wants something else of it.
    Job(SessionId, Job),
    /// Where a log ends, as was asked of its filer.
    End(SessionId, Result<End, Error>),
    /// What became of rows that a filer was given, and their bytes.
    Filed(SessionId, usize, Result<(), Error>),
    /// A log was found to be damaged.
    Damaged(SessionId),
    /// The store closes, and nothing more will come.
    Close,
}

/// What a filer is asked to do.
enum Task {
    /// A job.
    Do(Job),
    /// Tell the appender where the log ends.
    End,
    /// Bring confirmed rows into the file.
    File(Filing),
}

/// Rows that go into a log's file.
struct Filing {
    rows: Vec<(Row, u64)>,
    bytes: usize,
    /// The journal may not have them.
    unsynced: bool,
}

/// How much was written since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `append` that were confirmed.
    pub appends: u64,
    /// Syncs that they took; fewer than the appends when several were waiting.
    pub syncs: u64,
}

#[derive(Debug, Default)]
struct Counters {
    appends: AtomicU64,
    syncs: AtomicU64,
}

/// What the threads have in common.
#[derive(Clone)]
struct Shared {
    layout: Layout,
    counters: Arc<Counters>,
    ends: Arc<Ends>,
    journal: Arc<Journal>,
    /// Whether a log could not be closed, so that nobody knows whether it is synced.
    unclosed: Arc<AtomicBool>,
}

impl Shared {
    fn open(layout: &Layout) -> Result<(Self, Pen), Error> {
        let (journal, pen) = Journal::open(&layout.journal())?;
        let shared = Self {
            layout: layout.clone(),
            counters: Arc::default(),
            ends: Arc::new(Ends::open(&layout.ends())?),
            journal,
            unclosed: Arc::default(),
        };
        Ok((shared, pen))
    }
}

/// All threads.
pub(crate) struct Writers {
    tidier: Option<Thread<()>>,
    appender: Option<Thread<Order>>,
    filers: Filers,
    shared: Shared,
}

impl Writers {
    pub(crate) fn start(layout: &Layout) -> Result<Self, Error> {
        let (shared, pen) = Shared::open(layout)?;
        let io = |error: std::io::Error| Error::io(layout.root(), &error);
        let (orders, queue) = std::sync::mpsc::channel();
        let filers = Filer::start_all(&shared, &orders).map_err(io)?;
        let noter = Noter::start(Arc::clone(&shared.ends)).map_err(io)?;
        let appends = Appender::new(shared.clone(), pen, Arc::clone(&filers), noter);
        let appender =
            Thread::spawn_with("store-append", (orders.clone(), queue), |queue| appends.run(&queue))
                .map_err(io)?;
        let (journal, ends) = (Arc::clone(&shared.journal), Arc::clone(&shared.ends));
        let tidier = Thread::spawn("store-tidy", move |queue| tidier::tidy(&queue, &orders, &journal, &ends))
            .map_err(io)?;
        Ok(Self { tidier: Some(tidier), appender: Some(appender), filers, shared })
    }

    pub(crate) fn append(&self, session: SessionId, append: Append) {
        self.order(Order::Append(session, append));
    }

    pub(crate) fn send(&self, session: SessionId, job: Job) {
        self.order(Order::Job(session, job));
    }

    fn order(&self, order: Order) {
        if let Some(appender) = &self.appender {
            appender.send(order);
        }
    }

    /// Whether something beside the log tells that it had events.
    pub(crate) fn had_events(&self, session: SessionId) -> bool {
        self.shared.ends.seen(session) > 0 || self.shared.journal.has_found(session)
    }

    pub(crate) fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        Counts {
            appends: counters.appends.load(Ordering::Relaxed),
            syncs: counters.syncs.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Each waits until it has ended. The appender would wait for the filers' orders for ever.
        self.tidier = None;
        if let Some(appender) = self.appender.take() {
            appender.send(Order::Close);
        }
        self.filers = Arc::default();
        if !self.shared.unclosed.load(Ordering::Acquire)
            && let Err(error) = self.shared.journal.clear()
        {
            tracing::warn!(%error, "the journal stays; the next start reads it for nothing");
        }
    }
}

#[cfg(test)]
mod tests;
