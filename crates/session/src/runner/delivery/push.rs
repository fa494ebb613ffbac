//! The push of a delivery: made until it works or would not help, and broken off when it is stopped. Then the remote is
//! asked what it has, so that what is told of it is true.

use std::time::{Duration, Instant};

use failpoint::Point;
use forge::{LeftPush, Mirror, Refusal, Sent};
use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, EventBody, Item, ItemId, ItemKind, ItemStatus};

use super::{Delivered, Intent, failed, give_up, record};
use crate::failure::Failure;
use crate::outbox::Attempts;
use crate::problem;
use crate::runner::Context;
use crate::stop::Stop;

/// How long a remote may take to say what it has, after a push was stopped.
const LOOK: Duration = Duration::from_secs(4);
/// How long a remote on another machine gets to take a push that was broken off here, before it is made again.
const LATE: Duration = Duration::from_secs(5);
/// How often it is looked at meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Pushes the branch, unless the remote has it.
pub(super) async fn push(
    context: &Context,
    stop: &Stop,
    actor: &Actor,
    Intent { mut delivery, mut begun }: Intent,
    open_next: bool,
) -> Result<Delivered, store::Error> {
    let commit = delivery.commit.clone().unwrap_or_default();
    let mut attempts = Attempts::new(context, stop);
    loop {
        let refusal = match push_once(context, stop, &attempts, &delivery, &mut begun).await {
            Ok(true) => break,
            Ok(false) => None,
            Err(Trouble::Store(error)) => return Err(error),
            Err(Trouble::Refused(refusal)) => Some(refusal),
        };
        let again = match &refusal {
            Some(refusal) => attempts.again(refusal).await?,
            None => false,
        };
        match refusal {
            _ if again => {}
            Some(refusal) if !stop.is_given() || matches!(refusal, Refusal::Final { .. }) => {
                let refused = after_refusal(context, delivery, &refusal).await;
                return give_up(context, actor, refused).await.map(Delivered::Ended);
            }
            Some(_) | None => match after_stop(context, delivery, &commit, begun).await {
                Stopped::There(there) => {
                    delivery = there;
                    break;
                }
                Stopped::Absent(absent) => {
                    return record(context, actor, absent)
                        .await
                        .map(|absent| Delivered::Stopped(Some(absent)));
                }
                Stopped::Unknown(unknown) => {
                    return give_up(context, actor, unknown).await.map(Delivered::Ended);
                }
            },
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
    // Whoever has a forge expects a pull request, and learns why there is none.
    if let Some(why) = context.options.outbox.forges.unserved(&delivery.remote) {
        notice(context, why).await?;
    }
    Ok(Delivered::Ended(delivery))
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

/// One attempt; false when it was given up. `begun` is true from when something may have been sent.
async fn push_once(
    context: &Context,
    stop: &Stop,
    attempts: &Attempts<'_>,
    delivery: &Delivery,
    begun: &mut bool,
) -> Result<bool, Trouble> {
    let (branch, commit) = (delivery.branch.as_str(), delivery.commit.as_deref().unwrap_or_default());
    let look = async {
        let mirror = context.workspace.mirror_of(delivery.repository.as_deref()).await?;
        let there = has_arrived(&mirror, branch, commit).await?;
        Ok::<(Mirror, bool), Trouble>((mirror, there))
    };
    let looked = if *begun { attempts.make(look).await } else { attempts.unless_stopped(look).await };
    let Some(looked) = looked else { return Ok(false) };
    let (mirror, there) = looked?;
    if there {
        return Ok(true);
    }
    if let Some(left) = mirror.left_push(branch)? {
        *begun = true;
        let patience = if left.may_come() { LATE } else { Duration::ZERO };
        wait_for(context, attempts, left, branch).await?;
        let look = comes(&mirror, branch, commit, patience);
        if attempts.unless_stopped(look).await.transpose()?.unwrap_or(false) {
            return Ok(true);
        }
    }
    // What was stopped is not begun anew.
    if stop.is_given() {
        return Ok(false);
    }
    let sent = mirror.push_unless(commit, branch, attempts.given_up()).await;
    *begun |= matches!(sent, Ok(Sent::Perhaps) | Err(forge::Error::Push { .. }));
    Ok(sent? == Sent::Yes)
}

/// Whether the remote has the commit. Then an earlier push of it does not matter any more.
async fn has_arrived(mirror: &Mirror, branch: &str, commit: &str) -> Result<bool, forge::Error> {
    let arrived = mirror.remote_tip(branch).await?.as_deref() == Some(commit);
    if arrived {
        mirror.has_landed(branch, commit).await;
        mirror.forget_push(branch);
    }
    Ok(arrived)
}

/// Waits for the end of a push that a server which is gone began.
async fn wait_for(
    context: &Context,
    attempts: &Attempts<'_>,
    left: LeftPush,
    branch: &str,
) -> Result<(), Trouble> {
    if left.is_running() {
        let text = format!(
            "{branch} was being pushed when the server was started again; the end of that push is waited for"
        );
        notice(context, text).await.map_err(Trouble::Store)?;
    }
    Ok(left.end(attempts.given_up()).await?)
}

/// Tells people what a turn waits for.
async fn notice(context: &Context, text: String) -> Result<(), store::Error> {
    tracing::info!(session = %context.recorder.session(), "{text}");
    let Some(turn) = context.turn() else { return Ok(()) };
    let item = Item { id: ItemId::new(), status: ItemStatus::Completed, kind: ItemKind::notice(text) };
    let body = EventBody::ItemCompleted { turn: turn.id, item };
    context.recorder.append(&Actor::system(), vec![body]).await.map(drop)
}

/// Whether the remote has the commit, or gets it while it is waited for.
async fn comes(
    mirror: &Mirror,
    branch: &str,
    commit: &str,
    patience: Duration,
) -> Result<bool, forge::Error> {
    let end = Instant::now() + patience;
    loop {
        if has_arrived(mirror, branch, commit).await? {
            return Ok(true);
        }
        if Instant::now() + AGAIN > end {
            return Ok(false);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What is told of a push that was refused. One that a server which is gone began does not go on behind it: whether the
/// remote took that could not be seen.
async fn after_refusal(context: &Context, delivery: Delivery, refusal: &Refusal) -> Delivery {
    let left = match context.workspace.mirror_of(delivery.repository.as_deref()).await {
        Ok(mirror) => end_left(&mirror, &delivery.branch).await,
        // Without a mirror nothing was ever pushed.
        Err(_) => Ok(Left::Nothing),
    };
    let doubt = match left {
        Ok(Left::Nothing) => return failed(delivery, refusal.to_string()),
        Ok(Left::Ended | Left::MayCome) => String::new(),
        Err(error) => format!("; {}", problem::forge(&error).title),
    };
    let error = format!("{} may have the branch or not: {refusal}{doubt}", delivery.remote);
    Delivery { state: DeliveryState::Unknown, error: Some(error), ..delivery }
}

/// What was left of a push of which nobody saw the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing that could change anything.
    Nothing,
    /// Something ran on this machine, and was ended.
    Ended,
    /// The remote may still take it.
    MayCome,
}

async fn end_left(mirror: &Mirror, branch: &str) -> Result<Left, forge::Error> {
    let Some(left) = mirror.left_push(branch)? else { return Ok(Left::Nothing) };
    let was = match (left.may_come(), left.is_running()) {
        (true, _) => Left::MayCome,
        (false, true) => Left::Ended,
        (false, false) => Left::Nothing,
    };
    left.end(std::future::ready(())).await?;
    Ok(was)
}

/// What a push that was stopped came to.
enum Stopped {
    There(Delivery),
    Absent(Delivery),
    Unknown(Delivery),
}

/// Says whether a push that was stopped has happened. The remote is asked, unless nothing was sent to it; it may be the one
/// that does not answer.
async fn after_stop(context: &Context, delivery: Delivery, commit: &str, begun: bool) -> Stopped {
    let remote = &delivery.remote;
    if !begun {
        let error = format!("it was stopped before anything was sent to {remote}");
        return Stopped::Absent(failed(delivery, error));
    }
    let settle = async {
        let mirror = context.workspace.mirror_of(delivery.repository.as_deref()).await;
        let mirror = mirror.map_err(|failure| failure.into_problem().title)?;
        let told = |error: forge::Error| problem::forge(&error).title;
        let may_come = end_left(&mirror, &delivery.branch).await.map_err(told)? == Left::MayCome;
        let patience = if may_come { LOOK - AGAIN } else { Duration::ZERO };
        let look = comes(&mirror, &delivery.branch, commit, patience);
        match tokio::time::timeout(LOOK, look).await {
            Ok(Ok(there)) => Ok((there, may_come)),
            Ok(Err(error)) => Err(told(error)),
            Err(_) => Err("it does not answer".to_owned()),
        }
    };
    match settle.await {
        Ok((true, _)) => Stopped::There(delivery),
        Ok((false, true)) => {
            let why = "it has not taken it yet, and may still do so";
            Stopped::Unknown(unknown(delivery, why))
        }
        Ok((false, false)) => {
            let error = format!("it was stopped, and {remote} does not have it");
            Stopped::Absent(failed(delivery, error))
        }
        Err(why) => Stopped::Unknown(unknown(delivery, &why)),
    }
}

fn unknown(delivery: Delivery, why: &str) -> Delivery {
    let error = format!("it was stopped, and {} may have the branch or not: {why}", delivery.remote);
    Delivery { state: DeliveryState::Unknown, error: Some(error), ..delivery }
}
