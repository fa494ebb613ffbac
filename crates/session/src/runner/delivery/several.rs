//! The delivery of several repositories: a branch and a pull request for each that changed, each with an intent of its own. One
//! that does not come to its end holds up none of the others. Once all that can be opened are there, each is told of the others,
//! and only then none of them is pending any more: a server that comes later sees to it.

use failpoint::Point;
use forge::{Change, NewPullRequest, Readiness};
use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, Code, EventBody, Problem};

use super::{Delivered, Intent, is_whole, new, open, push, record};
use crate::command::Cause;
use crate::joint::of;
use crate::outbox::{Attempts, links};
use crate::runner::Context;
use crate::state::overall;
use crate::stop::Stop;
use crate::workspace::Saved;

/// Delivers what each repository has at a joint commit and its remote does not.
pub(super) async fn deliver(
    context: &Context,
    stop: &Stop,
    cause: &Cause,
    wanted: Vec<Delivery>,
) -> Result<Delivered, store::Error> {
    let actor = &cause.actor;
    let wanted = wanted.into_iter().map(|one| Delivery { command: cause.id(), ..one }).collect();
    let Some(intents) = intend(context, actor, wanted).await? else {
        return Ok(Delivered::Stopped(None));
    };
    failpoint::hit(Point::DeliveryIntended);
    let forges = &context.options.outbox.forges;
    let (mut pushed, mut stopped) = (Vec::new(), 0);
    for intent in intents {
        if intent.delivery.state != DeliveryState::Intended {
            pushed.push(intent.delivery);
            continue;
        }
        let open_next = forges.of(&intent.delivery.remote).is_some();
        match push::push(context, stop, actor, intent, open_next).await? {
            Delivered::Ended(delivery) => pushed.extend(delivery.error.is_none().then_some(delivery)),
            Delivered::Stopped(_) => stopped += 1,
        }
    }
    let all_stopped = pushed.is_empty() && stopped > 0;
    for delivery in pushed {
        // One that a server which is gone opened is found, and not opened again.
        if delivery.state != DeliveryState::Opening {
            continue;
        }
        match forges.of(&delivery.remote) {
            Some(forge) => drop(open(context, stop, actor, delivery, forge).await?),
            None => {
                let pushed = Delivery { state: DeliveryState::Pushed, ..delivery };
                drop(record(context, actor, pushed).await?);
            }
        }
    }
    link(context, stop, actor).await?;
    let deliveries = context.recorder.stream().with_state(|state| state.deliveries().to_vec());
    let whole = overall(&deliveries);
    Ok(match whole {
        Some(delivery) if all_stopped && delivery.error.is_some() => Delivered::Stopped(Some(delivery)),
        Some(delivery) => Delivered::Ended(delivery),
        None => Delivered::Stopped(None),
    })
}

/// What is to be delivered of each repository that the work changed, unless that was done as it is now.
pub(super) fn left(context: &Context, saved: &Saved, commits: &str) -> Vec<Delivery> {
    let known = context.recorder.stream().with_state(|state| state.deliveries().to_vec());
    let all = changed(context, saved, commits).into_iter();
    all.filter(|one| !known.iter().any(|known| is_same(known, one) && is_whole(context, known))).collect()
}

/// A delivery of each repository that the work changed.
pub(super) fn changed(context: &Context, saved: &Saved, commits: &str) -> Vec<Delivery> {
    let workspace = &context.workspace;
    let numbers = 0..workspace.places().len();
    numbers
        .filter(|number| of(commits, *number) != of(&saved.base, *number))
        .map(|number| {
            let (name, remote) = (workspace.name_of(number), workspace.remote_of(number));
            new(context, name, saved.branch.clone(), of(commits, number), remote)
        })
        .collect()
}

/// Whether one is of the same repository and commit as another.
pub(super) fn is_same(known: &Delivery, wanted: &Delivery) -> bool {
    known.repository == wanted.repository && known.commit == wanted.commit
}

