//! A plain thread with a queue of jobs. Dropping the handle lets the thread finish what is queued and waits for it, so
//! files are closed in order.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::Error;

/// How many jobs are taken from the queue at once.
const BATCH: usize = 1024;

/// The thread and the way to it.
pub(crate) struct Thread<J> {
    jobs: Option<Sender<J>>,
    handle: Option<JoinHandle<()>>,
}

impl<J: Send + 'static> Thread<J> {
    pub(crate) fn spawn(name: &str, body: impl FnOnce(Receiver<J>) + Send + 'static) -> io::Result<Self> {
        Self::spawn_with(name, mpsc::channel(), body)
    }

    /// With a queue that others can send to as well. The body has to know by itself when to end.
    pub(crate) fn spawn_with(
        name: &str,
        (jobs, queue): (Sender<J>, Receiver<J>),
        body: impl FnOnce(Receiver<J>) + Send + 'static,
    ) -> io::Result<Self> {
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || body(queue))?;
        Ok(Self { jobs: Some(jobs), handle: Some(handle) })
    }

    /// Queues a job. A thread that is gone drops it, and with it the sender of its answer.
    pub(crate) fn send(&self, job: J) {
        if let Some(jobs) = &self.jobs
            && jobs.send(job).is_err()
        {
            tracing::error!("a thread of the store has stopped");
        }
    }
}

impl<J> Drop for Thread<J> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!("a thread of the store panicked");
        }
    }
}

/// The job in hand and what else is queued by now.
pub(crate) fn drain<J>(first: J, queue: &Receiver<J>) -> Vec<J> {
    let mut batch = vec![first];
    batch.extend(queue.try_iter().take(BATCH - 1));
    batch
}

/// Sends an answer. A caller that went away does not need it.
pub(crate) fn answer<T>(reply: oneshot::Sender<Result<T, Error>>, result: Result<T, Error>) {
    if reply.send(result).is_err() {
        tracing::trace!("nobody waits for this answer any more");
    }
}
