//! The threads that write and read session logs. A session belongs to one of them, so its file has one connection and its
//! events one order. A thread takes what is queued, commits all appends of a session together, and then waits for the
//! journal, where they share a sync with what other threads have.

mod tidier;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use failpoint::Point;
use protocol::{Event, SessionId};
use tokio::sync::oneshot;

use crate::Error;
use crate::ends::Ends;
use crate::journal::{Entries, Journal, Room};
use crate::layout::Layout;
use crate::log::Epoch;
use crate::logfile::{KeptFold, LogFile, Page, Placed, Rows};
use crate::row::Encoded;
use crate::thread::{Thread, answer, drain};

/// Threads. They wait for the disk most of the time, so their number does not follow the cores.
const THREADS: usize = 16;
/// Most open files of one thread; the one that was not used for longest makes room.
const OPEN_FILES: usize = 64;
/// A file that was not used for this long is closed.
const IDLE: Duration = Duration::from_secs(8);
/// How long a log's file may be behind, and how much.
const SETTLE: Duration = Duration::from_millis(100);
const SETTLE_BYTES: usize = 256 << 10;
/// Most events that one job reads; longer reads are several jobs, with others' jobs between them.
const READ_EVENTS: u64 = 256;

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A log that was just opened: the epoch that was taken and where the log ends.
pub(crate) type Opened = (Epoch, u64);

/// What a session's thread is asked to do.
pub(crate) enum Job {
    /// Make the log.
    Create(Reply<Opened>),
    /// Take the log over; it must not end before `known`.
    Open { known: u64, reply: Reply<Opened> },
    /// Where the log ends, without taking it over.
    End(Reply<u64>),
    /// Append.
    Append(Append),
    /// Read events after `after`, at most [`READ_EVENTS`].
    Read { after: u64, limit: u64, reply: Reply<Page> },
    /// Read rows after `after` for a copy, at most [`READ_EVENTS`].
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
    /// Moved on before the answer is sent, so that it is right even when nobody waits for the answer.
    pub(crate) last_seq: Arc<AtomicU64>,
    pub(crate) reply: Reply<Vec<Event>>,
}

/// How much was written since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `append` that were confirmed.
    pub appends: u64,
    /// Transactions that they took; fewer than the appends when several were waiting.
    pub transactions: u64,
}

#[derive(Debug, Default)]
struct Counters {
    appends: AtomicU64,
    transactions: AtomicU64,
}

type Threads = Arc<Vec<Thread<(SessionId, Job)>>>;

/// All writer threads.
pub(crate) struct Writers {
    threads: Threads,
    /// Lets go of the old segments of the journal.
    tidier: Option<Thread<()>>,
    shared: Shared,
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
    fn open(layout: &Layout) -> Result<Self, Error> {
        Ok(Self {
            layout: layout.clone(),
            counters: Arc::default(),
            ends: Arc::new(Ends::open(&layout.ends())?),
            journal: Arc::new(Journal::open(&layout.journal())?),
            unclosed: Arc::default(),
        })
    }
}

impl Writers {
    pub(crate) fn start(layout: &Layout) -> Result<Self, Error> {
        let shared = Shared::open(layout)?;
        let capacity = open_files();
        let threads = (0..THREADS)
            .map(|number| {
                let writer = Writer::new(shared.clone(), capacity);
                Thread::spawn(&format!("store-log-{number}"), move |queue| writer.run(&queue))
            })
            .collect::<Result<_, _>>();
        let io = |error: std::io::Error| Error::io(layout.root(), &error);
        let threads = Arc::new(threads.map_err(io)?);
        let (theirs, journal) = (Arc::clone(&threads), Arc::clone(&shared.journal));
        let tidier = Thread::spawn("store-journal", move |queue| tidier::tidy(&queue, &theirs, &journal))
            .map_err(io)?;
        Ok(Self { threads, tidier: Some(tidier), shared })
    }

