//! `show_session`: one session, and how it stands.

use rmcp::model::JsonObject;
use serde::Deserialize;

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema::{self, Field};
use super::super::told::{self, End};
use super::{Effect, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "show_session",
    title: "Show a session",
    description: "Shows how a session stands: status and outcome, what waits for somebody (a question or an approval, with its \
                  id), checks, changes, spend, delivery, what is queued, and the last words of the agent.",
    effect: Effect::Looks,
    fields: &[Field::session()],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session } = schema::read(arguments)?;
    let session = call.session(&session).await?;
    let end = End::of(&call.api().await?, &session).await?;
    Ok(told::whole(&session, &end, &call.scope))
}
