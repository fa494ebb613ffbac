//! `/logins`: at which forges whoever asks has signed in, so that their pull requests are theirs. Tokens go in and never come
//! out.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{DeviceLogin, DeviceState, ForgeLogin, ForgeLogins, SetLogin};
use serde_json::Value;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments};
use crate::problem::{Failure, bad_request};

/// Lists the forges, with who you are at each.
#[utoipa::path(
    get, path = "/api/v1/logins", tag = "forges", operation_id = "list_logins",
    responses((status = 200, body = ForgeLogins))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<ForgeLogins>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Logins)?.clone();
    // Each is unsealed to be shown.
    let logins = tokio::task::spawn_blocking(move || sessions.logins(&caller.0.id)).await;
    Ok(Json(ForgeLogins { logins: logins.map_err(|_| crate::problem::internal())? }))
}

/// Signs you in with a token that you made at the forge. The forge is asked whose it is.
#[utoipa::path(
    put, path = "/api/v1/logins/{forge}", tag = "forges", operation_id = "set_login",
    params(("forge" = String, Path, description = "The forge's name in the configuration, or its kind")),
    request_body = SetLogin,
    responses((status = 200, body = ForgeLogin), (status = 422, description = "The forge does not take the token"))
)]
pub(crate) async fn set(
    State(app): State<App>,
    caller: Caller,
    Segments(forge): Segments<String>,
    Body(body): Body<Value>,
) -> Result<Json<ForgeLogin>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Logins)?;
    // What does not fit is not repeated: it may be the token.
    let SetLogin { token } = serde_json::from_value(body).map_err(|_| {
        bad_request("the body is not what this route takes").hint("send {\"token\": \"TEXT\"}")
    })?;
    Ok(Json(sessions.set_login(&caller.0.id, &forge, &token).await?))
}

/// Forgets your token for a forge. At the forge it stays good until you revoke it there.
#[utoipa::path(
    delete, path = "/api/v1/logins/{forge}", tag = "forges", operation_id = "remove_login",
    params(("forge" = String, Path, description = "The forge's name in the configuration, or its kind")),
    responses((status = 204))
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Segments(forge): Segments<String>,
) -> Result<StatusCode, Failure> {
    let sessions = app.allow(&caller, Action::Remove, Resource::Logins)?;
    sessions.remove_login(&caller.0.id, &forge)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins to sign you in with a code that you type in at the forge.
#[utoipa::path(
    post, path = "/api/v1/logins/{forge}/device", tag = "forges", operation_id = "begin_login",
    params(("forge" = String, Path, description = "The forge's name in the configuration, or its kind")),
    responses((status = 200, body = DeviceLogin), (status = 400, description = "The forge has no codes"))
)]
pub(crate) async fn begin(
    State(app): State<App>,
    caller: Caller,
    Segments(forge): Segments<String>,
) -> Result<Json<DeviceLogin>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Logins)?;
    Ok(Json(sessions.begin_login(&caller.0.id, &forge).await?))
}

/// Looks whether the code was typed in.
#[utoipa::path(
    post, path = "/api/v1/logins/{forge}/device/{attempt}", tag = "forges", operation_id = "continue_login",
    params(
        ("forge" = String, Path, description = "The forge's name in the configuration, or its kind"),
        ("attempt" = String, Path, description = "What the beginning answered")
    ),
    responses((status = 200, body = DeviceState), (status = 404, description = "No such attempt is under way"))
)]
pub(crate) async fn go_on(
    State(app): State<App>,
    caller: Caller,
    Segments((forge, attempt)): Segments<(String, String)>,
) -> Result<Json<DeviceState>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Logins)?;
    Ok(Json(sessions.continue_login(&caller.0.id, &forge, &attempt).await?))
}