    pub(crate) fn send(&self, session: SessionId, job: Job) {
        send(&self.threads, session, job);
    }

    pub(crate) fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        Counts {
            appends: counters.appends.load(Ordering::Relaxed),
            transactions: counters.transactions.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // Each waits until it has ended; the tidier holds on to the others.
        self.tidier = None;
        self.threads = Arc::default();
        if !self.shared.unclosed.load(Ordering::Acquire)
            && let Err(error) = self.shared.journal.clear()
        {
            tracing::warn!(%error, "the journal stays; the next start reads it for nothing");
        }
    }
}

fn send(threads: &Threads, session: SessionId, job: Job) {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    let place = hasher.finish() as usize % threads.len();
    threads[place].send((session, job));
}

struct Open {
    file: LogFile,
    used: Instant,
}

/// What one thread has.
struct Writer {
    shared: Shared,
    capacity: usize,
    open: HashMap<SessionId, Open>,
    /// Logs that were found to be damaged. Nothing more is written to them.
    damaged: HashMap<SessionId, Error>,
    /// Logs that have events which the journal may not have. They are synced before they are written to, so that there is
    /// no gap between a file that lost its end and the journal.
    unsynced: HashSet<SessionId>,
    /// Logs that have rows which their files have not, and since when.
    pending: HashMap<SessionId, Instant>,
    /// Logs whose files could not be brought up to date. They are not written to before that is done.
    behind: HashSet<SessionId>,
    /// Appends that have their places, and wait for the journal.
    waiting: Vec<Waiting>,
    entries: Entries,
}

/// A group of appends that have their places and are not durable.
struct Waiting {
    session: SessionId,
    placed: Placed,
    group: Vec<Append>,
    _room: Room,
}

impl Writer {
    fn new(shared: Shared, capacity: usize) -> Self {
        Self {
            shared,
            capacity,
            open: HashMap::new(),
            damaged: HashMap::new(),
            unsynced: HashSet::new(),
            pending: HashMap::new(),
            behind: HashSet::new(),
            waiting: Vec::new(),
            entries: Entries::default(),
        }
    }

    fn run(mut self, queue: &Receiver<(SessionId, Job)>) {
        let mut tidied = Instant::now();
        loop {
            let wait = if self.pending.is_empty() { IDLE / 4 } else { SETTLE };
            match queue.recv_timeout(wait) {
                Ok(first) => {
                    self.handle(drain(first, queue));
                    self.settle(1);
                }
                Err(RecvTimeoutError::Timeout) => self.settle(usize::MAX),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if tidied.elapsed() >= IDLE / 4 {
                self.close_idle();
                tidied = Instant::now();
            }
        }
        let sessions: Vec<_> = self.open.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.close(session));
    }

    /// Sorts a batch by session, keeping each session's order, and does it.
    fn handle(&mut self, batch: Vec<(SessionId, Job)>) {
        let mut places = HashMap::new();
        let mut sessions: Vec<(SessionId, Vec<Job>)> = Vec::new();
        for (session, job) in batch {
            let place = *places.entry(session).or_insert_with(|| {
                sessions.push((session, Vec::new()));
                sessions.len() - 1
            });
            sessions[place].1.push(job);
        }
        for (session, jobs) in sessions {
            let mut group = Vec::new();
            for job in jobs {
                match job {
                    Job::Append(append) => group.push(append),
                    other => {
                        self.append(session, std::mem::take(&mut group));
                        self.perform(session, other);
                    }
                }
            }
            self.append(session, group);
        }
        self.flush();
    }

