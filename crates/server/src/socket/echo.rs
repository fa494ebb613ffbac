//! A WebSocket that sends back what it is sent, set up and served like every other one. Conformance suites need it; it
//! is in no build that people use.

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::any;
use tokio::net::TcpListener;

use super::outbox::{Io, Outbox};
use super::{End, misuse, say_goodbye, settings};
use crate::listen;

/// The suites send messages of up to 16 MiB.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Serves echoes until the process ends.
pub(crate) async fn run(listener: TcpListener) {
    let routes = Router::new().route("/", any(upgrade));
    listen::run(listener, routes, listen::Life::default(), std::future::pending::<()>()).await;
}

async fn upgrade(upgrade: WebSocketUpgrade) -> axum::response::Response {
    settings(upgrade, MAX_MESSAGE).on_upgrade(|mut socket| async move {
        let end = echo(&mut socket).await;
        say_goodbye(&mut socket, &end).await;
    })
}

async fn echo(socket: &mut WebSocket) -> End {
    let mut outbox = Outbox::new();
    loop {
        match outbox.io(socket).await {
            Io::Sent => {}
            Io::Broken | Io::Received(None | Some(Ok(Message::Close(_)))) => return End::Client,
            Io::Received(Some(Err(error))) => return misuse(&error),
            Io::Received(Some(Ok(message @ (Message::Text(_) | Message::Binary(_))))) => outbox.push(message),
            Io::Received(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
        }
    }
}
