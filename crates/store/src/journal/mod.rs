//! What makes appends durable: one file for all logs, so that one sync does for everyone who waits.
//!
//! A log's own file is written after it, and synced last. What a process that was killed did not get to, and what a power
//! cut took from a file, the journal has. It is a row of segments: a new one is begun when one is long enough, and an old
//! one goes when every log that it speaks of is synced.

mod entry;
mod segment;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use protocol::SessionId;

use crate::Error;
use crate::layout::sync_dir;
use crate::row::Row;
use entry::Entry;
use segment::Segment;

pub(crate) use entry::{Entries, NewRow};

/// A segment that is longer is not written to any more.
const LONG: u64 = 8 << 20;

/// A test that cuts the power does not wait for so much.
fn long() -> u64 {
    #[cfg(feature = "power-cuts")]
    if crate::power::is_watched() {
        return LONG >> 7;
    }
    LONG
}

/// All segments.
pub(crate) struct Journal {
    dir: PathBuf,
    state: Mutex<State>,
    flushed: Condvar,
}

type Verdict = Arc<OnceLock<Result<(), Error>>>;

#[derive(Default)]
struct State {
    /// Number of the next segment.
    next: u64,
    /// None until something is to be written, and after a failure.
    current: Option<Current>,
    /// What waits to be written, whose it is, and where those who wait find what became of it.
    pending: Vec<u8>,
    sessions: Vec<SessionId>,
    verdict: Verdict,
    /// Somebody writes, without holding the lock.
    flushing: bool,
    /// How many wait for that.
    waiters: usize,
    /// Bytes that will come, for which there has to be room.
    promised: u64,
    /// Segments that are read only, oldest first.
    old: VecDeque<Old>,
    /// What was found when it was opened, for whoever opens the log.
    found: HashMap<SessionId, Vec<(Row, u64)>>,
}

struct Current {
    segment: Arc<Segment>,
    /// Logs that it speaks of.
    sessions: HashSet<SessionId>,
}

/// A segment that is kept until logs are synced.
#[derive(Debug, Clone)]
pub(crate) struct Old {
    path: PathBuf,
    /// Whether an earlier process left it.
    inherited: bool,
    /// Logs that it speaks of.
    pub(crate) sessions: HashSet<SessionId>,
}

/// Room for entries: what is committed while it is held does not find the disk full.
pub(crate) struct Room {
    journal: Arc<Journal>,
    bytes: u64,
}

impl Journal {
    /// Reads what an earlier process left.
    pub(crate) fn open(dir: &Path) -> Result<Self, Error> {
        let mut state = State::default();
        for (number, path) in segment::list(dir)? {
            let mut sessions = HashSet::new();
            segment::read(&path, number, |payload| {
                for entry in Entry::all(payload) {
                    match entry {
                        Entry::Rows { session, rows } => {
                            sessions.insert(session);
                            state.found.entry(session).or_default().extend(rows);
                        }
                        Entry::Forget { session } => drop(state.found.remove(&session)),
                    }
                }
            })?;
            state.next = number + 1;
            state.old.push_back(Old { path, inherited: true, sessions });
        }
        Ok(Self { dir: dir.to_owned(), state: Mutex::new(state), flushed: Condvar::new() })
    }

    /// What was appended to a log before the last start, if it is not known yet whether the log has it.
    pub(crate) fn found(&self, session: SessionId) -> Vec<(Row, u64)> {
        self.state().found.remove(&session).unwrap_or_default()
    }

    /// Whether there is such.
    pub(crate) fn has_found(&self, session: SessionId) -> bool {
        self.state().found.contains_key(&session)
    }

    /// Gives back what could not be brought into the log.
    pub(crate) fn keep(&self, session: SessionId, rows: Vec<(Row, u64)>) {
        self.state().found.insert(session, rows);
    }

