//! Folds that are kept in the log's file, so that opening a long log reads only its end. A kept fold is only a shorter
//! way: one that cannot be used, for whatever reason, is left alone and the log is folded from its start.

use protocol::{Event, SessionId};
use store::{KeptFold, Log, Store};

use crate::state::State;

/// A fold is kept after this many events.
const EVERY: u64 = 1000;
/// Events that are read at once.
const PAGE: usize = 500;

/// Names how a state is written and how it is folded. It follows from the code that does both, so nobody can forget to
/// change it: a fold that other code made is not used.
const FORMAT: u64 = fingerprint(&[
    include_bytes!("state.rs"),
    include_bytes!("state/counted.rs"),
    include_bytes!("state/facts.rs"),
    include_bytes!("state/ledger.rs"),
    include_bytes!("state/permits.rs"),
    include_bytes!("state/processes.rs"),
    include_bytes!("state/offered.rs"),
    include_bytes!("state/left.rs"),
    include_bytes!("state/used.rs"),
    include_bytes!("budget.rs"),
    env!("CARGO_PKG_VERSION").as_bytes(),
]);

/// A number that changes with every change of the texts.
pub(crate) const fn fingerprint(texts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut text = 0;
    while text < texts.len() {
        let mut place = 0;
        while place < texts[text].len() {
            hash = (hash ^ texts[text][place] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            place += 1;
        }
        text += 1;
    }
    hash
}

/// Folds a log to its end, and keeps the fold if that was a long way.
pub(crate) async fn fold(log: &Log) -> Result<State, store::Error> {
    let mut state = read(log.session(), log.kept_fold(FORMAT).await?);
    let kept = state.seq();
    loop {
        let page = log.read(state.seq(), PAGE).await?;
        page.iter().for_each(|event| state.apply(event));
        if page.len() < PAGE {
            break;
        }
    }
    if state.seq() - kept >= EVERY {
        keep(log, write(&state)).await;
    }
    Ok(state)
}

/// Folds a log to its end without taking it over.
pub(crate) async fn fold_stored(store: &Store, session: SessionId) -> Result<State, store::Error> {
    let mut state = read(session, store.kept_fold(session, FORMAT).await?);
    loop {
        let page = store.read_log(session, state.seq(), PAGE).await?;
        page.iter().for_each(|event| state.apply(event));
        if page.len() < PAGE {
            return Ok(state);
        }
    }
}

/// Whether a fold is to be kept after these events.
pub(crate) fn is_due(events: &[Event]) -> bool {
    match (events.first(), events.last()) {
        (Some(first), Some(last)) => (first.seq - 1) / EVERY != last.seq / EVERY,
        _ => false,
    }
}

/// Keeps a fold. The log has everything, so a failure is told and not passed on.
pub(crate) async fn keep(log: &Log, fold: Option<KeptFold>) {
    let Some(fold) = fold else { return };
    if let Err(error) = log.keep_fold(fold).await {
        tracing::warn!(session = %log.session(), %error, "a fold could not be kept");
    }
}

/// A state as it is kept.
pub(crate) fn write(state: &State) -> Option<KeptFold> {
    match serde_json::to_vec(state) {
        Ok(data) => Some(KeptFold { seq: state.seq(), format: FORMAT, data }),
        Err(error) => {
            tracing::error!(%error, "a fold cannot be written");
            None
        }
    }
}

/// The state that was kept, or the one before every event.
fn read(session: SessionId, kept: Option<KeptFold>) -> State {
    let state = kept.and_then(|kept| {
        let state: State = serde_json::from_slice(&kept.data)
            .inspect_err(|error| tracing::warn!(%session, %error, "a kept fold cannot be read"))
            .ok()?;
        (state.seq() == kept.seq && state.id() == session).then_some(state)
    });
    state.unwrap_or_else(|| State::new(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Actor, EventBody, PromptId};
    use store::Draft;

    fn queued() -> Draft {
        let body = EventBody::PromptQueued {
            prompt: PromptId::new(),
            text: "go".into(),
            now: false,
            images: Vec::new(),
        };
        Draft { actor: Actor::user("ann"), body }
    }

    #[tokio::test]
    async fn a_long_log_is_folded_from_the_last_kept_fold() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let session = SessionId::new();
        let log = store.create_log(session).await.unwrap();
        let events = log.append((0..EVERY + 5).map(|_| queued()).collect()).await.unwrap();
        assert!(is_due(&events) && is_due(&events[..EVERY as usize]) && !is_due(&events[..5]));
        let whole = fold(&log).await.unwrap();
        assert_eq!(whole.seq(), EVERY + 5);
        let kept = log.kept_fold(FORMAT).await.unwrap().unwrap();
        assert_eq!(kept.seq, EVERY + 5, "it was a long way");
        log.append(vec![queued()]).await.unwrap();
        let tail = fold(&log).await.unwrap();
        assert_eq!(tail, fold_stored(&store, session).await.unwrap());
        assert_eq!((tail.seq(), tail.queue().prompts.len() as u64), (EVERY + 6, EVERY + 6));

        // What is kept is believed, so this shows that it was used; and that nonsense is not.
        let mut other = State::new(session);
        events[..7].iter().for_each(|event| other.apply(event));
        let seven = KeptFold { seq: EVERY + 6, ..write(&other).unwrap() };
        log.keep_fold(seven).await.unwrap();
        assert_eq!(fold(&log).await.unwrap(), tail, "its number does not fit");
        let rubbish = KeptFold { seq: EVERY + 6, format: FORMAT, data: b"{}".to_vec() };
        log.keep_fold(rubbish).await.unwrap();
        assert_eq!(fold(&log).await.unwrap(), tail);
        let foreign = KeptFold { format: FORMAT + 1, ..write(&tail).unwrap() };
        log.keep_fold(foreign).await.unwrap();
        assert_eq!(fold(&log).await.unwrap(), tail, "another format is left alone");
    }
}
