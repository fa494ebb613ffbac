//! `GET /models`: what can be asked for with `model`.

use axum::Json;
use axum::extract::State;
use protocol::ModelList;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
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
