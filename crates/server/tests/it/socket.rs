//! Events over a WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::client::{get, send};
use crate::world::World;

type Socket = WebSocketStream<TcpStream>;

async fn connect(
    world: &World,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<(Socket, Option<String>), u16> {
    let mut request = format!("ws://{}{path}", world.address).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(world.address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, response)) => {
            let protocol = response.headers().get("sec-websocket-protocol");
            Ok((socket, protocol.map(|value| value.to_str().unwrap().to_owned())))
        }
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// The next event; pings are answered by the library on the way.
async fn next(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await.expect("the socket is open").unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The code that the server closes with.
async fn closed(socket: &mut Socket) -> CloseCode {
    loop {
        if let Message::Close(frame) = socket.next().await.expect("a close comes first").unwrap() {
            return frame.unwrap().code;
        }
    }
}

#[tokio::test]
async fn a_socket_replays_then_follows_then_closes_with_the_server() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}/socket?after=1", world.session().await);
    let (mut socket, protocol) =
        connect(&world, &path, &[("sec-websocket-protocol", "slipway.v1")]).await.unwrap();
    assert_eq!(protocol.as_deref(), Some("slipway.v1"));
    let first = next(&mut socket).await;
    assert_eq!((&first["seq"], &first["type"]), (&2.into(), &"prompt.queued".into()));
    while next(&mut socket).await["type"] != "live" {}

    socket.send(Message::text("rubbish that is ignored")).await.unwrap();
    socket.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
    while next(&mut socket).await["type"] != "ping" {}

    let (closed, ()) = tokio::join!(closed(&mut socket), world.stop());
    assert_eq!(closed, CloseCode::Away);
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_socket() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}/socket", world.session().await);
    let (mut socket, _) = connect(&world, &path, &[]).await.unwrap();
    socket.send(Message::text("x".repeat(1024 * 1024 + 1))).await.unwrap();
    assert_eq!(closed(&mut socket).await, CloseCode::Size);
}

#[tokio::test]
async fn a_socket_is_refused_like_any_request() {
    let world = World::start_with_token("tell-nobody").await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/socket");
    assert_eq!(connect(&world, &path, &[]).await.unwrap_err(), 401);
    let bearer = ("authorization", "Bearer tell-nobody");
    let foreign = [bearer, ("origin", "http://evil.example")];
    assert_eq!(connect(&world, &path, &foreign).await.unwrap_err(), 403);
    let nowhere = "/api/v1/sessions/ses_00000000000000000000000001/socket";
    assert_eq!(connect(&world, nowhere, &[bearer]).await.unwrap_err(), 404);
    let plain = send(world.address, get(&path).header(bearer.0, bearer.1), "").await;
    assert_eq!(plain.problem(), "bad_request");

    let offer = [("sec-websocket-protocol", "slipway.v1, slipway.token.tell-nobody")];
    let (mut socket, protocol) = connect(&world, &path, &offer).await.unwrap();
    assert_eq!(protocol.as_deref(), Some("slipway.v1"));
    assert_eq!(next(&mut socket).await["type"], "session.created");
}
