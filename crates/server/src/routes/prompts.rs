//! `/sessions/{id}/prompts` and `/sessions/{id}/queue`: more work for a session, and what of it waits.

use axum::extract::State;
use axum::http::StatusCode;
use protocol::{Code, CreatePrompt, EditPrompt, Problem, PromptCreated, PromptId, Queue, SetQueue};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json, Segments, session_id};
use crate::idempotency::Made;
use crate::problem::Failure;

/// Queues a prompt; a turn works on it when those before it are finished. With `now` it goes before all others that
/// wait and the turn under way is stopped for it, in one step; of several of these the latest is the first.
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
    made: Made,
    Json(body): Json<CreatePrompt>,
) -> Result<(StatusCode, axum::Json<PromptCreated>), Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    let id = made.prompt();
    // A server that died may have queued it already, and even have worked on it.
    if !(made.again() && sessions.has_prompt(session, id).await?) {
        sessions.send_as(id, session, caller.0, body).await?;
    }
    let waits = sessions.out_of_budget(session).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(PromptCreated { id, waits })))
}

/// Gives a waiting prompt another text, another place, or both.
#[utoipa::path(
    patch, path = "/api/v1/sessions/{id}/prompts/{prompt}", tag = "sessions", operation_id = "edit_prompt",
    params(
        ("id" = String, Path, description = "The session"),
        ("prompt" = String, Path, description = "The prompt")
    ),
    request_body = EditPrompt,
    responses(
        (status = 200, body = Queue),
        (status = 404, description = "No such session or prompt"),
        (status = 409, description = "Its turn has begun, or it was removed"),
    )
)]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Segments((id, prompt)): Segments<(String, String)>,
    made: Made,
    Json(body): Json<EditPrompt>,
) -> Result<axum::Json<Queue>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    let prompt = prompt_id(&prompt)?;
    Ok(axum::Json(sessions.edit_prompt(session, made.cause(caller.0), prompt, body).await?))
}

/// Takes a waiting prompt out of the queue. One that was taken out before is no error.
#[utoipa::path(
    delete, path = "/api/v1/sessions/{id}/prompts/{prompt}", tag = "sessions", operation_id = "remove_prompt",
    params(
        ("id" = String, Path, description = "The session"),
        ("prompt" = String, Path, description = "The prompt")
    ),
    responses(
        (status = 200, body = Queue),
        (status = 404, description = "No such session or prompt"),
        (status = 409, description = "Its turn has begun"),
    )
)]
pub(crate) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Segments((id, prompt)): Segments<(String, String)>,
    made: Made,
) -> Result<axum::Json<Queue>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    let prompt = prompt_id(&prompt)?;
    Ok(axum::Json(sessions.remove_prompt(session, made.cause(caller.0), prompt).await?))
}

/// Shows the prompts that wait, the next one first.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/queue", tag = "sessions", operation_id = "show_queue",
    params(("id" = String, Path, description = "The session")),
    responses((status = 200, body = Queue))
)]
pub(crate) async fn queue(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
) -> Result<axum::Json<Queue>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(axum::Json(sessions.queue(session).await?))
}

/// Pauses the queue, so that nothing that waits begins, or lets it go on. What is under way is not touched.
#[utoipa::path(
    put, path = "/api/v1/sessions/{id}/queue", tag = "sessions", operation_id = "set_queue",
    params(("id" = String, Path, description = "The session")),
    request_body = SetQueue,
    responses((status = 200, body = Queue))
)]
pub(crate) async fn set_queue(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
    Json(body): Json<SetQueue>,
) -> Result<axum::Json<Queue>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    Ok(axum::Json(sessions.set_queue(session, made.cause(caller.0), body).await?))
}

/// The prompt of the path. What cannot be a prompt's id is a prompt that does not exist.
fn prompt_id(text: &str) -> Result<PromptId, Problem> {
    text.parse().map_err(|error: protocol::id::ParseIdError| {
        Problem::new(Code::NotFound, error.to_string()).hint("`slipway queue` lists the prompts that wait")
    })
}
