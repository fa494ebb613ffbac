//! `/hooks/{forge}`: what forges tell by themselves. A forge has no token of ours, so this is outside the door; what lets it in
//! is the signature of each request, which is looked at before anything else of it.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Router, http};
use protocol::HookTaken;

use crate::app::App;
use crate::extract::{self, Room};
use crate::problem::{Failure, internal};

/// The one route that is outside the door.
pub(crate) fn routes(app: App) -> Router {
    Router::new().route("/api/v1/hooks/{forge}", post(take)).with_state(app)
}

/// Takes a webhook of a forge: GitHub, GitLab, Gitea or Forgejo. It is let in by its signature; no token is needed.
#[utoipa::path(
    post, path = "/api/v1/hooks/{forge}", tag = "forges", operation_id = "take_webhook",
    params(("forge" = String, Path, description = "The forge's name in the configuration")),
    request_body = Object,
    responses(
        (status = 200, body = HookTaken),
        (status = 401, description = "It is not signed with the forge's secret"),
        (status = 404, description = "No forge of this name takes webhooks"),
        (status = 409, description = "Another webhook came under the same name, or the same is being worked on"),
        (status = 413, description = "The body is too large"),
    )
)]
pub(crate) async fn take(
    State(app): State<App>,
    Path(forge): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<HookTaken>), Failure> {
    let body = extract::read_body(&headers, body, Room::of_webhook()).await?;
    let sessions = app.unguarded().clone();
    // Forges wait for seconds only. What was begun is brought to its end for the next time they ask.
    let work = app.life().tasks.spawn(async move {
        let header = |name: &str| header(&headers, name);
        sessions.forge_hook(&forge, &header, &body).await
    });
    let taken = work.await.map_err(|error| {
        tracing::error!(%error, "a webhook broke off");
        internal()
    })??;
    Ok((StatusCode::OK, Json(taken)))
}

/// A header that came once and is plain text.
fn header(headers: &http::HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.to_owned();
    values.next().is_none().then_some(value)
}
