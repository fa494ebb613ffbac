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

/// The conversation of a session that is worked on, as it was last read: the next turn reads only what came since.
#[derive(Default)]
pub(crate) struct Remembered(Mutex<Option<Kept>>);

impl Remembered {
    /// What the model is sent of the session's log.
    pub(crate) async fn read(&self, recorder: &Recorder) -> Result<History, store::Error> {
        let known = self.lock().take();
        let kept = match known {
            Some(known) => go_on(recorder, known).await?,
            None => go_on(recorder, read_kept(recorder, &recorder.dir()).await?.unwrap_or_default()).await?,
        };
        *self.lock() = Some(kept.clone());
        Ok(kept.history)
    }

    /// Gives its memory back.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what the log has beyond what is known. After a long way, what is known then is kept.
async fn go_on(recorder: &Recorder, mut kept: Kept) -> Result<Kept, store::Error> {
    let (begin, mut last) = (kept.seq, None);
    loop {
        let mut page = recorder.read(kept.seq, PAGE).await?;
        page.iter().for_each(|event| kept.history.apply(event));
        let more = page.len() == PAGE;
        if let Some(event) = page.pop() {
            kept.seq = event.seq;
            last = Some(event);
        }
        if !more {
            break;
        }
    }
    if let Some(last) = last.filter(|_| kept.seq - begin >= EVERY) {
        kept.format = FORMAT;
        keep(recorder.dir(), &kept, &last).await;
    }
    Ok(kept)
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
    use store::{Draft, Store};

    use super::*;
    use crate::feed::Stream;
    use crate::state::State;

    async fn messages(recorder: &Recorder) -> Result<Vec<Message>, store::Error> {
        Ok(Remembered::default().read(recorder).await?.into_messages())
    }

    fn said(text: &str) -> Draft {
        let kind = ItemKind::Notice { text: text.into() };
        let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind };
        let body = EventBody::ItemCompleted { turn: TurnId::from_u128(1), item };
        Draft { actor: Actor::system(), body }
    }

    async fn recorder(store: &Store) -> (Arc<store::Log>, Arc<Recorder>) {
        let id = SessionId::new();
        let log = store.create_log(id).await.unwrap();
        (Arc::clone(&log), Recorder::new(log, store.clone(), Stream::new(id, State::new(id))))
    }

    #[tokio::test]
    async fn a_long_log_is_read_from_where_its_history_was_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (log, recorder) = recorder(&store).await;
        log.append(vec![said("short")]).await.unwrap();
        let path = recorder.dir().join(FILE);
        assert_eq!(messages(&recorder).await.unwrap().len(), 1);
        assert!(!path.exists(), "that was no long way");

        log.append((0..EVERY).map(|n| said(&format!("number {n}"))).collect()).await.unwrap();
        let whole = messages(&recorder).await.unwrap();
        assert_eq!(whole.len() as u64, EVERY + 1);
        let kept = read_kept(&recorder, &recorder.dir()).await.unwrap().unwrap();
        assert_eq!(kept.seq, EVERY + 1);
        log.append(vec![said("after")]).await.unwrap();
        let more = messages(&recorder).await.unwrap();
        assert_eq!((&more[..whole.len()], more.len()), (&whole[..], whole.len() + 1));
        assert_eq!(agent::history::fold(&recorder.events().await.unwrap()), more);
        let remembered = Remembered::default();
        for _ in 0..3 {
            log.append(vec![said("later")]).await.unwrap();
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
        let (other_log, other) = self::recorder(&store).await;
        other_log.append(vec![said("another log")]).await.unwrap();
        std::fs::write(other.dir().join(FILE), &bytes).unwrap();
        assert_eq!(messages(&other).await.unwrap().len(), 1, "it ends before");
        other_log.append((0..EVERY + 7).map(|_| said("another")).collect()).await.unwrap();
        std::fs::write(other.dir().join(FILE), &bytes).unwrap();
        assert_eq!(messages(&other).await.unwrap().len() as u64, EVERY + 8, "it is another");
    }
}
