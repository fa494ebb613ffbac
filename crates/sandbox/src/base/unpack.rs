//! Unpacks an archive into a layer's directory.
//!
//! The archive may come from a stranger. Every name is resolved below the directory one part at a time from open
//! directories, so no entry reaches outside: not by its words, not through a link that was planted before or that a layer
//! below has, not by a hard link. Devices are left out, and attributes that would tell the overlay something are, too.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::below::Below;
use super::compressed;
use super::entries::{Entries, Entry, Kind};
use super::tree::{Name, Tree};
use crate::{Archive, Error};

/// How the overlay is told of removals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// In `trusted.overlay`, as root. Entries keep their owners.
    Trusted,
    /// In `user.overlay`, as an ordinary user, to whom everything belongs.
    User,
}

impl Marks {
    fn opaque(self) -> &'static str {
        match self {
            Self::Trusted => "trusted.overlay.opaque",
            Self::User => "user.overlay.opaque",
        }
    }
}

/// How much an archive may unpack to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the archive uncompressed, and of its files with their holes.
    pub bytes: u64,
    /// Entries, and directories that are made for them.
    pub entries: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 64 << 30, entries: 5_000_000 }
    }
}

/// What was unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// Entries and directories that were made.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// What was left out or changed, in words; the first few.
    pub notes: Vec<String>,
}

const NOTES: usize = 20;

/// Ids that a sandbox has; whoever is beyond them becomes nobody.
const IDS: u64 = 65536;
const NOBODY: u32 = 65534;

/// Memory for the times of directories, which can only be set at the end.
const LATER_BYTES: usize = 64 << 20;

/// Unpacks an archive into `into`, which is made unless it is there. On an error, what was unpacked so far is left. Names
/// mean what they mean over the trees in `below`, topmost first: an entry below a link goes where the link leads, and a
/// hard link may be to a file in them.
pub fn unpack(
    archive: &Archive,
    into: &Path,
    below: &[PathBuf],
    marks: Marks,
    bounds: Bounds,
) -> Result<Unpacked, Error> {
    let file = std::fs::File::open(&archive.path).map_err(Error::io(&archive.path))?;
    match std::fs::create_dir(into) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other.map_err(Error::io(into))?,
    }
    let below = Below::open(below, marks.opaque()).map_err(Error::io(into))?;
    let tree = Tree::open(into, below, marks == Marks::Trusted).map_err(Error::io(into))?;
    let mut unpacking = Unpacking {
        tree,
        marks,
        whiteouts: archive.whiteouts,
        bounds,
        done: Unpacked::default(),
        later: Vec::new(),
        later_bytes: 0,
    };
    let source = compressed::open(file).and_then(|source| {
        let mut entries = Entries::new(Metered { source, left: bounds.bytes });
        while let Some(entry) = entries.next()? {
            unpacking.entry(&entry, &mut entries).map_err(|error| named(&entry, error))?;
        }
        unpacking.finish()
    });
    match source {
        Ok(()) => Ok(unpacking.done),
        Err(error) if full(&error) => Err(Error::Io { path: into.to_owned(), source: error }),
        Err(error) => Err(Error::Build {
            message: format!("{} cannot be unpacked: {error}", archive.path.display()),
            hint: "look at it with `tar -tv`, or make it anew".to_owned(),
        }),
    }
}

fn full(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, StorageFull};
    matches!(error.kind(), PermissionDenied | QuotaExceeded | StorageFull)
}

/// Says at which entry it happened, and stays an error of the disk if it is one.
fn named(entry: &Entry, error: io::Error) -> io::Error {
    if full(&error) {
        return error;
    }
    io::Error::new(error.kind(), format!("\"{}\": {error}", entry.name.escape_ascii()))
}

fn bad(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Gives out no more than it may.
pub(super) struct Metered<R> {
    pub(super) source: R,
    pub(super) left: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(too_large)?;
        Ok(got)
    }
}

fn too_large() -> io::Error {
    bad("it has more in it than a base may have")
}

struct Unpacking {
    tree: Tree,
    marks: Marks,
    whiteouts: bool,
    bounds: Bounds,
    done: Unpacked,
    later: Vec<(Vec<u8>, Timespec)>,
    later_bytes: usize,
}

