//! `wait_session`: until a session needs somebody or is finished, or the time is over. Meanwhile the client is told what
//! happens, if it asked to be.

use std::time::Duration;

use protocol::{EventBody, Session, SessionId};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;
use session::Duty;
use tokio::time::{Instant, sleep, timeout};

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::progress::{Progress, words};
use super::super::schema::{self, Field, Kind};
use super::super::told::{self, End};
use super::{Effect, Tool};
use crate::api::{Api, Meaning};
use crate::node::is_under_way;

/// A sign of life for clients that give up on calls which say nothing.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

// Less than a minute, after which many clients give a call up.
const TIMEOUT: Field = Field::optional(
    "timeout_s",
    Kind::Number { least: 1, most: 600, default: 45 },
    "Most seconds to wait; many clients give a call up after 60",
);

pub(super) const TOOL: Tool = Tool {
    name: "wait_session",
    title: "Wait for a session",
    description: "Waits until a session is finished or needs somebody, and shows how it stands then. When the time is over it \
                  says that the session still works: call it again. Waiting costs nothing, and to stop waiting does not stop \
                  the session.",
    effect: Effect::Looks,
    fields: &[Field::session(), TIMEOUT],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    timeout_s: Option<u64>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, timeout_s } = schema::read(arguments)?;
    let patience = Duration::from_secs(schema::bounded(timeout_s, &TIMEOUT)?);
    let found = call.session(&session).await?;
    if is_under_way(&found) {
        // Whoever works on it must be able to have the data directory.
        call.close().await?;
        let ended = call.ended.clone();
        tokio::select! {
            waited = timeout(patience, settled(call, &found)) => {
                if let Ok(settled) = waited {
                    settled?;
                }
            }
            // The answer reaches nobody.
            () = ended.wait() => anyhow::bail!("the call was cancelled; the session goes on"),
        }
    }
    let now = call.session(&session).await?;
    let end = End::of(&call.api().await?, &now).await?;
    let mut answer = told::whole(&now, &end, &call.scope);
    let state = state(&now);
    if state == "still_working" {
        answer.text = format!(
            "it still works after {} s; call wait_session again\n{}",
            patience.as_secs(),
            answer.text
        );
    }
    answer.data["state"] = json!(state);
    Ok(answer)
}

fn state(session: &Session) -> &'static str {
    if is_under_way(session) {
        "still_working"
    } else if session.approval.is_some() || !session.queued.is_empty() {
        "needs_somebody"
    } else {
        "finished"
    }
}

/// Returns when nothing more happens by itself.
async fn settled(call: &mut Call, session: &Session) -> anyhow::Result<()> {
    let api = if call.scope.changes() { call.door.work().await? } else { served(call).await? };
    let mut stream = api.follow(session.id, session.seq, session.lineage);
    let began = Instant::now();
    let mut silence = Box::pin(sleep(SIGN_OF_LIFE));
    loop {
        let frame = tokio::select! {
            frame = stream.next() => frame?,
            () = &mut silence => {
                call.progress.tell(&format!("still working, {} s", began.elapsed().as_secs())).await;
                silence.set(sleep(SIGN_OF_LIFE));
                continue;
            }
        };
        let may_rest = match &frame.meaning {
            Some(Meaning::Event(event)) => {
                if let Some(words) = words(event) {
                    call.progress.tell(&words).await;
                    silence.set(sleep(SIGN_OF_LIFE));
                }
                may_rest(&event.body)
            }
            Some(Meaning::StartOver) => true,
            // Also where it is live: it may have come to rest between the first look and now.
            Some(Meaning::Ephemeral(ephemeral)) => {
                matches!(ephemeral.body, protocol::EphemeralBody::Live { .. })
            }
            None => false,
        };
        if may_rest && rests(&api, session.id, &mut call.progress).await? {
            return Ok(());
        }
    }
}

/// Whether a session can have come to rest with this event.
fn may_rest(event: &EventBody) -> bool {
    matches!(
        event,
        EventBody::TurnFinished { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::QueuePaused { .. }
            | EventBody::PromptRemoved { .. }
            | EventBody::BudgetChanged { .. }
    )
}

async fn rests(api: &Api, session: SessionId, progress: &mut Progress) -> anyhow::Result<bool> {
    let now = api.session(session).await?;
    let rests = !is_under_way(&now);
    if rests {
        progress.tell(&format!("it is {}", now.status.as_str())).await;
    }
    Ok(rests)
}

/// The server that works on it, as soon as there is one: who may only look starts none.
async fn served(call: &mut Call) -> anyhow::Result<Api> {
    loop {
        if let Some(api) = call.door.served(Duty::Work).await? {
            return Ok(api);
        }
        call.progress.tell("no server works on it at the moment").await;
        sleep(Duration::from_secs(1)).await;
    }
}
