//! The conversation of a session, for its model. It is folded from the log and kept beside it, so that a turn of a long
//! session reads only what came since. What is kept is only a shorter way: where it does not fit the log it is left alone,
//! and the log is read from its start.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent::history::History;
use protocol::Event;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::kept_fold::fingerprint;
use crate::recorder::Recorder;
use crate::state::State;

/// The file in the session's directory.
pub(crate) const FILE: &str = "history";
/// Its name until it is whole.
pub(crate) const UNFINISHED: &str = "history.new";

/// It is kept when at least this many events had to be read.
const EVERY: u64 = 1000;
/// Events that are read at once.
const PAGE: usize = 500;
/// Bytes of the checksum, with which the file begins.
const SUM: usize = 32;

/// Names how a history is written and how it is folded, by the code that does both.
const FORMAT: u64 = {
    let [history, answer, compaction, arguments] = agent::history::SOURCES;
    fingerprint(&[history, answer, compaction, arguments, env!("CARGO_PKG_VERSION").as_bytes()])
};

/// A history as it is kept.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Kept {
    format: u64,
    /// The last event in it.
    seq: u64,
    history: History,
}

/// The conversation of a session that is worked on. What is appended is added to it, so that no turn has to wait until the
/// log is read.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Option<Known>>);

/// A history in memory.
struct Known {
    kept: Kept,
    /// The last event in what was kept on disk.
    on_disk: u64,
}

impl Remembered {
    /// What the model is sent of the session's log.
    pub(crate) async fn read(&self, recorder: &Recorder) -> Result<History, store::Error> {
        let known = self.lock().take();
        let mut known = match known {
            Some(known) => known,
            None => {
                let kept = read_kept(recorder, &recorder.dir()).await?.unwrap_or_default();
                Known { on_disk: kept.seq, kept }
            }
        };
        if known.kept.seq < recorder.stream().with_state(State::seq) {
            go_on(recorder, &mut known.kept).await?;
        }
        known.keep(recorder).await?;
        let history = known.kept.history.clone();
        *self.lock() = Some(known);
        Ok(history)
    }

    /// Looks at it where it is in memory and has the last event.
    pub(crate) fn look<T>(&self, recorder: &Recorder, look: impl FnOnce(&History) -> T) -> Option<T> {
        let known = self.lock();
        let known = known.as_ref()?;
        (known.kept.seq == recorder.stream().with_state(State::seq)).then(|| look(&known.kept.history))
    }

    /// Adds what was appended just now. What it does not follow on is read from the log later.
    pub(crate) fn add(&self, events: &[Event]) {
        let mut known = self.lock();
        let Some(Known { kept, .. }) = known.as_mut() else { return };
        for event in events {
            if event.seq <= kept.seq {
                continue;
            }
            if event.seq != kept.seq + 1 {
                return;
            }
            kept.history.apply(event);
            kept.seq = event.seq;
        }
    }

    /// Gives its memory back.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Keeps it on disk, after a long way since it was.
    async fn keep(&mut self, recorder: &Recorder) -> Result<(), store::Error> {
        if self.kept.seq < self.on_disk + EVERY {
            return Ok(());
        }
        self.kept.format = FORMAT;
        if let Some(last) = recorder.read(self.kept.seq - 1, 1).await?.pop() {
            keep(recorder.dir(), &self.kept, &last).await;
        }
        // When it could not be written, that was told; the next try is as far away.
        self.on_disk = self.kept.seq;
        Ok(())
    }
}

