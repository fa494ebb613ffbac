//! Damaged files: found or harmless, never a panic, and only the session itself suffers.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use protocol::{Event, SessionId};
use store::{Error, Store};

use crate::{fill, memory, names_in, new_log, quick_dir, text};

/// A store with a session to damage and another that must not notice.
struct Pair {
    dir: tempfile::TempDir,
    broken: SessionId,
    sound: SessionId,
    /// What the broken session's log had.
    events: Vec<Event>,
    /// The files that damage is done to, and where the logs ended then.
    log: Vec<u8>,
    wal: Vec<u8>,
    ends: Vec<u8>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip { place: usize, bits: u8 },
    Truncate(usize),
}

impl Damage {
    fn of(self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        match self {
            Self::Flip { place, bits } => bytes[place] ^= bits,
            Self::Truncate(length) => bytes.truncate(length),
        }
        bytes
    }
}

impl Pair {
    async fn new() -> Self {
        let dir = quick_dir();
        let store = Store::open(dir.path()).unwrap();
        let (sound, other) = new_log(&store).await;
        fill(&other, 3).await;
        let (broken, log) = new_log(&store).await;
        let drafts = (0..60).map(|n| memory(format!("{n}: {}", "abc ".repeat(n * 3)))).collect();
        let events = log.append(drafts).await.unwrap();
        log.keep_fold(fold(60)).await.unwrap();
        drop((log, other, store));
        let mut pair =
            Self { dir, broken, sound, events, log: Vec::new(), wal: Vec::new(), ends: Vec::new() };
        pair.remember();
        pair
    }

    /// A pair whose server was killed: the last events are in the write-ahead log only.
    async fn killed() -> Self {
        let mut pair = Self::new().await;
        let store = Store::open(pair.dir.path()).unwrap();
        let log = store.open_log(pair.broken).await.unwrap();
        for n in 0..20 {
            pair.events
                .extend(log.append(vec![memory(format!("{n}: {}", "x".repeat(n * 40)))]).await.unwrap());
        }
        // Looking at the file brings what was appended into it.
        log.verify().await.unwrap();
        pair.remember();
        drop((log, store));
        // By the time that the journal is gone, it is noted where the log ended.
        pair.ends = fs::read(pair.dir.path().join("ends")).unwrap();
        pair
    }

    fn remember(&mut self) {
        self.log = fs::read(self.file()).unwrap();
        self.wal = fs::read(self.file().with_file_name("log.db-wal")).unwrap_or_default();
        self.ends = fs::read(self.dir.path().join("ends")).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sessions").join(self.broken.to_string()).join("log.db")
    }

    /// Puts these files in the place of the log, and nothing of the last try beside them.
    fn replace(&self, log: &[u8], wal: &[u8]) {
        for name in names_in(self.file().parent().unwrap()) {
            fs::remove_file(self.file().with_file_name(name)).unwrap();
        }
        fs::write(self.file(), log).unwrap();
        if !wal.is_empty() {
            fs::write(self.file().with_file_name("log.db-wal"), wal).unwrap();
        }
        fs::write(self.dir.path().join("ends"), &self.ends).unwrap();
    }

