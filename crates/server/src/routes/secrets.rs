//! `/secrets`: what models and sandboxes may use and nobody may read. Names come out, values never do.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{SecretList, SetSecret, StoredSecret};
use serde_json::Value;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments};
use crate::idempotency::Made;
use crate::problem::{Failure, bad_request};

/// Lists the secrets by name, with what uses them.
#[utoipa::path(
    get, path = "/api/v1/secrets", tag = "secrets", operation_id = "list_secrets",
    responses((status = 200, body = SecretList))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<SecretList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Secrets)?;
    Ok(Json(SecretList { secrets: sessions.secrets().await? }))
}

/// Sets a secret, or replaces its value. The next model call uses it, and so does the next request of a sandbox.
#[utoipa::path(
    put, path = "/api/v1/secrets/{name}", tag = "secrets", operation_id = "set_secret",
    params(("name" = String, Path, description = "1 to 64 letters, digits, '_', '-' and '.'")),
    request_body = SetSecret,
    responses(
        (status = 200, body = StoredSecret),
        (status = 409, description = "The key that secrets are sealed with is missing, or is none"),
    )
)]
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    Body(body): Body<Value>,
) -> Result<Json<StoredSecret>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Secret(&name))?;
    // What does not fit is not repeated: it may be the value.
    let SetSecret { value } = serde_json::from_value(body).map_err(|_| {
        bad_request("the body is not what this route takes").hint("send {\"value\": \"TEXT\"}")
    })?;
    let set = sessions.set_secret(&name, value).await?;
    tracing::info!(secret = name, by = %caller.0.id, "a secret was set");
    Ok(Json(set))
}

/// Removes a secret. What uses it fails from then on, and says so.
#[utoipa::path(
    delete, path = "/api/v1/secrets/{name}", tag = "secrets", operation_id = "remove_secret",
    params(("name" = String, Path, description = "The secret")),
    responses((status = 204))
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    made: Made,
) -> Result<StatusCode, Failure> {
    let sessions = app.allow(&caller, Action::Remove, Resource::Secret(&name))?;
    sessions.remove_secret(&name, made.again()).await?;
    tracing::info!(secret = name, by = %caller.0.id, "a secret was removed");
    Ok(StatusCode::NO_CONTENT)
}
