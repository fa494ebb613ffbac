//! Unfolds packs in the background, one after the other, so that whoever needs the tree later finds it. Some time later, when
//! most of what was written has reached the disk anyway, the packs go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::layers::Layers;
use crate::{Error, LayerId};

/// How long an unfolded pack stays at least. By then the kernel has written most of its tree by itself, and waiting for the
/// rest does not hold up what others write.
const SETTLING: Duration = Duration::from_secs(45);

/// The thread that does it, from the first pack on. It ends with this value; what is left is unfolded when it is needed.
#[derive(Default)]
pub(super) struct Unfolder {
    stop: Arc<AtomicBool>,
    worker: Mutex<Option<(Sender<LayerId>, JoinHandle<()>)>>,
}

impl Unfolder {
    /// Has a layer unfolded soon.
    pub(super) fn begin(&self, layers: &Layers, id: LayerId) {
        // Nothing panics while it is held.
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let (sender, receiver) = channel::<LayerId>();
            let (layers, stop) = (layers.clone(), self.stop.clone());
            let work = move || work(&layers, &receiver, &stop);
            let thread = std::thread::Builder::new().name("slipway-unfold".to_owned()).spawn(work);
            match thread {
                Ok(thread) => *worker = Some((sender, thread)),
                Err(error) => {
                    tracing::warn!(layer = %id, %error, "a layer is unfolded when it is needed");
                    return;
                }
            }
        }
        if let Some((sender, _)) = &*worker
            && sender.send(id).is_err()
        {
            tracing::warn!("layers are unfolded when they are needed: the thread that does it is gone");
        }
    }
}

/// Unfolds what comes until it is told to stop, or nobody is left to tell.
fn work(layers: &Layers, receiver: &Receiver<LayerId>, stop: &AtomicBool) {
    let mut unsettled: Option<Instant> = None;
    loop {
        let next = match unsettled {
            Some(since) => receiver.recv_timeout(SETTLING.saturating_sub(since.elapsed())),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let next = match next {
            Err(RecvTimeoutError::Disconnected) => return,
            other => other.ok(),
        };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let done = layers.lease().and_then(|lease| match &next {
            Some(id) => layers.ready_unless(id, &lease, stop),
            None => layers.settle_packs(&lease),
        });
        match done {
            // It was removed meanwhile, or this ends.
            Ok(()) | Err(Error::NoLayer(_)) => {}
            Err(_) if stop.load(Ordering::Relaxed) => {}
            Err(error) => tracing::warn!(layer = ?next, %error, "a layer could not be unfolded yet"),
        }
        unsettled = next.map(|_| unsettled.unwrap_or_else(Instant::now));
    }
}

impl Drop for Unfolder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = worker {
            drop(sender);
            if thread.join().is_err() {
                tracing::error!("the thread that unfolds layers has failed");
            }
        }
    }
}
