//! Delivery: the kept commit goes to the remote as the session's branch. The intent is in the log before the push, and
//! a push that is repeated reads the remote first, so that it happens once.

use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, Code, EventBody, Problem};

use super::Context;
use crate::failure::Failure;
use crate::problem;

/// Pushes a commit. The answer says whether the remote has it; a failure is recorded and is no error here.
pub(crate) async fn deliver(
    context: &Context,
    actor: &Actor,
    commit: &str,
) -> Result<Delivery, store::Error> {
    let Some(saved) = context.workspace.saved() else {
        let delivery = failed(
            Delivery {
                state: DeliveryState::Failed,
                branch: String::new(),
                commit: Some(commit.to_owned()),
                remote: String::new(),
                url: None,
                error: None,
            },
            "the workspace file of this session is missing".to_owned(),
        );
        return Ok(delivery);
    };
    let mut delivery = Delivery {
        state: DeliveryState::Intended,
        branch: saved.branch,
        commit: Some(commit.to_owned()),
        remote: saved.remote,
        url: None,
        error: None,
    };
    context.recorder.append(actor, vec![EventBody::DeliveryUpdated(delivery.clone())]).await?;
    match push(context, &delivery.branch, commit).await {
        Ok(()) => {
            delivery.state = DeliveryState::Pushed;
            context.recorder.append(actor, vec![EventBody::DeliveryUpdated(delivery.clone())]).await?;
        }
        Err(Failure::Store(error)) => return Err(error),
        Err(failure) => {
            let problem = failure.into_problem();
            delivery = failed(delivery, problem.title.clone());
            let hint = format!(
                "the work is kept: put right what is wrong, then run `slipway deliver {}`",
                context.recorder.session()
            );
            let error = EventBody::ErrorRaised {
                code: Code::DeliveryFailed,
                message: problem.title,
                hint: Some(hint),
            };
            context.recorder.append(actor, vec![EventBody::DeliveryUpdated(delivery.clone()), error]).await?;
        }
    }
    Ok(delivery)
}

fn failed(delivery: Delivery, error: String) -> Delivery {
    Delivery { state: DeliveryState::Failed, error: Some(error), ..delivery }
}

async fn push(context: &Context, branch: &str, commit: &str) -> Result<(), Failure> {
    let mirror = context.workspace.mirror().await?;
    if mirror.remote_tip(branch).await?.as_deref() == Some(commit) {
        return Ok(());
    }
    Ok(mirror.push(commit, branch).await?)
}

/// Delivers again what a turn that was done left behind.
pub(crate) async fn again(context: &Context, actor: &Actor) -> Result<Delivery, Problem> {
    let commit = context.workspace.saved().and_then(|saved| saved.tip).ok_or_else(|| {
        Problem::new(
            Code::Conflict,
            "there is nothing to deliver: no turn of this session is done with changes",
        )
        .hint("send a prompt; a branch is delivered when its checks pass")
    })?;
    let known = context.recorder.stream().with_state(|state| state.delivery().cloned());
    if let Some(delivery) = known
        && delivery.state == DeliveryState::Pushed
        && delivery.commit.as_deref() == Some(&commit)
    {
        let mirror = context.workspace.mirror().await.map_err(Failure::into_problem)?;
        if mirror.remote_tip(&delivery.branch).await.map_err(|error| problem::forge(&error))?
            == Some(commit.clone())
        {
            return Ok(delivery);
        }
    }
    let delivery = deliver(context, actor, &commit).await.map_err(problem::store)?;
    match &delivery.error {
        None => Ok(delivery),
        Some(error) => Err(Problem::new(Code::DeliveryFailed, error.clone())
            .hint("the work is kept: put right what is wrong, then deliver the session again")),
    }
}
