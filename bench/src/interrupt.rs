//! Ctrl-C and SIGTERM: the round under way ends and cleans up, then the run stops. A second one ends it at once; what is
//! tied to this process goes with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Exit code of an interrupted program.
pub(crate) const EXIT_CODE: u8 = 130;

/// Tells whether the run should stop. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The run was interrupted.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let interrupt = Self::default();
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let mut signals = signal(kind)?;
            let flag = Arc::clone(&interrupt.0);
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if flag.swap(true, Ordering::Relaxed) {
                        std::process::exit(EXIT_CODE.into());
                    }
                }
            });
        }
        Ok(interrupt)
    }

    /// Whether it came.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// To be called between rounds.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.came() { Err(Interrupted) } else { Ok(()) }
    }
}
