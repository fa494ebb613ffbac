//! Notes where logs end, a moment after they were told to those who wait: the file may be slow for a while, and nobody waits
//! for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::ends::Ends;
use crate::thread::Thread;

/// Time for more to come.
const PAUSE: Duration = Duration::from_millis(10);

/// The thread. It ends with everything noted.
pub(super) struct Noter(Thread<()>);

impl Noter {
    pub(super) fn start(ends: Arc<Ends>) -> io::Result<Self> {
        Thread::spawn("store-ends", move |queue: Receiver<()>| {
            while queue.recv().is_ok() {
                std::thread::sleep(PAUSE);
                ends.note_all();
            }
        })
        .map(Self)
    }

    /// There is something to note.
    pub(super) fn wake(&self) {
        self.0.send(());
    }
}
