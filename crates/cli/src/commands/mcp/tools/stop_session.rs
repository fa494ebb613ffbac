//! `stop_session`: ends what a session is working on.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::{Effect, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "stop_session",
    title: "Stop a session",
    description: "Stops what a session is working on. What it did so far is kept; the next queued prompt, if there is one, is \
                  worked on then.",
    effect: Effect::Decides,
    fields: &[
        Field::session(),
        Field::optional("pause", Kind::Flag, "Pause the queue too, so that no waiting prompt begins"),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    pause: Option<bool>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, pause } = schema::read(arguments)?;
    let session = call.session(&session).await?.id;
    let stopped = call.api().await?.stop(session, pause.unwrap_or_default()).await?;
    let text = match stopped.turn {
        Some(turn) => format!("stopping {turn}\nnext: wait for its end with wait_session"),
        None if stopped.delivery => "stopping the delivery".to_owned(),
        None => "nothing is being worked on".to_owned(),
    };
    Ok(Answer::new(text, json!({"session": session, "turn": stopped.turn, "delivery": stopped.delivery})))
}
