//! Reads a tar stream entry by entry, whoever made it.
//!
//! Header fields are the `tar` crate's business; what spans headers is read here, because an archive may come from a
//! stranger: what is held in memory for one entry is bounded, and extended headers keep their meaning when a value has a
//! line break in it.

use std::io::{self, Read};

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

const BLOCK: u64 = 512;

/// Long names, links and attributes of one entry together.
const EXTRA_BYTES: usize = 4 << 20;

/// Pieces of one file with holes.
const PIECES: usize = 200_000;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    Fifo,
    Device,
    /// Nothing that can be in a file system, such as the label of a tape.
    Note,
}

/// One entry, without its content.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    /// Seconds and nanoseconds.
    pub(super) mtime: (i64, u32),
    /// Length of the file, holes included.
    pub(super) size: u64,
    /// Where its content goes: offset and length, in order; what is between is a hole.
    pub(super) pieces: Vec<(u64, u64)>,
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A tar stream. After [`Entries::next`] gave a file, its content is what [`Read`] gives.
pub(super) struct Entries<R> {
    input: R,
    content: u64,
    padding: u64,
}

fn bad(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Extended headers that belong to the entry after them.
#[derive(Default)]
struct Extra {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Extra {
    fn field(&self, key: &str) -> Option<&[u8]> {
        let mut found = self.fields.iter().rev().filter(|(name, _)| name == key.as_bytes());
        found.next().map(|(_, value)| value.as_slice())
    }

    fn number(&self, key: &str) -> io::Result<Option<u64>> {
        let Some(value) = self.field(key) else { return Ok(None) };
        let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        number.map(Some).ok_or_else(|| bad(format!("the field {key} of an extended header is no number")))
    }
}

impl<R: Read> Entries<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, content: 0, padding: 0 }
    }

    /// What follows the archive, if anything does.
    pub(super) fn into_inner(self) -> R {
        self.input
    }

    /// The next entry; what was not read of the one before is passed over.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut extra = Extra::default();
        loop {
            let rest = self.content + self.padding;
            (self.content, self.padding) = (0, 0);
            self.skip(rest)?;
            let Some(header) = self.header()? else {
                return match extra.bytes {
                    0 => Ok(None),
                    _ => Err(bad("it ends after an extended header")),
                };
            };
            let kind = header.entry_type();
            let size = header.entry_size().map_err(|error| bad(error.to_string()))?;
            match kind {
                EntryType::GNULongName => extra.name = Some(until_zero(self.extra(&mut extra.bytes, size)?)),
                EntryType::GNULongLink => extra.link = Some(until_zero(self.extra(&mut extra.bytes, size)?)),
                EntryType::XHeader => extra.fields = fields(&self.extra(&mut extra.bytes, size)?)?,
                // Defaults for all that follows: nobody writes any that matter in an image.
                EntryType::XGlobalHeader => self.set_content(size)?,
                _ => return self.entry(&header, extra, size).map(Some),
            }
        }
    }

    fn entry(&mut self, header: &Header, extra: Extra, size: u64) -> io::Result<Entry> {
        let stored = extra.number("size")?.unwrap_or(size);
        let name = extra
            .name
            .as_deref()
            .or_else(|| extra.field("path"))
            .map_or_else(|| header.path_bytes().into_owned(), <[u8]>::to_vec);
        let link = extra
            .link
            .as_deref()
            .or_else(|| extra.field("linkpath"))
            .map(<[u8]>::to_vec)
            .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
            .unwrap_or_default();
        // Some writers leave a field empty where they mean zero.
        let field = |bytes: &[u8], value: io::Result<u64>| match value {
            Err(_) if bytes.iter().all(|byte| matches!(byte, 0 | b' ')) => Ok(0),
            other => other.map_err(|error| bad(error.to_string())),
        };
        let old = header.as_old();
        let kind = match header.entry_type() {
            // Before there was a type for directories, a slash at the end said it.
            EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => Kind::Directory,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Kind::File,
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink,
            EntryType::Link => Kind::HardLink,
            EntryType::Fifo => Kind::Fifo,
            EntryType::Char | EntryType::Block => Kind::Device,
            _ => Kind::Note,
        };
        let mut entry = Entry {
            name,
            link,
            kind,
            mode: field(&old.mode, header.mode().map(u64::from))? as u32 & 0o7777,
            uid: extra.number("uid")?.map_or_else(|| field(&old.uid, header.uid()), Ok)?,
            gid: extra.number("gid")?.map_or_else(|| field(&old.gid, header.gid()), Ok)?,
            mtime: match extra.field("mtime").and_then(time) {
                Some(time) => time,
                None => (i64::try_from(field(&old.mtime, header.mtime())?).unwrap_or(0), 0),
            },
            size: stored,
            pieces: vec![(0, stored)],
            attributes: extra
                .fields
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.strip_prefix(b"SCHILY.xattr.")?.to_vec(), value.clone()))
                })
                .collect(),
        };
        if header.entry_type() == EntryType::GNUSparse {
            self.old_pieces(header, &mut entry)?;
            self.set_content(stored)?;
        } else {
            self.set_content(stored)?;
            self.new_pieces(&extra, &mut entry)?;
        }
        Ok(entry)
    }

    /// Holes as GNU tar writes them in its own format: in the header and in blocks after it.
    fn old_pieces(&mut self, header: &Header, entry: &mut Entry) -> io::Result<()> {
        let gnu =
            header.as_gnu().ok_or_else(|| bad("a file with holes has a header that cannot tell them"))?;
        entry.size = gnu.real_size().map_err(|error| bad(error.to_string()))?;
        entry.pieces.clear();
        let stored = header.entry_size().map_err(|error| bad(error.to_string()))?;
        let add = |entry: &mut Entry, pieces: &[GnuSparseHeader]| -> io::Result<()> {
            for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
                let number = |value: io::Result<u64>| value.map_err(|error| bad(error.to_string()));
                entry.pieces.push((number(piece.offset())?, number(piece.length())?));
            }
            if entry.pieces.len() > PIECES { Err(bad("a file has too many holes")) } else { Ok(()) }
        };
        add(entry, &gnu.sparse)?;
        let mut more = gnu.is_extended();
        while more {
            let mut block = GnuExtSparseHeader::new();
            self.input.read_exact(block.as_mut_bytes())?;
            add(entry, &block.sparse)?;
            more = block.is_extended();
        }
        check_pieces(entry, stored)
    }

    /// Holes as they are written in extended headers, with the list there (0.1) or before the content (1.0).
    fn new_pieces(&mut self, extra: &Extra, entry: &mut Entry) -> io::Result<()> {
        let version = (extra.number("GNU.sparse.major")?, extra.number("GNU.sparse.minor")?);
        if let Some(name) = extra.field("GNU.sparse.name") {
            entry.name = name.to_vec();
        }
        match version {
            (Some(1), Some(0)) => {
                entry.size = extra.number("GNU.sparse.realsize")?.unwrap_or(entry.size);
                let mut taken = 0;
                let count = self.line(&mut taken)? as usize;
                if count > PIECES {
                    return Err(bad("a file has too many holes"));
                }
                entry.pieces.clear();
                for _ in 0..count {
                    let offset = self.line(&mut taken)?;
                    entry.pieces.push((offset, self.line(&mut taken)?));
                }
                let rest = taken.next_multiple_of(BLOCK) - taken;
                if rest > self.content {
                    return Err(bad("a list of holes is longer than its file"));
                }
                self.content -= rest;
                self.skip(rest)?;
                check_pieces(entry, self.content)
            }
            (Some(0), Some(1)) | (None, None) if extra.field("GNU.sparse.map").is_some() => {
                entry.size = extra.number("GNU.sparse.size")?.unwrap_or(entry.size);
                let map = extra.field("GNU.sparse.map").unwrap_or_default();
                let numbers: Option<Vec<u64>> = map
                    .split(|byte| *byte == b',')
                    .map(|number| std::str::from_utf8(number).ok()?.parse().ok())
                    .collect();
                let numbers = numbers.ok_or_else(|| bad("a list of holes has no numbers in it"))?;
                entry.pieces = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                check_pieces(entry, self.content)
            }
            (None, None) if extra.field("GNU.sparse.numblocks").is_none() => Ok(()),
            _ => Err(bad("a file has holes in a form that is not known: pack it without --sparse")),
        }
    }

    /// A decimal number on a line of its own, out of the content.
    fn line(&mut self, taken: &mut u64) -> io::Result<u64> {
        let mut number: u64 = 0;
        for digit in 0.. {
            let mut byte = [0];
            self.read_exact(&mut byte)?;
            *taken += 1;
            match byte[0] {
                b'0'..=b'9' => {
                    let next = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(byte[0] - b'0')));
                    number = next.ok_or_else(|| bad("a list of holes has a number that is too large"))?;
                }
                b'\n' if digit > 0 => return Ok(number),
                _ => break,
            }
        }
        Err(bad("a list of holes has something in it that is no number"))
    }

    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        let bytes = header.as_mut_bytes();
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                // Some writers leave out the two empty blocks at the end.
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u32 = bytes[..148].iter().chain(&bytes[156..]).map(|byte| u32::from(*byte)).sum();
        if header.cksum().ok() != Some(sum + 8 * 32) {
            return Err(bad("it is no tar archive, or it is damaged"));
        }
        Ok(Some(header))
    }

    fn extra(&mut self, taken: &mut usize, size: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // The one byte is so that an empty extended header counts as one, too.
        *taken = taken.saturating_add(size).saturating_add(1);
        if *taken > EXTRA_BYTES {
            return Err(bad("an extended header has more than 4 MiB"));
        }
        self.set_content(size as u64)?;
        let mut bytes = vec![0; size];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn set_content(&mut self, size: u64) -> io::Result<()> {
        self.content = size;
        let whole = size.checked_next_multiple_of(BLOCK);
        self.padding = whole.ok_or_else(|| bad("an entry has an impossible size"))? - size;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match io::copy(&mut (&mut self.input).take(bytes), &mut io::sink())? {
            skipped if skipped < bytes => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.content).unwrap_or(usize::MAX).min(buffer.len());
        let got = self.input.read(&mut buffer[..most])?;
        if got == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content -= got as u64;
        Ok(got)
    }
}

