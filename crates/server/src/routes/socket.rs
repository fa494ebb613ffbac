//! `GET /socket` and `GET /sessions/{id}/socket`: one WebSocket for many sessions, and the same with one that is followed
//! from the start.

use axum::Router;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use axum::routing::get;
use protocol::{Code, LineageId, Problem};
use serde::Deserialize;
use session::Position;

use crate::access::WEBSOCKET_PROTOCOL;
use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Params, Segments, session_id};
use crate::problem::{Failure, bad_request};
use crate::socket::{Client, MAX_INBOUND, serve, settings};

/// What the routes here need.
#[derive(Clone)]
pub(crate) struct Hub {
    app: App,
    /// The routes that commands go to.
    api: Router,
}

/// The routes, whose commands go to `api`.
pub(crate) fn routes(app: App, api: Router) -> Router {
    Router::new()
        .route("/api/v1/socket", get(socket))
        .route("/api/v1/sessions/{id}/socket", get(session_socket))
        .with_state(Hub { app, api })
}

/// Where to begin.
#[derive(Debug, Deserialize)]
pub(crate) struct Begin {
    after: Option<u64>,
    lineage: Option<LineageId>,
}

/// Opens a WebSocket for any number of sessions.
///
/// Text messages are JSON: `ClientMessage` to the server; `Event`, `Ephemeral` and `ServerMessage` from it, told apart by
/// `type`. Binary messages are bytes of terminals: the terminal's number in four bytes, most significant first, and the
/// bytes. A delta stands for whatever the client has of that text from its `offset` on. The subprotocol is `slipway.v1`. A
/// browser, which cannot set headers here, offers its token as a second subprotocol, `slipway.token.TOKEN`.
///
/// The server pings every 20 seconds and gives up after two that nobody answers; it answers `{"type":"ping"}`. A message may
/// have 1 MiB. Too many messages end the connection with code 4008. A client that takes nothing for 10 seconds is cut
/// off; it connects again and subscribes with `after`. A session that cannot be followed, or no further, is told by
/// `unsubscribed` with the problem, as when `after` is beyond its last event (`after_end`, with the real end as `last_seq`).
/// `subscribed` comes before a session's events and tells the lineage of its log, which a client sends back with `after`. If
/// what it has is of another lineage, as after a restore from a backup, the problem is `other_lineage`: it forgets what it
/// has and subscribes after 0.
#[utoipa::path(
    get, path = "/api/v1/socket", tag = "sessions", operation_id = "open_socket",
    params(
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "slipway.v1, and slipway.token.TOKEN where needed")
    ),
    responses(
        (status = 101, description = "Switched to WebSocket"),
        (status = 429, description = "The user has too many open streams"),
    )
)]
pub(crate) async fn socket(
    State(hub): State<Hub>,
    caller: Caller,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    hub.app.allow(&caller, Action::Read, Resource::Sessions)?;
    let upgrade = upgrade.map_err(|rejection| not_websocket(&rejection))?;
    let seat = hub.app.seat(&caller)?;
    let client = Client::new(hub.app.clone(), hub.api.clone(), caller, seat);
    Ok(open(&hub.app, upgrade, client))
}

/// Opens a WebSocket that replays the events of a session after `after` and then follows, as if it had subscribed.
///
/// Everything else is as at `/api/v1/socket`. If the session's events cannot be read any further, `unsubscribed` says why and
/// the connection ends: with code 4009 if `after` is beyond the last event or of another lineage, and otherwise with 1011.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/socket", tag = "sessions", operation_id = "open_session_socket",
    params(
        ("id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "Number of the last event the client has; 0 for all"),
        ("lineage" = Option<LineageId>, Query, description = "The lineage that the events up to `after` are of"),
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "slipway.v1, and slipway.token.TOKEN where needed")
    ),
    responses(
        (status = 101, description = "Switched to WebSocket"),
        (status = 429, description = "The user has too many open streams"),
    )
)]
pub(crate) async fn session_socket(
    State(hub): State<Hub>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(begin): Params<Begin>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = hub.app.allow(&caller, Action::Read, Resource::Session(session))?;
    let upgrade = upgrade.map_err(|rejection| {
        not_websocket(&rejection)
            .hint(format!("/api/v1/sessions/{session}/events has the same events over plain HTTP"))
    })?;
    let seat = hub.app.seat(&caller)?;
    // Taken before the upgrade, so that an unknown session is a problem like anywhere else.
    let position = Position { after: begin.after.unwrap_or(0), lineage: begin.lineage };
    let feed = sessions.watch(session, position, &caller.0.id).await;
    let client = Client::new(hub.app.clone(), hub.api.clone(), caller, seat);
    let client = match feed {
        Ok(feed) => client.with(session, feed),
        Err(problem) if is_of_the_log(&problem) => client.refused(session, problem),
        Err(problem) => return Err(problem.into()),
    };
    Ok(open(&hub.app, upgrade, client))
}

/// Whether the session is there, and its events are what is wrong.
fn is_of_the_log(problem: &Problem) -> bool {
    matches!(problem.code, Code::AfterEnd | Code::OtherLineage | Code::StorageDamaged | Code::StorageFull)
}

fn not_websocket(rejection: &WebSocketUpgradeRejection) -> Problem {
    bad_request(format!("this route speaks WebSocket: {}", rejection.body_text()))
}

fn open(app: &App, upgrade: WebSocketUpgrade, client: Client) -> Response {
    let client = Box::new(client);
    let stop = app.life().stop.clone();
    let alive = app.life().tasks.token();
    settings(upgrade, MAX_INBOUND)
        .protocols([WEBSOCKET_PROTOCOL])
        .on_failed_upgrade(|error| tracing::debug!(%error, "a WebSocket was not opened"))
        .on_upgrade(move |mut socket| {
            // Boxed, because the task would have room for all of this twice.
            Box::pin(async move {
                let reason = serve(&mut socket, client, &stop).await;
                tracing::debug!(?reason, "a WebSocket ended");
                drop(alive);
            })
        })
}
