//! `GET /me`: whom requests act for.

use axum::extract::State;
use axum::{Extension, Json};
use protocol::Me;

use crate::access::Admission;
use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::problem::Failure;

/// Says whom the request acts for, and which server answers. Without the right token it is a problem, as everywhere.
#[utoipa::path(
    get, path = "/api/v1/me", tag = "server", operation_id = "show_me",
    responses((status = 200, body = Me))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Extension(admission): Extension<Admission>,
) -> Result<Json<Me>, Failure> {
    app.allow(&caller, Action::Read, Resource::Server)?;
    Ok(Json(Me {
        name: caller.0.id,
        source: admission.source,
        needs_token: admission.needs_token,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: crate::instance().to_owned(),
    }))
}
