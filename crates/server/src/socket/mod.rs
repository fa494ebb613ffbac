//! One WebSocket: events of many sessions out, commands in, terminals both ways. One task has all of it; nothing in it
//! waits for a session, a command or the client while the others have something to do.

mod client;
mod commands;
#[cfg(feature = "echo")]
pub(crate) mod echo;
mod outbox;
mod pulse;
mod subscriptions;
mod terminals;

use std::pin::pin;
use std::time::Duration;

use axum::extract::ws::{CloseCode, CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use futures_util::FutureExt;
use protocol::Problem;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::CancellationToken;

pub(crate) use self::client::Client;
use self::outbox::{Io, Outbox};
use self::pulse::{Beat, Pulse};
use crate::patience::STALL;

/// Time between pings.
const PING: Duration = Duration::from_secs(20);
/// How long the client's part of a close may take.
const CLOSE: Duration = Duration::from_secs(1);
/// Largest message from a client.
pub(crate) const MAX_INBOUND: usize = 1024 * 1024;
/// What may wait to be sent. Events do not count: they are taken from the log as the client takes them.
const MAX_WAITING: usize = 1024 * 1024;
/// Clients send little, so the buffer that each connection keeps is small.
const READ_BUFFER: usize = 2 * 1024;
/// Each message is handed to the connection at once, which collects them until they are flushed: a buffer up here would be
/// kept by every WebSocket for as long as it is open.
const WRITE_BUFFER: usize = 0;
/// Things that are collected before they are sent together.
const BATCH: usize = 64;
/// The code of a close for more than is allowed.
const OVER_LIMIT: CloseCode = 4008;
/// The code of a close because what the client asked for is not there.
const REFUSED: CloseCode = 4009;

/// How every WebSocket is set up.
pub(crate) fn settings(upgrade: WebSocketUpgrade, max_inbound: usize) -> WebSocketUpgrade {
    upgrade
        .max_message_size(max_inbound)
        .max_frame_size(max_inbound)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
}

/// Why a WebSocket ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client closed it, or its connection broke.
    Client,
    /// The client sent what it must not.
    Misuse(CloseCode, &'static str),
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
            Self::Misuse(code, reason) => Some((*code, reason)),
            Self::Shutdown => Some((close_code::AWAY, "the server is shutting down")),
            Self::Problem(problem) if problem.status < 500 => Some((REFUSED, problem.code.as_str())),
            Self::Problem(problem) => Some((close_code::ERROR, problem.code.as_str())),
        }
    }
}

/// Serves a WebSocket to its end.
pub(crate) async fn serve(socket: &mut WebSocket, mut client: Box<Client>, stop: &CancellationToken) -> End {
    let mut outbox = Outbox::new();
    let end = pump(socket, &mut outbox, &mut client, stop).await;
    drop(client);
    // What was read before it broke is the client's, and so is the reason.
    if let End::Problem(_) = end {
        let rest = Box::pin(send_rest(socket, &mut outbox));
        if stop.run_until_cancelled(rest).await.is_none() {
            tracing::debug!("the server ends before a client has taken the reason");
        }
    }
    // The end is boxed, so that a WebSocket that is open takes no room for it.
    Box::pin(say_goodbye(socket, &end)).await;
    end
}

/// Sends what waits, for as long as the client takes some of it.
async fn send_rest(socket: &mut WebSocket, outbox: &mut Outbox) {
    while let Some(since) = outbox.stuck_since() {
        match timeout_at(since + STALL, outbox.io(socket)).await {
            Ok(Io::Sent | Io::Received(Some(Ok(_)))) => {}
            Ok(Io::Broken | Io::Received(_)) | Err(_) => return,
        }
    }
}

/// The closing handshake, as far as the client takes part in it.
async fn say_goodbye(socket: &mut WebSocket, end: &End) {
    if *end == End::Gone {
        return;
    }
    let goodbye = async {
        if let Some((code, reason)) = end.close() {
            let frame = CloseFrame { code, reason: reason.into() };
            if socket.send(Message::Close(Some(frame))).await.is_err() {
                return;
            }
        }
        // Reading on also sends the answer to the client's own close.
        while let Some(Ok(_)) = socket.recv().await {}
    };
    if timeout(CLOSE, goodbye).await.is_err() {
        tracing::debug!("a client did not answer the close of its WebSocket");
    }
}

async fn pump(
    socket: &mut WebSocket,
    outbox: &mut Outbox,
    client: &mut Client,
    stop: &CancellationToken,
) -> End {
    let mut pulse = Pulse::default();
    let mut ping_at = Instant::now() + PING;
    let mut timer = pin!(sleep_until(ping_at));
    let mut stopped = pin!(stop.cancelled());
    loop {
        let wake_at = outbox.stuck_since().map_or(ping_at, |since| ping_at.min(since + STALL));
        // Later is seen to when the timer rings, so that a busy connection does not set it for each message.
        if wake_at < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(wake_at);
        }
        let has_room = outbox.has_room();
        tokio::select! {
            () = &mut stopped => return End::Shutdown,
            () = &mut timer => {
                let now = Instant::now();
                if outbox.stuck_since().is_some_and(|since| now >= since + STALL) {
                    return End::Gone;
                }
                if now >= ping_at {
                    match pulse.beat() {
                        Beat::Ping => outbox.push(Message::Ping(Default::default())),
                        Beat::GiveUp => return End::Gone,
                    }
                    ping_at = now + PING;
                }
            }
            io = outbox.io(socket) => match io {
                Io::Sent => {}
                Io::Broken | Io::Received(None | Some(Ok(Message::Close(_)))) => return End::Client,
                Io::Received(Some(Err(error))) => return misuse(&error),
                Io::Received(Some(Ok(message))) => {
                    pulse.heard();
                    if let Err(end) = client.hear(message, outbox) {
                        return end;
                    }
                }
            },
            Some(news) = client.next(), if has_room => {
                if let Err(end) = client.tell(news, outbox) {
                    return end;
                }
                // What else is there already goes with it.
                for _ in 1..BATCH {
                    if !outbox.has_room() {
                        break;
                    }
                    let Some(Some(news)) = client.next().now_or_never() else { break };
                    if let Err(end) = client.tell(news, outbox) {
                        return end;
                    }
                }
            }
        }
        if outbox.owed() > MAX_WAITING {
            return End::Misuse(OVER_LIMIT, "more than 1 MiB waits for you; connect again, with after");
        }
    }
}

/// What is wrong with what came.
fn misuse(error: &axum::Error) -> End {
    use tungstenite::Error;
    match std::error::Error::source(error).and_then(|cause| cause.downcast_ref()) {
        Some(Error::Capacity(_)) => {
            End::Misuse(close_code::SIZE, "messages to the server may have 1 MiB at most")
        }
        Some(Error::Utf8(_)) => End::Misuse(close_code::INVALID, "text must be UTF-8"),
        Some(Error::Protocol(_)) => End::Misuse(close_code::PROTOCOL, "this is not WebSocket"),
        _ => End::Client,
    }
}
