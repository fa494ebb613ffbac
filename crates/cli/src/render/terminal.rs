//! The user's own terminal, for commands that are used interactively.

use std::io::IsTerminal;

use guest::wire::PtySize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;

/// A terminal that passes every key on; as it was again when dropped.
pub(crate) struct Raw {
    before: Termios,
    resized: Mutex<Signal>,
}

impl Raw {
    /// When input and output are a terminal.
    pub(crate) fn enter_if_interactive() -> anyhow::Result<Option<Self>> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(Self { before, resized: Mutex::new(signal(SignalKind::window_change())?) }))
    }

    /// Its size now.
    pub(crate) fn size(&self) -> PtySize {
        match tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                PtySize { cols: size.ws_col, rows: size.ws_row }
            }
            _ => PtySize { cols: 80, rows: 24 },
        }
    }

    /// Completes when its size has changed.
    pub(crate) async fn resized(&self) {
        if self.resized.lock().await.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before).is_err() {
            super::style::note("the terminal could not be put back as it was: type reset");
        }
    }
}

/// What kind of terminal it is.
pub(crate) fn name() -> String {
    std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned())
}
