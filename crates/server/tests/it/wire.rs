//! A small WebSocket client for tests.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use protocol::SessionId;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

/// A connection.
#[derive(Debug)]
pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// Connects; the subprotocol that the server chose, or the status of its refusal.
pub(crate) async fn connect(
    to: SocketAddr,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Option<String>), u16> {
    let mut request = format!("ws://{to}{path}").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(to).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, response)) => {
            let protocol = response.headers().get("sec-websocket-protocol");
            Ok((Socket(socket), protocol.map(|value| value.to_str().unwrap().to_owned())))
        }
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

impl Socket {
    pub(crate) async fn say(&mut self, message: Value) {
        self.say_text(&message.to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        self.0.send(Message::binary(bytes.to_vec())).await.unwrap();
    }

    /// Sends so many at once, or until the server ends it; how many that were.
    pub(crate) async fn flood(&mut self, message: Value, count: usize) -> usize {
        let text = message.to_string();
        for sent in 0..count {
            if self.0.feed(Message::text(&text)).await.is_err() {
                return sent;
            }
        }
        drop(self.0.flush().await);
        count
    }

    /// The bare connection.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.0.into_inner()
    }

    /// The next message of any kind; None at the end. Pings are answered by the library on the way.
    pub(crate) async fn receive(&mut self) -> Option<Message> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Ping(_) | Message::Pong(_) => {}
                other => return Some(other),
            }
        }
    }

    /// The next text.
    pub(crate) async fn next(&mut self) -> Value {
        match self.receive().await.expect("the socket is open") {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The next text of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// The next text about this session.
    pub(crate) async fn next_of(&mut self, session: SessionId) -> Value {
        loop {
            let message = self.next().await;
            if message["session"] == json!(session) {
                return message;
            }
        }
    }

    /// The next text of this type about this session.
    pub(crate) async fn until_of(&mut self, session: SessionId, kind: &str) -> Value {
        loop {
            let message = self.next_of(session).await;
            if message["type"] == kind {
                return message;
            }
        }
    }

    /// The code and the reason that the server closes with.
    pub(crate) async fn closed(&mut self) -> (CloseCode, String) {
        loop {
            match self.0.next().await.expect("a close comes first") {
                Ok(Message::Close(frame)) => {
                    let frame = frame.unwrap();
                    return (frame.code, frame.reason.to_string());
                }
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}
