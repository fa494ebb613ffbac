//! After a restore there are other events under the numbers that a client has. Over every kind of stream it is told, begins
//! again, and ends with what the log has. A session whose log is gone is damaged, and the others are as they were.

use std::path::{Path, PathBuf};

use http_body_util::BodyExt;
use protocol::{Actor, SessionId};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::client::{Answer, get, open, post, send};
use crate::wire::{Socket, connect};
use crate::world::World;

const FORMS: [&str; 3] = ["application/json", "text/event-stream", "application/x-ndjson"];

/// What a client has of a session.
struct Has {
    lineage: String,
    events: Vec<Value>,
}

async fn page(world: &World, session: SessionId) -> Has {
    let events = get(&format!("/api/v1/sessions/{session}/events?limit=1000")).header("accept", FORMS[0]);
    let page = send(world.address, events, "").await.json();
    Has {
        lineage: page["lineage"].as_str().unwrap().to_owned(),
        events: page["events"].as_array().unwrap().clone(),
    }
}

async fn prompted(world: &World, session: SessionId, text: &str) {
    world.sessions.prompt(session, Actor::user("local"), text.to_owned()).await.unwrap();
    world.settled(session).await;
}

fn path(session: SessionId, kind: &str, after: usize, lineage: &str) -> String {
    format!("/api/v1/sessions/{session}/{kind}?after={after}&lineage={lineage}")
}

/// Everything that a socket tells up to `live`, without who is there.
async fn until_live(socket: &mut Socket) -> Vec<Value> {
    let mut told = vec![socket.next().await];
    while told.last().unwrap()["type"] != "live" {
        told.push(socket.next().await);
    }
    told
}

