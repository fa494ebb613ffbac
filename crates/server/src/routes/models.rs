//! `/models`: what can be asked for with `model`, and whether it works.

use axum::Json;
use axum::extract::State;
use protocol::{ModelList, ModelTest};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::Segments;
use crate::problem::Failure;

/// Lists the configured models, without their keys.
#[utoipa::path(
    get, path = "/api/v1/models", tag = "models", operation_id = "list_models",
    responses((status = 200, body = ModelList))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<ModelList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Models)?;
    Ok(Json(ModelList { models: sessions.models() }))
}

/// Tries a model out with two small requests. It costs a little, and takes as long as the model does.
#[utoipa::path(
    post, path = "/api/v1/models/{name}/test", tag = "models", operation_id = "test_model",
    params(("name" = String, Path, description = "The model")),
    responses((status = 200, body = ModelTest), (status = 404, description = "No such model"))
)]
pub(crate) async fn test(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<Json<ModelTest>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Models)?;
    Ok(Json(sessions.test_model(&name).await?))
}
