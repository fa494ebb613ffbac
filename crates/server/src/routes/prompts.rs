//! `POST /sessions/{id}/prompts`: more work for a session.

use axum::extract::State;
use axum::http::StatusCode;
use protocol::{CreatePrompt, PromptCreated};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json, Segments, session_id};
use crate::problem::Failure;

/// Queues a prompt; a turn works on it when those before it are finished.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/prompts", tag = "sessions", operation_id = "create_prompt",
    params(("id" = String, Path, description = "The session")),
    request_body = CreatePrompt,
    responses((status = 202, body = PromptCreated))
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Json(body): Json<CreatePrompt>,
) -> Result<(StatusCode, axum::Json<PromptCreated>), Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    let id = sessions.prompt(session, caller.0, body.prompt).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(PromptCreated { id })))
}
