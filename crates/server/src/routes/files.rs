//! `/sessions/{id}/files` and `/sessions/{id}/file`: the workspace, to be looked at.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use protocol::{FileList, FileState, ImageKind};
use serde::Deserialize;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Params, Segments, session_id};
use crate::problem::Failure;

/// Which file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    #[serde(default)]
    path: String,
    #[serde(default)]
    at: FileState,
}

/// Lists a directory of the workspace: of the sandbox while there is one, else of the work as it was kept.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/files", tag = "sessions", operation_id = "list_files",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = Option<String>, Query, description = "The directory, from the root of the workspace"),
        ("at" = Option<FileState>, Query, description = "`base` for the commit that the session began from"),
    ),
    responses((status = 200, body = FileList), (status = 404, description = "No such session or directory"))
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(which): Params<Which>,
) -> Result<Json<FileList>, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    Ok(Json(sessions.files(session, &which.path, which.at).await?))
}

/// Gives a file of the workspace. Text is `text/plain` whatever is in it, so that no browser takes it for a page.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/file", tag = "sessions", operation_id = "show_file",
    params(
        ("id" = String, Path, description = "The session"),
        ("path" = String, Query, description = "The file, from the root of the workspace"),
        ("at" = Option<FileState>, Query, description = "`base` for the commit that the session began from"),
    ),
    responses(
        (status = 200, content(
            (String = "text/plain; charset=utf-8"),
            (Vec<u8> = "image/png"),
            (Vec<u8> = "application/octet-stream"),
        )),
        (status = 404, description = "No such session or file"),
        (status = 413, description = "The file is larger than what is read"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(which): Params<Which>,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let bytes = sessions.file(session, &which.path, which.at).await?;
    Ok(([(header::CONTENT_TYPE, media_type(&bytes))], bytes).into_response())
}

/// What a browser is told that these bytes are.
fn media_type(bytes: &[u8]) -> &'static str {
    if let Some(kind) = ImageKind::of(bytes) {
        return kind.media_type();
    }
    if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_drawings_are_text() {
        for text in ["", "<html><script>1</script>", "<svg onload=\"x\"/>", "gr\u{fc}n"] {
            assert_eq!(media_type(text.as_bytes()), "text/plain; charset=utf-8", "{text}");
        }
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n\0"), "image/png");
        for other in [&b"a\0b"[..], b"\xff\xfe"] {
            assert_eq!(media_type(other), "application/octet-stream");
        }
    }
}
