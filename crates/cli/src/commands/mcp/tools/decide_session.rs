//! `decide_session`: approves or rejects what a session waits for.

use protocol::{ApprovalId, Decide, Gate};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;

use super::super::answer::{Answer, wrong};
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::{Effect, Tool};
use crate::render::approval::word;

pub(super) const TOOL: Tool = Tool {
    name: "decide_session",
    title: "Approve or reject",
    description: "Decides on what a session waits for: a call of the agent, hosts that it wants to reach, or the push of its work. \
                  It waits because a person is to decide: ask the person you work for first, and pass on what they say. A \
                  question that is rejected is left to the agent.",
    effect: Effect::Decides,
    fields: &[
        Field::session(),
        Field::required(
            "approval",
            Kind::Text,
            "Id of what waits, such as apr_01k…, so that nothing else is decided",
        ),
        Field::required("decision", Kind::Choice(&["approve", "reject"]), "What is decided"),
        Field::optional(
            "comment",
            Kind::Text,
            "What the agent is told; after a rejection it goes on with that",
        ),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    approval: ApprovalId,
    decision: Choice,
    comment: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    Approve,
    Reject,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, approval, decision, comment } = schema::read(arguments)?;
    let session = call.session(&session).await?;
    let asked = session.approval.as_ref().filter(|waits| waits.id == approval);
    if decision == Choice::Approve && asked.is_some_and(|waits| waits.gate == Gate::Question) {
        return Err(wrong("it waits for an answer", "give it with answer_session"));
    }
    let decide = Decide { approved: decision == Choice::Approve, comment, ..Decide::default() };
    // Of what does not wait any more, the server knows how it was decided.
    let decided = call.api().await?.decide(session.id, approval, &decide).await?;
    let word = word(decided.gate, decided.approved);
    let text = format!("{word}: {approval}\nnext: wait for {} with wait_session", session.id);
    let data =
        json!({"session": session.id, "approval": approval, "approved": decided.approved, "by": decided.by});
    Ok(Answer::new(text, data))
}
