//! The form of a pack: a whole layer in one file, written in one go while a sandbox waits for it. It is unfolded into a
//! tree soon after, or by whoever needs the tree first.
//!
//! After a head that tells the length and the checksum of each part there are: what the layer is, its index, its entries
//! (names and what is kept of each file, depth first) and the bytes of its files, in the order of the entries.

use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::duplicate::{Kept, Special};
use crate::{Layer, LayerId};

const MAGIC: &[u8] = b"slipway pack 02\n";
const PARTS: usize = 4;
/// For each part its length and its checksum; at last the checksum of all that.
const HEAD: usize = MAGIC.len() + PARTS * (8 + 4) + 4;

/// What a pack is of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) layer: Layer,
    /// The layer that unchanged files are taken from; it must be there until the pack is unfolded.
    pub(super) like: Option<LayerId>,
}

/// The entries of a tree and the bytes of its files, in memory.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// An attribute of a file.
pub(super) type Attribute = (String, Vec<u8>);

/// One entry of a tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A directory begins; what follows is in it.
    Enter { name: CString },
    /// The current directory ends. The last one is that of the root.
    Leave { kept: Kept, attributes: Vec<Attribute>, whiteouts: bool },
    /// A file whose bytes are in the pack: those parts of it that are no holes, each by start and length.
    File { name: CString, kept: Kept, attributes: Vec<Attribute>, size: u64, parts: Vec<(u64, u64)> },
    /// A file of an earlier copy.
    Same { name: CString, like: u8, path: Vec<u8> },
    /// Another name of a file of this tree.
    Link { name: CString, path: Vec<u8> },
    /// Neither a directory nor a regular file.
    Special { name: CString, kept: Kept, special: Special },
}

const ENTER: u8 = 1;
const LEAVE: u8 = 2;
const FILE: u8 = 3;
const SAME: u8 = 4;
const LINK: u8 = 5;
const SYMLINK: u8 = 6;
const FIFO: u8 = 7;
const WHITEOUT: u8 = 8;

/// Puts entries at the end of those that are there.
pub(super) struct Encoder<'a>(pub(super) &'a mut Vec<u8>);

impl Encoder<'_> {
    pub(super) fn enter(&mut self, name: &CStr) {
        self.0.push(ENTER);
        self.bytes(name.to_bytes());
    }

    pub(super) fn leave(&mut self, kept: &Kept, attributes: &[Attribute], whiteouts: bool) {
        self.0.push(LEAVE);
        self.kept(kept);
        self.attributes(attributes);
        self.0.push(u8::from(whiteouts));
    }

    pub(super) fn file(
        &mut self,
        name: &CStr,
        kept: &Kept,
        attributes: &[Attribute],
        size: u64,
        parts: &[(u64, u64)],
    ) {
        self.0.push(FILE);
        self.bytes(name.to_bytes());
        self.kept(kept);
        self.attributes(attributes);
        self.long(size);
        self.length(parts.len());
        for (start, length) in parts {
            self.long(*start);
            self.long(*length);
        }
    }

    pub(super) fn same(&mut self, name: &CStr, like: u8, path: &[u8]) {
        self.0.extend([SAME, like]);
        self.bytes(name.to_bytes());
        self.bytes(path);
    }

    pub(super) fn link(&mut self, name: &CStr, path: &[u8]) {
        self.0.push(LINK);
        self.bytes(name.to_bytes());
        self.bytes(path);
    }

    pub(super) fn special(&mut self, name: &CStr, kept: &Kept, special: &Special) {
        self.0.push(match special {
            Special::Symlink(_) => SYMLINK,
            Special::Fifo => FIFO,
            Special::Whiteout => WHITEOUT,
        });
        self.bytes(name.to_bytes());
        self.kept(kept);
        if let Special::Symlink(text) = special {
            self.bytes(text.to_bytes());
        }
    }

    fn kept(&mut self, kept: &Kept) {
        for number in [kept.mode, kept.user, kept.group, kept.nanoseconds] {
            self.0.extend(number.to_le_bytes());
        }
        self.0.extend(kept.seconds.to_le_bytes());
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.length(attributes.len());
        for (name, value) in attributes {
            self.bytes(name.as_bytes());
            self.bytes(value);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Nothing in a pack is near as long as this can tell: what is captured is far smaller.
    fn length(&mut self, length: usize) {
        self.0.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }
}

/// Reads entries one after the other.
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next entry. Names are checked: none leads anywhere but into its own directory.
    pub(super) fn entry(&mut self) -> io::Result<Entry> {
        Ok(match self.byte()? {
            ENTER => Entry::Enter { name: self.name()? },
            LEAVE => {
                let (kept, attributes) = (self.kept()?, self.attributes()?);
                Entry::Leave { kept, attributes, whiteouts: self.byte()? != 0 }
            }
            FILE => {
                let (name, kept, attributes) = (self.name()?, self.kept()?, self.attributes()?);
                let size = self.long()?;
                let parts = (0..self.length()?).map(|_| Ok((self.long()?, self.long()?)));
                Entry::File { name, kept, attributes, size, parts: parts.collect::<io::Result<_>>()? }
            }
            SAME => {
                let like = self.byte()?;
                Entry::Same { name: self.name()?, like, path: self.bytes()?.to_owned() }
            }
            LINK => Entry::Link { name: self.name()?, path: self.bytes()?.to_owned() },
            kind @ (SYMLINK | FIFO | WHITEOUT) => {
                let (name, kept) = (self.name()?, self.kept()?);
                let special = match kind {
                    SYMLINK => Special::Symlink(CString::new(self.bytes()?).map_err(|_| broken())?),
                    FIFO => Special::Fifo,
                    _ => Special::Whiteout,
                };
                Entry::Special { name, kept, special }
            }
            _ => return Err(broken()),
        })
    }

    fn name(&mut self) -> io::Result<CString> {
        file_name(self.bytes()?)
    }

    fn kept(&mut self) -> io::Result<Kept> {
        let mut number = || Ok::<_, io::Error>(u32::from_le_bytes(self.chunk()?));
        let (mode, user, group, nanoseconds) = (number()?, number()?, number()?, number()?);
        Ok(Kept { mode, user, group, nanoseconds, seconds: i64::from_le_bytes(self.chunk()?) })
    }

    fn attributes(&mut self) -> io::Result<Vec<Attribute>> {
        let mut attributes = Vec::new();
        for _ in 0..self.length()? {
            let name = std::str::from_utf8(self.bytes()?).map_err(|_| broken())?.to_owned();
            attributes.push((name, self.bytes()?.to_owned()));
        }
        Ok(attributes)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(u8::from_le_bytes(self.chunk()?))
    }

    fn length(&mut self) -> io::Result<usize> {
        usize::try_from(u32::from_le_bytes(self.chunk()?)).map_err(|_| broken())
    }

    fn long(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.chunk()?))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(broken)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn chunk<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk().ok_or_else(broken)?;
        self.0 = rest;
        Ok(*chunk)
    }
}

