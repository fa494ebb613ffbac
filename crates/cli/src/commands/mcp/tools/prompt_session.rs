//! `prompt_session`: more work for a session.

use protocol::CreatePrompt;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::{Effect, Tool};
use crate::render::text;

pub(super) const TOOL: Tool = Tool {
    name: "prompt_session",
    title: "Queue a prompt",
    description: "Queues a follow-up in a session, which is worked on in the same workspace when what came before it is finished. \
                  Call wait_session next.",
    effect: Effect::Adds,
    fields: &[
        Field::session(),
        Field::required("prompt", Kind::Text, "What is to be done"),
        Field::optional("now", Kind::Flag, "Stop what is being worked on, and do this next"),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    prompt: String,
    now: Option<bool>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, prompt, now } = schema::read(arguments)?;
    let session = call.session(&session).await?;
    let request = CreatePrompt { prompt, now: now.unwrap_or_default(), images: Vec::new() };
    let queued = call.api().await?.prompt(session.id, &request).await?;
    let text = match &queued.waits {
        Some(why) => format!("queued {} in {}; it waits: {}", queued.id, session.id, text::harmless(why)),
        None => format!("queued {} in {}\nnext: wait for it with wait_session", queued.id, session.id),
    };
    Ok(Answer::new(text, json!({"session": session.id, "prompt": queued.id, "waits": queued.waits})))
}