    /// Makes room for this many bytes of entries.
    pub(crate) fn room(self: &Arc<Self>, bytes: usize) -> Result<Room, Error> {
        let bytes = (bytes + segment::HEADER) as u64;
        let mut state = self.state();
        let promised = state.promised + bytes;
        if state.current.as_ref().is_some_and(|current| current.segment.length() > long()) && !state.flushing
        {
            state.retire();
        }
        match &state.current {
            Some(current) => current.segment.reserve(promised)?,
            None => self.begin(&mut state, promised)?,
        }
        state.promised += bytes;
        Ok(Room { journal: Arc::clone(self), bytes })
    }

    fn begin(&self, state: &mut State, room: u64) -> Result<(), Error> {
        let number = state.next;
        // Also when it fails: a name that was taken stays taken.
        state.next += 1;
        let segment = Segment::create(&self.dir, number)?;
        if let Err(error) = segment.reserve(room) {
            segment.remove();
            return Err(error);
        }
        state.current = Some(Current { segment: Arc::new(segment), sessions: HashSet::new() });
        Ok(())
    }

    /// Waits until these entries are on disk. Whoever comes first writes for all that came meanwhile.
    pub(crate) fn commit(&self, entries: &Entries) -> Result<(), Error> {
        let mut state = self.state();
        state.pending.extend(entries.bytes());
        state.sessions.extend(entries.sessions());
        let verdict = Arc::clone(&state.verdict);
        loop {
            if let Some(verdict) = verdict.get() {
                return verdict.clone();
            }
            if state.flushing {
                state.waiters += 1;
                state = self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiters -= 1;
                continue;
            }
            state = self.flush(state);
        }
    }

    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let verdict = std::mem::take(&mut state.verdict);
        let (pending, sessions) = (std::mem::take(&mut state.pending), std::mem::take(&mut state.sessions));
        if state.current.is_none()
            && let Err(error) = self.begin(&mut state, pending.len() as u64)
        {
            verdict.get_or_init(|| Err(error));
            self.flushed.notify_all();
            return state;
        }
        let Some(current) = &mut state.current else { return state };
        current.sessions.extend(sessions);
        let segment = Arc::clone(&current.segment);
        state.flushing = true;
        drop(state);
        let result = segment.write(&pending);
        let mut state = self.state();
        state.flushing = false;
        if result.is_err() {
            // What a disk did not take once is not tried again in the same place.
            state.retire();
        }
        verdict.get_or_init(|| result);
        if state.waiters > 0 {
            self.flushed.notify_all();
        }
        state
    }

    /// Knows nothing of an earlier log of this session any more.
    pub(crate) fn forget(self: &Arc<Self>, session: SessionId) -> Result<(), Error> {
        let entries = Entries::forget(session);
        let _room = self.room(entries.bytes().len())?;
        self.commit(&entries)?;
        self.state().found.remove(&session);
        Ok(())
    }

    /// The oldest segment that is only kept until its logs are synced.
    pub(crate) fn oldest(&self) -> Option<Old> {
        self.state().old.front().cloned()
    }

    /// Removes the oldest segment: its logs are synced.
    pub(crate) fn remove(&self, old: &Old) -> Result<(), Error> {
        let mut state = self.state();
        segment::remove(&old.path).map_err(|e| Error::io(&old.path, &e))?;
        // Before the next one goes, or an old one could outlive what was written later.
        sync_dir(&self.dir)?;
        state.old.retain(|kept| kept.path != old.path);
        Ok(())
    }

    /// Removes everything: every log of this process is synced, and nothing more will be written. What an earlier process
    /// left and nobody looked at yet stays, and all that came later with it.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let mut state = self.state();
        state.retire();
        if state.old.iter().any(|old| old.inherited) {
            return Ok(());
        }
        drop(state);
        while let Some(old) = self.oldest() {
            self.remove(&old)?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn retire(&mut self) {
        if let Some(Current { segment, sessions }) = self.current.take() {
            self.old.push_back(Old { path: segment.path().to_owned(), inherited: false, sessions });
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.journal.state().promised -= self.bytes;
    }
}

#[cfg(test)]
mod tests;
