//! Delivery: the kept commit goes to the remote as the session's branch, and becomes a pull request where a forge serves
//! the repository. Each intent is in the log before its act, and an act that is repeated reads the remote first, so that
//! it happens once.

use std::sync::Arc;

use failpoint::Point;
use forge::{Forge, Refusal, Repository};
use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, Code, EventBody, Problem};

use super::Context;
use crate::failure::Failure;
use crate::outbox::Attempts;
use crate::outbox::pull_request::{self, Opened};
use crate::problem;
use crate::stop::Stop;

/// Delivers a commit. The answer says how far it came; a failure is recorded and is no error here. There is none when the
/// turn was stopped before: what has begun is brought to its end, because half a push cannot be taken back.
pub(crate) async fn deliver(
    context: &Context,
    stop: &Stop,
    actor: &Actor,
    commit: &str,
) -> Result<Option<Delivery>, store::Error> {
    let Some(saved) = context.workspace.saved() else {
        let lost = failed(new(String::new(), commit, String::new()), missing());
        return Ok(Some(lost));
    };
    let Some(delivery) = intend(context, actor, new(saved.branch, commit, saved.remote)).await? else {
        return Ok(None);
    };
    failpoint::hit(Point::DeliveryIntended);
    let forge = context.options.outbox.forges.of(&delivery.remote);
    let delivery = match delivery.state {
        DeliveryState::Intended => push(context, stop, actor, delivery, forge.is_some()).await?,
        _ => delivery,
    };
    let delivery = match (delivery.state, forge) {
        (DeliveryState::Opening, Some(forge)) => open(context, stop, actor, delivery, forge).await?,
        // Whoever took the forge out of the configuration wants the branch and nothing more.
        (DeliveryState::Opening, None) => {
            let pushed = Delivery { state: DeliveryState::Pushed, ..delivery };
            record(context, actor, pushed).await?
        }
        _ => delivery,
    };
    Ok(Some(delivery))
}

/// Records the intent, or finds how far this very delivery came before. None when the turn was stopped before.
async fn intend(
    context: &Context,
    actor: &Actor,
    delivery: Delivery,
) -> Result<Option<Delivery>, store::Error> {
    let intended = context.recorder.append_if(actor, move |state| {
        if let Some(known) = state.delivery()
            && known.state.is_pending()
            && known.commit == delivery.commit
        {
            return (Vec::new(), Some(known.clone()));
        }
        match state.turn() {
            Some(turn) if turn.stopping.is_some() && turn.delivery.is_none() => (Vec::new(), None),
            Some(_) | None => (vec![EventBody::DeliveryUpdated(delivery.clone())], Some(delivery)),
        }
    });
    intended.await.map(|(_, delivery)| delivery)
}

/// Pushes the branch, unless the remote has it.
async fn push(
    context: &Context,
    stop: &Stop,
    actor: &Actor,
    mut delivery: Delivery,
    open_next: bool,
) -> Result<Delivery, store::Error> {
    let commit = delivery.commit.clone().unwrap_or_default();
    let mut attempts = Attempts::new(context, stop);
    loop {
        let refusal = match attempts.make(push_once(context, &delivery.branch, &commit)).await {
            Some(Ok(())) => break,
            Some(Err(Trouble::Store(error))) => return Err(error),
            Some(Err(Trouble::Refused(refusal))) => refusal,
            None => {
                let error = format!(
                    "it was stopped, and {} did not answer: it may have the branch or not",
                    delivery.remote
                );
                let unknown = Delivery { state: DeliveryState::Unknown, error: Some(error), ..delivery };
                return give_up(context, actor, unknown).await;
            }
        };
        if !attempts.again(&refusal).await? {
            return give_up(context, actor, failed(delivery, refusal.to_string())).await;
        }
    }
    failpoint::hit(Point::Pushed);
    delivery.state = DeliveryState::Pushed;
    let mut bodies = vec![EventBody::DeliveryUpdated(delivery.clone())];
    if open_next {
        // In the same append: whoever reads that the branch is there also reads that more is to come.
        delivery.state = DeliveryState::Opening;
        bodies.push(EventBody::DeliveryUpdated(delivery.clone()));
    }
    context.recorder.append(actor, bodies).await?;
    failpoint::hit(Point::DeliveryRecorded);
    Ok(delivery)
}

/// Why a push did not work.
enum Trouble {
    Store(store::Error),
    Refused(Refusal),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => Self::Store(error),
            failure => Self::Refused(Refusal::Final { message: failure.into_problem().title }),
        }
    }
}

impl From<forge::Error> for Trouble {
    fn from(error: forge::Error) -> Self {
        let passing = error.is_passing();
        let message = problem::forge(&error).title;
        Self::Refused(match passing {
            true => Refusal::Later { message, doubtful: true, wait: None },
            false => Refusal::Final { message },
        })
    }
}