impl Unpacking {
    fn entry(&mut self, entry: &Entry, content: &mut impl Read) -> io::Result<()> {
        if entry.kind == Kind::Note {
            return Ok(());
        }
        let name = Name::new(&entry.name)?;
        self.count(1)?;
        let Some((parent, last)) = name.split() else {
            return match entry.kind {
                Kind::Directory => self.top(entry),
                _ => Err(bad("it stands for the root, which can only be a directory")),
            };
        };
        if self.whiteouts && last.starts_with(b".wh.") {
            return self.whiteout(parent, &last[4..]);
        }
        if entry.kind == Kind::Device {
            self.note(format!("left out the device \"{}\"", entry.name.escape_ascii()));
            return Ok(());
        }
        self.enter(parent)?;
        match entry.kind {
            Kind::File => self.file(last, entry, content),
            Kind::Directory => self.directory(last, entry),
            Kind::Symlink => self.symlink(last, entry),
            Kind::HardLink => self.hard_link(last, entry),
            Kind::Fifo => self.fifo(last, entry),
            Kind::Device | Kind::Note => Ok(()),
        }
    }

    fn count(&mut self, more: u64) -> io::Result<()> {
        self.done.entries += more;
        if self.done.entries > self.bounds.entries { Err(too_large()) } else { Ok(()) }
    }

    fn note(&mut self, note: String) {
        if self.done.notes.len() < NOTES && !self.done.notes.contains(&note) {
            self.done.notes.push(note);
        }
    }

    /// Goes to a directory and makes what is missing on the way.
    fn enter(&mut self, parent: &[u8]) -> io::Result<()> {
        let room = self.bounds.entries - self.done.entries;
        let made = self.tree.enter(parent, room, self.whiteouts.then_some(self.marks.opaque()))?;
        self.count(made)
    }

    fn top(&mut self, entry: &Entry) -> io::Result<()> {
        self.tree.enter(b"", 0, None)?;
        let top = self.tree.here();
        let time = apply(top, entry, self.marks)?;
        self.keep_time(Vec::new(), time);
        Ok(())
    }

