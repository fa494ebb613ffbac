//! `/sessions/{id}/pull-request` and `/sessions/{id}/bundle`: the pull request beside its branch, and the branch itself.

use axum::Json;
use axum::body::Body as ResponseBody;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::stream;
use protocol::{EditPullRequest, PromptCreated, PullRequest};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Params, Segments, session_id};
use crate::idempotency::Made;
use crate::problem::{Failure, internal};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// Which repository is meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Of {
    /// The directory of the workspace that the repository lies in.
    #[serde(default)]
    repository: Option<String>,
}

/// Shows the session's pull request as the forge has it now, with the forge's checks.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/pull-request", tag = "sessions", operation_id = "show_pull_request",
    params(
        ("id" = String, Path, description = "The session"),
        ("repository" = Option<String>, Query, description = "Which of several repositories: the directory it lies in"),
    ),
    responses(
        (status = 200, body = PullRequest),
        (status = 409, description = "The session has none"),
        (status = 422, description = "The forge refused"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(of): Params<Of>,
) -> Result<Json<PullRequest>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.pull_request(session, of.repository.as_deref()).await?))
}

/// Gives it another title or body, makes it a draft or ready, adds labels and reviewers, says something below it, or closes it.
#[utoipa::path(
    patch, path = "/api/v1/sessions/{id}/pull-request", tag = "sessions", operation_id = "edit_pull_request",
    params(
        ("id" = String, Path, description = "The session"),
        ("repository" = Option<String>, Query, description = "Which of several repositories: the directory it lies in"),
    ),
    request_body = EditPullRequest,
    responses(
        (status = 200, body = PullRequest),
        (status = 409, description = "The session has none"),
        (status = 422, description = "The forge refused"),
    )
)]
pub(crate) async fn edit(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(of): Params<Of>,
    made: Made,
    Body(body): Body<EditPullRequest>,
) -> Result<Json<PullRequest>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Deliver, Resource::Session(session))?;
    let (cause, of) = (made.cause(caller.0), of.repository.as_deref());
    Ok(Json(sessions.edit_pull_request(session, cause, of, body).await?))
}

/// Queues a turn that brings the branch up to date with its base; what does not merge by itself is the agent's to resolve.
#[utoipa::path(
    post, path = "/api/v1/sessions/{id}/rebase", tag = "sessions", operation_id = "rebase_session",
    params(("id" = String, Path, description = "The session")),
    responses((status = 201, body = PromptCreated))
)]
pub(crate) async fn rebase(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    made: Made,
) -> Result<(StatusCode, Json<PromptCreated>), Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Prompt, Resource::Session(session))?;
    let id = made.prompt();
    if !(made.again() && sessions.has_prompt(session, id).await?) {
        sessions.rebase(session, caller.0, id).await?;
    }
    let waits = sessions.queue(session).await?.waits;
    Ok((StatusCode::CREATED, Json(PromptCreated { id, waits })))
}

/// Gives the session's commits as a git bundle, with the session's branch and nothing else.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/bundle", tag = "sessions", operation_id = "show_bundle",
    params(
        ("id" = String, Path, description = "The session"),
        ("repository" = Option<String>, Query, description = "Which of several repositories: the directory it lies in"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/x-git-bundle"),
        (status = 409, description = "The session has no commits of its own"),
    )
)]
pub(crate) async fn bundle(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(of): Params<Of>,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let bundle = sessions.bundle(session, of.repository.as_deref()).await?;
    let failed = |error: std::io::Error| {
        tracing::error!(%error, "a bundle cannot be read");
        internal()
    };
    let file = File::open(bundle.path()).await.map_err(failed)?;
    let length = file.metadata().await.map_err(failed)?.len();
    let headers = [
        (header::CONTENT_TYPE, "application/x-git-bundle".to_owned()),
        (header::CONTENT_LENGTH, length.to_string()),
    ];
    // The directory goes when the last of it was sent.
    let parts = stream::try_unfold((file, bundle), |(mut file, bundle)| async move {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let read = file.read_buf(&mut buffer).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (buffer.freeze(), (file, bundle))))
    });
    Ok((headers, ResponseBody::from_stream(parts)).into_response())
}
