//! The routes, one file for each kind of thing. Paths are written out in full, here and in the descriptions beside
//! the handlers; a test compares the two.

pub(crate) mod approvals;
pub(crate) mod backup;
pub(crate) mod environments;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod forge_hooks;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod logins;
pub(crate) mod me;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod openapi;
pub(crate) mod outputs;
pub(crate) mod page;
pub(crate) mod prompts;
pub(crate) mod pull_request;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod socket;
pub(crate) mod spend;
pub(crate) mod statistics;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, patch, post, put};

use crate::app::App;
use crate::idempotency::{Commands, Holds, commands};

/// The routes that need sessions.
pub(crate) fn sessions_api(app: App) -> Router {
    let keys =
        Commands { store: app.store().clone(), tasks: app.life().tasks.clone(), holds: Holds::default() };
    let api = Router::new()
        .route("/api/v1/sessions", get(sessions::list).post(sessions::create))
        .route("/api/v1/sessions/{id}", get(sessions::show).patch(sessions::edit))
        .route("/api/v1/sessions/{id}/prompts", post(prompts::create))
        .route("/api/v1/sessions/{id}/prompts/{prompt}", patch(prompts::edit).delete(prompts::remove))
        .route("/api/v1/sessions/{id}/queue", get(prompts::queue).put(prompts::set_queue))
        .route("/api/v1/sessions/{id}/stop", post(sessions::stop))
        .route("/api/v1/sessions/{id}/diff", get(sessions::diff))
        .route("/api/v1/sessions/{id}/egress", get(sessions::egress))
        .route("/api/v1/sessions/{id}/delivery", get(sessions::preview))
        .route("/api/v1/sessions/{id}/deliver", post(sessions::deliver))
        .route("/api/v1/sessions/{id}/pull-request", get(pull_request::show).patch(pull_request::edit))
        .route("/api/v1/sessions/{id}/bundle", get(pull_request::bundle))
        .route("/api/v1/sessions/{id}/rebase", post(pull_request::rebase))
        .route("/api/v1/sessions/{id}/approvals/{approval}", post(approvals::resolve))
        .route("/api/v1/sessions/{id}/events", get(events::events))
        .route("/api/v1/sessions/{id}/outputs/{name}", get(outputs::output))
        .route("/api/v1/sessions/{id}/files", get(files::list))
        .route("/api/v1/sessions/{id}/file", get(files::show))
        .route("/api/v1/sessions/{id}/snapshots", get(snapshots::list))
        .route("/api/v1/sessions/{id}/fork", post(snapshots::fork))
        .route("/api/v1/environments", get(environments::list))
        .route(
            "/api/v1/environments/{name}",
            get(environments::show).put(environments::put).delete(environments::remove),
        )
        .route("/api/v1/environments/{name}/check", post(environments::check))
        .route("/api/v1/environments/{name}/image", get(images::show))
        .route("/api/v1/environments/{name}/build", post(images::build))
        .route("/api/v1/environments/{name}/warm", post(images::warm))
        .route("/api/v1/environments/{name}/egress", get(images::egress).post(images::allow))
        .route("/api/v1/environments/{name}/egress/decisions", post(images::note_egress))
        .route("/api/v1/gc", post(images::collect))
        .route("/api/v1/models", get(models::list))
        .route("/api/v1/models/{name}/test", post(models::test))
        .route("/api/v1/settings", get(settings::show))
        .route("/api/v1/spend", get(spend::show))
        .route("/api/v1/statistics", get(statistics::show))
        .route("/api/v1/me", get(me::show))
        .route("/api/v1/memory", get(memory::list).post(memory::remember))
        .route("/api/v1/memory/search", get(memory::search))
        .route("/api/v1/memory/{id}", get(memory::show).patch(memory::edit).delete(memory::remove))
        .route("/api/v1/secrets", get(secrets::list))
        .route("/api/v1/secrets/{name}", delete(secrets::remove))
        .route("/api/v1/logins", get(logins::list))
        .route("/api/v1/logins/{forge}", delete(logins::remove))
        .route("/api/v1/logins/{forge}/device", post(logins::begin))
        .route("/api/v1/logins/{forge}/device/{attempt}", post(logins::go_on))
        .layer(from_fn_with_state(keys, commands))
        // A checksum of what was sent is kept with a key, which is too much of a secret; and setting it twice is setting it.
        .route("/api/v1/secrets/{name}", put(secrets::set))
        .route("/api/v1/logins/{forge}", put(logins::set))
        // An archive is larger than a command's body may be, and putting the same one back twice adds nothing.
        .route("/api/v1/backup", get(backup::backup).put(backup::restore))
        .with_state(app.clone());
    // Commands over a WebSocket take the same way.
    api.clone().merge(socket::routes(app, api))
}
