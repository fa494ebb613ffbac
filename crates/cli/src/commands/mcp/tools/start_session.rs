//! `start_session`: a task for an agent, in an environment or in a repository that has none.

use protocol::CreateSession;
use rmcp::model::JsonObject;
use serde::Deserialize;

use super::super::answer::{Answer, wrong};
use super::super::call::Call;
use super::super::schema::{self, Field, Kind, Need};
use super::super::told;
use super::{Effect, Tool};
use crate::commands::run::register;

pub(super) const TOOL: Tool = Tool {
    name: "start_session",
    title: "Start a session",
    description: "Starts a background coding agent on a task, in an environment or in a repository that has none, and answers at \
                  once with the id of its session. It works in a sandbox until the checks of the repository pass, and then \
                  pushes a branch of its own. Call wait_session next.",
    effect: Effect::Adds,
    fields: &[
        Field {
            name: "environment",
            kind: Kind::Environment,
            need: Need::OneOf,
            about: "Name of the environment to work in; list_environments lists them",
        },
        Field {
            name: "repository",
            kind: Kind::Text,
            need: Need::Unrestricted,
            about: "In place of an environment: absolute path or URL of a git repository; its checks are found by themselves",
        },
        Field {
            name: "branch",
            kind: Kind::Text,
            need: Need::Unrestricted,
            about: "With repository: the branch to start from; its default branch when absent",
        },
        Field::required(
            "prompt",
            Kind::Text,
            "What is to be done, with all that the agent needs to know: it sees the repository and nothing else",
        ),
        Field::optional("model", Kind::Text, "Name of the model; the environment's own when absent"),
    ],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    environment: Option<String>,
    repository: Option<String>,
    branch: Option<String>,
    prompt: String,
    model: Option<String>,
}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments { environment, repository, branch, prompt, model } = schema::read(arguments)?;
    if prompt.trim().is_empty() {
        return Err(wrong("the prompt is empty", "say what is to be done"));
    }
    let environment = match (environment, repository) {
        (Some(_), None) if branch.is_some() => {
            return Err(wrong(
                "branch belongs to repository",
                "an environment has its own branch: leave it out",
            ));
        }
        (Some(name), None) => call.scope.environment(name)?,
        (None, Some(repository)) => match call.scope.environments() {
            None => register(&call.api().await?, &repository, branch).await?,
            Some(names) => {
                let hint = format!("give environment: {}", names.join(" or "));
                return Err(wrong("sessions are started in environments here, not in repositories", hint));
            }
        },
        (Some(_), Some(_)) => {
            return Err(wrong("both an environment and a repository were given", "leave one of them out"));
        }
        (None, None) => {
            return Err(wrong(
                "neither an environment nor a repository was given",
                "list_environments lists them",
            ));
        }
    };
    let request =
        CreateSession { environment, prompt, images: Vec::new(), model, budgets: None, policy: None };
    let session = call.api().await?.create_session(&request).await?;
    let text = format!("started {}\nnext: wait for it with wait_session", told::line(&session));
    Ok(Answer::new(text, told::brief(&session)))
}