    fn perform(&mut self, session: SessionId, job: Job) {
        // Nobody reads what is not durable.
        self.flush();
        match job {
            Job::Create(reply) => {
                let made = self.with_files(|layout| LogFile::create(layout, session));
                let opened = |file: &mut LogFile| (file.epoch(), file.last_seq());
                answer(reply, made.and_then(|()| self.file(session).map(opened)));
            }
            Job::Open { known, reply } => {
                let known = known.max(self.shared.ends.seen(session));
                let result = self.with(session, |file| {
                    file.check_end(known)?;
                    Ok((file.take()?, file.last_seq()))
                });
                answer(reply, result);
            }
            Job::End(reply) => answer(reply, self.with(session, |file| Ok(file.last_seq()))),
            Job::Append(append) => self.append(session, vec![append]),
            Job::Read { after, limit, reply } => {
                let read = |file: &LogFile| file.read(after, limit.min(READ_EVENTS));
                let result = self.look(session, read, |page| page.damage.as_ref());
                answer(reply, result);
            }
            Job::Rows { after, reply } => {
                let read = |file: &LogFile| file.rows(after, READ_EVENTS);
                let result = self.look(session, read, |rows| rows.damage.as_ref());
                answer(reply, result);
            }
            Job::KeptFold { format, reply } => {
                answer(reply, self.with(session, |file| Ok(file.kept_fold(format))));
            }
            Job::KeepFold { epoch, fold, reply } => {
                let result = self.with(session, |file| {
                    if file.epoch() == epoch { file.keep_fold(&fold) } else { Err(Error::Fenced) }
                });
                answer(reply, result);
            }
            Job::Forget(reply) => {
                self.close(session);
                self.damaged.remove(&session);
                self.unsynced.remove(&session);
                self.behind.remove(&session);
                self.shared.ends.note(session, 0);
                answer(reply, self.shared.journal.forget(session));
            }
            Job::Sync(reply) => {
                let result = self.sync(session);
                answer(reply, result);
            }
            Job::Verify { after, reply } => {
                answer(reply, self.with(session, |file| file.verify(after, READ_EVENTS)));
            }
        }
    }

    /// Gives a group its places. When that fails, each append is tried alone, so that one that is too large for the disk does
    /// not take the others with it.
    fn append(&mut self, session: SessionId, group: Vec<Append>) {
        if group.is_empty() {
            return;
        }
        if let Some(error) = self.damaged.get(&session) {
            return refuse(group, error);
        }
        let file = match self.file(session) {
            Ok(file) => file,
            Err(error) => return refuse(group, &error),
        };
        let epoch = file.epoch();
        let (group, fenced): (Vec<_>, Vec<_>) = group.into_iter().partition(|append| append.epoch == epoch);
        refuse(fenced, &Error::Fenced);
        if group.is_empty() {
            return;
        }
        failpoint::hit(Point::Appending);
        match self.place(session, &group) {
            Ok((placed, room)) => self.waiting.push(Waiting { session, placed, group, _room: room }),
            Err(error) => {
                self.remember(session, &error);
                self.close(session);
                if group.len() == 1 {
                    refuse(group, &error);
                } else {
                    group.into_iter().for_each(|append| self.append(session, vec![append]));
                }
            }
        }
    }

    /// Appends a group to its log and to the entries that go to the journal, for which there is room then.
    fn place(&mut self, session: SessionId, group: &[Append]) -> Result<(Placed, Room), Error> {
        let drafts = || group.iter().flat_map(|append| &append.drafts);
        let room = self.shared.journal.room(drafts().map(Encoded::size).sum::<usize>() + Entries::BEGIN)?;
        if self.unsynced.contains(&session) {
            self.file(session)?.checkpoint()?;
            self.unsynced.remove(&session);
        }
        // What the disk does not take is not piled up in memory.
        let behind = self.behind.contains(&session);
        let file = self.file(session)?;
        if behind || file.pending_bytes() > SETTLE_BYTES {
            file.settle()?;
            self.behind.remove(&session);
        }
        let mut entries = std::mem::take(&mut self.entries);
        let end = entries.end();
        entries.rows_of(session, drafts().count());
        let appended = self.file(session).and_then(|file| file.append(drafts(), &mut entries));
        if appended.is_err() {
            entries.cut(end);
        }
        self.entries = entries;
        Ok((appended?, room))
    }

