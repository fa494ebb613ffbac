//! Where each log ended when it was last written: a small file beside the logs, written soon after each commit and never
//! synced. What it says was durable before it was written, so it is never ahead of a log that lost nothing; a log that
//! ends earlier has lost its end, as a damaged or shortened write-ahead log does without a trace of its own.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::SessionId;

use crate::Error;
use crate::chain::Chain;

/// Bytes of a session's place in the file: its id, the event's number, a checksum.
const PLACE: usize = ID + 16;
/// Bytes of an id in text.
const ID: usize = 32;

/// The file.
#[derive(Debug)]
pub(crate) struct Ends {
    file: File,
    known: Mutex<Known>,
    /// Whoever writes to the file has this.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// The session's place in the file, and the last event that its log certainly has.
    ends: HashMap<SessionId, (u64, u64)>,
    /// Places in the file, also those that cannot be read.
    places: u64,
    /// Ends that are to be noted.
    later: HashMap<SessionId, u64>,
}

impl Ends {
    /// Reads the file, or makes it. A place that cannot be read says nothing.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let io = |error: std::io::Error| Error::io(path, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        let mut bytes = vec![0; usize::try_from(file.metadata().map_err(io)?.len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(io)?;
        let mut known = Known { places: bytes.len().div_ceil(PLACE) as u64, ..Known::default() };
        for (place, bytes) in (0..).zip(bytes.chunks(PLACE)) {
            if let Some((session, seq)) = decode(bytes) {
                known.ends.insert(session, (place, seq));
            }
        }
        Ok(Self { file, known: Mutex::new(known), writing: Mutex::default() })
    }

    /// The last event that a log certainly had: as noted by an earlier process, or as it was given to the log by this one.
    pub(crate) fn seen(&self, session: SessionId) -> u64 {
        self.known().ends.get(&session).map_or(0, |(_, seq)| *seq)
    }

    /// A log was given its events up to this one.
    pub(crate) fn given(&self, session: SessionId, seq: u64) {
        self.known().place(session).1 = seq;
    }

    /// Where logs end now is to be noted, for later processes. Says whether nobody knows of that yet.
    pub(crate) fn note_later(&self, ends: impl IntoIterator<Item = (SessionId, u64)>) -> bool {
        let mut known = self.known();
        let first = known.later.is_empty();
        known.later.extend(ends);
        first && !known.later.is_empty()
    }

    /// Notes what is to be noted.
    pub(crate) fn note_all(&self) {
        let _writing = self.writing();
        let later = std::mem::take(&mut self.known().later);
        later.into_iter().for_each(|(session, seq)| self.note(session, seq));
    }

    /// What cannot be noted is not missed until the log loses its end too.
    fn note(&self, session: SessionId, seq: u64) {
        let place = self.known().place(session).0;
        if let Err(error) = self.file.write_all_at(&encode(session, seq), place * PLACE as u64) {
            tracing::warn!(%session, %error, "cannot note where a log ends");
        }
    }

    /// Knows nothing of an earlier log any more.
    pub(crate) fn forget(&self, session: SessionId) {
        let _writing = self.writing();
        self.known().later.remove(&session);
        self.given(session, 0);
        self.note(session, 0);
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn place(&mut self, session: SessionId) -> &mut (u64, u64) {
        let Self { ends, places, .. } = self;
        ends.entry(session).or_insert_with(|| {
            *places += 1;
            (*places - 1, 0)
        })
    }
}

fn encode(session: SessionId, seq: u64) -> [u8; PLACE] {
    let mut bytes = [0; PLACE];
    let name = session.to_string();
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[ID..ID + 8].copy_from_slice(&seq.to_le_bytes());
    bytes[ID + 8..].copy_from_slice(&sum(&name, seq).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(SessionId, u64)> {
    let (id, numbers) = bytes.split_at_checked(ID)?;
    let (seq, noted) = numbers.split_at_checked(8)?;
    let name = std::str::from_utf8(id).ok()?.trim_end_matches('\0');
    let seq = u64::from_le_bytes(seq.try_into().ok()?);
    let noted = u64::from_le_bytes(noted.try_into().ok()?);
    (noted == sum(name, seq)).then_some((name.parse().ok()?, seq))
}

fn sum(name: &str, seq: u64) -> u64 {
    Chain::after(seq).text(name).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_again_and_damaged_ones_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ends");
        let [a, b, c] = [SessionId::new(), SessionId::new(), SessionId::new()];
        let ends = Ends::open(&path).unwrap();
        assert_eq!(ends.seen(a), 0);
        // Its place is the first in the file.
        assert!(ends.note_later([(a, 1)]));
        ends.note_all();
        assert!(ends.note_later([(b, 7)]));
        assert!(!ends.note_later([(a, 2)]), "somebody knows of the first");
        ends.note_all();
        assert!(!ends.note_later([]), "there is nothing to note");
        assert_eq!(ends.seen(a), 0, "the log was not given it yet");
        ends.given(a, 2);
        assert_eq!(ends.seen(a), 2);
        drop(ends);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 2 * PLACE);
        for flipped in 0..PLACE {
            let mut bytes = bytes.clone();
            bytes[flipped] ^= 4;
            std::fs::write(&path, &bytes).unwrap();
            let ends = Ends::open(&path).unwrap();
            assert_eq!((ends.seen(a), ends.seen(b)), (0, 7), "byte {flipped}");
        }
        // A torn last place is neither believed nor in the way.
        std::fs::write(&path, &bytes[..PLACE + 9]).unwrap();
        let ends = Ends::open(&path).unwrap();
        assert_eq!((ends.seen(a), ends.seen(b)), (2, 0));
        ends.note_later([(c, 3), (b, 8)]);
        ends.note_all();
        let ends = Ends::open(&path).unwrap();
        assert_eq!((ends.seen(a), ends.seen(b), ends.seen(c)), (2, 8, 3));
        // What was to be noted of an earlier log is not noted of the next.
        ends.note_later([(c, 9)]);
        ends.forget(c);
        ends.note_all();
        assert_eq!(Ends::open(&path).unwrap().seen(c), 0);
    }
}