    /// Reads the damaged session in every way. An answer must be the truth; gives whether anything was found.
    async fn examine(&self) -> Option<Error> {
        let store = Store::open(self.dir.path()).unwrap();
        let mut found = None;
        let (read, damage) = store.read_sound(self.broken, 0, usize::MAX).await.unwrap_or_default();
        assert_eq!(read, self.events[..read.len()], "what is before the damage is the truth");
        assert!(damage.is_some() || read.is_empty() || read.len() == self.events.len());
        for limit in [1, 7, usize::MAX] {
            match store.read_log(self.broken, 0, limit).await {
                Ok(read) => assert_eq!(read, self.events[..limit.min(self.events.len())]),
                Err(error) => found = Some(error),
            }
        }
        match store.open_log(self.broken).await {
            Ok(log) => {
                if let Some(kept) = log.kept_fold(1).await.unwrap() {
                    assert_eq!(kept, fold(60));
                }
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

fn fold(seq: u64) -> store::KeptFold {
    store::KeptFold { seq, format: 1, data: b"a fold, long enough to be hit by damage".repeat(20) }
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
    proptest!(cases(120), |(place in 0..pair.log.len(), bits in 1..=u8::MAX)| {
        pair.replace(&Damage::Flip { place, bits }.of(&pair.log), &[]);
        block_on(pair.examine());
    });
}

#[test]
fn a_flipped_byte_of_an_event_is_found() {
    let pair = block_on(Pair::new());
    let event = pair.events.iter().map(text).max_by_key(|text| text.len()).unwrap().as_bytes();
    let start = pair.log.windows(event.len()).position(|window| window == event).unwrap();
    proptest!(cases(40), |(place in 0..event.len(), bits in 1..=u8::MAX)| {
        pair.replace(&Damage::Flip { place: start + place, bits }.of(&pair.log), &[]);
        let found = block_on(pair.examine());
        prop_assert!(matches!(&found, Some(Error::Damaged { path, .. }) if *path == pair.file()), "{found:?}");
    });
}

#[test]
fn a_truncated_file_is_found() {
    let pair = block_on(Pair::new());
    proptest!(cases(40), |(length in 0..pair.log.len())| {
        pair.replace(&pair.log[..length], &[]);
        let found = block_on(pair.examine());
        prop_assert!(matches!(&found, Some(Error::Damaged { path, .. }) if *path == pair.file()), "{found:?}");
    });
}

/// SQLite takes a write-ahead log that does not fit from some frame on for one that ends there.
#[test]
fn a_damaged_write_ahead_log_is_found() {
    let pair = block_on(Pair::killed());
    let damage = prop_oneof![
        (0..pair.wal.len(), 1..=u8::MAX).prop_map(|(place, bits)| Damage::Flip { place, bits }),
        (0..pair.wal.len()).prop_map(Damage::Truncate),
    ];
    pair.replace(&pair.log, &pair.wal);
    assert_eq!(block_on(pair.examine()), None, "without damage there is nothing to be found");
    proptest!(cases(60), |(damage in damage)| {
        pair.replace(&pair.log, &damage.of(&pair.wal));
        let found = block_on(pair.examine());
        prop_assert!(matches!(&found, Some(Error::Damaged { path, .. }) if *path == pair.file()), "{found:?}");
    });
}

#[test]
#[ignore = "minutes: 10,000 damaged files"]
fn ten_thousand_damaged_files() {
    let (closed, killed) = (block_on(Pair::new()), block_on(Pair::killed()));
    let flips = |length: usize| {
        (0..length, 0..8_u32).prop_map(|(place, bit)| Damage::Flip { place, bits: 1 << bit }).boxed()
    };
    let cuts = |length: usize| (0..length).prop_map(Damage::Truncate).boxed();
    let found = std::cell::Cell::new(0);
    let count = |verdict: &Option<Error>| found.set(found.get() + u32::from(verdict.is_some()));
    proptest!(cases(4000), |(damage in prop_oneof![flips(closed.log.len()), cuts(closed.log.len())])| {
        closed.replace(&damage.of(&closed.log), &[]);
        let verdict = block_on(closed.examine());
        count(&verdict);
        // Unused space may change; a missing end is always missed.
        let truncated = matches!(damage, Damage::Truncate(_));
        prop_assert!(verdict.is_some() || !truncated);
    });
    proptest!(cases(4000), |(damage in prop_oneof![flips(killed.wal.len()), cuts(killed.wal.len())])| {
        killed.replace(&killed.log, &damage.of(&killed.wal));
        count(&block_on(killed.examine()));
    });
    proptest!(cases(2000), |(damage in prop_oneof![flips(killed.log.len()), cuts(killed.log.len())])| {
        killed.replace(&damage.of(&killed.log), &killed.wal);
        count(&block_on(killed.examine()));
    });
    println!("{} of 10000 were found, the others changed nothing that is read", found.get());
}

#[tokio::test]
async fn nothing_is_written_to_a_log_that_is_known_to_be_damaged() {
    let pair = Pair::new().await;
    let sql = rusqlite::Connection::open(pair.file()).unwrap();
    sql.execute("UPDATE events SET data = replace(data, '29:', '28:') WHERE seq = 30", ()).unwrap();
    drop(sql);
    let store = Store::open(pair.dir.path()).unwrap();
    let log = store.open_log(pair.broken).await.unwrap();
    log.append(vec![memory("nobody knows yet")]).await.unwrap();
    let (events, damage) = store.read_sound(pair.broken, 10, usize::MAX).await.unwrap();
    assert_eq!(events, pair.events[10..29]);
    let damage = damage.unwrap();
    assert!(damage.to_string().contains("event 30"), "{damage}");
    assert_eq!(log.append(vec![memory("late")]).await.unwrap_err(), damage);
    fill(&store.open_log(pair.sound).await.unwrap(), 1).await;
    let copy = pair.dir.path().join("copy.db");
    let copied = tokio::task::spawn_blocking({
        let (store, copy, broken) = (store.clone(), copy.clone(), pair.broken);
        move || store.copy_log(broken, &copy).unwrap()
    });
    assert_eq!(copied.await.unwrap(), store::Copied { seq: 29, damage: Some(damage) });
    assert_eq!(store::check_copy(&copy, pair.broken).unwrap(), 29);
}

#[tokio::test]
async fn a_log_without_its_head_is_read_as_far_as_it_fits() {
    for sql in ["DELETE FROM head", "UPDATE head SET seq = -5", "UPDATE head SET hash = 0"] {
        let pair = Pair::new().await;
        rusqlite::Connection::open(pair.file()).unwrap().execute(sql, ()).unwrap();
        let store = Store::open(pair.dir.path()).unwrap();
        let (events, damage) = store.read_sound(pair.broken, 0, usize::MAX).await.unwrap();
        assert!(events.len() >= 59, "{} after {sql}", events.len());
        assert_eq!(events, pair.events[..events.len()]);
        assert!(matches!(damage, Some(Error::Damaged { .. })), "{sql}");
        assert!(store.read_log(pair.broken, 0, usize::MAX).await.is_err());
        assert!(store.open_log(pair.broken).await.is_err());
    }
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

/// SQLite does not call a length corrupt that no value may have.
#[tokio::test]
async fn an_impossible_length_is_damage() {
    let pair = Pair::new().await;
    let text = r#"{"text":"20: "#.as_bytes();
    let mut log = pair.log.clone();
    // More than once where SQLite has moved it.
    for data in (0..log.len()).filter(|place| pair.log[*place..].starts_with(text)) {
        // Its length, its number and three bytes come before the types of `user`, `ada` and `memory.changed`. Now
        // both the row and the text in its third column are longer than any may be.
        let types = pair.log[..data].windows(3).rposition(|window| window == [21, 19, 41]).unwrap();
        let long = [0x8f, 0xff, 0xff, 0xff, 0x7f];
        log[types - 6..types + 8].copy_from_slice(&[&long[..], &[21, 20, 0, 6], &long].concat());
    }
    pair.replace(&log, &[]);
    let found = pair.examine().await.unwrap();
    assert!(matches!(&found, Error::Damaged { .. }), "{found}");
    let store = Store::open(pair.dir.path()).unwrap();
    let (events, damage) = store.read_sound(pair.broken, 0, usize::MAX).await.unwrap();
    assert_eq!(events, pair.events[..20]);
    let damage = damage.unwrap().to_string();
    assert!(damage.contains("event 21 cannot be read: string or blob too big"), "{damage}");
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
    store.index(&row, "").await.unwrap();
    drop((log, store));
    fs::write(pair.file(), older).unwrap();

    let store = Store::open(pair.dir.path()).unwrap();
    let error = store.open_log(pair.broken).await.unwrap_err().to_string();
    assert!(error.contains("it ends with event 60, but there was an event 61"), "{error}");
    assert_eq!(store.read_sound(pair.broken, 0, 59).await.unwrap(), (pair.events[..59].to_vec(), None));
    let (read, damage) = store.read_sound(pair.broken, 0, 100).await.unwrap();
    assert_eq!((read, damage.map(|damage| damage.to_string())), (pair.events.clone(), Some(error)));
    row.seq = 3;
    row.id = pair.sound;
    store.index(&row, "").await.unwrap();
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
    sql.execute_batch("CREATE TABLE of_a_newer_version (x); PRAGMA user_version = 99").unwrap();
    drop(sql);
    assert_eq!(pair.examine().await, Some(Error::Newer(pair.file())));

    for rubbish in ["", "not a database, but long enough to look at twice"] {
        fs::write(pair.file(), rubbish).unwrap();
        let found = pair.examine().await.unwrap();
        assert!(matches!(found, Error::Damaged { .. }), "{found}");
    }
}