    /// Waits until what was appended is durable, and tells those who wait.
    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let result = self.shared.journal.commit(&std::mem::take(&mut self.entries));
        let waiting = std::mem::take(&mut self.waiting);
        let sessions: Vec<_> = waiting.iter().map(|waiting| waiting.session).collect();
        match result {
            Ok(()) => {
                failpoint::hit(Point::Appended);
                waiting
                    .into_iter()
                    .for_each(|Waiting { session, placed, group, .. }| self.confirm(session, placed, group));
            }
            Err(error) => {
                // The logs have the events, so it is not as if nothing had happened.
                let error = Error::other(
                    self.shared.layout.root(),
                    format!("the journal cannot be written: {error}"),
                );
                for Waiting { session, group, .. } in waiting {
                    self.unsynced.insert(session);
                    self.close(session);
                    refuse(group, &error);
                }
            }
        }
        for session in sessions {
            self.pending.entry(session).or_insert_with(Instant::now);
        }
    }

    /// Brings at most so many of the logs' files that are behind for long up to date. Those who append do not wait for it.
    fn settle(&mut self, most: usize) {
        let late = self.pending.iter().filter(|(_, since)| since.elapsed() >= SETTLE);
        let late: Vec<_> = late.map(|(session, _)| *session).take(most).collect();
        for session in late {
            self.pending.remove(&session);
            let Some(open) = self.open.get_mut(&session) else { continue };
            let file = &mut open.file;
            let settled = if file.is_far_ahead() { file.checkpoint() } else { file.settle() };
            if let Err(error) = settled {
                // What was appended is in the journal, and can be read.
                tracing::warn!(%session, %error, "a log's file stays behind");
                self.remember(session, &error);
                self.pending.insert(session, Instant::now() + IDLE);
                self.behind.insert(session);
            }
        }
    }

    /// Makes everything durable that a log's file has, and brings what the journal has into it.
    fn sync(&mut self, session: SessionId) -> Result<(), Error> {
        let in_doubt = self.open.contains_key(&session)
            || self.unsynced.contains(&session)
            || self.shared.journal.has_found(session)
            || self.shared.layout.write_ahead(session).exists();
        if !in_doubt {
            return Ok(());
        }
        match self.with(session, LogFile::checkpoint) {
            Ok(()) => {
                self.unsynced.remove(&session);
                Ok(())
            }
            // There is nothing that the journal could do for it.
            Err(Error::NoSession(_) | Error::Damaged { .. } | Error::Newer(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn confirm(&self, session: SessionId, placed: Placed, group: Vec<Append>) {
        let counters = &self.shared.counters;
        counters.transactions.fetch_add(1, Ordering::Relaxed);
        counters.appends.fetch_add(group.len() as u64, Ordering::Relaxed);
        let mut seq = placed.first;
        for Append { drafts, last_seq, reply, .. } in group {
            let events: Vec<_> =
                drafts.into_iter().zip(seq..).map(|(d, seq)| d.into_event(session, seq, placed.at)).collect();
            seq += events.len() as u64;
            last_seq.fetch_max(seq - 1, Ordering::Release);
            answer(reply, Ok(events));
        }
        // Nobody has to wait for this.
        self.shared.ends.note(session, seq - 1);
    }

    /// Works with a session's file. After a failure the file is closed: the next use opens it afresh and trusts only
    /// what is on disk.
    fn with<T>(
        &mut self,
        session: SessionId,
        work: impl FnOnce(&mut LogFile) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = self.file(session).and_then(work);
        if let Err(error) = &result {
            self.remember(session, error);
            self.close(session);
        }
        result
    }

    /// Reads, also what is left of a log whose end cannot be read.
    fn look<T>(
        &mut self,
        session: SessionId,
        read: impl Fn(&LogFile) -> Result<T, Error>,
        damage: impl Fn(&T) -> Option<&Error>,
    ) -> Result<T, Error> {
        let result = match self.file(session) {
            Ok(file) => read(file),
            Err(error @ Error::Damaged { .. }) => {
                self.remember(session, &error);
                let rest = LogFile::salvage(&self.shared.layout, session, error.clone());
                rest.and_then(|file| read(&file)).map_err(|_| error)
            }
            Err(error) => Err(error),
        };
        if let Some(error) = result.as_ref().map_or_else(Some, damage) {
            self.remember(session, error);
            self.close(session);
        }
        result
    }

    /// Once a log is damaged nothing more is written to it, until somebody has looked and started the server again.
    fn remember(&mut self, session: SessionId, error: &Error) {
        if matches!(error, Error::Damaged { .. }) {
            self.damaged.entry(session).or_insert_with(|| error.clone());
        }
    }

    /// The session's file, opened when it is not.
    fn file(&mut self, session: SessionId) -> Result<&mut LogFile, Error> {
        if !self.open.contains_key(&session) {
            let unsynced = self.shared.layout.write_ahead(session).exists();
            let mut file = self.with_files(|layout| LogFile::open(layout, session)?.with_journal())?;
            let found = self.shared.journal.found(session);
            let known = found.last().map_or(0, |(row, _)| row.seq);
            if file.catch_up(found) {
                tracing::info!(%session, seq = file.last_seq(), "a log got its end back from the journal");
                self.pending.insert(session, Instant::now());
            }
            if unsynced {
                self.unsynced.insert(session);
            }
            file.must_reach(known.max(self.shared.ends.seen(session)));
            self.keep(session, file);
        }
        match self.open.get_mut(&session) {
            Some(open) => {
                open.used = Instant::now();
                Ok(&mut open.file)
            }
            None => Err(Error::NoSession(session)),
        }
    }

    /// Does what opens files. When there are too many, others of ours are closed, which costs nothing but time.
    fn with_files<T>(&mut self, work: impl Fn(&Layout) -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let result = work(&self.shared.layout);
            if !matches!(result, Err(Error::OpenFiles(_))) || !self.close_oldest() {
                return result;
            }
        }
    }

    fn keep(&mut self, session: SessionId, file: LogFile) {
        while self.open.len() >= self.capacity && self.close_oldest() {}
        self.open.insert(session, Open { file, used: Instant::now() });
    }

    /// Closes the file that was not used for longest; false when none is open.
    fn close_oldest(&mut self) -> bool {
        let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(session, _)| *session);
        oldest.inspect(|oldest| self.close(*oldest)).is_some()
    }

    fn close_idle(&mut self) {
        let idle: Vec<_> =
            self.open.iter().filter(|(_, open)| open.used.elapsed() >= IDLE).map(|(s, _)| *s).collect();
        idle.into_iter().for_each(|session| self.close(session));
    }

    fn close(&mut self, session: SessionId) {
        self.pending.remove(&session);
        let Some(Open { mut file, .. }) = self.open.remove(&session) else { return };
        let settled = file.settle().inspect_err(|_| {
            // The next one who opens it goes on with them.
            self.shared.journal.keep(session, file.pending().to_vec());
        });
        if let Err(error) = settled.and_then(|()| file.close()) {
            // Nothing is lost: what was confirmed is in the write-ahead log and is found on the next opening.
            tracing::warn!(%session, %error, "a session's log was not closed cleanly");
            self.shared.unclosed.store(true, Ordering::Release);
        }
    }
}

/// How many files a thread keeps open: all threads together leave half of what the process may have to others.
fn open_files() -> usize {
    const PER_LOG: usize = 2;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    limit.map_or(OPEN_FILES, |limit| (limit / (2 * PER_LOG * THREADS)).clamp(2, OPEN_FILES))
}

fn refuse(group: Vec<Append>, error: &Error) {
    group.into_iter().for_each(|append| answer(append.reply, Err(error.clone())));
}

#[cfg(test)]
mod tests;