/// What a stream over plain HTTP tells up to `live`, which ends with its line.
async fn text_until_live(world: &World, request: hyper::http::request::Builder) -> String {
    let answer = open(world.address, request, "").await;
    assert_eq!(answer.status().as_u16(), 200);
    let (mut body, mut text) = (answer.into_body(), String::new());
    let is_live = |line: &str| line.ends_with('\n') && line.contains(r#""type":"live""#);
    while !text.split_inclusive('\n').any(is_live) {
        let chunk = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

/// The ids of a text of server-sent events.
fn ids(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect()
}

async fn keyed(world: &World, session: SessionId, key: &str) -> Answer {
    let request = post(&format!("/api/v1/sessions/{session}/prompts")).header("idempotency-key", key);
    let answer = send(world.address, request, json!({ "prompt": key }).to_string()).await;
    assert_eq!(answer.status.as_u16(), 202, "{answer:?}");
    answer
}

/// Moves the directory of a log away.
fn move_away(log: &Path, to: &Path) {
    std::fs::rename(log.parent().unwrap(), to.join("gone")).unwrap();
}

async fn backup(world: &World, to: &Path) -> PathBuf {
    let body = open(world.address, get("/api/v1/backup"), "").await.into_body();
    let file = to.join("backup.tar");
    std::fs::write(&file, body.collect().await.unwrap().to_bytes()).unwrap();
    file
}

async fn restore(world: &World, file: &Path) -> Value {
    let request = hyper::Request::put("/api/v1/backup").header("content-type", "application/x-tar");
    send(world.address, request, std::fs::read(file).unwrap()).await.json()
}

/// A session that was saved, went on, was lost, put back, and went on in another way: what a client had, and what there is.
async fn restored(space: &Path) -> (World, SessionId, Has, Has, usize) {
    let world = World::start().await;
    let session = world.session().await;
    world.settled(session).await;
    let file = backup(&world, space).await;
    let saved = page(&world, session).await.events.len();
    prompted(&world, session, "before the loss").await;
    let had = page(&world, session).await;
    let world = world.again(session, |log| move_away(log, space)).await;
    let report = restore(&world, &file).await;
    assert_eq!(report["sessions"], json!([session]), "{report}");
    for text in ["after the restore", "and once more"] {
        prompted(&world, session, text).await;
    }
    let now = page(&world, session).await;
    assert_eq!(had.events[..saved], now.events[..saved], "what was saved is the same");
    assert_ne!(had.events[saved], now.events[saved]);
    assert_eq!(now.events[saved]["type"], "session.restored");
    assert_eq!(now.events[saved]["data"]["lineage"], now.lineage.as_str());
    assert!(had.events.len() < now.events.len() && had.lineage != now.lineage);
    (world, session, had, now, saved)
}

#[tokio::test]
async fn who_resumes_after_a_restore_is_told_and_begins_again() {
    let space = tempfile::tempdir().unwrap();
    let (world, session, had, now, saved) = restored(space.path()).await;
    let shown = send(world.address, get(&format!("/api/v1/sessions/{session}")), "").await.json();
    assert_eq!(shown["lineage"], now.lineage.as_str());
    let wrong = |problem: &Value| {
        let expected = (&json!("other_lineage"), &json!(416));
        assert_eq!((&problem["code"], &problem["status"]), expected, "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("after event 0"), "{problem}");
    };
    for after in [saved + 1, had.events.len()] {
        for form in FORMS {
            let resumed = get(&path(session, "events", after, &had.lineage)).header("accept", form);
            let answer = send(world.address, resumed, "").await;
            assert_eq!(answer.problem(), "other_lineage", "{form}");
            wrong(&answer.json());
        }
        // A browser sends the address again, with the number of the last event.
        let resumed =
            get(&path(session, "events", 0, &had.lineage)).header("last-event-id", after.to_string());
        assert_eq!(send(world.address, resumed, "").await.problem(), "other_lineage");

        let resumed = path(session, "socket", after, &had.lineage);
        let mut socket = connect(world.address, &resumed, &[]).await.unwrap().0;
        let told = socket.next().await;
        assert_eq!((&told["type"], &told["session"]), (&json!("unsubscribed"), &json!(session)), "{told}");
        wrong(&told["data"]["problem"]);
        assert_eq!(socket.closed().await, (CloseCode::Library(4009), "other_lineage".to_owned()));

        let mut many = connect(world.address, "/api/v1/socket", &[]).await.unwrap().0;
        let mut subscribe = json!({ "type": "subscribe", "session": session, "after": after });
        subscribe["lineage"] = json!(had.lineage);
        many.say(subscribe).await;
        let told = many.next().await;
        assert_eq!(told["type"], "unsubscribed", "{told}");
        wrong(&told["data"]["problem"]);
        many.say(json!({ "type": "subscribe", "session": session })).await;
        let told = until_live(&mut many).await;
        assert_eq!(
            (&told[0]["type"], &told[0]["data"]["lineage"]),
            (&json!("subscribed"), &json!(now.lineage))
        );
        assert_eq!(told[1..told.len() - 1], now.events, "the connection goes on, from the beginning");
    }
    world.stop().await;
}

#[tokio::test]
async fn who_has_what_was_saved_goes_on_with_what_there_is() {
    let space = tempfile::tempdir().unwrap();
    let (world, session, had, now, saved) = restored(space.path()).await;
    // Up to the end of the backup the two are one; with the lineage of now any place will do; and some do not know it.
    let end = now.events.len();
    let sound = [(saved, &had.lineage), (1, &had.lineage), (saved + 1, &now.lineage), (end, &now.lineage)];
    for (after, lineage) in sound {
        let resumed = path(session, "socket", after, lineage);
        let told = until_live(&mut connect(world.address, &resumed, &[]).await.unwrap().0).await;
        assert_eq!(told[0]["data"]["lineage"], now.lineage.as_str());
        assert_eq!(told[1..told.len() - 1], now.events[after..]);
        for form in FORMS {
            let resumed = get(&path(session, "events", after, lineage)).header("accept", form);
            let answer = open(world.address, resumed, "").await;
            assert_eq!(answer.status().as_u16(), 200);
            assert_eq!(answer.headers()["slipway-lineage"], now.lineage.as_str(), "{form}");
        }
    }
    let older = format!("/api/v1/sessions/{session}/events?after={end}");
    let older = send(world.address, get(&older).header("accept", FORMS[0]), "").await;
    assert_eq!((older.status.as_u16(), &older.json()["events"]), (200, &json!([])));
    let rubbish = get(&path(session, "events", 1, "rubbish")).header("accept", FORMS[0]);
    assert_eq!(send(world.address, rubbish, "").await.problem(), "bad_request");
    world.stop().await;
}

#[tokio::test]
async fn a_browser_that_connects_again_is_told_of_a_restore() {
    let space = tempfile::tempdir().unwrap();
    let (world, session, had, now, saved) = restored(space.path()).await;
    // It cannot change its address, nor read headers: it sends the last `id` that it saw.
    let plain = format!("/api/v1/sessions/{session}/events");
    let resume = |address: &str, id: String| get(address).header("last-event-id", id);
    for after in [saved + 1, had.events.len()] {
        let lost = || resume(&plain, format!("{after}@{}", had.lineage));
        // A stream would have no end to wait for.
        assert_eq!(open(world.address, lost(), "").await.status().as_u16(), 416);
        assert_eq!(send(world.address, lost(), "").await.problem(), "other_lineage");
    }
    let told = ids(&text_until_live(&world, resume(&plain, format!("{saved}@{}", had.lineage))).await);
    let expected: Vec<String> =
        (saved + 1..=now.events.len()).map(|seq| format!("{seq}@{}", now.lineage)).collect();
    assert_eq!(told, expected, "what was saved is the same");
    // The address may have a lineage from before; what it saw since then counts.
    let older = path(session, "events", 1, &had.lineage);
    let last = told.last().unwrap().clone();
    assert_eq!(ids(&text_until_live(&world, resume(&older, last)).await), Vec::<String>::new());
    world.stop().await;
}

#[tokio::test]
async fn live_tells_the_lineage_in_every_form() {
    let world = World::start().await;
    let session = world.session().await;
    world.settled(session).await;
    let lineage = page(&world, session).await.lineage;
    for form in &FORMS[1..] {
        let events = get(&format!("/api/v1/sessions/{session}/events")).header("accept", *form);
        let text = text_until_live(&world, events).await;
        let live = text.lines().find(|line| line.contains(r#""type":"live""#)).unwrap();
        let live: Value = serde_json::from_str(live.trim_start_matches("data: ")).unwrap();
        assert_eq!(live["data"]["lineage"], lineage.as_str(), "{form} {live}");
    }
    world.stop().await;
}

#[tokio::test]
async fn what_a_restored_log_does_not_have_is_done_when_it_is_sent_again() {
    let space = tempfile::tempdir().unwrap();
    let world = World::start().await;
    let (session, other) = (world.session().await, world.session().await);
    let before = keyed(&world, session, "before").await.json();
    for session in [session, other] {
        world.settled(session).await;
    }
    let file = backup(&world, space.path()).await;
    let after = keyed(&world, session, "after").await.json();
    let elsewhere = keyed(&world, other, "after").await.json();
    for session in [session, other] {
        world.settled(session).await;
    }
    let world = world.again(session, |log| move_away(log, space.path())).await;
    let report = restore(&world, &file).await;
    assert_eq!(report["sessions"], json!([session]), "{report}");

    for (session, key, answer) in [(session, "before", before), (other, "after", elsewhere)] {
        let again = keyed(&world, session, key).await;
        assert_eq!((again.header("idempotency-replayed"), again.json()), (Some("true"), answer), "{key}");
    }
    let anew = keyed(&world, session, "after").await;
    assert_eq!(anew.header("idempotency-replayed"), None, "it is not in the log: {anew:?}");
    assert_ne!(anew.json()["id"], after["id"]);
    let again = keyed(&world, session, "after").await;
    assert_eq!((again.header("idempotency-replayed"), again.json()), (Some("true"), anew.json()));
    let events = page(&world, session).await.events;
    let queued = |id: &Value| {
        events
            .iter()
            .filter(|event| event["type"] == "prompt.queued" && event["data"]["prompt"] == *id)
            .count()
    };
    assert_eq!((queued(&after["id"]), queued(&anew.json()["id"])), (0, 1));
    world.stop().await;
}

#[tokio::test]
async fn a_session_whose_log_is_gone_is_damaged_and_the_others_are_not() {
    let world = World::start().await;
    let (gone, sound) = (world.session().await, world.session().await);
    for session in [gone, sound] {
        world.settled(session).await;
    }
    let world = world.again(gone, |log| std::fs::remove_file(log).unwrap()).await;
    let shown = send(world.address, get(&format!("/api/v1/sessions/{gone}")), "").await;
    assert_eq!(shown.status.as_u16(), 200, "{shown:?}");
    let shown = shown.json();
    assert_eq!(shown["status"], "failed", "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("log.db is damaged: it is missing"), "{shown}");
    let listed = send(world.address, get("/api/v1/sessions"), "").await.json();
    let listed = |id: SessionId| {
        let rows = listed["sessions"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == json!(id)).unwrap_or_else(|| panic!("{id} {rows:?}")).clone()
    };
    assert_eq!((&listed(gone)["status"], &listed(gone)["reason"]), (&json!("failed"), &shown["reason"]));
    assert_ne!(listed(sound)["reason"], shown["reason"]);

    let damage = |problem: &Value| {
        assert_eq!(problem["code"], "storage_damaged", "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("slipway restore"), "{problem}");
    };
    for form in FORMS {
        let events = get(&format!("/api/v1/sessions/{gone}/events")).header("accept", form);
        damage(&send(world.address, events, "").await.json());
    }
    let socket = connect(world.address, &format!("/api/v1/sessions/{gone}/socket"), &[]).await;
    damage(&socket.unwrap().0.next().await["data"]["problem"]);
    let prompts = post(&format!("/api/v1/sessions/{gone}/prompts"));
    damage(&send(world.address, prompts, r#"{"prompt":"more"}"#).await.json());

    prompted(&world, sound, "go on").await;
    let nobody = get(&format!("/api/v1/sessions/{}", SessionId::new()));
    assert_eq!(send(world.address, nobody, "").await.problem(), "not_found");
    world.stop().await;
}
