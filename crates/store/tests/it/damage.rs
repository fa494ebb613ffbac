//! Damaged files: found or harmless, never a panic, and only the session itself suffers.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use protocol::{Event, SessionId};
use store::{Error, Store};

use crate::{fill, memory, names_in, new_log, text};

/// A store with a session to damage and another that must not notice.
struct Pair {
    dir: tempfile::TempDir,
    broken: SessionId,
    sound: SessionId,
    /// What the broken session's log had.
    events: Vec<Event>,
}

impl Pair {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (sound, log) = new_log(&store).await;
        fill(&log, 3).await;
        let (broken, log) = new_log(&store).await;
        let drafts = (0..60).map(|n| memory(format!("{n}: {}", "abc ".repeat(n * 3)))).collect();
        let events = log.append(drafts).await.unwrap();
        Self { dir, broken, sound, events }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sessions").join(self.broken.to_string()).join("log.db")
    }

    /// Puts other bytes in the place of the log, and nothing of the last try beside it.
    fn replace(&self, bytes: &[u8]) {
        for name in names_in(self.file().parent().unwrap()) {
            fs::remove_file(self.file().with_file_name(name)).unwrap();
        }
        fs::write(self.file(), bytes).unwrap();
    }

    /// Reads the damaged session in every way. An answer must be the truth; gives whether anything was found.
    async fn examine(&self) -> Option<Error> {
        let store = Store::open(self.dir.path()).unwrap();
        let mut found = None;
        for limit in [1, 7, usize::MAX] {
            match store.read_log(self.broken, 0, limit).await {
                Ok(read) => assert_eq!(read, self.events[..limit.min(self.events.len())]),
                Err(error) => found = Some(error),
            }
        }
        match store.open_log(self.broken).await {
            Ok(log) => {
                if let Err(error) = log.verify().await {
                    found = Some(error);
                }
                // A log that can be opened goes on after its last event.
                if let Ok(events) = log.append(vec![memory("next")]).await {
                    assert_eq!(events[0].seq, self.events.len() as u64 + 1);
                }
            }
            Err(error) => found = Some(error),
        }
        let log = store.open_log(self.sound).await.unwrap();
        fill(&log, 1).await;
        log.verify().await.unwrap();
        found
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn a_flipped_byte_is_found_or_harmless() {
    let pair = block_on(Pair::new());
    let bytes = fs::read(pair.file()).unwrap();
    proptest!(cases(150), |(place in 0..bytes.len(), flip in 1..=u8::MAX)| {
        let mut bytes = bytes.clone();
        bytes[place] ^= flip;
        pair.replace(&bytes);
        block_on(pair.examine());
    });
}

#[test]
fn a_flipped_byte_of_an_event_is_found() {
    let pair = block_on(Pair::new());
    let bytes = fs::read(pair.file()).unwrap();
    let event = pair.events.iter().map(text).max_by_key(|text| text.len()).unwrap().as_bytes();
    let start = bytes.windows(event.len()).position(|window| window == event).unwrap();
    proptest!(cases(50), |(place in 0..event.len(), flip in 1..=u8::MAX)| {
        let mut bytes = bytes.clone();
        bytes[start + place] ^= flip;
        pair.replace(&bytes);
        let found = block_on(pair.examine());
        prop_assert!(matches!(&found, Some(Error::Damaged { path, .. }) if *path == pair.file()), "{found:?}");
    });
}

#[test]
fn a_truncated_file_is_found() {
    let pair = block_on(Pair::new());
    let bytes = fs::read(pair.file()).unwrap();
    proptest!(cases(50), |(length in 0..bytes.len())| {
        pair.replace(&bytes[..length]);
        let found = block_on(pair.examine());
        prop_assert!(matches!(&found, Some(Error::Damaged { path, .. }) if *path == pair.file()), "{found:?}");
    });
}

#[tokio::test]
async fn events_before_the_damage_can_be_read() {
    let pair = Pair::new().await;
    let sql = rusqlite::Connection::open(pair.file()).unwrap();
    sql.execute("UPDATE events SET data = replace(data, '29:', '28:') WHERE seq = 30", ()).unwrap();
    drop(sql);
    let store = Store::open(pair.dir.path()).unwrap();
    let log = store.open_log(pair.broken).await.unwrap();
    assert_eq!(log.read(0, 29).await.unwrap(), pair.events[..29]);
    assert_eq!(log.read(30, 100).await.unwrap(), pair.events[30..]);
    for error in [log.read(0, 30).await.unwrap_err(), log.verify().await.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("log.db is damaged: event 30 does not fit its checksum"), "{text}");
    }
}

#[tokio::test]
async fn events_that_are_gone_are_missed() {
    for (gone, message) in [
        ("seq = 20", "event 20 is missing"),
        ("seq = 60", "it should end with event 60, not 59"),
        ("seq > 0", "it should end with event 60, not 0"),
    ] {
        let pair = Pair::new().await;
        let sql = rusqlite::Connection::open(pair.file()).unwrap();
        sql.execute(&format!("DELETE FROM events WHERE {gone}"), ()).unwrap();
        drop(sql);
        let found = pair.examine().await.expect("nothing was found").to_string();
        assert!(found.contains(message), "{found}");
    }
}

#[tokio::test]
async fn a_log_that_ends_before_what_the_index_saw_is_damaged() {
    let pair = Pair::new().await;
    let older = fs::read(pair.file()).unwrap();
    let store = Store::open(pair.dir.path()).unwrap();
    let log = store.open_log(pair.broken).await.unwrap();
    let event = log.append(vec![memory("confirmed")]).await.unwrap().remove(0);
    let mut row: protocol::Session = serde_json::from_value(serde_json::json!({
        "id": pair.broken, "title": "", "environment": "", "model": "", "status": "done", "seq": event.seq,
        "created_at": event.at, "updated_at": event.at, "queued": [],
        "spend": { "usage": {}, "cost_usd": 0.0, "calls": 0 },
    }))
    .unwrap();
    store.index(&row).await.unwrap();
    drop((log, store));
    fs::write(pair.file(), older).unwrap();

    let store = Store::open(pair.dir.path()).unwrap();
    let error = store.open_log(pair.broken).await.unwrap_err().to_string();
    assert!(error.contains("it ends with event 60, but there was an event 61"), "{error}");
    assert_eq!(store.read_log(pair.broken, 0, 100).await.unwrap(), pair.events);
    row.seq = 3;
    row.id = pair.sound;
    store.index(&row).await.unwrap();
    store.open_log(pair.sound).await.unwrap();
}

#[tokio::test]
async fn a_log_in_the_wrong_place_of_a_newer_version_or_of_another_program_is_refused() {
    let pair = Pair::new().await;
    let other = pair.dir.path().join("sessions").join(pair.sound.to_string()).join("log.db");
    let own = fs::read(pair.file()).unwrap();
    fs::copy(other, pair.file()).unwrap();
    let found = pair.examine().await.unwrap().to_string();
    assert!(found.contains(&format!("it is the log of session {}", pair.sound)), "{found}");

    fs::write(pair.file(), own).unwrap();
    let sql = rusqlite::Connection::open(pair.file()).unwrap();
    sql.pragma_update(None, "user_version", 2).unwrap();
    drop(sql);
    assert_eq!(pair.examine().await, Some(Error::Newer(pair.file())));

    for rubbish in ["", "not a database, but long enough to look at twice"] {
        fs::write(pair.file(), rubbish).unwrap();
        let found = pair.examine().await.unwrap();
        assert!(matches!(found, Error::Damaged { .. }), "{found}");
    }
}
