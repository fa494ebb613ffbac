//! `/backup`: everything in one archive, made while the sessions go on; and an archive put back.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use protocol::{Problem, RestoreReport};
use tokio::io::AsyncWriteExt;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::problem::{Failure, bad_request, internal};

/// How long an answer waits for the beginning of an archive. Something between us and the client may wait for an answer not
/// much longer.
const BEGINNING: Duration = Duration::from_secs(10);

/// Gives an archive of all sessions, environments and mirrors. It ends with a manifest; without one it broke off.
#[utoipa::path(
    get, path = "/api/v1/backup", tag = "server", operation_id = "backup",
    responses(
        (status = 200, description = "A tar archive", content_type = "application/x-tar"),
        (status = 507, description = "There is no room in the data directory to make one")
    )
)]
pub(crate) async fn backup(State(app): State<App>, caller: Caller) -> Result<Response, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Backup)?;
    let mut pieces = sessions.backup().await?;
    // What keeps an archive from being begun, such as a full disk, can be told only before the answer is.
    let first = match tokio::time::timeout(BEGINNING, pieces.recv()).await {
        Ok(Some(Ok(piece))) => Some(Ok(piece)),
        Ok(Some(Err(problem))) => return Err(problem.into()),
        Ok(None) => return Err(internal().into()),
        Err(_) => None,
    };
    let rest = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        if piece.is_err() {
            // The connection ends with it: first goes what it has, so that the client knows that there was an answer.
            tokio::task::yield_now().await;
        }
        Some((piece, pieces))
    });
    let pieces = stream::iter(first).chain(rest);
    let headers = [
        (header::CONTENT_TYPE, "application/x-tar"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"slipway-backup.tar\""),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Adds what is in an archive and not here yet; what is here is left alone. An archive that is not whole is refused.
#[utoipa::path(
    put, path = "/api/v1/backup", tag = "server", operation_id = "restore",
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = RestoreReport), (status = 400, description = "It is not a whole archive"))
)]
pub(crate) async fn restore(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Json<RestoreReport>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Backup)?.clone();
    let space = sessions.restore_space()?;
    let archive = space.path().join("archive.tar");
    receive(request.into_body(), &archive).await?;
    // It goes on to its end whether or not the client waits for it.
    let work = app.life().tasks.spawn(async move {
        let restored = sessions.restore(&archive).await;
        drop(space);
        restored
    });
    match work.await {
        Ok(report) => Ok(Json(report?)),
        Err(error) => {
            tracing::error!(%error, "a restore was broken off");
            Err(internal().into())
        }
    }
}

async fn receive(body: Body, to: &std::path::Path) -> Result<(), Problem> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::StorageFull => {
            Problem::new(protocol::Code::StorageFull, "the disk of the data directory is full")
                .hint("an archive needs its own size and what it holds; free some space and try again")
        }
        _ => {
            tracing::error!(%error, path = %to.display(), "an archive could not be received");
            internal()
        }
    };
    let mut file = tokio::fs::File::create_new(to).await.map_err(failed)?;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| bad_request("the connection broke in the middle of the archive"))?;
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)
}
