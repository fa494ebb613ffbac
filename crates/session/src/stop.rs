//! The signal that ends a turn early, with the name of who gave it.

use std::sync::{Arc, Mutex, PoisonError};

use protocol::Actor;
use tokio_util::sync::CancellationToken;

/// Asks one turn to stop. Giving it twice is the same as once.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    by: Arc<Mutex<Option<Actor>>>,
}

impl Stop {
    /// Gives the signal; the first to do so is remembered.
    pub(crate) fn give(&self, by: Actor) {
        self.by.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(by);
        self.token.cancel();
    }

    /// Another that is given with this one, and can be given without it.
    pub(crate) fn child(&self) -> Self {
        Self { token: self.token.child_token(), by: Arc::clone(&self.by) }
    }

    /// Gives the signal although nobody stopped the turn: its time is over.
    pub(crate) fn give_for_time(&self) {
        self.token.cancel();
    }

    /// Who stopped the turn.
    pub(crate) fn by(&self) -> Option<Actor> {
        self.by.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits for it.
    pub(crate) async fn given(&self) {
        self.token.cancelled().await;
    }
}
