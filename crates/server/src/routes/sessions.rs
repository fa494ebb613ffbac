//! `/sessions`: make, list, show, edit, stop, diff, deliver.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::event::Delivery;
use protocol::{
    Archived, CreateSession, DeliverSession, DeliveryPreview, Diff, EditSession, EgressLog, Problem, Session,
    SessionFilter, SessionGroup, SessionList, SessionOrigin, Status, StopSession, Stopped, TurnId,
};
use serde::Deserialize;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Optional, Params, Segments, session_id};
use crate::idempotency::Made;
use crate::negotiate::preferred;
use crate::problem::{Failure, bad_request};

/// Makes a session and queues its first prompt.
#[utoipa::path(
    post, path = "/api/v1/sessions", tag = "sessions", operation_id = "create_session",
    params(("Slipway-Client" = Option<SessionOrigin>, Header, description = "What sends it, which lists show: `web`, `cli`, \
        `slack`, `forge`, `extension`, `agent`, or `api`")),
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
    headers: HeaderMap,
    Body(body): Body<CreateSession>,
) -> Result<Response, Failure> {
    let sessions = app.allow(&caller, Action::Create, Resource::Sessions)?;
    let session = sessions.create_from(made.session(), caller.0, origin(&headers)?, body).await?;
    let location = format!("/api/v1/sessions/{}", session.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(session)).into_response())
}

/// The header that says what sends a request.
const CLIENT: &str = "slipway-client";

fn origin(headers: &HeaderMap) -> Result<SessionOrigin, Problem> {
    let Some(value) = headers.get(CLIENT) else { return Ok(SessionOrigin::Api) };
    let known = SessionOrigin::ALL.into_iter().find(|known| value.as_bytes() == known.as_str().as_bytes());
    known.ok_or_else(|| {
        let words: Vec<&str> = SessionOrigin::ALL.into_iter().map(SessionOrigin::as_str).collect();
        bad_request("the Slipway-Client header names nothing that is known")
            .hint(format!("use one of: {}", words.join(", ")))
    })
}

/// Which sessions. What is empty says as little as what is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Which {
    q: Option<String>,
    group: Option<String>,
    status: Option<String>,
    environment: Option<String>,
    model: Option<String>,
    author: Option<String>,
    origin: Option<String>,
    parent: Option<String>,
    archived: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

impl Which {
    fn filter(self) -> Result<SessionFilter, Problem> {
        let said = |value: Option<String>| value.filter(|value| !value.is_empty());
        let limit = said(self.limit).map(|limit| {
            limit.parse().map_err(|_| bad_request(format!("\"{limit}\" is no number of sessions")))
        });
        Ok(SessionFilter {
            q: said(self.q),
            group: word("group", said(self.group))?,
            status: word("status", said(self.status))?,
            environment: said(self.environment),
            model: said(self.model),
            author: said(self.author),
            origin: word("origin", said(self.origin))?,
            parent: said(self.parent).as_deref().map(session_id).transpose()?,
            archived: word("archived", said(self.archived))?.unwrap_or_default(),
            limit: limit.transpose()?,
            cursor: said(self.cursor),
        })
    }
}

/// One of the words that the API knows for something.
fn word<T: serde::de::DeserializeOwned>(name: &str, said: Option<String>) -> Result<Option<T>, Problem> {
    let Some(said) = said else { return Ok(None) };
    let read = serde_json::from_value(serde_json::Value::String(said));
    read.map(Some).map_err(|error| bad_request(format!("{name}: {error}")))
}

/// Lists sessions, the last changed first: all that are not archived, or those that fit.
#[utoipa::path(
    get, path = "/api/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    params(
        ("q" = Option<String>, Query, description = "Words that must all occur in the title or a prompt"),
        ("group" = Option<SessionGroup>, Query, description = "Only this part of the inbox"),
        ("status" = Option<Status>, Query, description = "Only those with this status"),
        ("environment" = Option<String>, Query, description = "Only those of this environment"),
        ("model" = Option<String>, Query, description = "Only those that this model works on"),
        ("author" = Option<String>, Query, description = "Only those in which this person asked for something"),
        ("origin" = Option<SessionOrigin>, Query, description = "Only those that came from there"),
        ("parent" = Option<String>, Query, description = "Only those that belong to this session"),
        ("archived" = Option<Archived>, Query, description = "Only those that were put away, or `all`"),
        ("limit" = Option<u64>, Query, description = "Most sessions of the page, up to 1000, which is the default"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before it"),
    ),
    responses((status = 200, body = SessionList), (status = 400, description = "A part that is none"))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<SessionList>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Sessions)?;
    Ok(Json(sessions.list_some(&which.filter()?).await?))
}

/// Lists the hosts that the session's sandboxes wanted to connect to, and what was decided.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/egress", tag = "sessions", operation_id = "show_session_egress",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, body = EgressLog))
)]
pub(crate) async fn egress(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<EgressLog>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.egress_log(session).await?))
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

/// Gives the session another title, model, budget or policy, or puts it away; what is absent stays as it is. A model works from the next step
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

/// Which part of the changes.
#[derive(Debug, Deserialize)]
pub(crate) struct Part {
    turn: Option<TurnId>,
}

/// Shows what a delivery would do now: where the branch goes, and the words of the pull request.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/delivery", tag = "sessions", operation_id = "preview_delivery",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, body = DeliveryPreview))
)]
pub(crate) async fn preview(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<Json<DeliveryPreview>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.delivery_preview(session).await?))
}

/// Shows what the session changed: JSON, or the bare patch with `Accept: text/x-diff` (or `text/plain`).
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/diff", tag = "sessions", operation_id = "show_diff",
    params(
        ("id" = String, Path, description = "The session"),
        ("turn" = Option<TurnId>, Query, description = "Only what this turn changed, as it was when the turn ended")
    ),
    responses(
        (status = 404, description = "No such session, or that turn changed nothing"),
        (status = 200, content((Diff = "application/json"), (String = "text/x-diff"))),
        (status = 503, description = "The workspace cannot be read"),
    )
)]
pub(crate) async fn diff(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(part): Params<Part>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let diff = match part.turn {
        Some(turn) => sessions.turn_diff(session, turn).await?,
        None => sessions.diff(session).await?,
    };
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
    request_body = Option<DeliverSession>,
    responses(
        (status = 200, body = Delivery),
        (status = 409, description = "Nothing to deliver, or what looks like a secret"),
        (status = 422, description = "The push was refused"),
    )
)]
pub(crate) async fn deliver(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
    Optional(body): Optional<DeliverSession>,
) -> Result<Json<Delivery>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Deliver, Resource::Session(session))?;
    let request = body.unwrap_or_default();
    Ok(Json(sessions.deliver_with(session, made.cause(caller.0), request).await?))
}
