//! `recall`: looks for notes in the scopes of this session and in no other.

use agent::notes::{Reason, given};
use memory::Occasion;

use super::Done;
use crate::failure::Failure;
use crate::runner::Runner;

/// Most notes of an answer, and most bytes of them.
const NOTES: usize = 5;
const MOST: usize = 12 * 1024;

/// What the model reads where nothing is remembered.
pub(super) const NO_MEMORY: &str = "This environment keeps no memory across sessions. Go on without it.";

pub(super) async fn run(runner: &Runner, query: String) -> Result<Done, Failure> {
    let Some(scopes) = runner.scopes() else { return Ok(Done::error(NO_MEMORY)) };
    let recalled = match runner.look_up(query, scopes, None, Occasion::Asked, NOTES).await {
        Ok(recalled) => recalled,
        Err(problem) => return runner.without_memory(problem).await,
    };
    let mut text = match given(&recalled.found, Reason::Asked, MOST) {
        Some((text, notes)) => {
            runner.count_used(&notes).await;
            text
        }
        None => "Nothing that is remembered fits.".to_owned(),
    };
    if recalled.words_only.is_some() {
        text.push_str("\n(The embedding model cannot be asked now, so only words were compared. Try other words if this is not it.)");
    }
    Ok(Done::ok(text))
}
