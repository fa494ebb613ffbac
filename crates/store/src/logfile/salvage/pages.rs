//! The pages of a log as they are on disk: those of the file, and over them those that the write-ahead log has and that
//! were committed. SQLite has no part in this.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::record::Page;
use crate::database::PAGE_SIZE;
use crate::layout::beside;

/// Bytes before the first frame of a write-ahead log.
const WAL_HEAD: usize = 32;
/// Bytes before the page of a frame.
const FRAME_HEAD: usize = 24;
/// How a write-ahead log begins; the last bit says how its sums read bytes.
const MAGIC: u32 = 0x377f_0682;

/// A page's last committed frame: where its bytes are in the write-ahead log.
pub(super) type Frames = HashMap<u32, u64>;

/// The files of a log, open for reading.
pub(super) struct Files {
    log: File,
    wal: Option<File>,
    /// Differs when the files do.
    pub(super) identity: Identity,
}

/// Which files they are, and when they were changed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    log: Stamp,
    wal: Option<Stamp>,
}

/// Device, file, length, time.
type Stamp = (u64, u64, u64, (i64, i64));

/// The numbers of a log's pages. They begin with 1.
#[derive(Debug)]
pub(super) struct PageNumbers {
    /// The last in the file.
    in_file: u32,
    /// Those after it, in the write-ahead log. Their numbers may be anything.
    beyond: Vec<u32>,
}

impl PageNumbers {
    pub(super) fn count(&self) -> u64 {
        u64::from(self.in_file) + self.beyond.len() as u64
    }

    /// The number of one of them, in order.
    pub(super) fn get(&self, place: u64) -> Option<u32> {
        match place.checked_sub(u64::from(self.in_file)) {
            None => u32::try_from(place + 1).ok(),
            Some(place) => self.beyond.get(usize::try_from(place).ok()?).copied(),
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        (1..=self.in_file).contains(&number) || self.beyond.binary_search(&number).is_ok()
    }
}

impl Files {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let log = File::open(path)?;
        let wal = match File::open(beside(path, "-wal")) {
            Ok(wal) if wal.metadata()?.len() > 0 => Some(wal),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let stamp = |file: &Metadata| (file.dev(), file.ino(), file.len(), (file.mtime(), file.mtime_nsec()));
        let wal_stamp = wal.as_ref().map(|wal| wal.metadata().map(|file| stamp(&file))).transpose()?;
        let identity = Identity { log: stamp(&log.metadata()?), wal: wal_stamp };
        Ok(Self { log, wal, identity })
    }

    /// The frames that SQLite would use: from the first one on, as long as their sums fit, up to a commit.
    pub(super) fn frames(&self) -> io::Result<Frames> {
        match &self.wal {
            Some(wal) => committed(BufReader::new(wal)),
            None => Ok(Frames::new()),
        }
    }

    /// The pages that there are, as a whole or in part.
    pub(super) fn numbers(&self, frames: &Frames) -> PageNumbers {
        let in_file = self.identity.log.2.div_ceil(PAGE_SIZE as u64);
        let in_file = u32::try_from(in_file).unwrap_or(u32::MAX);
        let mut beyond: Vec<_> = frames.keys().copied().filter(|number| *number > in_file).collect();
        beyond.sort_unstable();
        PageNumbers { in_file, beyond }
    }