/// Reads what the log has beyond what is known.
async fn go_on(recorder: &Recorder, kept: &mut Kept) -> Result<(), store::Error> {
    loop {
        let page = recorder.read(kept.seq, PAGE).await?;
        page.iter().for_each(|event| kept.history.apply(event));
        kept.seq = page.last().map_or(kept.seq, |event| event.seq);
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// What was kept, if it is whole and the log is the one that it was made from.
async fn read_kept(recorder: &Recorder, dir: &Path) -> Result<Option<Kept>, store::Error> {
    let path = dir.join(FILE);
    let bytes = match tokio::fs::read(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a kept history cannot be read and is left alone");
            return Ok(None);
        }
    };
    let fitting = fitting(recorder, &bytes).await?;
    if fitting.is_none() {
        tracing::info!(path = %path.display(), "a kept history does not fit and is made anew");
    }
    Ok(fitting)
}

async fn fitting(recorder: &Recorder, bytes: &[u8]) -> Result<Option<Kept>, store::Error> {
    let Some((sum, text)) = bytes.split_at_checked(SUM) else { return Ok(None) };
    let Ok(kept) = serde_json::from_slice::<Kept>(text) else { return Ok(None) };
    if kept.format != FORMAT || kept.seq == 0 {
        return Ok(None);
    }
    let event = recorder.read(kept.seq - 1, 1).await?.pop();
    Ok(event.filter(|event| event.seq == kept.seq && checksum(event, text) == sum).map(|_| kept))
}

/// Keeps a history. The log has everything, so a failure is told and not passed on.
async fn keep(dir: PathBuf, kept: &Kept, last: &Event) {
    let told = dir.join(FILE);
    let written = match serde_json::to_vec(kept) {
        Ok(text) => {
            let sum = checksum(last, &text);
            tokio::task::spawn_blocking(move || write(&dir, &sum, &text)).await.map_err(std::io::Error::other)
        }
        Err(error) => Err(error.into()),
    };
    if let Err(error) = written.flatten() {
        tracing::warn!(path = %told.display(), %error, "a history could not be kept");
    }
}

/// A power cut may leave half a file, which its checksum shows.
fn write(dir: &Path, sum: &[u8; SUM], text: &[u8]) -> std::io::Result<()> {
    let new = dir.join(UNFINISHED);
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(sum).and_then(|()| file.write_all(text)).inspect_err(|_| {
        // On a full disk this gives the room back.
        drop(std::fs::remove_file(&new));
    })?;
    std::fs::rename(&new, dir.join(FILE))
}

/// The checksum of a history, together with the last event in it: a log that was restored may be another one.
fn checksum(last: &Event, text: &[u8]) -> [u8; SUM] {
    let mut hash = Sha256::new();
    // An event that came from a log can be written.
    hash.update(serde_json::to_vec(last).unwrap_or_default());
    hash.update([0]);
    hash.update(text);
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::chat::Message;
    use protocol::{Actor, EventBody, Item, ItemId, ItemKind, ItemStatus, SessionId, TurnId};
    use store::Store;

    use super::*;
    use crate::feed::Stream;

    async fn messages(recorder: &Recorder) -> Result<Vec<Message>, store::Error> {
        Ok(Remembered::default().read(recorder).await?.into_messages())
    }

    fn said(text: &str) -> EventBody {
        let kind = ItemKind::notice(text);
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        EventBody::ItemCompleted { turn: TurnId::from_u128(1), item }
    }

    async fn append(recorder: &Arc<Recorder>, bodies: Vec<EventBody>) {
        recorder.append(&Actor::system(), bodies).await.unwrap();
    }

    async fn recorder(store: &Store) -> Arc<Recorder> {
        let id = SessionId::new();
        let log = store.create_log(id).await.unwrap();
        Recorder::new(log, store.clone(), Stream::new(id, State::new(id)))
    }

    #[tokio::test]
    async fn what_is_appended_is_added_to_what_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let recorder = recorder(&store).await;
        append(&recorder, vec![said("first")]).await;
        let remembered = recorder.remembered();
        assert_eq!(remembered.read(&recorder).await.unwrap().into_messages().len(), 1);
        append(&recorder, vec![said("second"), said("third")]).await;
        assert_eq!(remembered.lock().as_ref().unwrap().kept.seq, 3);
        let read = remembered.read(&recorder).await.unwrap().into_messages();
        assert_eq!(agent::history::fold(&recorder.events().await.unwrap()), read);

        // With a gap, or a second time, it is left alone, and what is missing is read from the log.
        let events = recorder.events().await.unwrap();
        remembered.lock().as_mut().unwrap().kept = Kept::default();
        remembered.add(&events[1..]);
        assert_eq!(remembered.lock().as_ref().unwrap().kept.seq, 0);
        assert_eq!(remembered.read(&recorder).await.unwrap().into_messages(), read);
        remembered.add(&events[..2]);
        assert_eq!(remembered.read(&recorder).await.unwrap().into_messages(), read);
        let many = |text: &str| (0..EVERY).map(|_| said(text)).collect();
        append(&recorder, many("more")).await;
        let path = recorder.dir().join(FILE);
        remembered.read(&recorder).await.unwrap();
        let first = std::fs::read(&path).unwrap();
        append(&recorder, vec![said("a few")]).await;
        remembered.read(&recorder).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first, "that was no long way");
        append(&recorder, many("and more")).await;
        remembered.read(&recorder).await.unwrap();
        assert_ne!(std::fs::read(&path).unwrap(), first);
        assert_eq!(read_kept(&recorder, &recorder.dir()).await.unwrap().unwrap().seq, 2 * EVERY + 4);
    }

    #[tokio::test]
    async fn a_long_log_is_read_from_where_its_history_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let recorder = recorder(&store).await;
        append(&recorder, vec![said("short")]).await;
        let path = recorder.dir().join(FILE);
        assert_eq!(messages(&recorder).await.unwrap().len(), 1);
        assert!(!path.exists(), "that was no long way");

        append(&recorder, (0..EVERY).map(|n| said(&format!("number {n}"))).collect()).await;
        let whole = messages(&recorder).await.unwrap();
        assert_eq!(whole.len() as u64, EVERY + 1);
        let kept = read_kept(&recorder, &recorder.dir()).await.unwrap().unwrap();
        assert_eq!(kept.seq, EVERY + 1);
        append(&recorder, vec![said("after")]).await;
        let more = messages(&recorder).await.unwrap();
        assert_eq!((&more[..whole.len()], more.len()), (&whole[..], whole.len() + 1));
        assert_eq!(agent::history::fold(&recorder.events().await.unwrap()), more);
        let remembered = Remembered::default();
        for _ in 0..3 {
            append(&recorder, vec![said("later")]).await;
            let read = remembered.read(&recorder).await.unwrap().into_messages();
            assert_eq!(agent::history::fold(&recorder.events().await.unwrap()), read);
        }
        let more = messages(&recorder).await.unwrap();

        // What is damaged, of other code or of another log is not used.
        let bytes = std::fs::read(&path).unwrap();
        for at in [0, SUM + 3, bytes.len() / 2, bytes.len() - 2] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(read_kept(&recorder, &recorder.dir()).await.unwrap().is_none(), "byte {at}");
            std::fs::write(&path, &bytes[..at]).unwrap();
            assert!(read_kept(&recorder, &recorder.dir()).await.unwrap().is_none(), "cut at {at}");
            assert_eq!(messages(&recorder).await.unwrap(), more);
        }
        let other = self::recorder(&store).await;
        append(&other, vec![said("another log")]).await;
        std::fs::write(other.dir().join(FILE), &bytes).unwrap();
        assert_eq!(messages(&other).await.unwrap().len(), 1, "it ends before");
        append(&other, (0..EVERY + 7).map(|_| said("another")).collect()).await;
        std::fs::write(other.dir().join(FILE), &bytes).unwrap();
        assert_eq!(messages(&other).await.unwrap().len() as u64, EVERY + 8, "it is another");
    }
}
