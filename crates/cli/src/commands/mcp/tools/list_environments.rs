//! `list_environments`: where sessions can work, and with which models.

use protocol::NamedEnvironment;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::answer::Answer;
use super::super::call::Call;
use super::super::schema;
use super::{Effect, Tool};
use crate::render::text;

pub(super) const TOOL: Tool = Tool {
    name: "list_environments",
    title: "List environments",
    description: "Lists the environments that a session can be started in (a repository with its set-up and checks), and the \
                  models that can be asked for.",
    effect: Effect::Looks,
    fields: &[],
    run: |call, arguments| Box::pin(run(call, arguments)),
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {}

async fn run(call: &mut Call, arguments: JsonObject) -> anyhow::Result<Answer> {
    let Arguments {} = schema::read(arguments)?;
    let api = call.api().await?;
    let mut environments = api.environments().await?.environments;
    environments.retain(|environment| call.scope.covers(&environment.name));
    let models = api.models().await?.models;
    let mut lines: Vec<String> = environments.iter().map(line).collect();
    if lines.is_empty() {
        lines.push(match call.scope.environments() {
            Some(names) => {
                format!("none of the environments that are offered here exists: {}", names.join(", "))
            }
            None => "no environments yet; add one with: slipway env add".to_owned(),
        });
    }
    let named: Vec<String> = models
        .iter()
        .map(|model| if model.default { format!("{} (default)", model.name) } else { model.name.clone() })
        .collect();
    lines.push(format!("models: {}", if named.is_empty() { "none".to_owned() } else { named.join(", ") }));
    let models: Vec<Value> = models
        .iter()
        .map(|model| json!({"name": model.name, "default": model.default, "key": model.key}))
        .collect();
    let environments: Vec<Value> = environments.iter().map(data).collect();
    Ok(Answer::new(lines.join("\n"), json!({"environments": environments, "models": models})))
}

fn line(environment: &NamedEnvironment) -> String {
    let recipe = &environment.recipe;
    let repositories = recipe.repos.iter().map(|repo| {
        let branch = repo.branch.as_deref().map(|branch| format!(" ({branch})")).unwrap_or_default();
        text::harmless(&format!("{}{branch}", repo.url))
    });
    let repositories = repositories.collect::<Vec<_>>().join(", ");
    let checks: Vec<&str> = recipe.checks.iter().map(|check| check.name.as_str()).collect();
    let checks = if checks.is_empty() { "found in the repository".to_owned() } else { checks.join(", ") };
    format!("{}: {repositories}; checks: {checks}", environment.name)
}

fn data(environment: &NamedEnvironment) -> Value {
    let recipe = &environment.recipe;
    let repo = recipe.repos.first();
    let mut data = json!({
        "name": environment.name,
        "repository": repo.map(|repo| &repo.url),
        "branch": repo.and_then(|repo| repo.branch.as_ref()),
        "checks": recipe.checks.iter().map(|check| &check.name).collect::<Vec<_>>(),
        "model": recipe.model,
    });
    if recipe.repos.len() > 1 {
        data["repositories"] = recipe
            .repos
            .iter()
            .zip(recipe.places())
            .map(|(repo, place)| json!({"url": repo.url, "branch": repo.branch, "path": place}))
            .collect();
    }
    data
}
