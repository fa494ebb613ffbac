//! `POST /sessions/{id}/approvals/{approval}`: a person decides.

use axum::Json;
use axum::extract::State;
use protocol::{ApprovalId, Code, Decide, Decision, Problem};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments, session_id};
use crate::problem::Failure;

/// Decides an approval. Whoever is first decides: the same decision again is answered with the first one. A call that waits
/// runs as it is, runs with other `input`, or does not run; with `all` its whole kind is allowed for the rest of the session.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/approvals/{approval}", tag = "sessions", operation_id = "resolve_approval",
    params(
        ("id" = String, Path, description = "The session"),
        ("approval" = String, Path, description = "The approval")
    ),
    request_body = Decide,
    responses(
        (status = 200, body = Decision),
        (status = 400, description = "It cannot be decided so: no call waits, its input is none, or no rule says what its kind is"),
        (status = 404, description = "No such session or approval"),
        (status = 409, description = "Somebody decided otherwise; the problem says who and what"),
    )
)]
pub(crate) async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Segments((id, approval)): Segments<(String, String)>,
    Body(body): Body<Decide>,
) -> Result<Json<Decision>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Approve, Resource::Session(session))?;
    let approval: ApprovalId = approval.parse().map_err(|error: protocol::id::ParseIdError| {
        Problem::new(Code::NotFound, error.to_string()).hint("`slipway show` says what waits for a decision")
    })?;
    Ok(Json(sessions.decide(session, caller.0, approval, body).await?))
}
