//! Terminals over a WebSocket, in a real sandbox.

use protocol::SessionId;
use serde_json::{Value, json};
use session::ShutDown;
use tokio_tungstenite::tungstenite::Message;

use crate::wire::{Socket, connect};
use crate::world::World;

/// The number that the client gives its terminal.
const NUMBER: u32 = 70_000;

pub(crate) async fn open(socket: &mut Socket, session: SessionId, name: &str) {
    let open = json!({
        "type": "terminal.open", "terminal": NUMBER, "session": session, "columns": 90, "rows": 33, "name": name
    });
    socket.say(open).await;
    let opened = socket.next().await;
    assert_eq!(
        (&opened["type"], &opened["session"]),
        (&json!("terminal.opened"), &json!(session)),
        "{opened}"
    );
}

pub(crate) async fn write(socket: &mut Socket, line: &str) {
    let mut message = NUMBER.to_be_bytes().to_vec();
    message.extend_from_slice(line.as_bytes());
    message.push(b'\n');
    socket.say_bytes(&message).await;
}

/// Reads until this was printed.
pub(crate) async fn until(socket: &mut Socket, wanted: &str) {
    let mut text = String::new();
    while !text.contains(wanted) {
        match socket.receive().await.expect("the socket is open") {
            Message::Binary(data) => {
                assert_eq!(data[..4], NUMBER.to_be_bytes());
                text.push_str(&String::from_utf8_lossy(&data[4..]));
            }
            other => panic!("{other:?} after {text:?}"),
        }
    }
}

async fn closed(socket: &mut Socket) -> Value {
    loop {
        if let Message::Text(text) = socket.receive().await.expect("the socket is open") {
            let message: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(message["type"], "terminal.closed", "{message}");
            return message["data"].clone();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_goes_on_over_another_connection() {
    let world = World::start_with_sandboxes().await;
    let session = world.session().await;
    let (mut socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
    open(&mut socket, session, "main").await;
    write(&mut socket, "stty size; word=kept").await;
    until(&mut socket, "33 90").await;
    socket.say(json!({ "type": "terminal.resize", "terminal": NUMBER, "columns": 132, "rows": 43 })).await;
    write(&mut socket, "stty size").await;
    until(&mut socket, "43 132").await;
    drop(socket);

    let (mut socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
    open(&mut socket, session, "main").await;
    write(&mut socket, "echo it was $word").await;
    until(&mut socket, "it was kept").await;
    // More than what may wait for a client, and all of it comes.
    write(&mut socket, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo at the $((3 - 2))st end").await;
    until(&mut socket, "at the 1st end").await;
    write(&mut socket, "exit 7").await;
    assert_eq!(closed(&mut socket).await, json!({ "terminal": NUMBER, "exit_code": 7 }));

    open(&mut socket, session, "other").await;
    socket.say(json!({ "type": "terminal.close", "terminal": NUMBER })).await;
    assert!(closed(&mut socket).await["exit_code"].is_i64());
    drop(socket);
    world.sessions.shut_down(ShutDown::RemoveSandboxes).await;
    world.stop().await;
}