    /// Reads a page. What the file does not have of it is zero.
    pub(super) fn read(&self, frames: &Frames, number: u32, page: &mut Page) -> io::Result<()> {
        page.fill(0);
        let (file, place) = match (frames.get(&number), &self.wal) {
            (Some(place), Some(wal)) => (wal, *place),
            _ => (&self.log, u64::from(number.saturating_sub(1)) * PAGE_SIZE as u64),
        };
        let mut have = 0;
        while have < PAGE_SIZE {
            match file.read_at(&mut page[have..], place + have as u64) {
                Ok(0) => break,
                Ok(read) => have += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Finds the last committed frame of each page.
fn committed(mut wal: impl Read) -> io::Result<Frames> {
    let mut frames = Frames::new();
    let mut head = [0; WAL_HEAD];
    if !fill(&mut wal, &mut head)? {
        return Ok(frames);
    }
    let magic = word(&head, 0);
    let mut sum = Sum { big_endian: magic & 1 == 1, sums: (0, 0) };
    sum.add(&head[..WAL_HEAD - 8]);
    if magic & !1 != MAGIC || word(&head, 8) != PAGE_SIZE as u32 || sum.sums != pair(&head, 24) {
        return Ok(frames);
    }
    let mut open = Vec::new();
    let mut frame = [0; FRAME_HEAD + PAGE_SIZE];
    let mut place = WAL_HEAD;
    while fill(&mut wal, &mut frame)? {
        sum.add(&frame[..8]);
        sum.add(&frame[FRAME_HEAD..]);
        // A frame of an earlier round has other salts.
        if pair(&frame, 8) != pair(&head, 16) || pair(&frame, 16) != sum.sums {
            break;
        }
        open.push((word(&frame, 0), (place + FRAME_HEAD) as u64));
        if word(&frame, 4) != 0 {
            frames.extend(open.drain(..));
        }
        place += frame.len();
    }
    Ok(frames)
}

/// Reads all of it; false when there is not that much.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The running sum of a write-ahead log.
struct Sum {
    big_endian: bool,
    sums: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let read = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let (mut one, mut two) = self.sums;
        for words in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
            one = one.wrapping_add(read(words[0])).wrapping_add(two);
            two = two.wrapping_add(read(words[1])).wrapping_add(one);
        }
        self.sums = (one, two);
    }
}

fn word(bytes: &[u8], place: usize) -> u32 {
    bytes.get(place..).and_then(super::record::number).unwrap_or(0)
}

fn pair(bytes: &[u8], place: usize) -> (u32, u32) {
    (word(bytes, place), word(bytes, place + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write-ahead log with frames of these pages; the second number is not 0 in a frame that commits.
    fn wal(big_endian: bool, frames: &[(u32, u32)]) -> Vec<u8> {
        let mut sum = Sum { big_endian, sums: (0, 0) };
        let words = [MAGIC | u32::from(big_endian), 3_007_000, PAGE_SIZE as u32, 0, 11, 12];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        sum.add(&bytes);
        bytes.extend([sum.sums.0, sum.sums.1].iter().flat_map(|word| word.to_be_bytes()));
        for (page, commit) in frames {
            let content = [*page as u8; PAGE_SIZE];
            sum.add(&[page.to_be_bytes(), commit.to_be_bytes()].concat());
            sum.add(&content);
            let words = [*page, *commit, 11, 12, sum.sums.0, sum.sums.1];
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            bytes.extend(content);
        }
        bytes
    }

    fn place(frame: u64) -> u64 {
        (WAL_HEAD + FRAME_HEAD) as u64 + frame * (FRAME_HEAD + PAGE_SIZE) as u64
    }

    #[test]
    fn the_last_committed_frame_of_each_page_counts() {
        for big_endian in [false, true] {
            let bytes = wal(big_endian, &[(2, 0), (3, 3), (2, 3), (2, 0)]);
            assert_eq!(committed(&bytes[..]).unwrap(), Frames::from([(2, place(2)), (3, place(1))]));
            // What comes after a damaged frame does not, nor a transaction without its end.
            let mut damaged = bytes.clone();
            damaged[place(2) as usize + 1000] ^= 1;
            assert_eq!(committed(&damaged[..]).unwrap(), Frames::from([(2, place(0)), (3, place(1))]));
            assert_eq!(committed(&bytes[..place(1) as usize]).unwrap(), Frames::new());
            let mut other_round = bytes.clone();
            other_round[place(0) as usize - FRAME_HEAD + 8] ^= 1;
            assert_eq!(committed(&other_round[..]).unwrap(), Frames::new());
        }
    }

    #[test]
    fn a_page_far_away_is_one_page_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.db");
        std::fs::write(&path, [0; PAGE_SIZE + 1]).unwrap();
        std::fs::write(beside(&path, "-wal"), wal(false, &[(u32::MAX, 0), (2, 1)])).unwrap();
        let files = Files::open(&path).unwrap();
        let frames = files.frames().unwrap();
        let numbers = files.numbers(&frames);
        let all: Vec<_> = (0..numbers.count()).filter_map(|place| numbers.get(place)).collect();
        assert_eq!(all, [1, 2, u32::MAX]);
        assert_eq!(numbers.get(3), None);
        assert_eq!(
            [0, 1, 2, 3, u32::MAX].map(|number| numbers.contains(number)),
            [false, true, true, false, true]
        );
        let mut page = [1; PAGE_SIZE];
        for (number, content) in [(1, 0), (2, 2), (3, 0), (u32::MAX, 255)] {
            files.read(&frames, number, &mut page).unwrap();
            assert_eq!(page, [content; PAGE_SIZE], "page {number}");
        }
    }
}
