//! What is read without SQLite is what was written, from any bytes, and once.

use std::fs;

use proptest::prelude::*;
use protocol::{Actor, EventBody};

use super::*;
use crate::log::Draft;
use crate::row::Encoded;
use crate::writer::Tail;

/// A directory with the log of `SESSION`.
struct Fixture {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    /// The texts of its events.
    texts: Vec<String>,
}

const SESSION: SessionId = SessionId::from_u128(7);

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = dir.path().join("log.db");
        LogFile::create_at(&path, SESSION).unwrap();
        let mut file = LogFile::open_at(&path, SESSION).unwrap().without_syncs().unwrap();
        let lengths = (0..150).map(|n| n * 3).chain([20_000, 4, 4030, 4040, 4050, 4060, 9, 30_000, 1]);
        let texts: Vec<_> = lengths.map(|length| "ab\n".repeat(length / 3 + 1)).collect();
        let mut tail = Tail::new(file.end().unwrap());
        for text in &texts {
            let body = EventBody::MemoryChanged { text: text.clone(), remembered: None };
            let draft = Encoded::new(Draft { actor: Actor::system(), body }).unwrap();
            tail.place(&[draft], &mut Default::default());
        }
        assert!(file.catch_up(tail.take_rows()));
        file.settle().unwrap();
        file.close().unwrap();
        let bytes = fs::read(&path).unwrap();
        Self { dir, bytes, texts }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log.db")
    }

    /// Reads this file in pieces; it must be the beginning of what was written. Gives how many events there were.
    fn read(&self, bytes: &[u8]) -> usize {
        fs::write(self.path(), bytes).unwrap();
        // The time of a change may be that of the change before.
        INDEXES.take();
        let salvage = open(&self.path(), SESSION);
        let mut texts = Vec::new();
        while (texts.len() as u64) < salvage.last() {
            let after = texts.len() as u64;
            let last = salvage.rows(after, 7, |row, _| {
                let EventBody::MemoryChanged { text, .. } = row.into_event(SESSION).unwrap().body else {
                    panic!("another event")
                };
                texts.push(text);
                Ok(())
            });
            assert_eq!(last.unwrap(), texts.len() as u64);
            assert!((after + 1..=after + 7).contains(&(texts.len() as u64)));
        }
        assert_eq!(
            salvage.rows(salvage.last() + 1, 7, |_, _| panic!("there is none")),
            Ok(salvage.last() + 1)
        );
        assert!(texts[..] == self.texts[..texts.len()]);
        texts.len()
    }
}

/// Opens a log and looks through all of it.
fn open(path: &Path, session: SessionId) -> Salvage {
    let salvage = Salvage::open(path, session).unwrap();
    while !salvage.look().unwrap() {}
    salvage
}

/// Something that can happen to a file.
#[derive(Debug, Clone)]
enum Harm {
    Bytes { place: usize, bytes: Vec<u8> },
    Move { from: usize, to: usize },
    Cut(usize),
}

impl Harm {
    fn any(length: usize) -> impl Strategy<Value = Self> {
        let pages = length / PAGE_SIZE;
        let bytes = || proptest::collection::vec(prop_oneof![Just(0), 1..8_u8, any::<u8>()], 1..5);
        prop_oneof![
            8 => (0..length - 8, bytes()).prop_map(|(place, bytes)| Self::Bytes { place, bytes }),
            // The numbers of cells and of overflow pages are at the beginning of a page.
            8 => (0..pages, 0..16_usize, bytes())
                .prop_map(|(page, place, bytes)| Self::Bytes { place: page * PAGE_SIZE + place, bytes }),
            2 => (0..pages, 0..pages).prop_map(|(from, to)| Self::Move { from, to }),
            1 => (length / 2..length).prop_map(Self::Cut),
        ]
    }

    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Self::Bytes { place, bytes } => {
                let there = file.iter_mut().skip(*place).zip(bytes);
                there.for_each(|(old, new)| *old = *new);
            }
            Self::Move { from, to } => {
                let (from, to) = (from * PAGE_SIZE, to * PAGE_SIZE);
                if from.max(to) + PAGE_SIZE <= file.len() {
                    file.copy_within(from..from + PAGE_SIZE, to);
                }
            }
            Self::Cut(length) => file.truncate(*length),
        }
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[test]
fn a_sound_log_is_read_to_its_end() {
    let log = Fixture::new();
    assert_eq!(log.read(&log.bytes), log.texts.len());
}

