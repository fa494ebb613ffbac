//! `POST /sessions/{id}/approvals/{approval}`: a person decides. No turn asks for approval yet, so every approval is
//! an unknown one; the route stands because it is part of the contract.

use axum::extract::State;
use protocol::{ApprovalId, Code, Problem};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Segments, session_id};
use crate::problem::Failure;

/// Decides an approval.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/approvals/{approval}", tag = "sessions", operation_id = "resolve_approval",
    params(
        ("id" = String, Path, description = "The session"),
        ("approval" = String, Path, description = "The approval")
    ),
    responses((status = 404, description = "No such session or approval"))
)]
pub(crate) async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Segments((id, approval)): Segments<(String, String)>,
) -> Result<(), Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Approve, Resource::Session(session))?;
    sessions.get(session).await?;
    let title = match approval.parse::<ApprovalId>() {
        Ok(approval) => format!("session {session} has no approval {approval}"),
        Err(error) => error.to_string(),
    };
    Err(Problem::new(Code::NotFound, title).into())
}
