//! Lets go of the old segments of the journal: has their logs synced, one after the other so that nobody waits for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Job, Threads, send};
use crate::Error;
use crate::journal::{Journal, Old};

/// How often it is looked whether the journal has old segments, and how long after that failed.
const TIDY: Duration = Duration::from_millis(500);
const TIDY_LATER: Duration = Duration::from_secs(20);

/// The life of the thread; it ends when nobody can send to the queue any more.
pub(super) fn tidy(queue: &Receiver<()>, threads: &Threads, journal: &Journal) {
    let mut pause = TIDY;
    while queue.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = TIDY;
        while let Some(old) = journal.oldest() {
            match sync_all(queue, threads, &old).and_then(|()| journal.remove(&old).map_err(Some)) {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(error)) => {
                    tracing::warn!(%error, "a part of the journal stays until its logs can be synced");
                    pause = TIDY_LATER;
                    break;
                }
            }
        }
    }
}

/// An error is None when there is no time for it.
fn sync_all(queue: &Receiver<()>, threads: &Threads, old: &Old) -> Result<(), Option<Error>> {
    for session in &old.sessions {
        if queue.try_recv() == Err(TryRecvError::Disconnected) {
            return Err(None);
        }
        let (reply, result) = oneshot::channel();
        send(threads, *session, Job::Sync(reply));
        result.blocking_recv().map_err(|_| None)?.map_err(Some)?;
    }
    Ok(())
}
