//! What makes appends durable: one file for all logs, so that one sync does for everyone who waits. One thread has the
//! [`Pen`] and writes; the others know what is there to be read.
//!
//! A log's own file is written after it, and synced last. What a process that was killed did not get to, and what a power
//! cut took from a file, the journal has. It is a row of segments: a new one is begun when one is long enough, and an old
//! one goes when every log that it speaks of is synced.

mod entry;
mod segment;

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::SessionId;

use crate::Error;
use crate::layout::sync_dir;
use crate::row::Row;
use entry::Entry;
use segment::Segment;

pub(crate) use entry::{Entries, NewRow};

/// A segment that is longer is not written to any more.
const LONG: u64 = 16 << 20;

/// A test that cuts the power does not wait for so much.
fn long() -> u64 {
    #[cfg(feature = "power-cuts")]
    if crate::power::is_watched() {
        return LONG >> 8;
    }
    LONG
}

/// All segments that are not written to any more.
pub(crate) struct Journal {
    dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Segments that are read only, oldest first.
    old: VecDeque<Old>,
    /// What was found when it was opened, for whoever opens the log.
    found: HashMap<SessionId, Vec<(Row, u64)>>,
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

/// The end that is written to.
pub(crate) struct Pen {
    journal: Arc<Journal>,
    /// Number of the next segment.
    next: u64,
    /// None until something is to be written, and after a failure.
    current: Option<Current>,
}

struct Current {
    segment: Segment,
    /// Logs that it speaks of.
    sessions: HashSet<SessionId>,
}

impl Journal {
    /// Reads what an earlier process left.
    pub(crate) fn open(dir: &Path) -> Result<(Arc<Self>, Pen), Error> {
        let mut state = State::default();
        let mut next = 0;
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
            next = number + 1;
            state.old.push_back(Old { path, inherited: true, sessions });
        }
        let journal = Arc::new(Self { dir: dir.to_owned(), state: Mutex::new(state) });
        Ok((Arc::clone(&journal), Pen { journal, next, current: None }))
    }

    /// What was appended to a log and is not known to be in it.
    pub(crate) fn found(&self, session: SessionId) -> Vec<(Row, u64)> {
        self.state().found.remove(&session).unwrap_or_default()
    }

    /// Whether there is such.
    pub(crate) fn has_found(&self, session: SessionId) -> bool {
        self.state().found.contains_key(&session)
    }

    /// Gives back what could not be brought into the log.
    pub(crate) fn keep(&self, session: SessionId, rows: Vec<(Row, u64)>) {
        self.state().found.entry(session).or_default().extend(rows);
    }

    /// The oldest segment that is only kept until its logs are synced.
    pub(crate) fn oldest(&self) -> Option<Old> {
        self.state().old.front().cloned()
    }

    /// Removes the oldest segment: its logs are synced.
    pub(crate) fn remove(&self, old: &Old) -> Result<(), Error> {
        segment::remove(&old.path).map_err(|e| Error::io(&old.path, &e))?;
        // Before the next one goes, or an old one could outlive what was written later.
        sync_dir(&self.dir)?;
        self.state().old.retain(|kept| kept.path != old.path);
        Ok(())
    }

    /// Removes everything: every log of this process is synced, and nothing more will be written. What an earlier process
    /// left and nobody looked at yet stays, and all that came later with it.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        if self.state().old.iter().any(|old| old.inherited) {
            return Ok(());
        }
        while let Some(old) = self.oldest() {
            self.remove(&old)?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pen {
    /// Makes sure that there is room for this many bytes, in as many entries as there may be.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes = (bytes + segment::HEADER) as u64;
        if self.current.as_ref().is_some_and(|current| current.segment.length() > long()) {
            self.retire();
        }
        match &mut self.current {
            Some(current) => current.segment.reserve(bytes),
            None => self.begin(bytes).map(drop),
        }
    }

    fn begin(&mut self, room: u64) -> Result<&mut Current, Error> {
        let number = self.next;
        // Also when it fails: a name that was taken stays taken.
        self.next += 1;
        let mut segment = Segment::create(&self.journal.dir, number)?;
        if let Err(error) = segment.reserve(room) {
            segment.remove();
            return Err(error);
        }
        Ok(self.current.insert(Current { segment, sessions: HashSet::new() }))
    }

    /// Waits until these entries are on disk.
    pub(crate) fn commit(&mut self, entries: &Entries) -> Result<(), Error> {
        let current = match self.current.take() {
            Some(current) => self.current.insert(current),
            None => self.begin(entries.bytes().len() as u64)?,
        };
        current.sessions.extend(entries.sessions());
        let result = current.segment.write(entries.bytes());
        if result.is_err() {
            // What a disk did not take once is not tried again in the same place.
            self.retire();
        }
        result
    }

    /// Knows nothing of an earlier log of this session any more.
    pub(crate) fn forget(&mut self, session: SessionId) -> Result<(), Error> {
        let entries = Entries::forget(session);
        self.reserve(entries.bytes().len())?;
        self.commit(&entries)
    }

    fn retire(&mut self) {
        if let Some(Current { segment, sessions }) = self.current.take() {
            let old = Old { path: segment.path().to_owned(), inherited: false, sessions };
            self.journal.state().old.push_back(old);
        }
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.retire();
    }
}

#[cfg(test)]
mod tests;
