//! Damage to any page of a log: zeroed, cut off, flipped. What is read is always the beginning of the truth, and at least
//! every event that comes before the first one with bytes on the damaged page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use protocol::{Event, SessionId};
use store::{Error, KeptFold, Store};

use crate::{fill, memory, names_in, new_log, quick_dir};

const PAGE: usize = 4096;

/// A log to damage, another that must not notice, and where the events of the first are.
struct Logs {
    dir: tempfile::TempDir,
    broken: SessionId,
    sound: SessionId,
    events: Vec<Event>,
    log: Vec<u8>,
    wal: Vec<u8>,
    ends: Vec<u8>,
    /// The first event that has something on a page, for the pages that have any.
    first_on: BTreeMap<usize, usize>,
}

impl Logs {
    /// A log with events of these lengths.
    async fn with(lengths: impl Iterator<Item = usize>) -> Self {
        let dir = quick_dir();
        let store = Store::open(dir.path()).unwrap();
        let (sound, other) = new_log(&store).await;
        fill(&other, 2).await;
        let (broken, log) = new_log(&store).await;
        let drafts = lengths.enumerate().map(|(n, length)| memory(format!("{n}{}", "é".repeat(length / 2))));
        let events = log.append(drafts.collect()).await.unwrap();
        let fold = KeptFold { seq: events.len() as u64, format: 1, data: vec![7; 100] };
        log.keep_fold(fold).await.unwrap();
        drop((log, other, store));
        let nothing = Vec::new();
        let (log, wal, ends) = (nothing.clone(), nothing.clone(), nothing);
        let mut logs = Self { dir, broken, sound, events, log, wal, ends, first_on: BTreeMap::new() };
        logs.remember();
        logs.first_on = first_events(&logs.file());
        logs
    }

    async fn small() -> Self {
        Self::with((0..30).map(|n| n * 20)).await
    }

    async fn long() -> Self {
        Self::with((0..3000).map(|n| n % 97)).await
    }

    /// Rows that go over many pages each, with small ones between them.
    async fn large() -> Self {
        Self::with((0..12).map(|n| if n % 3 == 1 { 100_000 } else { n * 700 })).await
    }

    /// A log of a server that was killed: some events are in the write-ahead log only.
    async fn killed() -> Self {
        let mut logs = Self::small().await;
        let store = Store::open(logs.dir.path()).unwrap();
        let log = store.open_log(logs.broken).await.unwrap();
        for n in 0..20 {
            logs.events.extend(log.append(vec![memory(format!("{n}{}", "y".repeat(n * 50)))]).await.unwrap());
        }
        // Looking at the file brings what was appended into it.
        log.verify().await.unwrap();
        logs.remember();
        drop((log, store));
        // Closed in the end, its pages are what they are to be when both files are read together.
        logs.first_on = first_events(&logs.file());
        logs
    }

    fn remember(&mut self) {
        self.log = fs::read(self.file()).unwrap();
        self.wal = fs::read(self.file().with_file_name("log.db-wal")).unwrap_or_default();
        self.ends = fs::read(self.dir.path().join("ends")).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("sessions").join(self.broken.to_string()).join("log.db")
    }

    fn pages(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.log.len() / PAGE
    }

    /// How many events come before the first one on a page.
    fn before(&self, page: usize) -> usize {
        self.first_on.get(&page).map_or(self.events.len(), |first| first - 1)
    }

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

    /// Puts this in the place of the log and reads it; gives how many events there were, and what was found to be wrong. A
    /// log of which something is missing says so when it is read.
    async fn read(&self, log: &[u8]) -> (usize, Option<Error>) {
        self.replace(log, &self.wal);
        let store = Store::open(self.dir.path()).unwrap();
        let (events, damage) = store.read_sound(self.broken, 0, usize::MAX).await.unwrap();
        assert!(events[..] == self.events[..events.len()], "what is read is the beginning of the truth");
        assert!(damage.is_some() || events.len() == self.events.len(), "{} are all?", events.len());
        let found = match damage {
            Some(damage) => {
                if events.len() > 3 {
                    let later = store.read_sound(self.broken, 3, 5).await.unwrap().0;
                    assert!(later[..] == events[3..events.len().min(8)], "a part of it can be asked for too");
                }
                if let Ok(log) = store.open_log(self.broken).await {
                    assert!(is_damage(&log.append(vec![memory("late")]).await.err()));
                }
                Some(damage)
            }
            None => match store.open_log(self.broken).await {
                Ok(log) => log.verify().await.err(),
                Err(error) => Some(error),
            },
        };
        assert_eq!(store.read_log(self.sound, 0, 10).await.unwrap().len(), 2);
        (events.len(), found)
    }