async fn push_once(context: &Context, branch: &str, commit: &str) -> Result<(), Trouble> {
    let mirror = context.workspace.mirror().await?;
    if mirror.remote_tip(branch).await?.as_deref() == Some(commit) {
        return Ok(());
    }
    Ok(mirror.push(commit, branch).await?)
}

/// Opens the pull request, unless it is there.
async fn open(
    context: &Context,
    stop: &Stop,
    actor: &Actor,
    delivery: Delivery,
    (forge, repository): (Arc<dyn Forge>, Repository),
) -> Result<Delivery, store::Error> {
    let commit = delivery.commit.clone().unwrap_or_default();
    let (branch, remote) = (delivery.branch.clone(), delivery.remote.clone());
    match pull_request::open(context, stop, &*forge, repository, &branch, &commit).await? {
        Opened::There(there) => {
            let (url, number) = (Some(there.url), Some(there.number));
            record(context, actor, Delivery { state: DeliveryState::Opened, url, number, ..delivery }).await
        }
        Opened::Failed(why) => {
            let error = format!("{branch} is pushed to {remote}, but has no pull request: {why}");
            give_up(context, actor, failed(delivery, error)).await
        }
        Opened::Unknown(why) => {
            let error = format!("{branch} is pushed to {remote}, and may have a pull request or not: {why}");
            let unknown = Delivery { state: DeliveryState::Unknown, error: Some(error), ..delivery };
            give_up(context, actor, unknown).await
        }
    }
}

async fn record(context: &Context, actor: &Actor, delivery: Delivery) -> Result<Delivery, store::Error> {
    context.recorder.append(actor, vec![EventBody::DeliveryUpdated(delivery.clone())]).await?;
    Ok(delivery)
}

/// Records a delivery that did not come to its end, with what to do about it.
async fn give_up(context: &Context, actor: &Actor, delivery: Delivery) -> Result<Delivery, store::Error> {
    let hint = format!(
        "the work is kept: put right what is wrong, then run `slipway deliver {}`",
        context.recorder.session()
    );
    let error = EventBody::ErrorRaised {
        code: Code::DeliveryFailed,
        message: delivery.error.clone().unwrap_or_default(),
        hint: Some(hint),
    };
    context.recorder.append(actor, vec![EventBody::DeliveryUpdated(delivery.clone()), error]).await?;
    Ok(delivery)
}

fn new(branch: String, commit: &str, remote: String) -> Delivery {
    Delivery {
        state: DeliveryState::Intended,
        branch,
        commit: Some(commit.to_owned()),
        remote,
        url: None,
        number: None,
        error: None,
    }
}

fn missing() -> String {
    "the workspace file of this session is missing".to_owned()
}

fn failed(delivery: Delivery, error: String) -> Delivery {
    Delivery { state: DeliveryState::Failed, error: Some(error), ..delivery }
}

/// Delivers again what a turn that was done left behind.
pub(crate) async fn again(context: &Context, stop: &Stop, actor: &Actor) -> Result<Delivery, Problem> {
    let commit = context.workspace.saved().and_then(|saved| saved.tip).ok_or_else(|| {
        Problem::new(
            Code::Conflict,
            "there is nothing to deliver: no turn of this session is done with changes",
        )
        .hint("send a prompt; a branch is delivered when its checks pass")
    })?;
    let known = context.recorder.stream().with_state(|state| state.delivery().cloned());
    if let Some(delivery) = known
        && is_whole(context, &delivery)
        && delivery.commit.as_deref() == Some(&commit)
    {
        let mirror = context.workspace.mirror().await.map_err(Failure::into_problem)?;
        if mirror.remote_tip(&delivery.branch).await.map_err(|error| problem::forge(&error))?
            == Some(commit.clone())
        {
            return Ok(delivery);
        }
    }
    let delivered = deliver(context, stop, actor, &commit).await.map_err(problem::store)?;
    let delivery =
        delivered.ok_or_else(|| Problem::new(Code::Conflict, "the turn under way is being stopped"))?;
    match &delivery.error {
        None => Ok(delivery),
        Some(error) => Err(Problem::new(Code::DeliveryFailed, error.clone())
            .hint("the work is kept: put right what is wrong, then deliver the session again")),
    }
}

/// Whether nothing is left to do for a delivery as the configuration is now.
fn is_whole(context: &Context, delivery: &Delivery) -> bool {
    match delivery.state {
        DeliveryState::Opened => true,
        DeliveryState::Pushed => context.options.outbox.forges.of(&delivery.remote).is_none(),
        DeliveryState::Intended | DeliveryState::Opening | DeliveryState::Failed | DeliveryState::Unknown => {
            false
        }
    }
}
