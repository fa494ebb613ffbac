//! What is known of a commit that could not be built.

use forge::Tip;
use protocol::{Environment, StepKind};

use super::{Builds, LONGEST_WAIT, assemble};

/// Why there is no image of a commit.
pub(crate) struct Unbuilt {
    /// In words.
    pub(crate) why: String,
    /// Whether the set-up is what failed: then it fails in a session's sandbox too.
    pub(crate) set_up: bool,
}

impl Builds {
    /// Why the image could not be built at this commit. None if it was not tried with this recipe, or so long ago that it
    /// may be otherwise by now.
    pub(crate) async fn unbuilt(&self, name: &str, environment: &Environment, tip: &Tip) -> Option<Unbuilt> {
        let failed = self.options.images.failed_at(name, &tip.commit)?;
        if failed.age >= LONGEST_WAIT {
            return None;
        }
        match assemble::digest(&self.options, &self.exits, name, environment, tip).await {
            Ok(now) => (now.as_ref() == Some(&failed.recipe))
                .then(|| Unbuilt { set_up: failed.step == Some(StepKind::Setup), why: failed.error }),
            Err(failure) => {
                // Whoever asks then finds out by trying.
                let error = failure.into_problem();
                tracing::warn!(environment = %name, error = %error.title, "a failed build could not be compared");
                None
            }
        }
    }
}
