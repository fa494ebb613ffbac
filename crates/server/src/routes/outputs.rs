//! `GET /sessions/{id}/outputs/{name}`: an output that was too long for the log, as it was printed, or an image.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::stream;
use protocol::ImageKind;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Segments, session_id};
use crate::problem::{Failure, internal};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// Gives a kept output, named by `blob` in an item's output, or an image, named by `name` in `images`.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/outputs/{name}", tag = "sessions", operation_id = "show_output",
    params(
        ("id" = String, Path, description = "The session"),
        ("name" = String, Path, description = "The name in the item's `blob`, or of an image")
    ),
    responses((status = 200, content(
        (String = "text/plain; charset=utf-8"),
        (Vec<u8> = "image/png"),
        (Vec<u8> = "image/jpeg"),
        (Vec<u8> = "image/gif"),
        (Vec<u8> = "image/webp"),
    )))
)]
pub(crate) async fn output(
    State(app): State<App>,
    caller: Caller,
    Segments((id, name)): Segments<(String, String)>,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let path = sessions.blob(session, &name).await?;
    let failed = |error: std::io::Error| {
        tracing::error!(%error, path = %path.display(), "an output cannot be read");
        internal()
    };
    let file = File::open(&path).await.map_err(failed)?;
    let length = file.metadata().await.map_err(failed)?.len();
    let kind = ImageKind::named(&name).map_or("text/plain; charset=utf-8", ImageKind::media_type);
    let headers = [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_LENGTH, length.to_string())];
    // The file may grow while it is read; the length that was announced is what is sent.
    Ok((headers, Body::from_stream(chunks(file.take(length)))).into_response())
}

fn chunks(reader: impl AsyncReadExt + Unpin) -> impl stream::Stream<Item = std::io::Result<bytes::Bytes>> {
    stream::try_unfold(reader, |mut reader| async move {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let read = reader.read_buf(&mut buffer).await?;
        Ok((read > 0).then(|| (buffer.freeze(), reader)))
    })
}
