//! Where readers begin and what they are told at the end of a log, the same over every kind of stream.

use http_body_util::BodyExt;
use protocol::SessionId;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::client::{get, open, send};
use crate::wire::{Socket, connect};
use crate::world::World;

const FORMS: [&str; 3] = ["application/json", "text/event-stream", "application/x-ndjson"];

async fn followed(world: &World, session: SessionId, after: u64) -> Socket {
    let path = format!("/api/v1/sessions/{session}/socket?after={after}");
    connect(world.address, &path, &[]).await.unwrap().0
}

#[tokio::test]
async fn who_asks_for_more_than_there_is_is_told_where_the_log_ends() {
    let world = World::start().await;
    let session = world.session().await;
    let last = world.settled(session).await;
    let wrong = |problem: &Value| {
        assert_eq!((&problem["code"], &problem["status"]), (&json!("after_end"), &json!(416)), "{problem}");
        assert_eq!(problem["last_seq"], last, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("from the beginning"), "{problem}");
    };
    for after in [last + 1, u64::MAX] {
        for form in FORMS {
            let events = get(&format!("/api/v1/sessions/{session}/events?after={after}"));
            let answer = send(world.address, events.header("accept", form), "").await;
            assert_eq!(answer.problem(), "after_end", "{form}");
            wrong(&answer.json());
        }
        let resumed = get(&format!("/api/v1/sessions/{session}/events"));
        let resumed = resumed.header("last-event-id", after.to_string());
        assert_eq!(send(world.address, resumed, "").await.problem(), "after_end");

        let mut socket = followed(&world, session, after).await;
        let told = socket.next().await;
        assert_eq!((&told["type"], &told["session"]), (&json!("unsubscribed"), &json!(session)), "{told}");
        wrong(&told["data"]["problem"]);
        assert_eq!(socket.closed().await, (CloseCode::Library(4009), "after_end".to_owned()));

        let mut many = connect(world.address, "/api/v1/socket", &[]).await.unwrap().0;
        many.say(json!({ "type": "subscribe", "session": session, "after": after })).await;
        let told = many.next().await;
        assert_eq!(told["type"], "unsubscribed", "{told}");
        wrong(&told["data"]["problem"]);
        many.say(json!({ "type": "subscribe", "session": session, "after": last })).await;
        assert_eq!(many.next().await["type"], "subscribed", "the connection goes on");
        assert_eq!(many.next().await["data"]["seq"], last, "who has it all waits");
    }
    let page = get(&format!("/api/v1/sessions/{session}/events?after={last}"));
    let page = send(world.address, page.header("accept", "application/json"), "").await.json();
    let lineage = &page["lineage"];
    assert_eq!(page, json!({ "events": [], "next_after": last, "more": false, "lineage": lineage }));
    let mut socket = followed(&world, session, last).await;
    let begun = socket.next().await;
    assert_eq!((&begun["type"], &begun["data"]["lineage"]), (&json!("subscribed"), lineage), "{begun}");
    assert_eq!(socket.next().await["type"], "live");
}

/// The numbers of the events, and what came last.
struct Read {
    numbers: Vec<u64>,
    last: Value,
}

fn read(messages: &[Value]) -> Read {
    Read {
        numbers: messages.iter().filter_map(|message| message["seq"].as_u64()).collect(),
        last: messages.last().unwrap().clone(),
    }
}

/// Each `data` of a stream of server-sent events, or each line, until the server ends it.
async fn streamed(world: &World, path: &str, form: &str) -> Vec<Value> {
    let body = open(world.address, get(path).header("accept", form), "").await.into_body();
    let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let lines = text.lines().filter_map(|line| match form {
        "text/event-stream" => line.strip_prefix("data: "),
        _ => Some(line),
    });
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_damaged_session_is_read_up_to_the_damage_over_every_stream() {
    let world = World::start().await;
    let session = world.session().await;
    world.settled(session).await;
    // More than fits between us and a client at once.
    for _ in 0..12 {
        let text = "x".repeat(100 * 1024);
        world.sessions.prompt(session, protocol::Actor::user("local"), text).await.unwrap();
        world.settled(session).await;
    }
    let whole = world.settled(session).await;
    let text = "here it breaks".to_owned();
    world.sessions.prompt(session, protocol::Actor::user("local"), text.clone()).await.unwrap();
    world.settled(session).await;
    let world = world
        .again(session, |log| {
            let mut bytes = std::fs::read(log).unwrap();
            let place = bytes.windows(text.len()).position(|found| found == text.as_bytes()).unwrap();
            bytes[place] ^= 1;
            std::fs::write(log, bytes).unwrap();
        })
        .await;
    let page = get(&format!("/api/v1/sessions/{session}/events?limit=1000")).header("accept", FORMS[0]);
    let page = send(world.address, page, "").await.json();
    let damaged_at = page["next_after"].as_u64().unwrap() + 1;
    assert!(damaged_at > whole, "{damaged_at} {whole}");
    let sound = |read: &Read, after: u64| {
        assert_eq!(read.numbers, (after + 1..damaged_at).collect::<Vec<_>>(), "{}", read.last);
    };
    let damage = |problem: &Value| {
        assert_eq!(problem["code"], "storage_damaged", "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("slipway restore"), "{problem}");
    };
    for after in [0, damaged_at - 2] {
        let path = format!("/api/v1/sessions/{session}/events?after={after}");
        let lines = read(&streamed(&world, &path, "application/x-ndjson").await);
        sound(&lines, after);
        assert_eq!(lines.last["type"], "problem");
        damage(&lines.last["data"]);
        let events = read(&streamed(&world, &path, "text/event-stream").await);
        sound(&events, after);
        damage(&events.last);

        let mut socket = followed(&world, session, after).await;
        let mut messages = Vec::new();
        while messages.last().is_none_or(|last: &Value| last["type"] != "unsubscribed") {
            messages.push(socket.next().await);
        }
        let told = read(&messages);
        sound(&told, after);
        damage(&told.last["data"]["problem"]);
        assert_eq!(socket.closed().await, (CloseCode::Error, "storage_damaged".to_owned()));

        let mut many = connect(world.address, "/api/v1/socket", &[]).await.unwrap().0;
        many.say(json!({ "type": "subscribe", "session": session, "after": after })).await;
        let mut messages = vec![many.next().await];
        assert_eq!(messages[0]["type"], "subscribed");
        while messages.last().is_some_and(|last| last["type"] != "unsubscribed") {
            messages.push(many.next().await);
        }
        let told = read(&messages);
        sound(&told, after);
        damage(&told.last["data"]["problem"]);
    }
    // Nothing sound is left after that.
    let rest = format!("/api/v1/sessions/{session}/events?after={}", damaged_at - 1);
    for form in FORMS {
        assert_eq!(
            send(world.address, get(&rest).header("accept", form), "").await.problem(),
            "storage_damaged"
        );
    }
    let mut socket = followed(&world, session, damaged_at - 1).await;
    damage(&socket.next().await["data"]["problem"]);
}