    async fn zero_each_page(&self) {
        for page in self.pages() {
            let mut log = self.log.clone();
            log[(page - 1) * PAGE..page * PAGE].fill(0);
            let (read, found) = self.read(&log).await;
            assert_eq!(read, self.before(page), "without page {page}");
            assert!(is_damage(&found), "without page {page}: {found:?}");
        }
    }

    async fn cut_at_each_page(&self) {
        for page in self.pages() {
            let (read, found) = self.read(&self.log[..(page - 1) * PAGE]).await;
            let there = (page..).take_while(|page| self.pages().contains(page)).map(|page| self.before(page));
            assert_eq!(Some(read), there.min(), "from page {page} on nothing is there");
            assert!(is_damage(&found), "cut at page {page}: {found:?}");
        }
    }

    async fn flip(&self, place: usize, bit: u8) {
        let mut log = self.log.clone();
        log[place] ^= 1 << bit;
        let (read, found) = self.read(&log).await;
        let page = place / PAGE + 1;
        assert!(read >= self.before(page), "bit {bit} of byte {place} on page {page}: {read} {found:?}");
        assert!(found.is_none() || is_damage(&found), "bit {bit} of byte {place} on page {page}: {found:?}");
    }

    /// Flips some bits of each page, of which the first few bytes are as good as half.
    async fn flip_on_each_page(&self, times: usize) {
        let mut runner = TestRunner::deterministic();
        let place = prop_oneof![0..16_usize, 0..PAGE];
        for page in self.pages() {
            for _ in 0..times {
                let (place, bit) = (&place, 0..8_u8).new_tree(&mut runner).unwrap().current();
                self.flip((page - 1) * PAGE + place, bit).await;
            }
        }
    }
}

fn is_damage(found: &Option<Error>) -> bool {
    matches!(found, Some(Error::Damaged { .. }))
}

/// Asks SQLite, of a sound file, for the first event on each page.
fn first_events(file: &Path) -> BTreeMap<usize, usize> {
    let sql = rusqlite::Connection::open(file).unwrap();
    let mut query = sql
        .prepare("SELECT pageno, pagetype, path, ncell FROM dbstat WHERE name = 'events' ORDER BY path")
        .unwrap();
    let rows = query.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    let pages: Vec<(isize, String, String, isize)> = rows.map(Result::unwrap).collect();
    let mut first_on = BTreeMap::new();
    let mut leaves = BTreeMap::new();
    let mut next = 1;
    for (page, _, path, cells) in pages.iter().filter(|(_, kind, ..)| kind == "leaf") {
        first_on.insert(page.unsigned_abs(), next);
        leaves.insert(path.as_str(), next);
        next += cells.unsigned_abs();
    }
    for (page, _, path, _) in pages.iter().filter(|(_, kind, ..)| kind == "overflow") {
        let (leaf, rest) = path.split_at(path.rfind('/').unwrap() + 1);
        let cell = usize::from_str_radix(rest.split('+').next().unwrap(), 16).unwrap();
        first_on.insert(page.unsigned_abs(), leaves[leaf] + cell);
    }
    let last: isize = sql.query_row("SELECT max(seq) FROM events", (), |row| row.get(0)).unwrap();
    assert_eq!(next - 1, last.unsigned_abs(), "every event is on a leaf");
    first_on
}

#[tokio::test]
async fn small_without_a_page() {
    let logs = Logs::small().await;
    logs.zero_each_page().await;
    logs.cut_at_each_page().await;
    logs.flip_on_each_page(30).await;
}

#[tokio::test]
async fn long_without_a_page() {
    Logs::long().await.zero_each_page().await;
}

