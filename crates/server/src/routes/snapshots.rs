//! `/sessions/{id}/snapshots` and `/sessions/{id}/fork`: frozen workspaces, and sessions that go on from one.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::{ForkSession, Session, SnapshotList};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments, session_id};
use crate::idempotency::Made;
use crate::problem::Failure;

/// Lists the snapshots that a session can be forked from, oldest first.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/snapshots", tag = "sessions", operation_id = "list_snapshots",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, body = SnapshotList))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<SnapshotList>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.snapshots(session).await?))
}

/// Makes a session that goes on from a snapshot of this one, and queues its prompt.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/fork", tag = "sessions", operation_id = "fork_session",
    params(("id" = String, Path, description = "The session")),
    request_body = ForkSession,
    responses(
        (status = 201, body = Session, headers(("Location" = String, description = "Where the new session is"))),
        (status = 404, description = "No such session or snapshot"),
    )
)]
pub(crate) async fn fork(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
    Body(body): Body<ForkSession>,
) -> Result<Response, Failure> {
    let source = session_id(&id)?;
    app.allow(&caller, Action::Read, Resource::Session(source))?;
    let sessions = app.allow(&caller, Action::Create, Resource::Sessions)?;
    let session = sessions.fork_as(made.session(), source, caller.0, body).await?;
    let location = format!("/api/v1/sessions/{}", session.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(session)).into_response())
}
