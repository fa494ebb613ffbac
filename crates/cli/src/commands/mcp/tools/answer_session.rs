//! `answer_session`: answers a question of the agent.

use protocol::{ApprovalId, Decide, Gate};
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::json;

use super::super::answer::{Answer, wrong};
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::{Effect, Tool};
use crate::commands::answer::meant;

pub(super) const TOOL: Tool = Tool {
    name: "answer_session",
    title: "Answer a question",
    description: "Answers the question that a session waits with, as show_session or wait_session showed it. The agent is given the \
                  answer and goes on. Whoever is first answers.",
    effect: Effect::Adds,
    fields: &[
        Field::session(),
        Field::required(
            "approval",
            Kind::Text,
            "Id of the question, such as apr_01k…, so that no other one is answered",
        ),
        Field::required("answer", Kind::Text, "The answer; the number of an option stands for it"),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    approval: ApprovalId,
    answer: String,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { session, approval, answer } = schema::read(arguments)?;
    let session = call.session(&session).await?;
    let Some(waits) = session.approval.as_ref().filter(|waits| waits.id == approval) else {
        let title =
            format!("{} does not wait with {approval}: it is {}", session.id, session.status.as_str());
        return Err(wrong(title, "show_session tells what it waits with"));
    };
    if waits.gate != Gate::Question {
        return Err(wrong(
            "it waits for approval and not for an answer",
            "a person decides, with decide_session",
        ));
    }
    let comment = Some(meant(&answer, waits));
    let decide = Decide { approved: true, comment, ..Decide::default() };
    let decision = call.api().await?.decide(session.id, approval, &decide).await?;
    let text = format!("answered {approval}\nnext: wait for {} with wait_session", session.id);
    Ok(Answer::new(text, json!({"session": session.id, "approval": approval, "answer": decision.comment})))
}
