//! Unfolds packs in the background, one after the other, so that whoever needs the tree later finds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::layers::Layers;
use crate::{Error, LayerId};

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
            let thread = std::thread::Builder::new().name("slipway-unfold".to_owned()).spawn(move || {
                for id in receiver {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let done = layers.lease().and_then(|lease| layers.ready_unless(&id, &lease, &stop));
                    match done {
                        // It was removed meanwhile, or this ends.
                        Ok(()) | Err(Error::NoLayer(_)) => {}
                        Err(_) if stop.load(Ordering::Relaxed) => {}
                        Err(error) => {
                            tracing::warn!(layer = %id, %error, "a layer could not be unfolded yet");
                        }
                    }
                }
            });
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
