//! `/sessions`: make, list, show, edit, stop, diff, deliver.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::event::Delivery;
use protocol::{CreateSession, Diff, EditSession, Session, SessionList, StopSession, Stopped};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Optional, Segments, session_id};
use crate::idempotency::Made;
use crate::negotiate::preferred;
use crate::problem::Failure;

/// Makes a session and queues its first prompt.
#[utoipa::path(
    post, path = "/api/v1/sessions", tag = "sessions", operation_id = "create_session",
    request_body = CreateSession,
    responses(
        (status = 201, body = Session, headers(("Location" = String, description = "Where the session is"))),
        (status = 404, description = "No such environment or model"),
    )
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    made: Made,
    Body(body): Body<CreateSession>,
) -> Result<Response, Failure> {
    let sessions = app.allow(&caller, Action::Create, Resource::Sessions)?;
    let session = sessions.create_as(made.session(), caller.0, body).await?;
    let location = format!("/api/v1/sessions/{}", session.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(session)).into_response())
}

/// Lists the sessions, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    responses((status = 200, body = SessionList))
)]
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<SessionList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Sessions)?;
    Ok(Json(SessionList { sessions: sessions.list().await? }))
}

/// Shows one session.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, body = Session))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<Session>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.get(session).await?))
}

/// Gives the session another title, model, budget or policy; what is absent stays as it is. A model works from the next step
/// on, also in a turn under way; a policy holds from the next call on.
#[utoipa::path(
    patch, path = "/api/v1/sessions/{id}", tag = "sessions", operation_id = "edit_session",
    params(("id" = String, Path, description = "The session")),
    request_body = EditSession,
    responses(
        (status = 200, body = Session),
        (status = 404, description = "No such session or model"),
    )
)]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
    Body(body): Body<EditSession>,
) -> Result<Json<Session>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Write, Resource::Session(session))?;
    Ok(Json(sessions.edit(session, made.cause(caller.0), body).await?))
}

/// Stops the turn or the delivery that is under way, if there is one; with `pause` no waiting prompt begins after it. The stop is in the
/// log before the answer; `turn.finished` follows.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/stop", tag = "sessions", operation_id = "stop_session",
    params(("id" = String, Path, description = "The session")),
    request_body = Option<StopSession>,
    responses((status = 202, body = Stopped))
)]
pub(crate) async fn stop(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
    Optional(body): Optional<StopSession>,
) -> Result<(StatusCode, Json<Stopped>), Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Stop, Resource::Session(session))?;
    let stopped = sessions.stop_with(session, made.cause(caller.0), body.unwrap_or_default()).await?;
    Ok((StatusCode::ACCEPTED, Json(stopped)))
}

/// Shows what the session changed: JSON, or the bare patch with `Accept: text/x-diff` (or `text/plain`).
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/diff", tag = "sessions", operation_id = "show_diff",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 200, content((Diff = "application/json"), (String = "text/x-diff"))),
        (status = 503, description = "The workspace cannot be read"),
    )
)]
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let diff = sessions.diff(session).await?;
    let patch = |media_type: &'static str| ([(header::CONTENT_TYPE, media_type)], diff.patch.clone());
    Ok(match preferred(&headers, &["application/json", "text/x-diff", "text/plain"]) {
        1 => patch("text/x-diff; charset=utf-8").into_response(),
        2 => patch("text/plain; charset=utf-8").into_response(),
        _ => Json(diff).into_response(),
    })
}

/// Pushes the session's branch.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/deliver", tag = "sessions", operation_id = "deliver_session",
    params(("id" = String, Path, description = "The session")),
    responses(
        (status = 200, body = Delivery),
        (status = 422, description = "The push was refused"),
    )
)]
pub(crate) async fn deliver(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
) -> Result<Json<Delivery>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Deliver, Resource::Session(session))?;
    Ok(Json(sessions.deliver(session, made.cause(caller.0)).await?))
}
