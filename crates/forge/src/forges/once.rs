//! A pull request, once: look, act, and look again when nobody knows what became of the act.

use super::{Forge, NewPullRequest, PullRequest};
use crate::http::Refusal;

/// Finds the pull request of a branch, or opens it. After a refusal `asked` says whether it may have been opened and nobody
/// has looked since; calling this again looks first.
pub async fn open_once(
    forge: &dyn Forge,
    wanted: &NewPullRequest,
    asked: &mut bool,
) -> Result<PullRequest, Refusal> {
    if let Some(there) = forge.look_up(wanted).await? {
        return Ok(there);
    }
    // Whoever gives up waiting for the answer has asked.
    *asked = true;
    let opened = forge.open(wanted).await;
    if let Err(refusal) = &opened {
        *asked = matches!(refusal, Refusal::Later { doubtful: true, .. });
    }
    if let Some(opened) = opened? {
        return Ok(opened);
    }
    match forge.look_up(wanted).await? {
        Some(there) => Ok(there),
        None => Err(Refusal::Later {
            message: format!(
                "the forge says that {} has a pull request already, and does not show it",
                wanted.branch
            ),
            doubtful: false,
            wait: None,
        }),
    }
}
