//! `GET /sessions/{id}/socket`: the session's events over a WebSocket. Commands go over REST; what a client sends
//! here only shows that it lives.

use std::pin::pin;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseCode, CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_util::StreamExt;
use protocol::{Ephemeral, EphemeralBody, Problem, SessionId};
use serde::Deserialize;
use serde_json::Value;
use session::Feed;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;

use super::events::frames;
use crate::access::WEBSOCKET_PROTOCOL;
use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::{Params, Segments, session_id};
use crate::problem::{Failure, bad_request};

/// Time between pings.
const PING: Duration = Duration::from_secs(20);
/// A client that leaves this many pings unanswered is gone.
const UNANSWERED: u8 = 2;
/// A client that does not take a message for this long is gone; it comes back with `after`.
const STALL: Duration = Duration::from_secs(10);
/// How long the client's part of a close may take.
const CLOSE: Duration = Duration::from_secs(1);
/// Largest message from a client.
const MAX_INBOUND: usize = 1024 * 1024;
/// Clients send next to nothing, so the buffer that each connection keeps is small.
const READ_BUFFER: usize = 4 * 1024;

/// Where to begin.
#[derive(Debug, Deserialize)]
pub(crate) struct Position {
    after: Option<u64>,
}

/// Opens a WebSocket that replays the events after `after` and then follows; each text message is one event.
///
/// The subprotocol is `slipway.v1`. A browser, which cannot set headers here, offers its token as a second subprotocol,
/// `slipway.token.TOKEN`. The server pings every 20 seconds and answers `{"type":"ping"}` with a `ping` event.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/socket", tag = "sessions", operation_id = "open_socket",
    params(
        ("id" = String, Path, description = "The session"),
        ("after" = Option<u64>, Query, description = "Number of the last event the client has; 0 for all"),
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "slipway.v1, and slipway.token.TOKEN where needed")
    ),
    responses((status = 101, description = "Switched to WebSocket"))
)]
pub(crate) async fn socket(
    State(app): State<App>,
    caller: Caller,
    Segments(id): Segments<String>,
    Params(position): Params<Position>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let session = session_id(&id)?;
    let sessions = app.allow(&caller, Action::Read, Resource::Session(session))?;
    let upgrade = upgrade.map_err(|rejection| {
        bad_request(format!("this route speaks WebSocket: {}", rejection.body_text()))
            .hint(format!("/api/v1/sessions/{session}/events has the same events over plain HTTP"))
    })?;
    // Taken before the upgrade, so that an unknown session is a problem like anywhere else.
    let feed = sessions.feed(session, position.after.unwrap_or(0)).await?;
    let stop = app.life().stop.clone();
    let alive = app.life().tasks.token();
    Ok(upgrade
        .protocols([WEBSOCKET_PROTOCOL])
        .max_message_size(MAX_INBOUND)
        .max_frame_size(MAX_INBOUND)
        .read_buffer_size(READ_BUFFER)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a WebSocket was not opened"))
        .on_upgrade(move |socket| async move {
            let reason = follow(socket, session, feed, stop).await;
            tracing::debug!(%session, ?reason, "a WebSocket ended");
            drop(alive);
        }))
}

/// Why a WebSocket ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The client closed it, or its connection broke.
    Client,
    /// The client sent what it must not.
    Misuse,
    /// The client left pings unanswered or did not take what it was sent.
    Gone,
    /// The server ends.
    Shutdown,
    /// The events cannot be read.
    Problem(Problem),
}

impl End {
    /// What the client is told; nothing when nobody listens.
    fn close(&self) -> Option<(CloseCode, &'static str)> {
        match self {
            Self::Client | Self::Gone => None,
            Self::Misuse => Some((close_code::SIZE, "messages to the server may have 1 MiB at most")),
            Self::Shutdown => Some((close_code::AWAY, "the server is shutting down")),
            Self::Problem(problem) => Some((close_code::ERROR, problem.code.as_str())),
        }
    }
}

async fn follow(mut socket: WebSocket, session: SessionId, feed: Feed, stop: CancellationToken) -> End {
    let end = pump(&mut socket, session, feed, stop).await;
    if let Some((code, reason)) = end.close() {
        let frame = CloseFrame { code, reason: reason.into() };
        let goodbye = async {
            if socket.send(Message::Close(Some(frame))).await.is_ok() {
                while let Some(Ok(_)) = socket.recv().await {}
            }
        };
        if timeout(CLOSE, goodbye).await.is_err() {
            tracing::debug!(%session, "a client did not answer the close of its WebSocket");
        }
    }
    end
}

async fn pump(socket: &mut WebSocket, session: SessionId, feed: Feed, stop: CancellationToken) -> End {
    let mut frames = pin!(frames(feed));
    let mut pulse = Pulse::default();
    let mut ticks = interval_at(Instant::now() + PING, PING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            () = stop.cancelled() => return End::Shutdown,
            _ = ticks.tick() => match pulse.beat() {
                Beat::Ping => Message::Ping(Default::default()),
                Beat::GiveUp => return End::Gone,
            },
            inbound = socket.recv() => match inbound {
                None | Some(Ok(Message::Close(_))) => return End::Client,
                Some(Err(error)) if is_too_large(&error) => return End::Misuse,
                Some(Err(_)) => return End::Client,
                Some(Ok(message)) => {
                    pulse.heard();
                    match message {
                        Message::Text(text) if is_ping(&text) => Message::text(pong(session)),
                        _ => continue,
                    }
                }
            },
            frame = frames.next() => match frame {
                Some(Ok(frame)) => Message::text(&*frame.json),
                Some(Err(problem)) => return End::Problem(problem),
                None => return End::Shutdown,
            },
        };
        match timeout(STALL, socket.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Client,
            Err(_) => return End::Gone,
        }
    }
}

/// Counts the pings that nobody answered.
#[derive(Debug, Default)]
struct Pulse {
    unanswered: u8,
}

#[derive(Debug, PartialEq, Eq)]
enum Beat {
    Ping,
    GiveUp,
}

impl Pulse {
    /// It is time for a ping.
    fn beat(&mut self) -> Beat {
        if self.unanswered >= UNANSWERED {
            return Beat::GiveUp;
        }
        self.unanswered += 1;
        Beat::Ping
    }

    /// The client sent something.
    fn heard(&mut self) {
        self.unanswered = 0;
    }
}

/// Whether a message of the client asks for a sign of life.
fn is_ping(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|message| message["type"] == "ping")
}

fn pong(session: SessionId) -> String {
    // The value is two short strings, so this cannot fail.
    serde_json::to_string(&Ephemeral::new(session, EphemeralBody::Ping {})).unwrap_or_default()
}

fn is_too_large(error: &axum::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(tungstenite::Error::Capacity(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_unanswered_pings_are_the_end() {
        let mut pulse = Pulse::default();
        assert_eq!([pulse.beat(), pulse.beat(), pulse.beat()], [Beat::Ping, Beat::Ping, Beat::GiveUp]);
        pulse.heard();
        assert_eq!(pulse.beat(), Beat::Ping);
    }

    #[test]
    fn only_a_ping_is_understood() {
        assert!(is_ping(r#"{"type":"ping"}"#));
        assert!(is_ping(r#"{"type":"ping","id":7}"#));
        for other in ["", "ping", r#"{"type":"prompt"}"#, r#"["ping"]"#] {
            assert!(!is_ping(other), "{other}");
        }
        let session = SessionId::from_u128(1);
        let answer: Ephemeral = serde_json::from_str(&pong(session)).unwrap();
        assert_eq!(answer, Ephemeral::new(session, EphemeralBody::Ping {}));
    }
}
