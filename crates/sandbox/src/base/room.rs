//! Room on the disk for what a base unpacks to. A few bytes of an archive can become very many, so they are counted first.

use std::sync::{Arc, PoisonError};

use super::Bases;
use super::entries::{Entry, Kind};
use crate::Error;

/// What an entry takes up beside its content, and what its content is rounded up to.
const BLOCK: u64 = 4096;

/// Whoever keeps the disk's budget.
#[async_trait::async_trait]
pub trait Room: Send + Sync {
    /// Makes room for so many bytes more, or says why there is none.
    async fn make(&self, bytes: u64) -> Result<(), Error>;
}

impl Bases {
    /// Asks for room from now on before anything is unpacked.
    pub fn ask_for_room(&self, room: Arc<dyn Room>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(room);
    }

    pub(super) async fn make_room(&self, bytes: u64) -> Result<(), Error> {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match room {
            Some(room) => room.make(bytes).await,
            None => Ok(()),
        }
    }
}

/// What an entry will take up on the disk.
pub(super) fn of(entry: &Entry) -> u64 {
    match entry.kind {
        Kind::File => {
            let content = entry.pieces.iter().fold(0_u64, |sum, (_, length)| sum.saturating_add(*length));
            content.div_ceil(BLOCK).saturating_mul(BLOCK).max(BLOCK)
        }
        Kind::Directory | Kind::Symlink | Kind::HardLink | Kind::Fifo => BLOCK,
        Kind::Device | Kind::Note => 0,
    }
}
