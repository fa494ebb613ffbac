//! The threads that write and read session logs. A session belongs to one of them, so its file has one connection and its
//! events one order. A thread takes what is queued and commits all appends of a session together: one sync for many.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use protocol::{Event, SessionId};
use tokio::sync::oneshot;

use crate::Error;
use crate::layout::Layout;
use crate::log::Epoch;
use crate::logfile::{LogFile, Page, Placed};
use crate::row::Encoded;
use crate::thread::{Thread, answer, drain};

/// Threads. They wait for the disk most of the time, so their number does not follow the cores.
const THREADS: usize = 4;
/// Open files of one thread; the one that was not used for longest makes room.
const OPEN_FILES: usize = 128;
/// A file that was not used for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
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
    /// Append.
    Append(Append),
    /// Read events after `after`, at most [`READ_EVENTS`].
    Read { after: u64, limit: u64, reply: Reply<Page> },
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
        let counters = Arc::new(Counters::default());
        let threads = (0..THREADS)
            .map(|number| {
                let writer = Writer::new(layout.clone(), OPEN_FILES, counters.clone());
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
    counters: Arc<Counters>,
}

impl Writer {
    fn new(layout: Layout, capacity: usize, counters: Arc<Counters>) -> Self {
        Self { layout, capacity, open: HashMap::new(), counters }
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
                let result = LogFile::create(&self.layout, session).map(|file| {
                    let opened = (file.epoch(), file.last_seq());
                    self.keep(session, file);
                    opened
                });
                answer(reply, result);
            }
            Job::Open { known, reply } => {
                let result = self.with(session, |file| {
                    file.check_end(known)?;
                    Ok((file.take()?, file.last_seq()))
                });
                answer(reply, result);
            }
            Job::Append(append) => self.append(session, vec![append]),
            Job::Read { after, limit, reply } => {
                answer(reply, self.with(session, |file| file.read(after, limit.min(READ_EVENTS))));
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
        match file.append(group.iter().flat_map(|append| &append.drafts)) {
            Ok(placed) => self.confirm(session, placed, group),
            Err(error) => {
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
        let result = work(self.file(session)?);
        if result.is_err() {
            self.close(session);
        }
        result
    }

    /// The session's file, opened when it is not.
    fn file(&mut self, session: SessionId) -> Result<&mut LogFile, Error> {
        if !self.open.contains_key(&session) {
            let file = LogFile::open(&self.layout, session)?;
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

    fn keep(&mut self, session: SessionId, file: LogFile) {
        while self.open.len() >= self.capacity {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(session, _)| *session);
            match oldest {
                Some(oldest) => self.close(oldest),
                None => break,
            }
        }
        self.open.insert(session, Open { file, used: Instant::now() });
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
        Writer::new(Layout::prepare(dir.path()).unwrap(), capacity, Arc::default())
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
