//! Files of the sandbox: read in ranges, written atomically, listed.
//!
//! Everything is opened without blocking and checked afterwards, because a path may name a pipe that nobody writes to.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::pin::{self, Links, Missing, Pinned};
use super::{not_found, refused};
use crate::wire::{Failure, FileKind, Stat};

/// How much is read at once.
const PIECE: u64 = 64 << 10;

/// Most entries of a directory that are listed.
const MOST_ENTRIES: usize = 10_000;

/// Links followed before they are taken for a ring; the kernel's own number.
const MOST_LINKS: usize = 40;

/// A range of a file on its way out.
pub(super) struct FileBody {
    file: File,
    left: u64,
    /// Read ahead, so that the first error can still be the answer.
    first: Option<Bytes>,
}

/// Opens a file for reading; returns its whole size and the range.
pub(super) fn read(path: &str, offset: u64, limit: u64, links: Links) -> Result<(u64, FileBody), Failure> {
    let failed = |error: io::Error| failure(path, &error);
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = match links {
        Links::Follow => OpenOptions::new().read(true).custom_flags(flags).open(path),
        Links::Refuse => pin::parent(Path::new(path), Missing::Fail).and_then(|place| {
            OpenOptions::new().read(true).custom_flags(flags | libc::O_NOFOLLOW).open(place.path())
        }),
    };
    let mut file = opened.map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_regular(path, &metadata)?;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    }
    let mut body = FileBody { file, left: limit, first: None };
    body.first = body.read().map_err(failed)?;
    Ok((metadata.len(), body))
}

impl FileBody {
    /// The next piece.
    pub(super) fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.first.take() {
            Some(piece) => Some(Ok(piece)),
            None => self.read().transpose(),
        }
    }

    /// Up to the limit or the end, whatever the size said: the files of /proc claim to be empty.
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let mut piece = Vec::new();
        let wanted = self.left.min(PIECE);
        let read = (&mut self.file).take(wanted).read_to_end(&mut piece)?;
        self.left -= read as u64;
        Ok((read > 0).then(|| piece.into()))
    }
}

/// Entries of a directory, by name; a directory with more than [`MOST_ENTRIES`] is refused.
pub(super) fn list(path: &str, links: Links) -> Result<Vec<Stat>, Failure> {
    let failed = |error: io::Error| failure(path, &error);
    let mut entries = Vec::new();
    // Held until everything in it was looked at.
    let place = match links {
        Links::Follow => None,
        Links::Refuse => Some(pin::whole(Path::new(path)).map_err(failed)?),
    };
    let at = place.as_ref().map_or_else(|| PathBuf::from(path), Pinned::path);
    for entry in std::fs::read_dir(at).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entries.len() >= MOST_ENTRIES {
            return Err(refused(format!("{path} has more than {MOST_ENTRIES} entries, too many to list")));
        }
        match entry.metadata() {
            Ok(metadata) => {
                entries.push(describe(entry.file_name().to_string_lossy().into_owned(), &metadata))
            }
            // It was removed since the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// What a path is, at the end of any links where they are followed.
pub(super) fn stat(path: &str, links: Links) -> Result<Stat, Failure> {
    let metadata = match links {
        Links::Follow => std::fs::metadata(path),
        Links::Refuse => pin::parent(Path::new(path), Missing::Fail)
            .and_then(|place| std::fs::symlink_metadata(place.path())),
    };
    let metadata = metadata.map_err(|error| failure(path, &error))?;
    Ok(describe(path.to_owned(), &metadata))
}

fn describe(name: String, metadata: &Metadata) -> Stat {
    let kind = if metadata.is_file() {
        FileKind::File
    } else if metadata.is_dir() {
        FileKind::Directory
    } else if metadata.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    };
    Stat { name, kind, size: metadata.len(), mode: metadata.mode() & 0o7777 }
}

/// A file being written, under another name until it is complete. Dropped before that, it leaves nothing behind.
pub(super) struct Upload {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    finished: bool,
    /// The directory that both are in, where no link may be followed to it.
    _place: Option<Pinned>,
}

impl Upload {
    /// Makes the parents and the temporary file.
    pub(super) fn begin(path: &str, links: Links) -> Result<Self, Failure> {
        let failed = |error: io::Error| failure(path, &error);
        if path.ends_with('/') {
            return Err(refused(format!("{path} names a directory, not a file")));
        }
        let place = match links {
            Links::Follow => None,
            Links::Refuse => Some(pin::parent(Path::new(path), Missing::Make).map_err(failed)?),
        };
        let target = match &place {
            Some(place) => place.path(),
            None => resolve(Path::new(path)).map_err(failed)?,
        };
        let existing = match std::fs::symlink_metadata(&target) {
            Ok(metadata) => {
                check_regular(path, &metadata)?;
                Some(metadata)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let parent = target.parent().ok_or_else(|| refused(format!("{path} is not a file")))?;
        if place.is_none() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let (temporary, file) = temporary_in(parent).map_err(failed)?;
        let upload = Self { target, temporary, file, finished: false, _place: place };
        if let Some(existing) = existing {
            upload.inherit(&existing).map_err(failed)?;
        }
        Ok(upload)
    }

    /// Appends.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.file.write_all(data).map_err(|error| failure(&self.target.display().to_string(), &error))
    }

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        std::fs::rename(&self.temporary, &self.target)
            .map_err(|error| failure(&self.target.display().to_string(), &error))?;
        self.finished = true;
        Ok(())
    }

    /// Takes over mode and owner. The owner first, because changing it clears the set-id bits.
    fn inherit(&self, existing: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (existing.uid(), existing.gid()) {
            match std::os::unix::fs::fchown(&self.file, Some(existing.uid()), Some(existing.gid())) {
                // Only root may give files away; for others the file becomes theirs, as with any editor.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other?,
            }
        }
        self.file.set_permissions(Permissions::from_mode(existing.mode() & 0o7777))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.finished {
            // If it cannot be removed there is nobody left to tell: the request has failed already, or gone.
            drop(std::fs::remove_file(&self.temporary));
        }
    }
}

/// The file a chain of links ends at, whether it exists or not; renaming over the link would replace the link.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(next) => {
                path.pop();
                path.push(next);
            }
            // It is not a link, or nothing is there yet.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn temporary_in(parent: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!(".slipway-{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

fn check_regular(path: &str, metadata: &Metadata) -> Result<(), Failure> {
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(refused(format!("{path} is a directory")))
    } else {
        Err(refused(format!("{path} is not a regular file")))
    }
}

fn failure(path: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => not_found(format!("{path} does not exist")),
        io::ErrorKind::NotADirectory => refused(format!("{path}: a part of the path is not a directory")),
        io::ErrorKind::IsADirectory => refused(format!("{path} is a directory")),
        io::ErrorKind::PermissionDenied => refused(format!("{path}: permission denied")),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            refused(format!("{path}: the disk of the sandbox is full; remove what is not needed"))
        }
        io::ErrorKind::ReadOnlyFilesystem => refused(format!("{path} is on a read-only part of the sandbox")),
        _ => refused(format!("{path}: {error}")),
    }
}
