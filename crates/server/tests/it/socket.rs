//! One WebSocket: events, commands, people and limits.

use protocol::SessionId;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::client::{get, open, post, send};
use crate::wire::{Socket, connect};
use crate::world::World;

const MANY: &str = "/api/v1/socket";

async fn many(world: &World) -> Socket {
    connect(world.address, MANY, &[]).await.unwrap().0
}

async fn subscribe(socket: &mut Socket, session: SessionId, after: u64) {
    socket.say(json!({ "type": "subscribe", "session": session, "after": after })).await;
    socket.until_of(session, "subscribed").await;
}

#[tokio::test]
async fn a_socket_replays_then_follows_then_closes_with_the_server() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}/socket?after=1", world.session().await);
    let (mut socket, protocol) =
        connect(world.address, &path, &[("sec-websocket-protocol", "slipway.v1")]).await.unwrap();
    assert_eq!(protocol.as_deref(), Some("slipway.v1"));
    let begun = socket.next().await;
    assert_eq!(begun["type"], "subscribed");
    assert!(begun["data"]["lineage"].as_str().unwrap().starts_with("lin_"), "{begun}");
    let first = socket.next().await;
    assert_eq!((&first["seq"], &first["type"]), (&2.into(), &"prompt.queued".into()));
    socket.until("live").await;

    socket.say_text("rubbish").await;
    let error = socket.until("error").await;
    assert_eq!(error["data"]["problem"]["code"], "bad_request", "{error}");
    socket.say(json!({ "type": "ping" })).await;
    assert_eq!(socket.until("ping").await["session"], first["session"]);

    let (closed, ()) = tokio::join!(socket.closed(), world.stop());
    assert_eq!(closed.0, CloseCode::Away);
}

