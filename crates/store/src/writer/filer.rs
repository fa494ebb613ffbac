//! The threads that have the logs' files. A session belongs to one of them, so its file has one connection. They bring
//! confirmed events into the files, many in one transaction, and read them.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Instant;

use protocol::SessionId;

use super::{Filing, IDLE, Job, Order, Shared, Task};
use crate::Error;
use crate::layout::Layout;
use crate::logfile::{End, LogFile};
use crate::thread::{Thread, answer};

/// Threads. They wait for the disk most of the time, so their number does not follow the cores.
const THREADS: usize = 16;
/// Most open files of one thread; the one that was not used for longest makes room.
const OPEN_FILES: usize = 64;
/// Most events that one job reads; longer reads are several jobs, with others' jobs between them.
const READ_EVENTS: u64 = 256;

/// All of them.
pub(super) type Filers = Arc<Vec<Thread<(SessionId, Task)>>>;

/// Sends a task to the session's thread.
pub(super) fn send(filers: &Filers, session: SessionId, task: Task) {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    let place = hasher.finish() as usize % filers.len();
    filers[place].send((session, task));
}

struct Open {
    file: LogFile,
    used: Instant,
}

/// What one thread has.
pub(super) struct Filer {
    shared: Shared,
    appender: Sender<Order>,
    capacity: usize,
    open: HashMap<SessionId, Open>,
    /// Logs that were found to be damaged. Nothing more is written to them.
    damaged: HashMap<SessionId, Error>,
    /// Logs that have events which the journal may not have. They are synced before they are written to, so that there is
    /// no gap between a file that lost its end and the journal.
    unsynced: HashSet<SessionId>,
    /// Logs that have rows which their files have not.
    pending: HashSet<SessionId>,
}

impl Filer {
    pub(super) fn start_all(shared: &Shared, appender: &Sender<Order>) -> io::Result<Filers> {
        let capacity = open_files();
        let threads = (0..THREADS).map(|number| {
            let filer = Self::new(shared.clone(), appender.clone(), capacity);
            Thread::spawn(&format!("store-file-{number}"), move |queue| filer.run(&queue))
        });
        threads.collect::<Result<_, _>>().map(Arc::new)
    }

    pub(super) fn new(shared: Shared, appender: Sender<Order>, capacity: usize) -> Self {
        Self {
            shared,
            appender,
            capacity,
            open: HashMap::new(),
            damaged: HashMap::new(),
            unsynced: HashSet::new(),
            pending: HashSet::new(),
        }
    }

    fn run(mut self, queue: &Receiver<(SessionId, Task)>) {
        let mut tidied = Instant::now();
        loop {
            match queue.recv_timeout(IDLE / 4) {
                Ok((session, task)) => self.handle(session, task),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if tidied.elapsed() >= IDLE / 4 {
                self.catch_up();
                self.close_idle();
                tidied = Instant::now();
            }
        }
        let sessions: Vec<_> = self.open.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.close(session));
    }

    pub(super) fn handle(&mut self, session: SessionId, task: Task) {
        match task {
            Task::Do(job) => self.perform(session, job),
            Task::End => {
                let end = self.end(session);
                self.tell(Order::End(session, end));
            }
            Task::File(filing) => {
                let bytes = filing.bytes;
                let result = self.bring_in(session, filing);
                self.tell(Order::Filed(session, bytes, result));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn opened(&self) -> HashSet<SessionId> {
        self.open.keys().copied().collect()
    }

    fn tell(&self, order: Order) {
        if self.appender.send(order).is_err() {
            tracing::trace!("the store closes: nobody appends any more");
        }
    }

    /// Where the next event goes. From then on the journal has all that the file may lose.
    fn end(&mut self, session: SessionId) -> Result<End, Error> {
        if let Some(error) = self.damaged.get(&session) {
            return Err(error.clone());
        }
        self.with(session, |_| Ok(()))?;
        let unsynced = self.unsynced.contains(&session);
        let end = self.with(session, |file| {
            // What the disk does not take is not piled up in memory.
            if unsynced {
                file.checkpoint()?
            } else {
                file.settle()?
            }
            file.end()
        })?;
        self.unsynced.remove(&session);
        self.pending.remove(&session);
        Ok(end)
    }

    /// Brings rows into the file. Those that it does not take can be read, and are tried again.
    fn bring_in(&mut self, session: SessionId, filing: Filing) -> Result<(), Error> {
        if filing.unsynced {
            self.unsynced.insert(session);
        }
        if let Some(error) = self.damaged.get(&session) {
            self.shared.journal.keep(session, filing.rows);
            return Err(error.clone());
        }
        let last = filing.rows.last().map_or(0, |(row, _)| row.seq);
        if last > 0 {
            self.shared.ends.given(session, last);
        }
        match self.open.get_mut(&session) {
            Some(open) => drop(open.file.catch_up(filing.rows)),
            // Whoever opens it goes on with them.
            None => self.shared.journal.keep(session, filing.rows),
        }
        let file = match self.file(session) {
            Ok(file) => file,
            Err(error) => {
                self.remember(session, &error);
                return Err(error);
            }
        };
        file.must_reach(last);
        let settled = if file.is_far_ahead() { file.checkpoint() } else { file.settle() };
        let settled = settled.and_then(|()| file.end().map(drop));
        match &settled {
            Ok(()) => drop(self.pending.remove(&session)),
            Err(error) => {
                // What was appended is in the journal, and can be read.
                tracing::warn!(%session, %error, "a log's file stays behind");
                self.pending.insert(session);
                self.remember(session, error);
            }
        }
        settled
    }

    /// Tries again to bring into files what they do not have.
    fn catch_up(&mut self) {
        for session in std::mem::take(&mut self.pending) {
            let Some(open) = self.open.get_mut(&session) else { continue };
            if let Err(error) = open.file.settle() {
                tracing::debug!(%session, %error, "a log's file is still behind");
                self.pending.insert(session);
            }
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
                let known = known.max(self.shared.ends.seen(session));
                let result = self.with(session, |file| {
                    file.check_end(known)?;
                    Ok((file.take()?, file.last_seq()))
                });
                answer(reply, result);
            }
            Job::End(reply) => answer(reply, self.with(session, |file| Ok(file.last_seq()))),
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
                self.shared.ends.forget(session);
                drop(self.shared.journal.found(session));
                answer(reply, Ok(()));
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
            self.tell(Order::Damaged(session));
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
                self.pending.insert(session);
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
