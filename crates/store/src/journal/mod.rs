//! What makes appends durable: one file for all logs, so that one sync does for everyone who waits. One thread has the
//! [`Pen`] and writes; the others know what is there to be read.
//!
//! A log's own file is written after it, and synced last. What a process that was killed did not get to, and what a power
//! cut took from a file, the journal has. It is a row of segments: a new one is begun when one is long enough, and an old
//! one is let go when every log that it speaks of is synced. Where much is appended, it is written over then.

mod entry;
mod segment;
mod spare;

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
const LONG: u64 = 8 << 20;

/// A segment that has grown to this part of its length shows that much is appended, and that spares are worth it.
const BUSY: u64 = 32;

/// A test that cuts the power does not wait for so much.
fn long() -> u64 {
    #[cfg(feature = "power-cuts")]
    if crate::power::is_watched() {
        return LONG >> 7;
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
    /// Number of the next segment.
    next: u64,
    /// Segments that can be written over.
    spares: Vec<PathBuf>,
    /// Spares are missed.
    busy: bool,
}

impl State {
    /// A number that no segment had before.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// A segment that is kept until logs are synced.
#[derive(Debug, Clone)]
pub(crate) struct Old {
    path: PathBuf,
    number: u64,
    /// Whether an earlier process left it.
    inherited: bool,
    /// Logs that it speaks of.
    pub(crate) sessions: HashSet<SessionId>,
}

/// The end that is written to.
pub(crate) struct Pen {
    journal: Arc<Journal>,
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
        let (segments, spares) = segment::list(dir)?;
        state.next = spares.iter().filter_map(|path| spare::number(path)).max().map_or(0, |last| last + 1);
        state.spares = spares;
        for (number, path) in segments {
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
            state.next = state.next.max(number + 1);
            state.old.push_back(Old { path, number, inherited: true, sessions });
        }
        let journal = Arc::new(Self { dir: dir.to_owned(), state: Mutex::new(state) });
        Ok((Arc::clone(&journal), Pen { journal, current: None }))
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

    /// Lets go of the oldest segment: its logs are synced. It is written over later, or removed.
    pub(crate) fn let_go(&self, old: &Old) -> Result<(), Error> {
        let io = |error: std::io::Error| Error::io(&old.path, &error);
        let spare = self.wants_spares() && segment::is_whole(&old.path, long());
        let spare = spare.then(|| spare::path(&self.dir, old.number));
        match &spare {
            Some(spare) => segment::rename(&old.path, spare).map_err(io)?,
            None => segment::remove(&old.path).map_err(io)?,
        }
        // Before the next one goes, or an old one could outlive what was written later.
        sync_dir(&self.dir)?;
        let mut state = self.state();
        state.old.retain(|kept| kept.path != old.path);
        state.spares.extend(spare);
        Ok(())
    }

    /// Makes spares if much is appended and there are not enough.
    pub(crate) fn make_spares(&self) -> Result<(), Error> {
        while self.state().busy && self.wants_spares() {
            let number = self.state().number();
            let made = spare::make(&self.dir, number, long())?;
            self.state().spares.push(made);
        }
        Ok(())
    }

    fn wants_spares(&self) -> bool {
        self.state().spares.len() < spare::SPARES
    }

    /// Removes everything: every log of this process is synced, and nothing more will be written. What an earlier process
    /// left and nobody looked at yet stays, and all that came later with it.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        // Whoever removed the directory removed the journal with it.
        let gone = !self.dir.try_exists().unwrap_or(true);
        if gone || self.state().old.iter().any(|old| old.inherited) {
            return Ok(());
        }
        while let Some(old) = self.oldest() {
            self.let_go(&old)?;
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
        if self.current.as_ref().is_some_and(|current| self.is_done(&current.segment)) {
            self.retire();
        }
        match &mut self.current {
            Some(current) => current.segment.reserve(bytes),
            None => self.begin(bytes).map(drop),
        }
    }

    /// Whether a segment is long enough, or there is a better one.
    fn is_done(&self, segment: &Segment) -> bool {
        let length = segment.length();
        if length <= long() / BUSY || segment.is_reused() {
            return length > long();
        }
        let mut state = self.journal.state();
        state.busy = true;
        length > long() || !state.spares.is_empty()
    }

    fn begin(&mut self, room: u64) -> Result<&mut Current, Error> {
        let mut segment = self.next_segment()?;
        if let Err(error) = segment.reserve(room) {
            segment.remove();
            return Err(error);
        }
        Ok(self.current.insert(Current { segment, sessions: HashSet::new() }))
    }

    fn next_segment(&self) -> Result<Segment, Error> {
        loop {
            let (number, spare) = {
                let mut state = self.journal.state();
                // Also when it fails: a name that was taken stays taken.
                (state.number(), state.spares.pop())
            };
            let Some(spare) = spare else { return Segment::create(&self.journal.dir, number) };
            match Segment::reuse(&spare, &self.journal.dir, number) {
                Err(error) => tracing::warn!(%error, "a spare segment of the journal cannot be used"),
                segment => return segment,
            }
        }
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
            let (path, number) = (segment.path().to_owned(), segment.number());
            let old = Old { path, number, inherited: false, sessions };
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
