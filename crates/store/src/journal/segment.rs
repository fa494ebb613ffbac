//! A file of the journal: frames one after the other, each synced before the next is begun. So only the last one can be
//! torn, and nobody was told that it is there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::spare;
use crate::Error;
use crate::chain::Chain;
use crate::layout::sync_dir;

/// Bytes before a frame's content: a mark, the segment, the frame, the length, a checksum.
pub(super) const HEADER: usize = 40;
const MARK: u64 = u64::from_le_bytes(*b"slipwayj");
/// How much more than is needed is taken from the disk at once.
const AHEAD: u64 = 256 << 10;

/// What has to be free besides: the logs are still to be written.
const SPARE: u64 = 64 << 10;

/// The segment that is written to.
pub(super) struct Segment {
    file: File,
    path: PathBuf,
    number: u64,
    /// Where the next frame goes, and its number.
    length: u64,
    frames: u64,
    /// How far there is certainly room.
    reserved: u64,
    /// It was a segment before, or was made to be written over.
    reused: bool,
    /// What was free when that was last asked, since the last frame.
    free: Option<u64>,
}

impl Segment {
    pub(super) fn create(dir: &Path, number: u64) -> Result<Self, Error> {
        let path = path(dir, number);
        let io = |error: io::Error| Error::io(&path, &error);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(io)?;
        sync_dir(dir)?;
        Ok(Self { file, path, number, length: 0, frames: 0, reserved: 0, reused: false, free: None })
    }

    /// Makes a spare the next segment. What is in it speaks of another number, so it ends where frames of this one do.
    pub(super) fn reuse(spare: &Path, dir: &Path, number: u64) -> Result<Self, Error> {
        let path = path(dir, number);
        let io = |error: io::Error| Error::io(&path, &error);
        rename(spare, &path).map_err(io)?;
        let file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        sync_dir(dir)?;
        let reserved = file.metadata().map_err(io)?.len();
        Ok(Self { file, path, number, length: 0, frames: 0, reserved, reused: true, free: None })
    }

    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Makes sure that the disk has room for this many bytes in the next frame.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let free = self.free.take().map_or_else(|| self.ask_free(), Ok)?;
        if free < bytes + SPARE {
            return Err(Error::Full(self.path.clone()));
        }
        self.free = Some(free);
        let (end, reserved) = (self.length + bytes, self.reserved);
        if end <= reserved {
            return Ok(());
        }
        let take = |length| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), reserved, length);
        // A disk that is nearly full may still have what is needed.
        let mut length = end - reserved + AHEAD;
        let taken = take(length).or_else(|error| match error {
            Errno::NOSPC | Errno::DQUOT => {
                length = end - reserved;
                take(length)
            }
            error => Err(error),
        });
        match taken {
            // Where this cannot be asked, one that is full shows when it is written.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.reserved = reserved + length;
                Ok(())
            }
            Err(error) => Err(Error::io(&self.path, &error.into())),
        }
    }

    /// What the disk has left for us.
    fn ask_free(&self) -> Result<u64, Error> {
        free(&self.file).map_err(|error| Error::io(&self.path, &error))
    }

    /// Writes a frame and waits until it is on disk.
    pub(super) fn write(&mut self, payload: &[u8]) -> Result<(), Error> {
        let (length, frame) = (self.length, self.frames);
        self.free = None;
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        for number in [MARK, self.number, frame, payload.len() as u64, sum(self.number, frame, payload)] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(payload);
        let written = self.file.write_all_at(&bytes, length).and_then(|()| {
            #[cfg(feature = "power-cuts")]
            crate::power::wrote(&self.path, length, &bytes);
            self.sync()
        });
        written.map_err(|e| Error::io(&self.path, &e))?;
        self.length += bytes.len() as u64;
        self.frames += 1;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        #[cfg(feature = "power-cuts")]
        if crate::power::synced(&self.path) {
            return Ok(());
        }
        self.file.sync_data()
    }

    /// Takes one back that nothing was written to.
    pub(super) fn remove(self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "an empty segment of the journal stays");
        }
    }
}

/// What the disk of a file has left for us.
fn free(file: &File) -> io::Result<u64> {
    let disk = rustix::fs::fstatvfs(file)?;
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    Ok(blocks.saturating_mul(disk.f_frsize))
}

/// Removes a segment.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    #[cfg(feature = "power-cuts")]
    crate::power::removed(path);
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Gives a segment another name.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    #[cfg(feature = "power-cuts")]
    crate::power::renamed(from, to);
    Ok(())
}

/// Whether the disk has given a segment all that it ever needs.
pub(super) fn is_whole(path: &Path, length: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() >= length)
}

fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016}"))
}

/// The segments in a directory, oldest first, and the spares.
#[expect(clippy::type_complexity, reason = "two lists, for one caller")]
pub(super) fn list(dir: &Path) -> Result<(Vec<(u64, PathBuf)>, Vec<PathBuf>), Error> {
    let (mut segments, mut spares) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir).map_err(|e| Error::io(dir, &e))? {
        let path = entry.map_err(|e| Error::io(dir, &e))?.path();
        if spare::number(&path).is_some() {
            spares.push(path);
        } else if let Some(number) = path.file_name().and_then(|name| name.to_str()?.parse().ok()) {
            segments.push((number, path));
        }
    }
    segments.sort();
    Ok((segments, spares))
}

/// Hands out the content of each frame that is whole. After one that is not, the last one as a rule, the next is looked for:
/// what is damaged is one frame, and those of other sessions are not.
pub(super) fn read(path: &Path, number: u64, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
    let bytes = fs::read(path).map_err(|e| Error::io(path, &e))?;
    let (mut rest, mut expected) = (&bytes[..], 0);
    loop {
        if let Some((payload, after)) = whole(rest, number, expected) {
            each(payload);
            (rest, expected) = (after, expected + 1);
            continue;
        }
        let Some((skipped, frame)) = next_whole(rest, number, expected) else { return Ok(()) };
        let (at, missing) = (bytes.len() - rest.len(), frame - expected);
        tracing::warn!(path = %path.display(), at, missing, "frames of the journal are damaged");
        (rest, expected) = (&rest[skipped..], frame);
    }
}

/// Where the next frame after this one begins that is whole, and which it is. What a segment held that was written over
/// speaks of another number.
fn next_whole(bytes: &[u8], number: u64, after: u64) -> Option<(usize, u64)> {
    let begin: Vec<u8> = [MARK, number].iter().flat_map(|field| field.to_le_bytes()).collect();
    let mut from = 1;
    while let Some(at) = bytes.get(from..)?.windows(begin.len()).position(|window| window == begin) {
        let at = from + at;
        let frame = bytes.get(at + begin.len()..)?.first_chunk().map(|field| u64::from_le_bytes(*field))?;
        if frame > after && whole(&bytes[at..], number, frame).is_some() {
            return Some((at, frame));
        }
        from = at + 1;
    }
    None
}

fn whole(bytes: &[u8], number: u64, frame: u64) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let mut fields = header.chunks_exact(8).map(|field| field.try_into().map(u64::from_le_bytes));
    let mut field = || fields.next()?.ok();
    let begins = [field()?, field()?, field()?] == [MARK, number, frame];
    let (length, noted) = (usize::try_from(field()?).ok()?, field()?);
    let (payload, rest) = rest.split_at_checked(length)?;
    (begins && noted == sum(number, frame, payload)).then_some((payload, rest))
}

fn sum(number: u64, frame: u64, payload: &[u8]) -> u64 {
    Chain::after(number).number(frame).blob(payload).finish()
}