/// Records all intents at once, or finds those of this very delivery that were not brought to their end: then these are gone on
/// with, and what was given up before stays so. None when the turn was stopped before.
async fn intend(
    context: &Context,
    actor: &Actor,
    wanted: Vec<Delivery>,
) -> Result<Option<Vec<Intent>>, store::Error> {
    let intended = context.recorder.append_if(actor, move |state| {
        let pending = |known: &&Delivery| known.state.is_pending();
        let begun: Vec<Intent> = state
            .deliveries()
            .iter()
            .filter(pending)
            .map(|known| Intent { delivery: known.clone(), begun: true })
            .collect();
        if !begun.is_empty() {
            return (Vec::new(), Some(begun));
        }
        match state.turn() {
            Some(turn) if turn.stopping.is_some() && turn.delivery.is_none() => (Vec::new(), None),
            Some(_) | None => {
                let bodies = wanted.iter().cloned().map(EventBody::DeliveryUpdated).collect();
                let intents = wanted.into_iter().map(|delivery| Intent { delivery, begun: false });
                (bodies, Some(intents.collect()))
            }
        }
    });
    intended.await.map(|(_, intents)| intents)
}

/// Tells each pull request of the others, in a section of its text that is ours, and records that they are open.
async fn link(context: &Context, stop: &Stop, actor: &Actor) -> Result<(), store::Error> {
    let all = context.recorder.stream().with_state(|state| state.deliveries().to_vec());
    let opened: Vec<&Delivery> = all.iter().filter(|one| one.url.is_some()).collect();
    let is_new = |one: &Delivery| one.state == DeliveryState::Opening && one.url.is_some();
    if !opened.iter().any(|one| is_new(one)) {
        return Ok(());
    }
    let named = |one: &Delivery| Some((one.repository.clone()?, one.url.clone()?));
    let others: Vec<(String, String)> = opened.iter().filter_map(|one| named(one)).collect();
    if others.len() > 1 {
        for one in &opened {
            if let Err(why) = tell(context, stop, one, &others).await? {
                let place = one.repository.as_deref().unwrap_or_default();
                let title = format!("the pull request of {place} does not name the others: {why}");
                let hint = "it is open all the same; say it there, or deliver again when the forge takes it";
                context.raise(&Problem::new(Code::DeliveryFailed, title).hint(hint)).await?;
            }
        }
    }
    // What people made of one meanwhile is kept.
    let now = context.recorder.append_if(actor, move |state| {
        let new = state.deliveries().iter().filter(|one| is_new(one));
        let opened = new.map(|one| Delivery { state: DeliveryState::Opened, ..one.clone() });
        (opened.map(EventBody::DeliveryUpdated).collect(), ())
    });
    now.await.map(drop)
}

/// Brings the section of one up to date. What else stands in its text is left as it is, whoever wrote it.
async fn tell(
    context: &Context,
    stop: &Stop,
    one: &Delivery,
    others: &[(String, String)],
) -> Result<Result<(), String>, store::Error> {
    let Some((forge, repository)) = context.options.outbox.forges.of(&one.remote) else {
        return Ok(Ok(()));
    };
    let wanted = NewPullRequest {
        repository: repository.clone(),
        branch: one.branch.clone(),
        commit: one.commit.clone().unwrap_or_default(),
        base: String::new(),
        title: String::new(),
        body: String::new(),
        readiness: Readiness::Ready,
        person: None,
    };
    let own = one.repository.as_deref().unwrap_or_default();
    let mut attempts = Attempts::new(context, stop);
    loop {
        let update = async {
            let Some(there) = forge.look_up(&wanted).await? else { return Ok(()) };
            let body = links::with(&there.body, own, others);
            if body == there.body {
                return Ok(());
            }
            let change = Change { body: Some(body), ..Change::default() };
            forge.update(&repository, there.number, &change).await.map(drop)
        };
        match attempts.make(update).await {
            None => return Ok(Err("it was stopped".to_owned())),
            Some(Ok(())) => return Ok(Ok(())),
            Some(Err(refusal)) => {
                if !attempts.again(&refusal).await? {
                    return Ok(Err(refusal.to_string()));
                }
            }
        }
    }
}