    fn file(&mut self, name: &[u8], entry: &Entry, content: &mut impl Read) -> io::Result<()> {
        if entry.size > self.bounds.bytes - self.done.bytes {
            return Err(too_large());
        }
        self.done.bytes += entry.size;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            self.tree.make(name, |here| rustix::fs::openat(here, name, flags, Mode::RUSR | Mode::WUSR))?;
        let mut file = std::fs::File::from(file);
        for (offset, length) in &entry.pieces {
            if *offset > 0 {
                file.seek(SeekFrom::Start(*offset))?;
            }
            if io::copy(&mut content.take(*length), &mut file)? < *length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        if entry.pieces != [(0, entry.size)] {
            file.set_len(entry.size)?;
        }
        self.attributes(file.as_fd(), entry)?;
        let time = apply(file.as_fd(), entry, self.marks)?;
        Ok(rustix::fs::futimens(&file, &both(time))?)
    }

    fn directory(&mut self, name: &[u8], entry: &Entry) -> io::Result<()> {
        let way = self.tree.way_to(name);
        let opaque = self.whiteouts.then_some(self.marks.opaque());
        let (directory, _) = self.tree.directory(name, opaque)?;
        self.attributes(directory.as_fd(), entry)?;
        let time = apply(directory.as_fd(), entry, self.marks)?;
        self.keep_time(way, time);
        Ok(())
    }

    fn symlink(&mut self, name: &[u8], entry: &Entry) -> io::Result<()> {
        self.tree.make(name, |here| rustix::fs::symlinkat(entry.link.as_slice(), here, name))?;
        self.by_name(name, entry)
    }

    fn fifo(&mut self, name: &[u8], entry: &Entry) -> io::Result<()> {
        let mode = Mode::from_raw_mode(entry.mode & 0o777);
        self.tree.make(name, |here| rustix::fs::mknodat(here, name, FileType::Fifo, mode, 0))?;
        self.by_name(name, entry)?;
        Ok(rustix::fs::chmodat(self.tree.here(), name, mode, AtFlags::empty())?)
    }

    /// Owner and time of what cannot be opened.
    fn by_name(&mut self, name: &[u8], entry: &Entry) -> io::Result<()> {
        let here = self.tree.here();
        if self.marks == Marks::Trusted {
            let (uid, gid) = owner(entry);
            rustix::fs::chownat(here, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let times = both(time(entry));
        Ok(rustix::fs::utimensat(here, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn hard_link(&mut self, name: &[u8], entry: &Entry) -> io::Result<()> {
        let target = Name::new(&entry.link)?;
        let missing = || bad(format!("it links to \"{}\", which is not there", entry.link.escape_ascii()));
        let (parent, last) = target.split().ok_or_else(missing)?;
        // A file of a layer below gets one more name here: layers share files that do not change.
        let from = self.tree.holder(parent, last)?.ok_or_else(missing)?;
        let stat = |at: BorrowedFd<'_>, name: &[u8]| rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        let target = stat(from.as_fd(), last).map_err(|_| missing())?;
        if FileType::from_raw_mode(target.st_mode) == FileType::Directory {
            return Err(bad("it links to a directory"));
        }
        let same = stat(self.tree.here(), name);
        if same.is_ok_and(|same| (same.st_dev, same.st_ino) == (target.st_dev, target.st_ino)) {
            return Ok(());
        }
        // The target is a name in an open directory and is not followed if it is a link.
        self.tree.make(name, |here| rustix::fs::linkat(&from, last, here, name, AtFlags::empty()))
    }

    /// A removal of something in the layers below. It says nothing about this layer, whatever the order.
    fn whiteout(&mut self, parent: &[u8], removed: &[u8]) -> io::Result<()> {
        if removed == b".wh..opq" {
            self.enter(parent)?;
            return self.tree.mark(self.marks.opaque());
        }
        if removed.starts_with(b".wh.") {
            // Bookkeeping of an older file system, of no use to anybody.
            return Ok(());
        }
        if matches!(removed, b"" | b"." | b"..") {
            return Err(bad("it removes nothing that has a name"));
        }
        self.enter(parent)?;
        let nothing = Mode::empty();
        match rustix::fs::mknodat(self.tree.here(), removed, FileType::CharacterDevice, nothing, 0) {
            Err(Errno::EXIST) => {
                let stat = rustix::fs::statat(self.tree.here(), removed, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    let (directory, _) = self.tree.directory(removed, None)?;
                    super::tree::mark(directory.as_fd(), self.marks.opaque())?;
                }
                Ok(())
            }
            other => Ok(other?),
        }
    }

    fn attributes(&mut self, file: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        for (key, value) in &entry.attributes {
            // Capabilities are worth nothing in a sandbox, and the overlay's own attributes are ours to set.
            if !key.starts_with(b"user.") || key.starts_with(b"user.overlay.") {
                continue;
            }
            match rustix::fs::fsetxattr(file, key.as_slice(), value, XattrFlags::empty()) {
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {
                    self.note(format!(
                        "left out the attribute {} of \"{}\"",
                        key.escape_ascii(),
                        entry.name.escape_ascii()
                    ));
                }
                other => other?,
            }
        }
        if self.marks == Marks::Trusted && (entry.uid >= IDS || entry.gid >= IDS) {
            self.note("gave what belongs to ids beyond 65535 to nobody (65534)".to_owned());
        }
        Ok(())
    }

    fn keep_time(&mut self, way: Vec<u8>, time: Timespec) {
        self.later_bytes += way.len() + std::mem::size_of::<(Vec<u8>, Timespec)>();
        if self.later_bytes > LATER_BYTES {
            self.note("left out the times of some directories: there are too many".to_owned());
        } else {
            self.later.push((way, time));
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        for (way, time) in std::mem::take(&mut self.later) {
            if let Some(directory) = self.tree.find(&way)? {
                rustix::fs::futimens(&directory, &both(time))?;
            }
        }
        Ok(())
    }
}

fn owner(entry: &Entry) -> (Uid, Gid) {
    let inside = |id: u64| u32::try_from(id).ok().filter(|id| u64::from(*id) < IDS).unwrap_or(NOBODY);
    (Uid::from_raw(inside(entry.uid)), Gid::from_raw(inside(entry.gid)))
}

fn time(entry: &Entry) -> Timespec {
    Timespec { tv_sec: entry.mtime.0, tv_nsec: i64::from(entry.mtime.1) as _ }
}

fn both(time: Timespec) -> Timestamps {
    Timestamps { last_access: time, last_modification: time }
}

/// Gives an open file or directory its owner and mode. The owner comes first, because a change of it takes set-user-id
/// bits away.
fn apply(file: BorrowedFd<'_>, entry: &Entry, marks: Marks) -> io::Result<Timespec> {
    let mut mode = Mode::from_raw_mode(entry.mode);
    match marks {
        Marks::Trusted => {
            let (uid, gid) = owner(entry);
            rustix::fs::fchown(file, Some(uid), Some(gid))?;
        }
        Marks::User if entry.kind == Kind::Directory => mode |= Mode::RWXU,
        Marks::User => {}
    }
    rustix::fs::fchmod(file, mode)?;
    Ok(time(entry))
}
