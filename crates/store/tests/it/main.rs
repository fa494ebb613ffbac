//! The store through its front door, on real files: order, durability across kill -9, damage, a full disk.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests too")]

mod catalogue;
mod crash;
mod damage;
mod files;
mod full;
mod logs;
mod lost;
mod pages;
#[cfg(feature = "power-cuts")]
mod power;
mod upgrade;

use std::path::Path;
use std::sync::Arc;

use protocol::{Actor, Event, EventBody, SessionId};
use store::{Draft, Log, Store};

fn memory(text: impl Into<String>) -> Draft {
    Draft {
        actor: Actor::user("ada"),
        body: EventBody::MemoryChanged { text: text.into(), remembered: None },
    }
}

fn text(event: &Event) -> &str {
    match &event.body {
        EventBody::MemoryChanged { text, .. } => text,
        other => panic!("unexpected {}", other.name()),
    }
}

/// Appends `count` events one by one; the text of each is its number.
async fn fill(log: &Log, count: u64) {
    for _ in 0..count {
        let next = log.last_seq() + 1;
        let events = log.append(vec![memory(next.to_string())]).await.unwrap();
        assert_eq!(events[0].seq, next);
    }
}

async fn new_log(store: &Store) -> (SessionId, Arc<Log>) {
    let session = SessionId::new();
    (session, store.create_log(session).await.unwrap())
}

/// A directory for tests that make thousands of files and do not ask whether syncing works: in memory, where that is possible.
fn quick_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Every event is there once, in order, and time does not run backwards.
fn assert_dense(events: &[Event]) {
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event.seq, seq);
    }
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at));
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
