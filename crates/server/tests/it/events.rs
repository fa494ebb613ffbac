//! Events over plain HTTP: pages and streams.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::http::request::Builder;
use serde_json::Value;

use crate::client::{get, open, post, send};
use crate::world::World;

/// One event of a stream.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    id: Option<u64>,
    event: String,
    data: Value,
}

/// A stream that is being read.
struct Stream {
    body: Incoming,
    text: String,
}

impl Stream {
    async fn open(world: &World, request: Builder) -> Self {
        let answer = open(world.address, request, "").await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { body: answer.into_body(), text: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Seen> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let seen = parse(block);
                self.text = rest.to_owned();
                if seen.is_some() {
                    return seen;
                }
            }
            let chunk = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    async fn until(&mut self, event: &str) -> Vec<Seen> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|last: &Seen| last.event != event) {
            seen.push(self.next().await.expect("the stream goes on"));
        }
        seen
    }
}

/// An event from its lines; `None` for a block that has only comments and settings.
fn parse(block: &str) -> Option<Seen> {
    let mut seen = Seen::default();
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => {
                let (seq, lineage) = id.split_once('@').unwrap();
                assert!(lineage.parse::<protocol::LineageId>().is_ok(), "{id}");
                seen.id = Some(seq.parse().unwrap());
            }
            Some(("event", event)) => seen.event = event.to_owned(),
            Some(("data", data)) => seen.data = serde_json::from_str(data).unwrap(),
            _ => {}
        }
    }
    (!seen.event.is_empty()).then_some(seen)
}

#[tokio::test]
async fn a_page_has_the_events_after_a_number() {
    let world = World::start().await;
    let path = format!("/api/v1/sessions/{}/events", world.session().await);
    let json = |query: &str| get(&format!("{path}?{query}")).header("accept", "application/json");
    let first = send(world.address, json("limit=1"), "").await.json();
    assert_eq!(first["events"][0]["type"], "session.created");
    assert_eq!((&first["next_after"], &first["more"]), (&1.into(), &true.into()));
    let second = send(world.address, json("after=1&limit=1"), "").await.json();
    assert_eq!((&second["events"][0]["seq"], &second["next_after"]), (&2.into(), &2.into()));
    for query in ["limit=0", "limit=1001", "after=-1", "after=x"] {
        assert_eq!(send(world.address, json(query), "").await.problem(), "bad_request", "{query}");
    }
}

#[tokio::test]
async fn a_stream_replays_then_follows_then_ends_with_the_server() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/events");
    let mut stream = Stream::open(&world, get(&path)).await;
    let replay = stream.until("live").await;
    assert_eq!((replay[0].id, replay[0].event.as_str()), (Some(1), "session.created"));
    assert_eq!(replay[0].data["type"], "session.created");
    assert_eq!(replay.last().unwrap().id, None);

    let prompts = format!("/api/v1/sessions/{session}/prompts");
    let queued = send(world.address, post(&prompts), r#"{"prompt":"one more thing"}"#).await.json();
    let mut followed = replay;
    loop {
        let seen = stream.next().await.expect("the stream goes on");
        let found = seen.data["data"]["prompt"] == queued["id"] && seen.event == "prompt.queued";
        followed.push(seen);
        if found {
            break;
        }
    }
    let numbers: Vec<u64> = followed.iter().filter_map(|seen| seen.id).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "nothing lost, nothing twice");

    let resumed = get(&format!("{path}?after=0")).header("last-event-id", "1");
    assert_eq!(Stream::open(&world, resumed).await.next().await.unwrap().id, Some(2));

    world.stop().await;
    while stream.next().await.is_some() {}
}

#[tokio::test]
async fn json_lines_have_what_a_stream_has() {
    let world = World::start().await;
    let session = world.session().await;
    let path = format!("/api/v1/sessions/{session}/events");
    let mut stream = Stream::open(&world, get(&path)).await;
    let events: Vec<Value> = stream.until("presence").await.into_iter().map(|seen| seen.data).collect();
    let after = get(&format!("{path}?after=1")).header("accept", "application/x-ndjson");
    let answer = open(world.address, after, "").await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let mut body = answer.into_body();
    let mut text = String::new();
    while !text.contains(r#""type":"presence""#) {
        let chunk = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], events[1], "after the first event");
    let kinds = |frames: &[Value]| frames.iter().map(|frame| frame["type"].clone()).collect::<Vec<_>>();
    let last = kinds(&lines);
    assert_eq!(last[last.len() - 2..], ["live", "presence"]);
    assert!(kinds(&events).contains(&"live".into()));
    world.stop().await;
    while body.frame().await.is_some() {}
}
