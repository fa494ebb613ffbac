//! A pull request, once. Branch and commit name it; the forge is asked for it before it is opened, and again whenever
//! nobody knows what became of the request.

use forge::{Forge, NewPullRequest, Person, PullRequest, Readiness, open_once};

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
    // It is opened with the forge's own key, and says for whom.
    let authors =
        context.recorder.stream().with_state(|state| state.turn().map(|turn| turn.authors.join(", ")));
    let person = authors.filter(|name| !name.is_empty()).map(|name| Person { name, token: None });
    let wanted = NewPullRequest {
        repository,
        branch: branch.to_owned(),
        commit: commit.to_owned(),
        base: saved.source,
        title,
        body,
        readiness: Readiness::Ready,
        person,
    };
    let mut attempts = Attempts::new(context, stop);
    let mut asked = false;
    loop {
        let refusal = match attempts.make(open_once(forge, &wanted, &mut asked)).await {
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
