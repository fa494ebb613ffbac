//! A pull request, once. Branch and commit name it; the forge is asked for it before it is opened, and again whenever
//! nobody knows what became of the request.

use forge::{Forge, NewPullRequest, PullRequest, Refusal};

use super::{Attempts, describe};
use crate::runner::Context;
use crate::stop::Stop;

/// What came of it.
pub(crate) enum Opened {
    /// It is there.
    There(PullRequest),
    /// It is not there, and this is why.
    Failed(String),
    /// It was asked for, and nobody knows whether it is there.
    Unknown(String),
}

/// Finds the pull request of a commit, or opens it.
pub(crate) async fn open(
    context: &Context,
    stop: &Stop,
    forge: &dyn Forge,
    repository: forge::Repository,
    branch: &str,
    commit: &str,
) -> Result<Opened, store::Error> {
    let Some(saved) = context.workspace.saved() else {
        return Ok(Opened::Failed("the workspace file of this session is missing".to_owned()));
    };
    let (title, body) = describe::describe(&context.recorder).await?;
    let wanted = NewPullRequest {
        repository,
        branch: branch.to_owned(),
        commit: commit.to_owned(),
        base: saved.source,
        title,
        body,
    };
    let mut attempts = Attempts::new(context, stop);
    let mut asked = false;
    loop {
        let refusal = match attempts.make(attempt(forge, &wanted, &mut asked)).await {
            None => {
                let why = "it was stopped, and no answer came".to_owned();
                return Ok(if asked { Opened::Unknown(why) } else { Opened::Failed(why) });
            }
            Some(Ok(pull_request)) => {
                failpoint::hit(failpoint::Point::PullRequestOpened);
                return Ok(Opened::There(pull_request));
            }
            Some(Err(refusal)) => refusal,
        };
        if !attempts.again(&refusal).await? {
            let why = refusal.to_string();
            return Ok(if asked { Opened::Unknown(why) } else { Opened::Failed(why) });
        }
    }
}

/// Looks, then acts. `asked` is true as long as a request may have been carried out and nobody has looked since.
async fn attempt(
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