#[test]
fn neither_the_place_nor_the_order_of_pages_matters() {
    let log = Fixture::new();
    let mut moved = log.bytes.clone();
    // Other pages may not point to those that move, so no overflow page does.
    let leaves: Vec<_> = (1..moved.len() / PAGE_SIZE).filter(|page| moved[page * PAGE_SIZE] == 13).collect();
    for (one, other) in leaves.iter().zip(leaves.iter().rev()).take(leaves.len() / 2) {
        for byte in 0..PAGE_SIZE {
            moved.swap(one * PAGE_SIZE + byte, other * PAGE_SIZE + byte);
        }
    }
    assert_ne!(moved, log.bytes);
    moved[..PAGE_SIZE].fill(0xff);
    assert_eq!(log.read(&moved), log.texts.len());
}

#[test]
fn whatever_happens_to_a_file_the_beginning_of_the_truth_is_read() {
    let log = Fixture::new();
    let harm = proptest::collection::vec(Harm::any(log.bytes.len()), 1..12);
    proptest!(cases(150), |(harm in harm)| {
        let mut bytes = log.bytes.clone();
        harm.iter().for_each(|harm| harm.apply(&mut bytes));
        log.read(&bytes);
    });
}

#[test]
#[ignore = "minutes: 20,000 damaged files"]
fn whatever_happens_to_twenty_thousand_files() {
    let log = Fixture::new();
    let harm = proptest::collection::vec(Harm::any(log.bytes.len()), 1..40);
    proptest!(cases(20_000), |(harm in harm)| {
        let mut bytes = log.bytes.clone();
        harm.iter().for_each(|harm| harm.apply(&mut bytes));
        log.read(&bytes);
    });
}

#[test]
fn any_file_and_any_write_ahead_log_can_be_read() {
    let log = Fixture::new();
    let bytes = |length| proptest::collection::vec(any::<u8>(), length);
    proptest!(cases(60), |(file in bytes(0..3 * PAGE_SIZE), wal in bytes(0..2 * PAGE_SIZE))| {
        fs::write(log.dir.path().join("log.db-wal"), wal).unwrap();
        prop_assert_eq!(log.read(&file), 0);
    });
}

/// Pages on which a row says that it goes on on a page that leads to itself.
#[test]
fn overflow_pages_that_lead_round_in_circles_come_to_an_end() {
    let log = Fixture::new();
    let pages = 1500_usize;
    // A text that is as long as the file.
    let data = pages * PAGE_SIZE;
    let mut head = [vec![0, 0, 8, 13, 13, 13], varint(data * 2 + 13), vec![8]].concat();
    head[0] = head.len() as u8;
    let (length, key) = (varint(head.len() + data), varint(1));
    let mut leaf = [0; PAGE_SIZE];
    leaf[..10].copy_from_slice(&[13, 0, 0, 0, 1, 0, 0, 0, 0, 10]);
    let cell = [&length[..], &key, &head].concat();
    leaf[10..10 + cell.len()].copy_from_slice(&cell);
    let local = Cell::all(&leaf).next().expect("it looks like an event").local(&leaf).0.len();
    leaf[10 + length.len() + key.len() + local..][..4].copy_from_slice(&2_u32.to_be_bytes());
    assert_eq!(Cell::all(&leaf).next().and_then(|cell| cell.local(&leaf).1), Some(2));
    let mut file = vec![0; PAGE_SIZE];
    file.extend([2_u32.to_be_bytes().to_vec(), vec![0; ON_OVERFLOW]].concat());
    file.extend(leaf.repeat(pages));
    assert_eq!(log.read(&file), 0);
}

/// A number of at most four bytes as SQLite writes it.
fn varint(value: usize) -> Vec<u8> {
    let digits = [value >> 21, value >> 14, value >> 7, value].map(|digit| digit as u8 & 0x7f);
    let start = digits.iter().position(|digit| *digit != 0).unwrap_or(3);
    let mut bytes = digits[start..].to_vec();
    let last = bytes.len() - 1;
    bytes[..last].iter_mut().for_each(|byte| *byte |= 0x80);
    bytes
}

#[test]
fn a_file_is_looked_through_once_and_again_when_it_changes() {
    let log = Fixture::new();
    let (first, second) = (open(&log.path(), SESSION), Salvage::open(&log.path(), SESSION).unwrap());
    assert!(Rc::ptr_eq(&first.index, &second.index));
    assert!(second.index.borrow().whole);
    assert!(
        first.index.borrow().spans.len() < log.texts.len() / 4,
        "one entry for each page, not each event"
    );
    fs::write(log.path(), &log.bytes[..log.bytes.len() / 2]).unwrap();
    let third = open(&log.path(), SESSION);
    assert!(third.last() < first.last());
    assert!(!Rc::ptr_eq(&first.index, &third.index));
    // The place of another session's log.
    let other = open(&log.path(), SessionId::from_u128(8));
    assert_eq!(other.last(), 0);
    // What was found before does not fit any more, and says so.
    assert!(matches!(first.rows(0, u64::MAX, |_, _| Ok(())), Err(Error::Damaged { .. })));
}
