//! The thread that appends. It gives events their places, writes them to the journal, waits for its sync, and tells those
//! who wait; whatever came meanwhile goes with the next sync. It never waits for a log's own file: those who have the files
//! are given the rows a little later, many at once.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use failpoint::Point;
use protocol::SessionId;

use super::filer::{self, Filers};
use super::noter::Noter;
use super::tail::{Placed, Tail};
use super::{Append, Filing, IDLE, Job, Order, SETTLE_BYTES, Shared, Task};
use crate::Error;
use crate::journal::{Entries, Pen};
use crate::logfile::End;
use crate::row::Encoded;
use crate::thread::{answer, drain};

/// How long a log's file may be behind.
const SETTLE: Duration = Duration::from_millis(500);

/// Time between two files that are written only because they are behind: many at once would take the processors away from
/// those who append and read. When very many are behind it is less.
const PAUSE: Duration = Duration::from_millis(1);

/// What the thread has.
pub(super) struct Appender {
    shared: Shared,
    pen: Pen,
    filers: Filers,
    noter: Noter,
    logs: HashMap<SessionId, Log>,
    /// Logs whose files are behind, and since when, oldest first.
    behind: VecDeque<(SessionId, Instant)>,
    /// When the next of them may be written.
    settle_at: Instant,
    /// Appends that have their places, and wait for the journal.
    placed: Vec<Waiting>,
    entries: Entries,
}

/// What is known of a log.
struct Log {
    /// None until its filer has said where it ends.
    tail: Option<Tail>,
    /// Its filer was asked for that.
    asked: bool,
    /// What it will say does not count.
    outdated: bool,
    /// Appends that wait for the filer.
    parked: Vec<Append>,
    /// Times that its filer was given rows and has not said what became of them, and their bytes.
    filings: usize,
    filing_bytes: usize,
    /// The file could not be written, so there is no room for more.
    stuck: bool,
    /// It is noted that the file is behind.
    is_behind: bool,
    used: Instant,
}

/// An append that has its place and is not durable.
struct Waiting {
    session: SessionId,
    placed: Placed,
    append: Append,
}

impl Appender {
    pub(super) fn new(shared: Shared, pen: Pen, filers: Filers, noter: Noter) -> Self {
        Self {
            shared,
            pen,
            filers,
            noter,
            logs: HashMap::new(),
            behind: VecDeque::new(),
            settle_at: Instant::now(),
            placed: Vec::new(),
            entries: Entries::default(),
        }
    }

