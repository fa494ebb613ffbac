//! `deliver_session`: pushes a session's branch.

use rmcp::model::JsonObject;
use serde::Deserialize;

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema::{self, Field};
use super::super::told;
use super::{Effect, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "deliver_session",
    title: "Deliver a session",
    description: "Pushes a session's branch (again), and opens its pull request where a forge is configured. A session that is done \
                  has been delivered already; this is for work that was stopped or escalated, and for pushes that failed. Doing it twice is the same as doing it once.",
    effect: Effect::Decides,
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
    let session = call.session(&session).await?.id;
    let delivery = call.api().await?.deliver(session, protocol::DeliverSession::default()).await?;
    Ok(Answer::new(told::delivered(&delivery), told::delivery(&delivery)))
}
