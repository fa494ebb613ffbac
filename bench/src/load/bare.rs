//! The alternative: axum's WebSocket over a broadcast channel for each session. Nothing is kept, nobody can come late.

use std::sync::Arc;

use anyhow::bail;
use axum::Router;
use axum::extract::ws::{Message, Utf8Bytes, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use protocol::{Actor, Event, EventBody, SessionId, Timestamp};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::{Order, Orders, answer, message, stream};

type Channels = Arc<Vec<broadcast::Sender<Utf8Bytes>>>;

/// Messages that a reader may be behind.
const RING: usize = 256;

pub(super) async fn run() -> anyhow::Result<()> {
    let mut orders = Orders::listen();
    let mut channels = Channels::default();
    while let Some(order) = orders.next().await? {
        let result = match order {
            Order::Make { sessions } => {
                channels = Arc::new((0..sessions).map(|_| broadcast::channel(RING).0).collect());
                serve(Arc::clone(&channels)).await
            }
            Order::Stream { rate, seconds } => send(&channels, rate, seconds).await,
            other => bail!("this process cannot do {other:?}"),
        };
        answer(result).await?;
    }
    Ok(())
}

async fn serve(channels: Channels) -> anyhow::Result<Value> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let sockets: Vec<String> = (0..channels.len()).map(|place| format!("ws://{address}/{place}")).collect();
    let router = Router::new().route("/{session}", get(follow)).with_state(channels);
    drop(tokio::spawn(async move { axum::serve(listener, router).await }));
    Ok(json!(sockets))
}

async fn follow(
    State(channels): State<Channels>,
    Path(session): Path<usize>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let mut messages = channels[session].subscribe();
    upgrade.read_buffer_size(4 * 1024).on_upgrade(move |mut socket| async move {
        while let Ok(text) = messages.recv().await {
            if socket.send(Message::Text(text)).await.is_err() {
                return;
            }
        }
    })
}

async fn send(channels: &Channels, rate: u32, seconds: u32) -> anyhow::Result<Value> {
    let shared = Arc::clone(channels);
    let send = move |session: usize, number| {
        let channels = Arc::clone(&shared);
        async move {
            // The same text as an event of ours has.
            let event = Event {
                v: protocol::VERSION,
                session: SessionId::from_u128(session as u128),
                seq: number,
                at: Timestamp::now(),
                actor: Actor::system(),
                body: EventBody::MemoryChanged { text: message(number), remembered: None },
            };
            // An error says only that nobody follows.
            drop(channels[session].send(serde_json::to_string(&event)?.into()));
            // Nothing is kept, so nobody waits for that.
            Ok(0.0)
        }
    };
    Ok(json!(stream(channels.len(), rate, seconds, send).await?))
}
