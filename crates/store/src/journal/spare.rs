//! Segments that nobody needs any more and that are written over instead of being removed. A file system that gives a file
//! new blocks has to write that down, which takes longer than the bytes themselves and waits for whoever else writes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Error;

/// How many there are: one for the next segment, and one for the time until an old one is let go.
pub(super) const SPARES: usize = 2;

/// What the names end with. The number before it was a segment's: what is in the file speaks of that one, and is not
/// believed in another.
const ENDING: &str = ".spare";

/// Written at once when a spare is made; whoever appends meanwhile does not wait for more than this.
const PIECE: usize = 128 << 10;

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016}{ENDING}"))
}

/// The number in the name of a spare.
pub(super) fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(ENDING)?.parse().ok()
}

/// Makes one that was never a segment.
pub(super) fn make(dir: &Path, number: u64, length: u64) -> Result<PathBuf, Error> {
    let path = path(dir, number);
    if let Err(error) = fill(&path, length) {
        // Half a spare would be found at the next start.
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a part of a spare segment stays");
        }
        return Err(Error::io(&path, &error));
    }
    Ok(path)
}

fn fill(path: &Path, length: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let zeros = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        let piece = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(&zeros[..piece], at)?;
        sync(&file)?;
        at += piece as u64;
    }
    Ok(())
}

fn sync(file: &File) -> io::Result<()> {
    #[cfg(feature = "power-cuts")]
    if crate::power::is_watched() {
        return Ok(());
    }
    file.sync_data()
}
