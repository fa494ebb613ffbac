//! The threads that write and read session logs. A session belongs to one of them, so its file has one connection and its
//! events one order. A thread takes what is queued and commits all appends of a session together: one sync for many.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use failpoint::Point;
use protocol::{Event, SessionId};
use tokio::sync::oneshot;

use crate::Error;
use crate::ends::Ends;
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

/// All writer threads.
pub(crate) struct Writers {
    threads: Vec<Thread<(SessionId, Job)>>,
    counters: Arc<Counters>,
}

impl Writers {
    pub(crate) fn start(layout: &Layout) -> Result<Self, Error> {
        let ends = Arc::new(Ends::open(&layout.ends())?);
        let counters = Arc::new(Counters::default());
        let capacity = open_files();
        let threads = (0..THREADS)
            .map(|number| {
                let writer = Writer::new(layout.clone(), capacity, counters.clone(), ends.clone());
                Thread::spawn(&format!("store-log-{number}"), move |queue| writer.run(&queue))
                    .map_err(|e| Error::io(layout.root(), &e))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { threads, counters })
    }

    pub(crate) fn send(&self, session: SessionId, job: Job) {
        let mut hasher = DefaultHasher::new();
        session.hash(&mut hasher);
        let place = hasher.finish() as usize % self.threads.len();
        self.threads[place].send((session, job));
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            appends: self.counters.appends.load(Ordering::Relaxed),
            transactions: self.counters.transactions.load(Ordering::Relaxed),
        }
    }
}

struct Open {
    file: LogFile,
    used: Instant,
}

/// What one thread has.
struct Writer {
    layout: Layout,
    capacity: usize,
    open: HashMap<SessionId, Open>,
    /// Logs that were found to be damaged. Nothing more is written to them.
    damaged: HashMap<SessionId, Error>,
    counters: Arc<Counters>,
    ends: Arc<Ends>,
}

impl Writer {
    fn new(layout: Layout, capacity: usize, counters: Arc<Counters>, ends: Arc<Ends>) -> Self {
        Self { layout, capacity, open: HashMap::new(), damaged: HashMap::new(), counters, ends }
    }

    fn run(mut self, queue: &Receiver<(SessionId, Job)>) {
        let mut tidied = Instant::now();
        loop {
            match queue.recv_timeout(IDLE / 4) {
                Ok(first) => self.handle(drain(first, queue)),
                Err(RecvTimeoutError::Timeout) => {}
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
    }

    fn perform(&mut self, session: SessionId, job: Job) {
        match job {
            Job::Create(reply) => {
                let made = self.with_files(|layout| LogFile::create(layout, session));
                let opened = |file: &mut LogFile| (file.epoch(), file.last_seq());
                answer(reply, made.and_then(|()| self.file(session).map(opened)));
            }
            Job::Open { known, reply } => {
                let known = known.max(self.ends.seen(session));
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
                self.ends.note(session, 0);
                answer(reply, Ok(()));
            }
            Job::Verify { after, reply } => {
                answer(reply, self.with(session, |file| file.verify(after, READ_EVENTS)));
            }
        }
    }

    /// Commits a group in one transaction. When that fails, each append is tried alone, so that one that is too large
    /// for the disk does not take the others with it.
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
        match file.append(group.iter().flat_map(|append| &append.drafts)) {
            Ok(placed) => {
                failpoint::hit(Point::Appended);
                self.confirm(session, placed, group);
            }
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

    fn confirm(&self, session: SessionId, placed: Placed, group: Vec<Append>) {
        self.counters.transactions.fetch_add(1, Ordering::Relaxed);
        self.counters.appends.fetch_add(group.len() as u64, Ordering::Relaxed);
        let events: usize = group.iter().map(|append| append.drafts.len()).sum();
        self.ends.note(session, placed.first + events as u64 - 1);
        let mut seq = placed.first;
        for Append { drafts, last_seq, reply, .. } in group {
            let events: Vec<_> =
                drafts.into_iter().zip(seq..).map(|(d, seq)| d.into_event(session, seq, placed.at)).collect();
            seq += events.len() as u64;
            last_seq.fetch_max(seq - 1, Ordering::Release);
            answer(reply, Ok(events));
        }
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
                let rest = LogFile::salvage(&self.layout, session, error.clone());
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
            let mut file = self.with_files(|layout| LogFile::open(layout, session))?;
            file.must_reach(self.ends.seen(session));
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
            let result = work(&self.layout);
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
        if let Some(open) = self.open.remove(&session)
            && let Err(error) = open.file.close()
        {
            // Nothing is lost: what was confirmed is in the write-ahead log and is found on the next opening.
            tracing::warn!(%session, %error, "a session's log was not closed cleanly");
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
mod tests {
    use super::*;
    use crate::log::Draft;
    use protocol::{Actor, EventBody};
    use tokio::sync::oneshot::Receiver;

    fn writer(dir: &tempfile::TempDir, capacity: usize) -> Writer {
        let layout = Layout::prepare(dir.path()).unwrap();
        let ends = Arc::new(Ends::open(&layout.ends()).unwrap());
        Writer::new(layout, capacity, Arc::default(), ends)
    }

    fn append(epoch: u64) -> (Job, Receiver<Result<Vec<Event>, Error>>) {
        let body = EventBody::MemoryChanged { text: "x".into() };
        let draft = Encoded::new(Draft { actor: Actor::system(), body }).unwrap();
        let (reply, result) = oneshot::channel();
        (
            Job::Append(Append { epoch: Epoch(epoch), drafts: vec![draft], last_seq: Arc::default(), reply }),
            result,
        )
    }

    #[test]
    fn what_waits_for_one_session_is_one_transaction() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir, 8);
        let sessions = [SessionId::new(), SessionId::new()];
        for session in sessions {
            writer.handle(vec![(session, Job::Create(oneshot::channel().0))]);
        }
        let mut results = Vec::new();
        let mut batch = Vec::new();
        for n in 0..10 {
            let (job, result) = append(1);
            batch.push((sessions[n % 2], job));
            results.push(result);
        }
        let (late, refused) = append(0);
        batch.insert(4, (sessions[0], late));
        writer.handle(batch);
        assert_eq!(refused.blocking_recv().unwrap(), Err(Error::Fenced));
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.blocking_recv().unwrap().unwrap()[0].seq, n as u64 / 2 + 1);
        }
        assert_eq!(writer.counters.transactions.load(Ordering::Relaxed), 2);
        assert_eq!(writer.counters.appends.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn the_file_that_was_not_used_for_longest_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(&dir, 2);
        let [a, b, c] = [SessionId::new(), SessionId::new(), SessionId::new()];
        for session in [a, b] {
            writer.handle(vec![(session, Job::Create(oneshot::channel().0))]);
        }
        writer.handle(vec![(a, append(1).0)]);
        writer.handle(vec![(c, Job::Create(oneshot::channel().0))]);
        assert!(writer.open.contains_key(&a) && !writer.open.contains_key(&b));
        let (job, result) = append(1);
        writer.handle(vec![(b, job)]);
        assert_eq!(
            result.blocking_recv().unwrap().unwrap()[0].seq,
            1,
            "it is opened again when it is needed"
        );
        assert_eq!(writer.open.len(), 2);
    }
}
