use super::*;
use protocol::Actor;
use store::Store;

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
    let body = EventBody::MemoryChanged { text: text.to_owned() };
    recorder.append(&Actor::system(), vec![body]).await.unwrap();
}

fn feed(recorder: &Arc<Recorder>, after: u64) -> Feed {
    Feed::new(Arc::clone(recorder), after, CancellationToken::new())
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
    let many = RING as u64 * 2;
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
    let mut feed = Feed::new(Arc::clone(&recorder), 0, closed.clone());
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
