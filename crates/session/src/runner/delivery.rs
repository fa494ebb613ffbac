//! Delivery: the kept commit goes to the remote as the session's branch, and becomes a pull request where a forge serves
//! the repository. Each intent is in the log before its act, and an act that is repeated reads the remote first, so that
//! it happens once.

mod push;
mod several;

use std::sync::Arc;

use failpoint::Point;
use forge::{Forge, Repository};
use protocol::event::{Delivery, DeliveryState, Review, ReviewState};
use protocol::{Actor, Code, DeliverSession, EventBody, Problem};

use super::{Context, outgoing};
use crate::command::Cause;
use crate::failure::Failure;
use crate::outbox::pull_request::{self, Opened};
use crate::problem;
use crate::stop::Stop;
use crate::workspace::Saved;

/// How a delivery ended.
pub(crate) enum Delivered {
    /// It came this far. A failure is recorded and is no error.
    Ended(Delivery),
    /// It was stopped, and the remote has nothing of it. When it was stopped before it was begun, nothing of it is in the log.
    Stopped(Option<Delivery>),
}

/// An intent that is in the log.
struct Intent {
    delivery: Delivery,
    /// Whether a server before this one may have acted on it.
    begun: bool,
}

/// Delivers a commit. When it is stopped, what has begun gets a little time to come to its end; then it is broken off, and
/// the remote is asked what it has.
pub(crate) async fn deliver(
    context: &Context,
    stop: &Stop,
    cause: &Cause,
    commit: &str,
) -> Result<Delivered, store::Error> {
    let actor = &cause.actor;
    context.workspace.follow().await;
    let Some(saved) = context.workspace.saved() else {
        let lost = failed(new(context, None, String::new(), commit, String::new()), missing());
        return Ok(Delivered::Ended(lost));
    };
    if context.workspace.places().len() > 1 {
        let wanted = several::left(context, &saved, commit);
        return several::deliver(context, stop, cause, wanted).await;
    }
    let wanted = new(context, None, saved.branch, commit, saved.remote);
    let wanted = Delivery { command: cause.id(), ..wanted };
    let Some(intent) = intend(context, actor, wanted).await? else {
        return Ok(Delivered::Stopped(None));
    };
    failpoint::hit(Point::DeliveryIntended);
    let forge = context.options.outbox.forges.of(&intent.delivery.remote);
    let delivery = match intent.delivery.state {
        DeliveryState::Intended => match push::push(context, stop, actor, intent, forge.is_some()).await? {
            Delivered::Ended(delivery) => delivery,
            stopped @ Delivered::Stopped(_) => return Ok(stopped),
        },
        _ => intent.delivery,
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
    Ok(Delivered::Ended(delivery))
}

/// Records the intent, or finds how far this very delivery came before. None when the turn was stopped before.
async fn intend(
    context: &Context,
    actor: &Actor,
    delivery: Delivery,
) -> Result<Option<Intent>, store::Error> {
    let intended = context.recorder.append_if(actor, move |state| {
        if let Some(known) = state.delivery()
            && known.state.is_pending()
            && known.commit == delivery.commit
        {
            return (Vec::new(), Some(Intent { delivery: known.clone(), begun: true }));
        }
        match state.turn() {
            Some(turn) if turn.stopping.is_some() && turn.delivery.is_none() => (Vec::new(), None),
            Some(_) | None => {
                let body = EventBody::DeliveryUpdated(delivery.clone());
                (vec![body], Some(Intent { delivery, begun: false }))
            }
        }
    });
    intended.await.map(|(_, intent)| intent)
}

/// The commit of a delivery under the name that the workspace has for it: where there are several repositories, that of all.
pub(crate) fn whole_commit(context: &Context, delivery: &Delivery) -> Option<String> {
    match context.workspace.places().len() {
        0 | 1 => delivery.commit.clone(),
        _ => context.workspace.saved().and_then(|saved| saved.tip),
    }
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
    let repository_name = delivery.repository.as_deref();
    match pull_request::open(context, stop, &*forge, (repository, repository_name), &branch, &commit).await? {
        Opened::There(there, error) => {
            // One that somebody closed or merged is found again as it is; and one of which that is known may be open again.
            let state = crate::pull_requests::state_of(there.state);
            let known = delivery.review.filter(|_| delivery.number == Some(there.number));
            let review = match (known, state) {
                (Some(known), state) if known.state == state => Some(known),
                (None, ReviewState::Open) => None,
                (_, state) => Some(Review {
                    state,
                    at: protocol::Timestamp::now(),
                    draft: state == ReviewState::Open && there.readiness == forge::Readiness::Draft,
                }),
            };
            let (url, number) = (Some(there.url), Some(there.number));
            // Among several it is not at its end before it names the others.
            let state = match delivery.repository {
                Some(_) => DeliveryState::Opening,
                None => DeliveryState::Opened,
            };
            record(context, actor, Delivery { state, url, number, error, review, ..delivery }).await
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

/// A delivery that is to be made. The pull request that the branch has already stays known, whatever comes of this.
fn new(
    context: &Context,
    repository: Option<String>,
    branch: String,
    commit: &str,
    remote: String,
) -> Delivery {
    // Wherever the repository is now: where it moved, the pull request went with it.
    let of_branch = |known: &&Delivery| known.repository == repository && known.branch == branch;
    let stream = context.recorder.stream();
    let known = stream.with_state(|state| state.all_deliveries().iter().find(of_branch).cloned());
    let (url, number, review) =
        known.map_or((None, None, None), |known| (known.url, known.number, known.review));
    Delivery {
        repository,
        state: DeliveryState::Intended,
        branch,
        commit: Some(commit.to_owned()),
        remote,
        url,
        number,
        error: None,
        command: None,
        review,
    }
}

fn missing() -> String {
    "the workspace file of this session is missing".to_owned()
}

fn failed(delivery: Delivery, error: String) -> Delivery {
    Delivery { state: DeliveryState::Failed, error: Some(error), ..delivery }
}

/// No turn left anything to deliver.
pub(crate) fn nothing() -> Problem {
    Problem::new(Code::Conflict, "there is nothing to deliver: no turn of this session is done with changes")
        .hint("send a prompt; a branch is delivered when its checks pass")
}

/// Delivers again what a turn that was done left behind.
pub(crate) async fn again(
    context: &Context,
    stop: &Stop,
    cause: &Cause,
    request: DeliverSession,
) -> Result<Delivery, Problem> {
    context.workspace.follow().await;
    let saved = context.workspace.saved().ok_or_else(nothing)?;
    let commit = saved.tip.clone().ok_or_else(nothing)?;
    let mut wanted = Vec::new();
    if context.workspace.places().len() > 1 {
        wanted = left_of_several(context, stop, &saved, &commit).await?;
        let known = context.recorder.stream().with_state(|state| state.delivery().cloned());
        if wanted.is_empty() {
            return known.ok_or_else(nothing);
        }
    }
    let known = context.recorder.stream().with_state(|state| state.delivery().cloned());
    if let Some(delivery) = known
        && wanted.is_empty()
        && is_whole(context, &delivery)
        && delivery.commit.as_deref() == Some(&commit)
    {
        let look = async {
            let mirror = context.workspace.mirror_of(None).await.map_err(Failure::into_problem)?;
            mirror.remote_tip(&delivery.branch).await.map_err(|error| problem::forge(&error))
        };
        let there = tokio::select! {
            there = look => there?,
            () = stop.given() => return Err(was_stopped()),
        };
        if there.as_ref() == Some(&commit) {
            return Ok(delivery);
        }
    }
    let concerns = outgoing::look(context, &commit).await;
    if let Some(problem) = concerns.denial().or_else(|| concerns.doubt().filter(|_| !request.allow_secrets)) {
        return Err(problem);
    }
    context.workspace.clear(&commit);
    let delivered = match wanted.is_empty() {
        true => deliver(context, stop, cause, &commit).await,
        false => several::deliver(context, stop, cause, wanted).await,
    };
    let delivery = match delivered.map_err(problem::store)? {
        Delivered::Ended(delivery) | Delivered::Stopped(Some(delivery)) => delivery,
        Delivered::Stopped(None) => return Err(was_stopped()),
    };
    answer(delivery)
}

/// What is left to be delivered of several repositories. The remotes are asked whether they have what was delivered.
async fn left_of_several(
    context: &Context,
    stop: &Stop,
    saved: &Saved,
    commits: &str,
) -> Result<Vec<Delivery>, Problem> {
    let mut left = several::left(context, saved, commits);
    for one in several::changed(context, saved, commits) {
        if left.iter().any(|known| known.repository == one.repository) {
            continue;
        }
        let look = async {
            let mirror = context.workspace.mirror_of(one.repository.as_deref()).await;
            let mirror = mirror.map_err(Failure::into_problem)?;
            mirror.remote_tip(&one.branch).await.map_err(|error| problem::forge(&error))
        };
        let there = tokio::select! {
            there = look => there?,
            () = stop.given() => return Err(was_stopped()),
        };
        if there != one.commit {
            left.push(one);
        }
    }
    Ok(left)
}

/// What whoever asked for a delivery is told of how it ended.
pub(crate) fn answer(delivery: Delivery) -> Result<Delivery, Problem> {
    match &delivery.error {
        // One that lacks labels or reviewers is there.
        Some(_) if delivery.state == DeliveryState::Opened => Ok(delivery),
        None => Ok(delivery),
        Some(error) => Err(Problem::new(Code::DeliveryFailed, error.clone())
            .hint("the work is kept: put right what is wrong, then deliver the session again")),
    }
}

/// Nothing was delivered, because somebody did not want it any more.
pub(crate) fn was_stopped() -> Problem {
    Problem::new(Code::Conflict, "the delivery was stopped before it was begun")
        .hint("the work is kept: deliver the session again")
}

/// Whether nothing is left to do for a delivery as the configuration is now.
fn is_whole(context: &Context, delivery: &Delivery) -> bool {
    match delivery.state {
        DeliveryState::Opened => delivery.error.is_none(),
        DeliveryState::Pushed => context.options.outbox.forges.of(&delivery.remote).is_none(),
        DeliveryState::Intended | DeliveryState::Opening | DeliveryState::Failed | DeliveryState::Unknown => {
            false
        }
    }
}
