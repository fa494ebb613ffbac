//! `GET /spend`: what sessions spent, by day and model.

use axum::Json;
use axum::extract::State;
use protocol::SpendReport;
use serde::Deserialize;
use session::SpendFilter;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Params, session_id};
use crate::problem::Failure;

/// Which part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    from: Option<String>,
    to: Option<String>,
    session: Option<String>,
    model: Option<String>,
}

/// Sums up what sessions spent, those at rest too, for each day and model. Days are in UTC.
#[utoipa::path(
    get, path = "/api/v1/spend", tag = "sessions", operation_id = "show_spend",
    params(
        ("from" = Option<String>, Query, description = "The first day, such as 2026-11-16"),
        ("to" = Option<String>, Query, description = "The last day"),
        ("session" = Option<String>, Query, description = "Only this session"),
        ("model" = Option<String>, Query, description = "Only this model"),
    ),
    responses(
        (status = 200, body = SpendReport),
        (status = 400, description = "A day that is none"),
        (status = 404, description = "No such session"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<SpendReport>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Sessions)?;
    // `from=&to=` says as little as leaving them out.
    let said = |value: Option<String>| value.filter(|value| !value.is_empty());
    let Which { from, to, session, model } = which;
    let (from, to, session, model) = (said(from), said(to), said(session), said(model));
    let session = session.as_deref().map(session_id).transpose()?;
    Ok(Json(sessions.spend(SpendFilter { from, to, session, model }).await?))
}
