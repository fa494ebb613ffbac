//! `/environments`: the recipes that sessions start from.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{Environment, EnvironmentList, NamedEnvironment};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments};
use crate::idempotency::Made;
use crate::problem::Failure;

/// Lists the environments by name.
#[utoipa::path(
    get, path = "/api/v1/environments", tag = "environments", operation_id = "list_environments",
    responses((status = 200, body = EnvironmentList))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<EnvironmentList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Environments)?;
    Ok(Json(EnvironmentList { environments: sessions.environments().await? }))
}

/// Shows one environment.
#[utoipa::path(
    get, path = "/api/v1/environments/{name}", tag = "environments", operation_id = "show_environment",
    params(("name" = String, Path, description = "The environment")),
    responses((status = 200, body = NamedEnvironment))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<Json<NamedEnvironment>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Environment(&name))?;
    Ok(Json(sessions.environment(&name).await?))
}

/// Writes an environment, after a look whether its repository and branch can be read.
#[utoipa::path(
    put, path = "/api/v1/environments/{name}", tag = "environments", operation_id = "put_environment",
    params(("name" = String, Path, description = "The environment")),
    request_body = Environment,
    responses(
        (status = 200, body = NamedEnvironment),
        (status = 409, description = "It is written in the configuration file"),
        (status = 422, description = "Its repository or branch cannot be read"),
    )
)]
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    made: Made,
    Body(recipe): Body<Environment>,
) -> Result<Json<NamedEnvironment>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Environment(&name))?;
    Ok(Json(sessions.put_environment_as(made.command(), &name, recipe).await?))
}

/// Looks at a recipe as if it were to be written, and writes nothing. A recipe with a fault is a problem that says which.
#[utoipa::path(
    post, path = "/api/v1/environments/{name}/check", tag = "environments", operation_id = "check_environment",
    params(("name" = String, Path, description = "The environment; there need not be one yet")),
    request_body = Environment,
    responses(
        (status = 204, description = "It can be used"),
        (status = 400, description = "It has a fault"),
        (status = 422, description = "Its repository or branch cannot be read"),
    )
)]
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    Body(recipe): Body<Environment>,
) -> Result<StatusCode, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Environment(&name))?;
    sessions.check_environment(&name, recipe).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes an environment; sessions that were made from it keep their copy.
#[utoipa::path(
    delete, path = "/api/v1/environments/{name}", tag = "environments", operation_id = "remove_environment",
    params(("name" = String, Path, description = "The environment")),
    responses(
        (status = 204),
        (status = 409, description = "It is written in the configuration file"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    made: Made,
) -> Result<StatusCode, Failure> {
    let sessions = app.allow(&caller, Action::Remove, Resource::Environment(&name))?;
    sessions.remove_environment_as(made.command(), &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
