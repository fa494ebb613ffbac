//! `/environments/{name}/…`: the image, sandboxes that are kept ready, and what of the network is open; and `/gc`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::{
    AllowEgress, CollectGarbage, EgressStatus, GarbageReport, ImageStatus, NoteEgress, WarmStatus,
};

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Json as Body, Segments};
use crate::idempotency::Made;
use crate::problem::Failure;

/// Shows how far an environment's image is, with the steps of its last build.
#[utoipa::path(
    get, path = "/api/v1/environments/{name}/image", tag = "environments", operation_id = "show_image",
    params(("name" = String, Path, description = "The environment")),
    responses((status = 200, body = ImageStatus))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<Json<ImageStatus>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Environment(&name))?;
    Ok(Json(sessions.image(&name).await?))
}

/// Starts a build of an environment's image, from what is cached as far as possible.
#[utoipa::path(
    post, path = "/api/v1/environments/{name}/build", tag = "environments", operation_id = "build_image",
    params(("name" = String, Path, description = "The environment")),
    responses((status = 202, body = ImageStatus))
)]
pub(crate) async fn build(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<(StatusCode, Json<ImageStatus>), Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Environment(&name))?;
    Ok((StatusCode::ACCEPTED, Json(sessions.build(&name).await?)))
}

/// Makes a sandbox ready, because somebody is about to ask for one.
#[utoipa::path(
    post, path = "/api/v1/environments/{name}/warm", tag = "environments", operation_id = "warm_environment",
    params(("name" = String, Path, description = "The environment")),
    responses((status = 202, body = WarmStatus))
)]
pub(crate) async fn warm(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<(StatusCode, Json<WarmStatus>), Failure> {
    let sessions = app.allow(&caller, Action::Prompt, Resource::Environment(&name))?;
    Ok((StatusCode::ACCEPTED, Json(sessions.warm(&name).await?)))
}

/// Shows what of the network an environment's sandboxes can reach, and what they were refused.
#[utoipa::path(
    get, path = "/api/v1/environments/{name}/egress", tag = "environments", operation_id = "show_egress",
    params(("name" = String, Path, description = "The environment")),
    responses((status = 200, body = EgressStatus))
)]
pub(crate) async fn egress(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
) -> Result<Json<EgressStatus>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Environment(&name))?;
    Ok(Json(sessions.egress(&name).await?))
}

/// Takes up what was decided for a sandbox of a command, which has a proxy of its own.
#[utoipa::path(
    post, path = "/api/v1/environments/{name}/egress/decisions", tag = "environments",
    operation_id = "note_egress",
    params(("name" = String, Path, description = "The environment")),
    request_body = NoteEgress,
    responses((status = 200, body = EgressStatus))
)]
pub(crate) async fn note_egress(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    made: Made,
    Body(body): Body<NoteEgress>,
) -> Result<Json<EgressStatus>, Failure> {
    let sessions = app.allow(&caller, Action::Prompt, Resource::Environment(&name))?;
    Ok(Json(sessions.note_egress(&name, &body.decisions, made.command()).await?))
}

/// Allows more of the network, from the next connection on, also in sandboxes that run.
#[utoipa::path(
    post, path = "/api/v1/environments/{name}/egress", tag = "environments", operation_id = "allow_egress",
    params(("name" = String, Path, description = "The environment")),
    request_body = AllowEgress,
    responses(
        (status = 200, body = EgressStatus),
        (status = 409, description = "It is written in the configuration file"),
    )
)]
pub(crate) async fn allow(
    State(app): State<App>,
    caller: Caller,
    Segments(name): Segments<String>,
    made: Made,
    Body(body): Body<AllowEgress>,
) -> Result<Json<EgressStatus>, Failure> {
    let sessions = app.allow(&caller, Action::Write, Resource::Environment(&name))?;
    Ok(Json(sessions.allow_as(made.command(), &name, body.allow).await?))
}

/// Removes what nothing refers to and what is over the disk's budget, or only says what it would remove.
#[utoipa::path(
    post, path = "/api/v1/gc", tag = "server", operation_id = "collect_garbage",
    request_body = CollectGarbage,
    responses((status = 200, body = GarbageReport))
)]
pub(crate) async fn collect(
    State(app): State<App>,
    caller: Caller,
    Body(body): Body<CollectGarbage>,
) -> Result<Json<GarbageReport>, Failure> {
    let action = if body.dry_run { Action::Read } else { Action::Remove };
    let sessions = app.allow(&caller, action, Resource::Server)?;
    Ok(Json(sessions.collect_garbage(body.dry_run).await?))
}
