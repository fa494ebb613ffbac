//! `GET /settings`: what the configuration says.

use axum::extract::State;
use axum::{Extension, Json};
use protocol::Settings;

use crate::access::Admission;
use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::problem::Failure;

/// Shows the budgets and the people of the configuration, without anything that is secret.
#[utoipa::path(
    get, path = "/api/v1/settings", tag = "server", operation_id = "show_settings",
    responses((status = 200, body = Settings))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Extension(admission): Extension<Admission>,
) -> Result<Json<Settings>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Server)?;
    Ok(Json(Settings { needs_token: admission.needs_token, ..sessions.settings(app.people()) }))
}