/// A name that leads nowhere but into the directory it is used in.
pub(super) fn file_name(name: &[u8]) -> io::Result<CString> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(broken());
    }
    CString::new(name).map_err(|_| broken())
}

/// The error of a pack that is not what it should be.
pub(super) fn broken() -> io::Error {
    damaged("it makes no sense")
}

fn damaged(how: &str) -> io::Error {
    let message = format!(
        "the pack of the layer is damaged: {how}. The disk lost what was written to it; go on from an earlier snapshot"
    );
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// Writes a pack into a new file.
pub(super) fn write(
    file: &mut std::fs::File,
    about: &About,
    index: &[u8],
    contents: &Contents,
) -> io::Result<()> {
    let about = serde_json::to_vec(about)?;
    let parts: [&[u8]; PARTS] = [&about, index, &contents.entries, &contents.data];
    let mut head = MAGIC.to_vec();
    for part in parts {
        head.extend((part.len() as u64).to_le_bytes());
        head.extend(checksum(part).to_le_bytes());
    }
    head.extend(checksum(&head).to_le_bytes());
    let mut pieces = [&head[..], parts[0], parts[1], parts[2], parts[3]].map(IoSlice::new);
    let mut left = &mut pieces[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut left, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An open pack, of which what it is about has been read.
pub(super) struct Pack {
    pub(super) about: About,
    file: std::fs::File,
    /// The parts that were not read yet.
    left: [Part; PARTS - 1],
}

/// What the head says of a part.
#[derive(Clone, Copy, Default)]
struct Part {
    length: usize,
    checksum: u32,
}

impl Pack {
    /// Opens one; None if it is not there. One that is not whole is an error.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut file = match std::fs::File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut head = [0; HEAD];
        file.read_exact(&mut head).map_err(cut_off)?;
        let [about, left @ ..] = parts(&head)?;
        let whole = left.iter().try_fold(HEAD + about.length, |sum, part| sum.checked_add(part.length));
        if whole.and_then(|whole| u64::try_from(whole).ok()) != Some(file.metadata()?.len()) {
            return Err(damaged("it is not as long as it was"));
        }
        // No longer than the file is, so there is room for it.
        let about = serde_json::from_slice(&read(&mut file, about)?)?;
        Ok(Some(Self { about, file, left }))
    }

    /// The open file itself.
    pub(super) fn file(&self) -> &std::fs::File {
        &self.file
    }

    /// The index of the layer, as it is written.
    pub(super) fn index(&mut self) -> io::Result<Vec<u8>> {
        read(&mut self.file, std::mem::take(&mut self.left[0]))
    }

    /// All the rest, after the index.
    pub(super) fn contents(&mut self) -> io::Result<Contents> {
        let [_, entries, data] = std::mem::take(&mut self.left);
        Ok(Contents { entries: read(&mut self.file, entries)?, data: read(&mut self.file, data)? })
    }
}

/// What a head says of each part.
fn parts(head: &[u8; HEAD]) -> io::Result<[Part; PARTS]> {
    let mut numbers = Decoder(head.strip_prefix(MAGIC).ok_or_else(broken)?);
    let mut parts = [Part::default(); PARTS];
    for part in &mut parts {
        part.length = usize::try_from(numbers.long()?).map_err(|_| broken())?;
        part.checksum = u32::from_le_bytes(numbers.chunk()?);
    }
    let (own, _) = head.split_at(HEAD - 4);
    if checksum(own) != u32::from_le_bytes(numbers.chunk()?) {
        return Err(damaged("its beginning is not what was written"));
    }
    Ok(parts)
}

fn read(file: &mut std::fs::File, part: Part) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; part.length];
    file.read_exact(&mut bytes).map_err(cut_off)?;
    if checksum(&bytes) != part.checksum {
        return Err(damaged("its content is not what was written"));
    }
    Ok(bytes)
}

fn cut_off(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
        _ => error,
    }
}
