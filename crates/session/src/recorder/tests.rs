use std::sync::Arc;

use proptest::prelude::*;
use protocol::{Actor, EventBody, SessionId};
use store::Store;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::feed::{Feed, Stream};
use crate::state::State;
use crate::state::tests::any_body;

/// The durable frames of a reader, as they were sent.
async fn frames(feed: &mut Feed, count: usize) -> Vec<(Option<u64>, String)> {
    let mut frames = Vec::new();
    while frames.len() < count {
        let frame = feed.next().await.unwrap().unwrap();
        if frame.seq.is_some() {
            frames.push((frame.seq, frame.json.to_string()));
        }
    }
    frames
}

/// Appends the bodies in pieces of a few, with a reader that was there from the beginning.
async fn live_and_replayed(bodies: Vec<EventBody>, each: usize) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let id = SessionId::new();
    let log = store.create_log(id).await.unwrap();
    let recorder = Recorder::new(Arc::clone(&log), store, Stream::new(id, State::new(id)));
    let feed = || Feed::new(Arc::clone(&recorder), 0, None, CancellationToken::new());
    let mut live = feed();
    let mut seen = Vec::new();
    for piece in bodies.chunks(each) {
        recorder.append(&Actor::user("ann"), piece.to_vec()).await.unwrap();
        seen.extend(frames(&mut live, piece.len()).await);
    }
    prop_assert_eq!(&frames(&mut feed(), bodies.len()).await, &seen, "what is replayed is what was sent");
    let now = recorder.stream().with_state(State::clone);
    let mut folded = State::new(id);
    log.read(0, usize::MAX).await.unwrap().iter().for_each(|event| folded.apply(event));
    prop_assert_eq!(&folded, &now, "the state is the fold of the log");
    prop_assert_eq!(&kept_fold::fold(&log).await.unwrap(), &now, "also when it is opened again");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn replay_equals_live(bodies in proptest::collection::vec(any_body(), 1..40), each in 1usize..4) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(live_and_replayed(bodies, each))?;
    }
}

#[tokio::test]
async fn what_follows_from_the_state_is_appended_in_the_same_step() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let id = SessionId::new();
    let log = store.create_log(id).await.unwrap();
    let recorder = Recorder::new(log, store, Stream::new(id, State::new(id)));
    let ann = Actor::user("ann");
    // Many at once, each only if it is the first.
    let once = || {
        recorder.append_if(&ann, |state| match state.seq() {
            0 => (vec![EventBody::MemoryChanged { text: "first".into(), remembered: None }], true),
            _ => (Vec::new(), false),
        })
    };
    let all = futures_util::future::join_all((0..20).map(|_| once())).await;
    let first =
        all.into_iter().filter(|done| matches!(done, Ok((events, true)) if events.len() == 1)).count();
    assert_eq!((first, recorder.events().await.unwrap().len()), (1, 1));
}
