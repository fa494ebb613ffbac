//! Looks through an archive before it becomes a layer: what it is uncompressed, and which users it knows.

use std::io::{self, Read};
use std::path::Path;

use super::accounts::{Accounts, Found};
use super::compressed;
use super::digest::{Digest, Hashing};
use super::entries::{Entries, Entry, Kind};
use super::room;
use super::tree::Name;
use super::unpack::{Bounds, Metered};
use crate::Error;

/// A list of users that is longer is none.
const LIST_BYTES: u64 = 1 << 20;

/// What an archive is.
pub(super) struct Scanned {
    /// Of the uncompressed archive.
    pub(super) content: Digest,
    pub(super) accounts: Accounts,
    /// Whether it has not a single entry.
    pub(super) empty: bool,
    /// What it will take up on the disk, about.
    pub(super) bytes: u64,
}

/// Looks through an archive.
pub(super) fn scan(path: &Path, whiteouts: bool, bounds: Bounds) -> Result<Scanned, Error> {
    let file = std::fs::File::open(path).map_err(Error::io(path))?;
    look(file, whiteouts, bounds).map_err(|error| Error::Build {
        message: format!("{} cannot be read as an archive: {error}", path.display()),
        hint: "look at it with `tar -tv`, or make it anew".to_owned(),
    })
}

fn look(file: std::fs::File, whiteouts: bool, bounds: Bounds) -> io::Result<Scanned> {
    let source = Metered { source: compressed::open(file)?, left: bounds.bytes };
    let mut entries = Entries::new(Hashing::new(source));
    let mut accounts = Accounts::default();
    let mut hides = false;
    let mut empty = true;
    let mut bytes = 0_u64;
    while let Some(entry) = entries.next()? {
        empty &= entry.kind == Kind::Note;
        bytes = bytes.saturating_add(room::of(&entry));
        let Ok(name) = Name::new(&entry.name) else { continue };
        match name.bytes() {
            b"etc/passwd" => accounts.passwd = read(&entry, &mut entries)?,
            b"etc/group" => accounts.group = read(&entry, &mut entries)?,
            b"etc" if entry.kind != Kind::Directory => {
                accounts = Accounts { passwd: Found::Unreadable, group: Found::Unreadable };
            }
            b"etc/.wh..wh..opq" | b".wh..wh..opq" | b".wh.etc" if whiteouts => hides = true,
            b"etc/.wh.passwd" if whiteouts => accounts.passwd.remove(),
            b"etc/.wh.group" if whiteouts => accounts.group.remove(),
            _ => {}
        }
    }
    if hides {
        accounts.passwd.remove();
        accounts.group.remove();
    }
    let mut rest = entries.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    Ok(Scanned { content: rest.finish(), accounts, empty, bytes })
}

fn read(entry: &Entry, content: &mut impl Read) -> io::Result<Found> {
    if entry.kind != Kind::File || entry.size > LIST_BYTES || entry.pieces != [(0, entry.size)] {
        return Ok(Found::Unreadable);
    }
    let mut text = Vec::new();
    content.take(entry.size).read_to_end(&mut text)?;
    Ok(String::from_utf8(text).map_or(Found::Unreadable, Found::Text))
}
