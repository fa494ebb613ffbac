//! Room on the disk for bases: what is downloaded of one, and what it unpacks to, is held against the budget before it is.

use std::sync::{Arc, Weak};

use super::Builds;

/// Asked by whatever brings bases in.
pub(super) struct ForBases(pub(super) Weak<Builds>);

#[async_trait::async_trait]
impl sandbox::base::Room for ForBases {
    async fn make(&self, bytes: u64) -> Result<sandbox::base::Held, sandbox::Error> {
        // A server that is ending unpacks nothing more.
        let Some(builds) = self.0.upgrade() else { return Ok(Box::new(())) };
        builds.room_for_base(bytes).await?;
        Ok(Box::new(Held { builds: Weak::clone(&self.0), bytes }))
    }
}

/// Room that a base was given and may not have used yet.
struct Held {
    builds: Weak<Builds>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(builds) = self.builds.upgrade() {
            builds.disk.used_up(self.bytes);
        }
    }
}

impl Builds {
    /// Tells whatever brings bases in to ask here for room.
    pub(super) fn keep_bases_within_budget(self: &Arc<Self>) {
        self.options.images.ask_for_room(Arc::new(ForBases(Arc::downgrade(self))));
    }

    async fn room_for_base(&self, bytes: u64) -> Result<(), sandbox::Error> {
        if self.disk.fits(bytes, self.options.disk.budget_bytes) != Some(true) {
            self.make_room(bytes).await.map_err(|problem| sandbox::Error::NoRoom {
                message: format!("the base does not fit on the disk: {}", problem.title),
                hint: problem.hint.unwrap_or_default(),
            })?;
        }
        self.disk.hold(bytes);
        Ok(())
    }
}