    pub(super) fn run(mut self, queue: &Receiver<Order>) {
        let mut tidied = Instant::now();
        loop {
            match queue.recv_timeout(self.until_settling().unwrap_or(IDLE / 4)) {
                Ok(first) => {
                    if !self.handle(drain(first, queue)) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.until_settling() == Some(Duration::ZERO)
                && let Some((session, _)) = self.behind.pop_front()
            {
                self.logs.entry(session).and_modify(|log| log.is_behind = false);
                self.file(session);
                self.settle_at = Instant::now() + PAUSE.min(SETTLE / (2 * self.behind.len().max(1) as u32));
            }
            if tidied.elapsed() >= IDLE / 4 {
                self.logs.retain(|_, log| !log.is_idle());
                tidied = Instant::now();
            }
        }
        self.flush();
        let sessions: Vec<_> = self.logs.keys().copied().collect();
        sessions.into_iter().for_each(|session| self.file(session));
    }

    /// How long until the next file is to be brought up to date, if one is behind.
    fn until_settling(&self) -> Option<Duration> {
        let (_, since) = self.behind.front()?;
        let due = (*since + SETTLE).max(self.settle_at);
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Does what was ordered; false when nothing more will come.
    pub(super) fn handle(&mut self, batch: Vec<Order>) -> bool {
        let mut jobs = Vec::new();
        let mut goes_on = true;
        for order in batch {
            match order {
                Order::Append(session, append) => self.append(session, append),
                Order::Job(session, job) => jobs.push((session, job)),
                Order::End(session, end) => self.begin(session, end),
                Order::Filed(session, bytes, result) => self.filed(session, bytes, result),
                Order::Damaged(session) => self.let_go(session),
                Order::Close => goes_on = false,
            }
        }
        // Nobody reads what is not durable.
        self.flush();
        jobs.into_iter().for_each(|(session, job)| self.pass_on(session, job));
        goes_on
    }

    /// Gives an append its place, or has it wait for the filer.
    fn append(&mut self, session: SessionId, append: Append) {
        let log = self.logs.entry(session).or_default();
        log.used = Instant::now();
        if !log.parked.is_empty() || log.is_full() {
            log.parked.push(append);
            return self.nudge(session);
        }
        let Some(tail) = &mut log.tail else {
            log.parked.push(append);
            return self.nudge(session);
        };
        if tail.end().epoch != append.epoch {
            return answer(append.reply, Err(Error::Fenced));
        }
        let size = append.drafts.iter().map(Encoded::size).sum::<usize>() + Entries::BEGIN;
        if let Err(error) = self.pen.reserve(self.entries.bytes().len() + size) {
            return answer(append.reply, Err(error));
        }
        failpoint::hit(Point::Appending);
        self.entries.rows_of(session, append.drafts.len());
        let placed = tail.place(&append.drafts, &mut self.entries);
        if !log.is_behind {
            log.is_behind = true;
            self.behind.push_back((session, log.used));
        }
        self.placed.push(Waiting { session, placed, append });
    }

    /// Sees to it that the filer will have something to say, after which those who are parked go on.
    fn nudge(&mut self, session: SessionId) {
        if self.logs.get(&session).is_some_and(|log| log.tail.is_some() && log.filings == 0) {
            // Rows go to the filer only when they are durable.
            self.flush();
            self.give(session, false);
        }
        if let Some(log) = self.logs.get_mut(&session)
            && log.tail.is_none()
            && !std::mem::replace(&mut log.asked, true)
        {
            self.send(session, Task::End);
        }
    }

    /// Those who were parked try again.
    fn unpark(&mut self, session: SessionId) {
        let parked =
            self.logs.get_mut(&session).map(|log| std::mem::take(&mut log.parked)).unwrap_or_default();
        parked.into_iter().for_each(|append| self.append(session, append));
    }

    fn refuse_parked(&mut self, session: SessionId, error: &Error) {
        let Some(log) = self.logs.get_mut(&session) else { return };
        for append in std::mem::take(&mut log.parked) {
            answer(append.reply, Err(error.clone()));
        }
    }

    /// The filer has said where a log ends.
    fn begin(&mut self, session: SessionId, end: Result<End, Error>) {
        let Some(log) = self.logs.get_mut(&session) else { return };
        log.asked = false;
        if std::mem::take(&mut log.outdated) {
            return self.unpark(session);
        }
        match end {
            Ok(end) => {
                log.tail = Some(Tail::new(end));
                log.stuck = false;
                self.unpark(session);
            }
            Err(error) => self.refuse_parked(session, &error),
        }
    }

    /// The filer has said what became of rows.
    fn filed(&mut self, session: SessionId, bytes: usize, result: Result<(), Error>) {
        let Some(log) = self.logs.get_mut(&session) else { return };
        log.filings = log.filings.saturating_sub(1);
        log.filing_bytes = log.filing_bytes.saturating_sub(bytes);
        log.stuck = result.is_err();
        match result {
            Ok(()) => self.unpark(session),
            Err(error) => self.refuse_parked(session, &error),
        }
    }

    /// Waits until what was placed is durable, and tells those who wait.
    fn flush(&mut self) {
        if self.placed.is_empty() {
            return;
        }
        let result = self.pen.commit(&self.entries);
        self.entries.clear();
        let placed = std::mem::take(&mut self.placed);
        match result {
            Ok(()) => {
                failpoint::hit(Point::Appended);
                self.shared.counters.syncs.fetch_add(1, Ordering::Relaxed);
                self.shared.counters.appends.fetch_add(placed.len() as u64, Ordering::Relaxed);
                let now = Instant::now();
                let mut ends = HashMap::new();
                for Waiting { session, placed, append } in placed {
                    ends.insert(session, placed.first + append.drafts.len() as u64 - 1);
                    confirm(session, placed, append, now);
                }
                if self.shared.ends.note_later(ends) {
                    self.noter.wake();
                }
            }
            Err(error) => {
                // The logs will have the events, so it is not as if nothing had happened.
                let detail = format!("the journal cannot be written: {error}");
                let error = Error::other(self.shared.layout.root(), detail);
                for Waiting { session, append, .. } in placed {
                    self.give(session, true);
                    self.let_go(session);
                    answer(append.reply, Err(error.clone()));
                }
            }
        }
    }

    /// Does what the filer is needed for. It has all rows then.
    fn pass_on(&mut self, session: SessionId, job: Job) {
        self.file(session);
        match job {
            Job::Create(_) | Job::Open { .. } => self.let_go(session),
            Job::Forget(reply) => {
                self.let_go(session);
                match self.pen.forget(session) {
                    Ok(()) => self.send(session, Task::Do(Job::Forget(reply))),
                    Err(error) => answer(reply, Err(error)),
                }
                return;
            }
            _ => {}
        }
        self.send(session, Task::Do(job));
    }

    /// Does not know any more where a log ends.
    fn let_go(&mut self, session: SessionId) {
        self.file(session);
        if let Some(log) = self.logs.get_mut(&session) {
            log.tail = None;
            log.outdated = log.asked;
        }
    }

    /// Gives the filer what it does not have, if there is anything.
    fn file(&mut self, session: SessionId) {
        let tail = self.logs.get(&session).and_then(|log| log.tail.as_ref());
        if tail.is_some_and(|tail| tail.bytes() > 0) {
            self.give(session, false);
        }
    }

    /// Has the filer write: what it does not have, and what it could not write before.
    fn give(&mut self, session: SessionId, unsynced: bool) {
        let Some(log) = self.logs.get_mut(&session) else { return };
        let Some(tail) = &mut log.tail else { return };
        let bytes = tail.bytes();
        let rows = tail.take_rows();
        log.filings += 1;
        log.filing_bytes += bytes;
        self.send(session, Task::File(Filing { rows, bytes, unsynced }));
    }

    fn send(&self, session: SessionId, task: Task) {
        filer::send(&self.filers, session, task);
    }
}

impl Log {
    /// Whether the file has to be written before there can be more.
    fn is_full(&self) -> bool {
        let bytes = self.filing_bytes + self.tail.as_ref().map_or(0, Tail::bytes);
        self.stuck || bytes > SETTLE_BYTES
    }

    fn is_idle(&self) -> bool {
        self.used.elapsed() >= IDLE
            && !self.asked
            && !self.is_behind
            && self.filings == 0
            && self.parked.is_empty()
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            tail: None,
            asked: false,
            outdated: false,
            parked: Vec::new(),
            filings: 0,
            filing_bytes: 0,
            stuck: false,
            is_behind: false,
            used: Instant::now(),
        }
    }
}

fn confirm(session: SessionId, placed: Placed, append: Append, now: Instant) {
    let Append { drafts, confirmed, reply, .. } = append;
    let numbered = drafts.into_iter().zip(placed.first..);
    let events: Vec<_> = numbered.map(|(draft, seq)| draft.into_event(session, seq, placed.at)).collect();
    confirmed.move_on(placed.first + events.len() as u64 - 1, now);
    answer(reply, Ok(events));
}
