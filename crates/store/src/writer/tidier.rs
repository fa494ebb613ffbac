//! Lets go of the old segments of the journal: has their logs synced, one after the other so that nobody waits for it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Job, Order};
use crate::Error;
use crate::ends::Ends;
use crate::journal::{Journal, Old};

/// How often it is looked whether the journal has old segments, and how long after that failed.
const TIDY: Duration = Duration::from_millis(500);
const TIDY_LATER: Duration = Duration::from_secs(20);

/// The life of the thread; it ends when nobody can send to the queue any more.
pub(super) fn tidy(queue: &Receiver<()>, appender: &Sender<Order>, journal: &Journal, ends: &Ends) {
    let mut pause = TIDY;
    while queue.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        pause = TIDY;
        if let Err(error) = journal.make_spares() {
            tracing::warn!(%error, "appends are slower than they could be: the journal has no spare segments");
            pause = TIDY_LATER;
        }
        while let Some(old) = journal.oldest() {
            let synced = sync_all(queue, appender, &old);
            // Where the logs end is noted before only their files know it.
            ends.note_all();
            match synced.and_then(|()| journal.let_go(&old).map_err(Some)) {
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
fn sync_all(queue: &Receiver<()>, appender: &Sender<Order>, old: &Old) -> Result<(), Option<Error>> {
    for session in &old.sessions {
        if queue.try_recv() == Err(TryRecvError::Disconnected) {
            return Err(None);
        }
        let (reply, result) = oneshot::channel();
        appender.send(Order::Job(*session, Job::Sync(reply))).map_err(|_| None)?;
        result.blocking_recv().map_err(|_| None)?.map_err(Some)?;
    }
    Ok(())
}
