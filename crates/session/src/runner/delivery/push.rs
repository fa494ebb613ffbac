//! The push of a delivery: made until it works or would not help, and broken off when it is stopped. Then the remote is
//! asked what it has, so that what is told of it is true.

use std::time::Duration;

use failpoint::Point;
use forge::{Mirror, Refusal, Sent};
use protocol::event::{Delivery, DeliveryState};
use protocol::{Actor, EventBody};

use super::{Delivered, Intent, failed, give_up, record};
use crate::failure::Failure;
use crate::outbox::Attempts;
use crate::problem;
use crate::runner::Context;
use crate::stop::Stop;

/// How long a remote may take to say what it has, after a push was stopped.
const LOOK: Duration = Duration::from_secs(4);

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
        let refusal = match push_once(context, &attempts, &delivery.branch, &commit, &mut begun).await {
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
                let failed = failed(delivery, refusal.to_string());
                return give_up(context, actor, failed).await.map(Delivered::Ended);
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
    attempts: &Attempts<'_>,
    branch: &str,
    commit: &str,
    begun: &mut bool,
) -> Result<bool, Trouble> {
    let look = async {
        let mirror = context.workspace.mirror().await?;
        let there = mirror.remote_tip(branch).await?.as_deref() == Some(commit);
        Ok::<(Mirror, bool), Trouble>((mirror, there))
    };
    let looked = if *begun { attempts.make(look).await } else { attempts.unless_stopped(look).await };
    let Some(looked) = looked else { return Ok(false) };
    let (mirror, there) = looked?;
    if there {
        return Ok(true);
    }
    let sent = mirror.push_unless(commit, branch, attempts.given_up()).await;
    *begun |= matches!(sent, Ok(Sent::Perhaps) | Err(forge::Error::Push { .. }));
    Ok(sent? == Sent::Yes)
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
    let look = async {
        let mirror = context.workspace.mirror().await.map_err(|failure| failure.into_problem().title)?;
        mirror.remote_tip(&delivery.branch).await.map_err(|error| problem::forge(&error).title)
    };
    match tokio::time::timeout(LOOK, look).await {
        Ok(Ok(Some(tip))) if tip == commit => Stopped::There(delivery),
        Ok(Ok(_)) => {
            let error = format!("it was stopped, and {remote} does not have it");
            Stopped::Absent(failed(delivery, error))
        }
        Ok(Err(why)) => Stopped::Unknown(unknown(delivery, &why)),
        Err(_) => Stopped::Unknown(unknown(delivery, "it does not answer")),
    }
}

fn unknown(delivery: Delivery, why: &str) -> Delivery {
    let error = format!("it was stopped, and {} may have the branch or not: {why}", delivery.remote);
    Delivery { state: DeliveryState::Unknown, error: Some(error), ..delivery }
}
