//! Room on the disk for what is downloaded of a base and what it unpacks to. A few bytes of an archive can become very
//! many, so they are counted first.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::entries::{Entry, Kind};
use super::{Bases, blocking, cache};
use crate::Error;

/// What an entry takes up beside its content, and what its content is rounded up to.
const BLOCK: u64 = 4096;

/// How often it is looked at how much was written.
const LOOK: Duration = Duration::from_millis(300);

/// Whoever keeps the disk's budget.
#[async_trait::async_trait]
pub trait Room: Send + Sync {
    /// Makes room for so many bytes more, or says why there is none. It is held until what is returned is dropped: by
    /// then they are on the disk, or will never be.
    async fn make(&self, bytes: u64) -> Result<Held, Error>;
}

/// Room that nobody else is given.
pub type Held = Box<dyn Send + Sync>;

impl Bases {
    /// Asks for room from now on before anything is downloaded or unpacked.
    pub fn ask_for_room(&self, room: Arc<dyn Room>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(room);
    }

    pub(super) async fn make_room(&self, bytes: u64) -> Result<Held, Error> {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match room {
            Some(room) => room.make(bytes).await,
            None => Ok(Box::new(())),
        }
    }

    /// Asks for room for what somebody writes into a directory until they are done, of whom nobody knows how much it will
    /// be. When there is no more, they are broken off.
    pub(super) async fn with_room<T>(
        &self,
        dir: &Path,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
        let mut known = 0;
        loop {
            let done = tokio::time::timeout(LOOK, &mut work).await;
            let place = dir.to_owned();
            let bytes = blocking(move || cache::size(&place)).await?.map_or(0, |(bytes, _)| bytes);
            if bytes > known {
                // It is there by now, and will be found by whoever measures.
                drop(self.make_room(bytes - known).await?);
                known = bytes;
            }
            if let Ok(done) = done {
                return done;
            }
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
