//! `list_sessions`: the newest sessions.

use protocol::Status;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema::{self, Field, Kind};
use super::super::told;
use super::{Effect, Tool};

const LIMIT: Field = Field::optional(
    "limit",
    Kind::Number { least: 1, most: 100, default: 20 },
    "Most sessions to list, the newest first",
);

pub(super) const TOOL: Tool = Tool {
    name: "list_sessions",
    title: "List sessions",
    description: "Lists sessions, the newest first, with status and title. A session that is waiting needs a person's decision \
                  or an answer.",
    effect: Effect::Looks,
    fields: &[
        Field::optional("environment", Kind::Environment, "Only sessions of this environment"),
        Field::optional(
            "status",
            Kind::Choice(&[
                "queued",
                "working",
                "waiting",
                "done",
                "escalated",
                "failed",
                "cancelled",
                "out_of_budget",
            ]),
            "Only sessions with this status",
        ),
        LIMIT,
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    environment: Option<String>,
    status: Option<Status>,
    limit: Option<u64>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { environment, status, limit } = schema::read(arguments)?;
    let limit = usize::try_from(schema::bounded(limit, &LIMIT)?)?;
    let mut sessions = call.api().await?.sessions().await?.sessions;
    sessions.retain(|session| {
        call.scope.covers(&session.environment)
            && environment.as_ref().is_none_or(|name| *name == session.environment)
            && status.is_none_or(|status| status == session.status)
    });
    let more = sessions.len().saturating_sub(limit);
    sessions.truncate(limit);
    let mut lines: Vec<String> = sessions.iter().map(told::line).collect();
    if lines.is_empty() {
        lines.push("no sessions".to_owned());
    }
    if more > 0 {
        lines.push(format!("… {more} older ones cut; give a larger limit, or a status"));
    }
    let sessions: Vec<Value> = sessions.iter().map(told::brief).collect();
    Ok(Answer::new(lines.join("\n"), json!({"sessions": sessions, "cut": more})))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUSES: [Status; 8] = [
        Status::Queued,
        Status::Working,
        Status::Waiting,
        Status::Done,
        Status::Escalated,
        Status::Failed,
        Status::Cancelled,
        Status::OutOfBudget,
    ];

    #[test]
    fn every_status_can_be_asked_for() {
        let Kind::Choice(words) = TOOL.fields[1].kind else { panic!("it is a choice") };
        assert_eq!(words, STATUSES.map(Status::as_str));
    }
}