#[tokio::test]
async fn one_socket_follows_many_sessions() {
    let world = World::start().await;
    let (one, other) = (world.session().await, world.session().await);
    let mut socket = many(&world).await;
    subscribe(&mut socket, one, 0).await;
    let live = socket.until("live").await;
    assert_eq!(live["session"], json!(one));

    // The second one is replayed from the middle, and both are followed.
    subscribe(&mut socket, other, 1).await;
    let first = socket.next_of(other).await;
    assert_eq!(first["seq"], 2, "{first}");
    socket.until_of(other, "live").await;
    for session in [one, other] {
        let body = r#"{"prompt":"more"}"#;
        send(world.address, post(&format!("/api/v1/sessions/{session}/prompts")), body).await;
        socket.until_of(session, "prompt.queued").await;
    }

    socket.say(json!({ "type": "unsubscribe", "session": one })).await;
    assert_eq!(socket.until_of(one, "unsubscribed").await["data"], json!({}));
    send(world.address, post(&format!("/api/v1/sessions/{one}/prompts")), r#"{"prompt":"unheard"}"#).await;
    socket.say(json!({ "type": "ping" })).await;
    while let message = socket.next().await
        && message["type"] != "ping"
    {
        assert_ne!(message["session"], json!(one), "{message}");
    }

    // It can be followed again from where it was left.
    subscribe(&mut socket, one, live["data"]["seq"].as_u64().unwrap()).await;
    let next = socket.next_of(one).await;
    assert_eq!(next["seq"].as_u64(), live["data"]["seq"].as_u64().map(|seq| seq + 1), "{next}");

    let nowhere = SessionId::from_u128(1);
    socket.say(json!({ "type": "subscribe", "session": nowhere })).await;
    let refused = socket.until_of(nowhere, "unsubscribed").await;
    assert_eq!(refused["data"]["problem"]["code"], "not_found", "{refused}");
}

#[tokio::test]
async fn commands_are_answered_like_requests() {
    let world = World::start().await;
    let session = world.session().await;
    let mut socket = many(&world).await;
    let prompt = json!({
        "type": "prompt", "id": "a", "session": session, "prompt": "one more thing", "key": "only-once"
    });
    socket.say(prompt.clone()).await;
    let first = socket.until("reply").await;
    assert_eq!((&first["data"]["id"], &first["data"]["status"]), (&"a".into(), &202.into()), "{first}");
    assert!(first["data"]["result"]["id"].as_str().unwrap().starts_with("prm_"), "{first}");
    socket.say(prompt).await;
    assert_eq!(socket.until("reply").await["data"], first["data"], "the same key does it once");
    let over_http =
        post(&format!("/api/v1/sessions/{session}/prompts")).header("idempotency-key", "only-once");
    let replayed = send(world.address, over_http, r#"{"prompt":"one more thing"}"#).await;
    assert_eq!(replayed.json(), first["data"]["result"], "it is the key of the request");

    // Over two ways at the same time, and written in another manner.
    let (mut other, mut third) = (many(&world).await, many(&world).await);
    let at_once =
        json!({ "type": "prompt", "id": "z", "session": session, "prompt": "both", "key": "at-once" });
    let http = post(&format!("/api/v1/sessions/{session}/prompts")).header("idempotency-key", "at-once");
    let ((), (), answer) = tokio::join!(
        other.say(at_once.clone()),
        third.say(at_once.clone()),
        send(world.address, http, r#"{ "now": false, "prompt": "both" }"#)
    );
    assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
    for socket in [&mut other, &mut third] {
        assert_eq!(socket.until("reply").await["data"]["result"], answer.json());
    }

    socket.say(json!({ "type": "prompt", "id": "b", "session": session, "prompt": "" })).await;
    let refused = socket.until("reply").await;
    assert_eq!(refused["data"]["problem"]["code"], "bad_request", "{refused}");
    socket.say(json!({ "type": "stop", "id": "c", "session": session })).await;
    assert_eq!(socket.until("reply").await["data"]["status"], 202);
    let approve = json!({
        "type": "approve", "id": "d", "session": session,
        "approval": "apr_00000000000000000000000001", "approved": true
    });
    socket.say(approve).await;
    assert_eq!(socket.until("reply").await["data"]["problem"]["code"], "not_found");
    socket.say(json!({ "type": "stop", "id": "e", "session": session, "key": "two words" })).await;
    assert_eq!(socket.until("reply").await["data"]["problem"]["code"], "bad_request");
}

#[tokio::test]
async fn people_see_each_other_and_their_prompts() {
    let world = World::start_with(|options| {
        for name in ["ann", "bob"] {
            options.people.push((name.to_owned(), server::Secret::new(&format!("{name}s")).unwrap()));
        }
    })
    .await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/socket");
    let (mut ann, _) = connect(world.address, &path, &[("authorization", "Bearer anns")]).await.unwrap();
    ann.until("live").await;
    assert_eq!(ann.next().await["data"], json!({ "people": ["ann"] }), "once after `live`");
    let (mut bob, _) = connect(world.address, &path, &[("authorization", "Bearer bobs")]).await.unwrap();
    assert_eq!(ann.until("presence").await["data"]["people"], json!(["ann", "bob"]));
    bob.until("live").await;
    assert_eq!(bob.until("presence").await["data"]["people"], json!(["ann", "bob"]));

    bob.say(json!({ "type": "typing", "session": session })).await;
    assert_eq!(ann.until("typing").await["data"], json!({ "person": "bob" }));
    bob.say(json!({ "type": "prompt", "id": "1", "session": session, "prompt": "from bob" })).await;
    let queued = ann.until("prompt.queued").await;
    assert_eq!(queued["actor"], json!({ "kind": "user", "id": "bob" }), "{queued}");
    bob.say(json!({ "type": "typing", "session": SessionId::from_u128(1) })).await;
    assert_eq!(bob.until("error").await["data"]["problem"]["code"], "conflict");

    drop(bob);
    assert_eq!(ann.until("presence").await["data"]["people"], json!(["ann"]));
    // Other streams count, too.
    let events = get(&format!("/api/v1/sessions/{session}/events"));
    let stream = open(world.address, events.header("accept", "text/event-stream"), "").await;
    assert_eq!(ann.until("presence").await["data"]["people"], json!(["ann", "local"]));
    drop(stream);
    assert_eq!(ann.until("presence").await["data"]["people"], json!(["ann"]));
    let stranger = connect(world.address, &path, &[("authorization", "Bearer eves")]).await;
    assert_eq!(stranger.err(), Some(401));
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_socket() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}/socket", world.session().await);
    let (mut socket, _) = connect(world.address, &path, &[]).await.unwrap();
    socket.say_text(&"x".repeat(1024 * 1024 + 1)).await;
    assert_eq!(socket.closed().await.0, CloseCode::Size);
}

#[tokio::test]
async fn a_flood_ends_the_socket_with_a_reason() {
    let world = World::start().await;
    let mut socket = many(&world).await;
    let sent = socket.flood(json!({ "type": "ping" }), 5000).await;
    let (code, reason) = socket.closed().await;
    assert_eq!(code, CloseCode::Library(4008), "{reason}, after {sent} messages");
    assert!(reason.contains("too many messages"), "{reason}");
    let mut other = many(&world).await;
    other.say(json!({ "type": "ping" })).await;
    other.until("ping").await;
}

#[tokio::test]
async fn a_user_has_so_many_sockets_and_a_socket_so_many_sessions() {
    let world = World::start_with(|options| {
        options.limits.sockets_per_user = 2;
        options.limits.subscriptions_per_socket = 1;
    })
    .await;
    let (one, other) = (world.session().await, world.session().await);
    let mut socket = many(&world).await;
    let second = many(&world).await;
    assert_eq!(connect(world.address, MANY, &[]).await.err(), Some(429));
    let events = get(&format!("/api/v1/sessions/{one}/events")).header("accept", "text/event-stream");
    assert_eq!(send(world.address, events, "").await.problem(), "rate_limited");
    drop(second);
    while connect(world.address, MANY, &[]).await.is_err() {}

    subscribe(&mut socket, one, 0).await;
    socket.say(json!({ "type": "subscribe", "session": other })).await;
    let refused = socket.until_of(other, "unsubscribed").await;
    assert_eq!(refused["data"]["problem"]["code"], "rate_limited", "{refused}");
    subscribe_again(&mut socket, one).await;
}

/// Subscribing to what is followed is no more than before.
async fn subscribe_again(socket: &mut Socket, session: SessionId) {
    socket.say(json!({ "type": "subscribe", "session": session })).await;
    socket.until("subscribed").await;
    assert_eq!(socket.next_of(session).await["seq"], 1, "it begins anew");
}

#[tokio::test]
async fn a_terminal_without_a_sandbox_is_refused_with_the_reason() {
    let world = World::start().await;
    let session = world.session().await;
    let mut socket = many(&world).await;
    let open =
        json!({ "type": "terminal.open", "terminal": 7, "session": session, "columns": 80, "rows": 24 });
    socket.say(open).await;
    let closed = socket.until("terminal.closed").await;
    assert_eq!(closed["data"]["terminal"], 7);
    assert_eq!(closed["data"]["problem"]["code"], "sandbox_unavailable", "{closed}");
    socket.say_bytes(b"\0\0\0\x07ls\n").await;
    assert_eq!(socket.until("error").await["data"]["problem"]["code"], "not_found");
    socket.say_bytes(b"ls").await;
    assert_eq!(socket.until("error").await["data"]["problem"]["code"], "bad_request");
}

#[tokio::test]
async fn a_socket_is_refused_like_any_request() {
    let world = World::start_with_token("tell-nobody").await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/socket");
    for path in [path.as_str(), MANY] {
        assert_eq!(connect(world.address, path, &[]).await.err(), Some(401));
        let bearer = ("authorization", "Bearer tell-nobody");
        let foreign = [bearer, ("origin", "http://evil.example")];
        assert_eq!(connect(world.address, path, &foreign).await.err(), Some(403));
        let plain = send(world.address, get(path).header(bearer.0, bearer.1), "").await;
        assert_eq!(plain.problem(), "bad_request");
    }
    let bearer = ("authorization", "Bearer tell-nobody");
    let nowhere = "/api/v1/sessions/ses_00000000000000000000000001/socket";
    assert_eq!(connect(world.address, nowhere, &[bearer]).await.err(), Some(404));

    let offer = [("sec-websocket-protocol", "slipway.v1, slipway.token.tell-nobody")];
    let (mut socket, protocol) = connect(world.address, &path, &offer).await.unwrap();
    assert_eq!(protocol.as_deref(), Some("slipway.v1"));
    assert_eq!(socket.next().await["type"], "subscribed");
    let first: Value = socket.next().await;
    assert_eq!(first["type"], "session.created");
}

#[tokio::test]
#[ignore = "waits ten seconds for a client that takes nothing"]
async fn who_takes_nothing_is_cut_off_and_costs_the_others_nothing() {
    let world = World::start_with(|options| {
        for name in ["ann", "bob", "cid"] {
            options.people.push((name.to_owned(), server::Secret::new(&format!("{name}s")).unwrap()));
        }
    })
    .await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/socket");
    let (mut ann, _) = connect(world.address, &path, &[("authorization", "Bearer anns")]).await.unwrap();
    let (bob, _) = connect(world.address, &path, &[("authorization", "Bearer bobs")]).await.unwrap();
    let events = get(&format!("/api/v1/sessions/{session}/events")).header("authorization", "Bearer cids");
    let cid = open(world.address, events.header("accept", "text/event-stream"), "").await;
    while ann.until("presence").await["data"]["people"] != json!(["ann", "bob", "cid"]) {}

    // More than the buffers between us and the two can hold.
    const PROMPTS: usize = 64;
    let text = "x".repeat(250 * 1024);
    let asking = async {
        for _ in 0..PROMPTS {
            let prompts = post(&format!("/api/v1/sessions/{session}/prompts"));
            let answer = send(world.address, prompts, json!({ "prompt": text }).to_string()).await;
            assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
        }
    };
    let watching = async {
        let (mut heard, mut people) = (0, Value::Null);
        while heard < PROMPTS || people != json!(["ann"]) {
            let message = ann.next().await;
            match message["type"].as_str().unwrap() {
                "prompt.queued" => heard += 1,
                "presence" => people = message["data"]["people"].clone(),
                _ => {}
            }
        }
    };
    tokio::join!(asking, watching);
    drop((bob, cid));
}

#[tokio::test]
async fn who_follows_the_list_is_told_when_something_in_it_changes() {
    let world = World::start().await;
    let (mut socket, _) = connect(world.address, "/api/v1/socket", &[]).await.unwrap();
    socket.say(json!({ "type": "list.subscribe" })).await;
    assert_eq!(socket.next().await["type"], "list.changed", "it is told once at the beginning");
    world.session().await;
    assert_eq!(socket.until("list.changed").await["type"], "list.changed");
    socket.say(json!({ "type": "list.unsubscribe" })).await;
    // Whatever of it was on its way, the answer to this comes after it, and nothing more of the list.
    socket.say(json!({ "type": "ping" })).await;
    socket.until("ping").await;
    world.session().await;
    socket.say(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await["type"], "ping");
}
