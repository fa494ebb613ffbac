use std::collections::HashMap;

use protocol::event::Channel;
use protocol::{Actor, Ephemeral, Event, EventBody, Item, ItemId, ItemKind, ItemStatus, SessionId, TurnId};
use store::Store;

use super::in_flight::IN_FLIGHT;
use super::stream::{DURABLE, FLEETING};
use super::*;
use crate::state::State;

/// A session with an empty log.
async fn session() -> (tempfile::TempDir, Arc<Recorder>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let id = SessionId::new();
    let log = store.create_log(id).await.unwrap();
    let recorder = Recorder::new(log, store, Stream::new(id, State::new(id)));
    (dir, recorder)
}

async fn append(recorder: &Arc<Recorder>, text: &str) {
    let body = EventBody::MemoryChanged { text: text.to_owned(), remembered: None };
    recorder.append(&Actor::system(), vec![body]).await.unwrap();
}

fn feed(recorder: &Arc<Recorder>, after: u64) -> Feed {
    Feed::new(Arc::clone(recorder), after, None, CancellationToken::new())
}

async fn next(feed: &mut Feed) -> Frame {
    feed.next().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_and_live_join_without_a_gap_or_a_double_under_concurrent_appends() {
    const EVENTS: u64 = 600;
    let (_dir, recorder) = session().await;
    append(&recorder, "first").await;
    let writer = {
        let recorder = Arc::clone(&recorder);
        tokio::spawn(async move {
            for n in 2..=EVENTS {
                append(&recorder, &n.to_string()).await;
            }
        })
    };
    // Readers come at different times and from different places; some fall behind the ring.
    let mut readers = Vec::new();
    for reader in 0..8u64 {
        let recorder = Arc::clone(&recorder);
        readers.push(tokio::spawn(async move {
            while recorder.stream().with_state(|state| state.seq()) < reader * 40 {
                tokio::task::yield_now().await;
            }
            let after = reader * 3;
            let mut feed = feed(&recorder, after);
            let (mut expected, mut live) = (after + 1, 0);
            while expected <= EVENTS {
                let frame = next(&mut feed).await;
                match frame.seq {
                    Some(seq) => {
                        assert_eq!(seq, expected);
                        expected += 1;
                    }
                    None => {
                        assert_eq!(frame.kind, "live");
                        live += 1;
                    }
                }
            }
            (live, feed)
        }));
    }
    writer.await.unwrap();
    for reader in readers {
        let (mut live, mut feed) = reader.await.unwrap();
        if live == 0 {
            assert_eq!(next(&mut feed).await.kind, "live");
            live = 1;
        }
        assert_eq!(live, 1, "the live frame comes once");
    }
}

#[tokio::test]
async fn a_reader_that_lags_is_sent_back_to_the_log() {
    let (_dir, recorder) = session().await;
    let mut feed = feed(&recorder, 0);
    assert_eq!(next(&mut feed).await.kind, "live");
    let many = DURABLE as u64 * 2;
    for n in 0..many {
        append(&recorder, &n.to_string()).await;
    }
    for expected in 1..=many {
        assert_eq!(next(&mut feed).await.seq, Some(expected));
    }
}

#[tokio::test]
async fn a_late_reader_gets_the_text_in_flight_with_its_offset() {
    let (_dir, recorder) = session().await;
    let item = ItemId::new();
    let long = "x".repeat(IN_FLIGHT);
    recorder.stream().delta(item, Channel::Text, 0, "lost ".to_owned());
    recorder.stream().delta(item, Channel::Text, 5, long);
    let mut late = feed(&recorder, 0);
    assert_eq!(next(&mut late).await.kind, "live");
    let frame = next(&mut late).await;
    let json: serde_json::Value = serde_json::from_str(&frame.json).unwrap();
    assert_eq!(json["data"]["offset"], 5);
    assert_eq!(json["data"]["text"].as_str().unwrap().len(), IN_FLIGHT);
    // A model call that is made again begins anew.
    recorder.stream().delta(item, Channel::Text, 0, "again".to_owned());
    let mut later = feed(&recorder, 0);
    assert_eq!(next(&mut later).await.kind, "live");
    let json: serde_json::Value = serde_json::from_str(&next(&mut later).await.json).unwrap();
    assert_eq!(json["data"]["text"], "again");
}

#[tokio::test]
async fn the_feed_ends_with_the_server_after_the_last_event() {
    let (_dir, recorder) = session().await;
    let closed = CancellationToken::new();
    let mut feed = Feed::new(Arc::clone(&recorder), 0, None, closed.clone());
    assert_eq!(next(&mut feed).await.kind, "live");
    append(&recorder, "last words").await;
    closed.cancel();
    assert_eq!(next(&mut feed).await.seq, Some(1));
    assert!(feed.next().await.unwrap().is_none());
}

#[tokio::test]
async fn a_reader_learns_that_nothing_can_be_recorded_after_it_has_everything() {
    let (_dir, recorder) = session().await;
    append(&recorder, "first").await;
    let full = Problem::new(protocol::Code::StorageFull, "the disk is full");
    let mut waiting = feed(&recorder, 0);
    assert_eq!(next(&mut waiting).await.seq, Some(1));
    assert_eq!(next(&mut waiting).await.kind, "live");
    recorder.stream().set_trouble(Some(full.clone()));
    assert_eq!(waiting.next().await.unwrap_err(), full);

    let mut late = feed(&recorder, 0);
    assert_eq!(next(&mut late).await.seq, Some(1), "what is in the log can be read");
    assert_eq!(next(&mut late).await.kind, "live");
    assert_eq!(late.next().await.unwrap_err(), full);
    recorder.stream().set_trouble(None);
    let mut later = feed(&recorder, 1);
    assert_eq!(next(&mut later).await.kind, "live");
    append(&recorder, "second").await;
    assert_eq!(next(&mut later).await.seq, Some(2));
}

/// A log whose second event is not as it was written, and which ends well.
async fn damaged_log() -> (tempfile::TempDir, Store, SessionId) {
    let (dir, recorder) = session().await;
    append(&recorder, "first").await;
    append(&recorder, "second").await;
    for _ in 0..12 {
        append(&recorder, "more").await;
    }
    let id = recorder.session();
    drop(recorder);
    let path = dir.path().join("sessions").join(id.to_string()).join("log.db");
    // The file is closed when the last of those who use it is gone.
    while matches!(Store::open(dir.path()), Err(store::Error::Locked(_))) {
        tokio::task::yield_now().await;
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.windows(6).position(|found| found == b"second").unwrap();
    bytes[place] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store, id)
}

#[tokio::test]
async fn damage_is_told_after_what_comes_before_it() {
    let (_dir, store, id) = damaged_log().await;
    // A session in use, as when a kept fold goes beyond the damage.
    let log = store.open_log(id).await.unwrap();
    let recorder = Recorder::new(log, store.clone(), Stream::new(id, State::new(id)));
    let mut feed = self::feed(&recorder, 0);
    assert_eq!(next(&mut feed).await.seq, Some(1));
    for _ in 0..2 {
        let problem = feed.next().await.unwrap_err();
        assert_eq!(problem.code, protocol::Code::StorageDamaged, "{problem}");
        assert!(problem.title.contains("event 2"), "{problem}");
    }

    // One that cannot be opened.
    let damaged = Problem::new(protocol::Code::StorageDamaged, "it cannot be opened");
    let remains = |after| Feed::remains(store.clone(), id, after, damaged.clone(), CancellationToken::new());
    let mut feed = remains(0).await.unwrap();
    assert_eq!(next(&mut feed).await.seq, Some(1));
    assert_eq!(feed.next().await.unwrap_err(), damaged);
    assert_eq!(feed.next().await.unwrap_err(), damaged, "it stays so");
    assert_eq!(remains(1).await.err(), Some(damaged.clone()), "there is nothing to give");
}

fn watch(recorder: &Arc<Recorder>, person: &str) -> Feed {
    Feed::new(Arc::clone(recorder), 0, Some(person.to_owned()), CancellationToken::new())
}

/// What is there without waiting.
async fn ready(feed: &mut Feed) -> Vec<Frame> {
    use futures_util::FutureExt as _;
    let mut frames = Vec::new();
    while let Some(frame) = feed.next().now_or_never() {
        frames.push(frame.unwrap().unwrap());
    }
    frames
}

/// A client that does as it is told: a delta stands for whatever it has from the offset on.
#[derive(Default)]
struct Screen {
    seq: u64,
    texts: HashMap<ItemId, String>,
    deltas: usize,
}

impl Screen {
    fn show(&mut self, frame: &Frame) {
        if let Some(seq) = frame.seq {
            assert_eq!(seq, self.seq + 1, "nothing lost, nothing twice");
            self.seq = seq;
            let event: Event = serde_json::from_str(&frame.json).unwrap();
            if let EventBody::ItemCompleted { item, .. } = event.body {
                self.texts.remove(&item.id);
            }
        } else if let EphemeralBody::Delta { item, offset, text, .. } =
            serde_json::from_str::<Ephemeral>(&frame.json).unwrap().body
        {
            self.deltas += 1;
            let known = self.texts.entry(item).or_default();
            assert!(offset as usize <= known.len(), "the text is whole again after a gap");
            known.truncate(offset as usize);
            known.push_str(&text);
        }
    }
}

fn completed(item: ItemId) -> EventBody {
    let kind = ItemKind::notice("");
    let item = Item { id: item, status: ItemStatus::Completed, kind };
    EventBody::ItemCompleted { turn: TurnId::from_u128(1), item }
}

#[tokio::test]
async fn a_burst_of_text_costs_a_slow_reader_pieces_of_it_and_no_event() {
    let (_dir, recorder) = session().await;
    let (mut slow, mut quick) = (feed(&recorder, 0), feed(&recorder, 0));
    let (mut seen_slow, mut seen_quick) = (Screen::default(), Screen::default());
    assert_eq!(next(&mut slow).await.kind, "live");
    assert_eq!(next(&mut quick).await.kind, "live");
    let (item, other) = (ItemId::new(), ItemId::new());
    let pieces = FLEETING * 5;
    let mut text = String::new();
    recorder.stream().delta(other, Channel::Text, 0, "it was here".to_owned());
    for piece in 0..pieces {
        let piece = format!("{piece} ");
        recorder.stream().delta(item, Channel::Text, text.len() as u64, piece.clone());
        text.push_str(&piece);
        if text.len().is_multiple_of(7) {
            append(&recorder, "an event").await;
        }
        ready(&mut quick).await.iter().for_each(|frame| seen_quick.show(frame));
    }
    recorder.append(&Actor::system(), vec![completed(other)]).await.unwrap();
    for feed in [&mut slow, &mut quick] {
        let seen = if feed.sent == 0 { &mut seen_slow } else { &mut seen_quick };
        ready(feed).await.iter().for_each(|frame| seen.show(frame));
    }
    let last = recorder.stream().with_state(|state| state.seq());
    assert_eq!((seen_slow.seq, seen_quick.seq), (last, last));
    assert_eq!(seen_quick.deltas, pieces + 1, "who keeps up gets each piece");
    assert!(seen_slow.deltas <= 2, "who does not gets the text at once: {}", seen_slow.deltas);
    for seen in [seen_slow, seen_quick] {
        assert_eq!(seen.texts, HashMap::from([(item, text.clone())]));
    }
}

#[tokio::test]
async fn a_reader_that_went_back_to_the_log_has_the_text_in_flight_again() {
    let (_dir, recorder) = session().await;
    let mut feed = feed(&recorder, 0);
    let mut seen = Screen::default();
    seen.show(&next(&mut feed).await);
    let item = ItemId::new();
    recorder.stream().delta(item, Channel::Text, 0, "one ".to_owned());
    for frame in ready(&mut feed).await {
        seen.show(&frame);
    }
    for _ in 0..DURABLE * 2 {
        append(&recorder, "an event").await;
    }
    recorder.stream().delta(item, Channel::Text, 4, "two".to_owned());
    while seen.seq < DURABLE as u64 * 2 || seen.texts[&item] != "one two" {
        seen.show(&next(&mut feed).await);
    }
}

#[tokio::test]
async fn what_everybody_has_is_not_held() {
    let (_dir, recorder) = session().await;
    let (mut one, mut other) = (feed(&recorder, 0), feed(&recorder, 0));
    assert_eq!((next(&mut one).await.kind, next(&mut other).await.kind), ("live", "live"));
    for n in 0..20 {
        append(&recorder, "an event").await;
        recorder.stream().delta(ItemId::from_u128(1), Channel::Text, n, "x".to_owned());
    }
    assert_eq!(recorder.stream().held(), (20, 20));
    assert_eq!(ready(&mut one).await.len(), 40);
    assert_eq!(recorder.stream().held(), (20, 20), "one has not taken it yet");
    drop(other);
    assert_eq!(recorder.stream().held(), (0, 0));
    drop(one);
    append(&recorder, "for nobody").await;
    assert_eq!(recorder.stream().held(), (0, 0));
}

#[tokio::test]
async fn people_are_seen_as_long_as_one_of_their_connections_is_open() {
    let (_dir, recorder) = session().await;
    let people = |frames: &[Frame]| -> Vec<String> {
        let lists = frames.iter().filter(|frame| frame.kind == "presence");
        lists
            .map(|frame| match serde_json::from_str::<Ephemeral>(&frame.json).unwrap().body {
                EphemeralBody::Presence { people } => people.join(" "),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let mut ann = watch(&recorder, "ann");
    assert_eq!(people(&[next(&mut ann).await, next(&mut ann).await]), ["ann"], "once after `live`");
    let (bob, again) = (watch(&recorder, "bob"), watch(&recorder, "bob"));
    assert_eq!(people(&ready(&mut ann).await), ["ann bob"]);
    drop(bob);
    assert!(ready(&mut ann).await.is_empty(), "he has another connection");
    recorder.stream().typing("bob");
    recorder.stream().typing("bob");
    recorder.stream().typing("a stranger");
    let frames = ready(&mut ann).await;
    assert_eq!(frames.iter().map(|frame| frame.kind).collect::<Vec<_>>(), ["typing"], "told once in a while");
    assert!(frames[0].json.contains(r#""person":"bob""#));
    drop(again);
    assert_eq!(people(&ready(&mut ann).await), ["ann"]);
}

mod any_pace {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Append(u8),
        Delta(u8),
        Read(u8),
        Again,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => (1..200u8).prop_map(Step::Append),
            3 => (1..200u8).prop_map(Step::Delta),
            2 => any::<u8>().prop_map(Step::Read),
            1 => Just(Step::Again),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Whatever happens and whenever somebody reads, in the end a reader has every event once, in order, and the text.
        #[test]
        fn a_reader_has_it_all_in_the_end(steps in proptest::collection::vec(step(), 1..12)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (_dir, recorder) = session().await;
                let mut reader = feed(&recorder, 0);
                let mut seen = Screen::default();
                let (item, mut text) = (ItemId::new(), String::new());
                for step in steps {
                    match step {
                        Step::Append(events) => {
                            let body = EventBody::MemoryChanged { text: "x".to_owned(), remembered: None };
                            let bodies = vec![body; usize::from(events)];
                            recorder.append(&Actor::system(), bodies).await.unwrap();
                        }
                        Step::Delta(pieces) => for piece in 0..pieces {
                            let piece = format!("{piece} ");
                            recorder.stream().delta(item, Channel::Text, text.len() as u64, piece.clone());
                            text.push_str(&piece);
                        },
                        Step::Read(frames) => for _ in 0..frames {
                            use futures_util::FutureExt as _;
                            let Some(frame) = reader.next().now_or_never() else { break };
                            seen.show(&frame.unwrap().unwrap());
                        },
                        // The connection broke: it goes on after the last event, with no text.
                        Step::Again => {
                            reader = feed(&recorder, seen.seq);
                            seen.texts.clear();
                        }
                    }
                }
                let last = recorder.stream().with_state(|state| state.seq());
                while seen.seq < last || seen.texts.get(&item).map_or(0, String::len) < text.len() {
                    seen.show(&next(&mut reader).await);
                }
                assert_eq!(seen.texts.remove(&item).unwrap_or_default(), text);
                drop(reader);
                assert_eq!(recorder.stream().held(), (0, 0));
            });
        }
    }
}
