//! Rows of the `events` table as they lie on a page: cells with a record each, as SQLite's file format describes them.
//! Nothing here trusts a byte: what does not look like an event is not one.

use crate::database::PAGE_SIZE;
use crate::row::Row;

/// Most bytes of a record that a leaf page holds itself; of a longer one the rest is on overflow pages.
const MOST_LOCAL: usize = PAGE_SIZE - 35;
/// Fewest bytes of a longer record that stay on the leaf page.
const FEWEST_LOCAL: usize = (PAGE_SIZE - 12) * 32 / 255 - 23;
/// Bytes of a record on one overflow page, after the number of the next.
pub(super) const ON_OVERFLOW: usize = PAGE_SIZE - 4;
/// Where the places of the cells begin on a leaf page.
const CELLS: usize = 8;
/// Columns of the table.
const COLUMNS: usize = 7;

/// One page's bytes.
pub(super) type Page = [u8; PAGE_SIZE];

/// What a leaf page has of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) seq: u64,
    /// Bytes of the whole record.
    pub(super) length: usize,
    /// Where its first bytes are on the page.
    start: usize,
    local: usize,
}

impl Cell {
    /// The cells of a page that look like events, in the order of the page. The kind of the page is not asked: what only
    /// looks like an event does not fit the checksums later.
    pub(super) fn all(page: &Page) -> impl Iterator<Item = Self> + '_ {
        let count = usize::from(u16::from_be_bytes([page[3], page[4]]));
        page[CELLS..].chunks_exact(2).take(count).filter_map(|place| {
            let place = usize::from(u16::from_be_bytes([place[0], place[1]]));
            Self::at(page, place)
        })
    }

    fn at(page: &Page, place: usize) -> Option<Self> {
        let mut rest = page.get(place..)?;
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        let seq = varint(&mut rest)?;
        // Numbers of events are positive in SQLite's eyes too.
        if seq == 0 || seq > i64::MAX.cast_unsigned() {
            return None;
        }
        let local = local_part(length);
        let needed = if local < length { local + 4 } else { local };
        if rest.len() < needed {
            return None;
        }
        let columns = columns(&rest[..local])?;
        let whole = columns.header.checked_add(columns.sizes()?)?;
        (whole == length).then_some(Self { seq, length, start: page.len() - rest.len(), local })
    }

    /// The bytes that are on the page, and the overflow page that has more.
    pub(super) fn local<'a>(&self, page: &'a Page) -> (&'a [u8], Option<u32>) {
        let end = self.start + self.local;
        let next = (self.local < self.length).then(|| page.get(end..end + 4).and_then(number)).flatten();
        (page.get(self.start..end).unwrap_or_default(), next)
    }
}

/// An event's row and its checksum, from its whole record.
pub(super) fn decode(seq: u64, record: &[u8]) -> Option<(Row, u64)> {
    let columns = columns(record)?;
    let mut rest = record.get(columns.header..)?;
    let [_, at, actor_kind, actor, name, data, hash] = columns.types;
    let at = integer(at, take(&mut rest, size(at)?)?);
    let mut text = |kind: u64| String::from_utf8(take(&mut rest, size(kind)?)?.to_vec()).ok();
    let (actor_kind, actor, name, data) = (text(actor_kind)?, text(actor)?, text(name)?, text(data)?);
    let hash = integer(hash, take(&mut rest, size(hash)?)?).cast_unsigned();
    Some((Row { seq, at, actor_kind, actor, name, data }, hash))
}

/// The number of a page.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// The head of a record.
struct Columns {
    /// Bytes of the head itself.
    header: usize,
    types: [u64; COLUMNS],
}

impl Columns {
    fn sizes(&self) -> Option<usize> {
        self.types.iter().try_fold(0_usize, |sum, kind| sum.checked_add(size(*kind)?))
    }
}

/// Reads the head of a record, when it is that of an event: nothing where the number would be, which is the key; the
/// time; four texts; the checksum.
fn columns(record: &[u8]) -> Option<Columns> {
    let mut rest = record;
    let header = usize::try_from(varint(&mut rest)?).ok()?;
    let mut rest = record.get(record.len() - rest.len()..header)?;
    let mut types = [0; COLUMNS];
    for kind in &mut types {
        *kind = varint(&mut rest)?;
    }
    let [key, at, texts @ .., hash] = types;
    let fits = rest.is_empty() && key == 0 && is_integer(at) && is_integer(hash) && texts.iter().all(is_text);
    fits.then_some(Columns { header, types })
}

fn is_integer(kind: u64) -> bool {
    matches!(kind, 1..=6 | 8 | 9)
}

fn is_text(kind: &u64) -> bool {
    *kind >= 13 && kind % 2 == 1
}

/// Bytes of a column's value.
fn size(kind: u64) -> Option<usize> {
    match kind {
        0 | 8 | 9 => Some(0),
        1..=4 => usize::try_from(kind).ok(),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => usize::try_from((kind - 12) / 2).ok(),
    }
}

/// A value of up to eight bytes with its sign; two kinds are values by themselves.
fn integer(kind: u64, bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start = match kind {
        9 => 1,
        _ if negative => -1,
        _ => 0,
    };
    bytes.iter().fold(start, |value, byte| (value << 8) | i64::from(*byte))
}

fn local_part(length: usize) -> usize {
    if length <= MOST_LOCAL {
        return length;
    }
    let even = FEWEST_LOCAL + (length - FEWEST_LOCAL) % ON_OVERFLOW;
    if even <= MOST_LOCAL { even } else { FEWEST_LOCAL }
}

/// Takes SQLite's number of up to nine bytes from the front.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..8 {
        let byte = *bytes.get(place)?;
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            *bytes = &bytes[place + 1..];
            return Some(value);
        }
    }
    let last = *bytes.get(8)?;
    *bytes = &bytes[9..];
    Some((value << 8) | u64::from(last))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_as_sqlite_writes_them() {
        for (bytes, value) in [
            (&[0][..], 0),
            (&[0x7f], 127),
            (&[0x81, 0], 128),
            (&[0xff; 9], u64::MAX),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 5], 5),
        ] {
            let mut rest = bytes;
            assert_eq!((varint(&mut rest), rest), (Some(value), &[][..]), "{bytes:?}");
        }
        assert_eq!(varint(&mut &[0x80, 0x80][..]), None);
        assert_eq!(varint(&mut &[0xff; 8][..]), None);
        for (kind, bytes, value) in [
            (8, &[][..], 0),
            (9, &[], 1),
            (1, &[0xfe], -2),
            (2, &[1, 0], 256),
            (5, &[0xff; 6], -1),
            (6, &[0x80, 0, 0, 0, 0, 0, 0, 0], i64::MIN),
        ] {
            assert_eq!(integer(kind, bytes), value, "{kind} {bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), PAGE_SIZE),
            // Cells that begin like those of events are looked at further than noise is.
            cell in proptest::collection::vec(any::<u8>(), 0..24),
            record in proptest::collection::vec(prop_oneof![Just(0_u8), 1..16_u8, any::<u8>()], 0..64),
        ) {
            let mut page: Page = bytes.try_into().unwrap();
            page[PAGE_SIZE / 2..][..cell.len()].copy_from_slice(&cell);
            page[CELLS..CELLS + 2].copy_from_slice(&(PAGE_SIZE as u16 / 2).to_be_bytes());
            for cell in Cell::all(&page) {
                let (local, next) = cell.local(&page);
                prop_assert_eq!(next.is_some(), local.len() < cell.length);
                decode(cell.seq, local);
            }
            decode(1, &record);
        }
    }
}