/// The pieces are in order, within the file, and as long together as what is stored.
fn check_pieces(entry: &Entry, stored: u64) -> io::Result<()> {
    let (mut end, mut sum) = (0u64, 0u64);
    for (offset, length) in &entry.pieces {
        let good = *offset >= end;
        end = offset.checked_add(*length).unwrap_or(u64::MAX);
        sum = sum.saturating_add(*length);
        if !good || end > entry.size {
            return Err(bad("the pieces of a file with holes overlap or go beyond its end"));
        }
    }
    if sum == stored { Ok(()) } else { Err(bad("a file with holes has more or less content than it says")) }
}

fn until_zero(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

/// `LENGTH KEY=VALUE\n`, again and again; the value may have anything in it.
fn fields(mut bytes: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = Vec::new();
    while bytes.first().is_some_and(|byte| *byte != 0) {
        let field = (|| {
            let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
            let (record, rest) = bytes.split_at_checked(length)?;
            let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            Some((record[..equals].to_vec(), record[equals + 1..].to_vec(), rest))
        })();
        let (key, value, rest) = field.ok_or_else(|| bad("an extended header is damaged"))?;
        fields.push((key, value));
        bytes = rest;
    }
    Ok(fields)
}

/// Seconds with a fraction, as in `1700000000.25`.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    Some(match (text.starts_with('-'), nanoseconds) {
        (true, 1..) => (seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds),
        _ => (seconds, nanoseconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_headers_keep_line_breaks_and_refuse_lies() {
        let good = fields(b"12 path=a\nb\n21 SCHILY.xattr.u=\n\n\n").unwrap();
        assert_eq!(good[0], (b"path".to_vec(), b"a\nb".to_vec()));
        assert_eq!(good[1], (b"SCHILY.xattr.u".to_vec(), b"\n\n".to_vec()));
        for lie in [&b"99 path=a\n"[..], b"5 a=b\n", b"x a=b\n", b"6 ab\n\n", b"6 a=bc", b"0 a=b\n"] {
            assert!(fields(lie).is_err(), "{lie:?}");
        }
    }

    #[test]
    fn times_before_and_after_the_epoch() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"7"), Some((7, 0)));
        assert_eq!(time(b"x"), None);
    }
}
