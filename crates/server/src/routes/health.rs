//! `GET /health`: that the server answers.

use axum::Json;
use protocol::Health;

use crate::authorize::{Action, Caller, Resource, authorize};
use crate::problem::Failure;

/// Says that the server runs, and in which version.
#[utoipa::path(
    get, path = "/api/v1/health", tag = "server", operation_id = "show_health",
    responses((status = 200, body = Health))
)]
pub(crate) async fn health(caller: Caller) -> Result<Json<Health>, Failure> {
    authorize(Some(&caller.0), Action::Read, Resource::Server)?;
    Ok(Json(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: crate::instance().to_owned(),
    }))
}