#[tokio::test]
async fn long_cut_at_a_page() {
    Logs::long().await.cut_at_each_page().await;
}

#[tokio::test]
async fn long_with_a_flipped_bit_on_a_page() {
    Logs::long().await.flip_on_each_page(1).await;
}

#[tokio::test]
async fn large_without_a_page() {
    Logs::large().await.zero_each_page().await;
}

#[tokio::test]
async fn large_cut_at_a_page() {
    Logs::large().await.cut_at_each_page().await;
}

#[tokio::test]
async fn large_with_a_flipped_bit_on_a_page() {
    Logs::large().await.flip_on_each_page(1).await;
}

/// A page that the write-ahead log has too is not missed.
#[tokio::test]
async fn of_a_killed_server_without_a_page() {
    let logs = Logs::killed().await;
    assert!(!logs.wal.is_empty());
    for page in logs.pages() {
        let mut log = logs.log.clone();
        log[(page - 1) * PAGE..page * PAGE].fill(0);
        let zeroed = logs.read(&log).await.0;
        let cut = logs.read(&logs.log[..(page - 1) * PAGE]).await.0;
        let there = (page..).take_while(|page| logs.pages().contains(page)).map(|page| logs.before(page));
        assert!(zeroed >= logs.before(page) && Some(cut) >= there.min(), "page {page}: {zeroed}, {cut}");
    }
    for place in 0..100 {
        logs.flip(place, (place % 8) as u8).await;
    }
}

/// The events of a young session are in its write-ahead log only.
#[tokio::test]
async fn a_write_ahead_log_alone_is_enough() {
    let dir = quick_dir();
    let store = Store::open(dir.path()).unwrap();
    let (session, log) = new_log(&store).await;
    fill(&log, 40).await;
    // Looking at the file brings what was appended into it.
    log.verify().await.unwrap();
    let events = log.read(0, 100).await.unwrap();
    let file = dir.path().join("sessions").join(session.to_string()).join("log.db");
    let wal = fs::read(file.with_file_name("log.db-wal")).unwrap();
    drop((log, store));
    for gone in [Vec::new(), vec![0; 4 * PAGE], b"something else".repeat(1000)] {
        fs::write(&file, gone).unwrap();
        fs::write(file.with_file_name("log.db-wal"), &wal).unwrap();
        let store = Store::open(dir.path()).unwrap();
        let read = store.read_sound(session, 0, usize::MAX).await.unwrap().0;
        assert_eq!(read, events);
        let copy = tempfile::tempdir().unwrap();
        let copied = tokio::task::spawn_blocking({
            let (store, copy) = (store.clone(), copy.path().join("log.db"));
            move || {
                let copied = store.copy_log(session, &copy).unwrap();
                assert_eq!(store::check_copy(&copy, session), Ok(copied.seq));
                copied
            }
        });
        assert_eq!(copied.await.unwrap().seq, 40);
    }
}

/// So long that it is looked through in several goes.
#[tokio::test]
async fn the_head_of_a_long_file_is_not_needed() {
    let logs = Logs::with((0..100).map(|_| 100_000)).await;
    assert!(logs.log.len() > 8 << 20);
    let mut log = logs.log.clone();
    log[..PAGE].fill(0);
    let (read, found) = logs.read(&log).await;
    assert_eq!(read, 100);
    let found = found.unwrap().to_string();
    assert!(found.contains("what is left of it ends with event 100"), "{found}");
}

#[tokio::test]
async fn no_bit_of_the_head_of_the_file_is_needed() {
    let logs = Logs::small().await;
    for place in 0..100 {
        for bit in 0..8 {
            logs.flip(place, bit).await;
        }
    }
}

#[tokio::test]
#[ignore = "minutes: a bit of every byte of a file, and many of larger ones"]
async fn a_bit_of_every_byte() {
    for (logs, step) in [(Logs::small().await, 1), (Logs::killed().await, 7)] {
        for place in (0..logs.log.len()).step_by(step) {
            logs.flip(place, (place % 8) as u8).await;
        }
    }
    Logs::long().await.flip_on_each_page(20).await;
    Logs::large().await.flip_on_each_page(10).await;
}
