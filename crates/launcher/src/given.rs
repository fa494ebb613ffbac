//! Whom a sandbox was given to after it was made, and when: the driver writes it, the monitor goes by it.
//!
//! Whoever claims a warm sandbox waits for this to be written. So a sandbox that waits to be given away has a file for it
//! from the start, full of zeros: writing over them makes nothing and allocates nothing. In any other it is the text of a
//! symbolic link that leads nowhere. Either is there with all of its text or not at all.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, readlinkat, renameat, symlinkat, unlinkat};
use rustix::io::{Errno, pread, pwrite};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::spec::files;

/// A sandbox that has another owner than the one it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// When ([`time`]).
    pub at: Duration,
    /// To whom, in the driver's words.
    pub owner: String,
}

impl Given {
    /// Now.
    pub fn now(owner: String) -> Self {
        Self { at: time(), owner }
    }

    /// Makes room for it in the directory of a sandbox that waits to be given away.
    pub fn prepare(dir: &Path) -> Result<(), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = open(dir.join(files::GIVEN), flags, Mode::RUSR | Mode::WUSR)?;
        match pwrite(&file, &[0; SLOT], 0)? {
            SLOT => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }

    /// Whether room was made for it: the sandbox waits to be given away, or was.
    pub fn is_prepared(dir: &Path) -> bool {
        std::fs::symlink_metadata(dir.join(files::GIVEN)).is_ok_and(|data| data.is_file())
    }

    /// Writes it into a sandbox's directory, over what was said before.
    pub fn write(&self, dir: &Path) -> Result<(), Errno> {
        let text = format!("{} {}", self.at.as_nanos(), self.owner);
        let place = dir.join(files::GIVEN);
        if fill(&place, &text)? {
            return Ok(());
        }
        match symlinkat(&text, CWD, &place) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        let aside = dir.join(ASIDE);
        match unlinkat(CWD, &aside, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            other => return other,
        }
        symlinkat(&text, CWD, &aside)?;
        renameat(CWD, &aside, CWD, &place)
    }

    /// What a sandbox's directory says; None if it was never given away.
    pub fn read(dir: &Path) -> Result<Option<Self>, Errno> {
        let place = dir.join(files::GIVEN);
        let text = match readlinkat(CWD, &place, Vec::new()) {
            Err(Errno::NOENT) => return Ok(None),
            // It is no link.
            Err(Errno::INVAL) => match filled(&place)? {
                None => return Ok(None),
                Some(text) => text,
            },
            other => other?.into_string().map_err(|_| Errno::INVAL)?,
        };
        let (at, owner) = text.split_once(' ').ok_or(Errno::INVAL)?;
        let at = Duration::from_nanos(at.parse().map_err(|_| Errno::INVAL)?);
        Ok(Some(Self { at, owner: owner.to_owned() }))
    }
}

/// A second one is made under this name first.
const ASIDE: &str = "given.new";

/// Bytes of the file that waits for it.
const SLOT: usize = 512;

/// Writes the text into the file that waits for it; not if there is none, if it was used before, or if it is too small.
fn fill(place: &Path, text: &str) -> Result<bool, Errno> {
    let file = match open(place, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::LOOP) => return Ok(false),
        other => other?,
    };
    // The length comes first, so that a reader sees whether all of the text is there.
    let line = format!("{} {text}", text.len());
    let mut first = [0];
    if line.len() > SLOT || pread(&file, &mut first, 0)? != 1 || first != [0] {
        return Ok(false);
    }
    match pwrite(&file, line.as_bytes(), 0)? {
        written if written == line.len() => Ok(true),
        _ => Err(Errno::IO),
    }
}

/// The text that was written into the file that waited for it; None if there is none yet, or not all of it.
fn filled(place: &Path) -> Result<Option<String>, Errno> {
    let file = open(place, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mut slot = [0; SLOT];
    let length = pread(&file, &mut slot, 0)?;
    let line = slot[..length].split(|byte| *byte == 0).next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Errno::INVAL)?;
    let Some((length, text)) = line.split_once(' ') else { return Ok(None) };
    Ok((length.parse() == Ok(text.len())).then(|| text.to_owned()))
}

/// What time it is on the clock that all processes of a host share and nobody sets.
pub fn time() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    // It counts from some moment before the first process.
    Duration::new(tv_sec.unsigned_abs(), u32::try_from(tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_counts_and_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Given::read(dir.path()), Ok(None));
        for owner in ["{\"session\":\"one two\"}", "", "another\nline"] {
            let given = Given::now(owner.to_owned());
            given.write(dir.path()).unwrap();
            assert_eq!(Given::read(dir.path()), Ok(Some(given.clone())));
            assert!(given.at <= time());
        }
        // What a writer that died left behind is in nobody's way.
        std::fs::write(dir.path().join(ASIDE), "half").unwrap();
        Given::now("last".to_owned()).write(dir.path()).unwrap();
        assert_eq!(Given::read(dir.path()).unwrap().unwrap().owner, "last");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_that_waits_is_nobodys_until_all_of_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join(files::GIVEN);
        assert!(!Given::is_prepared(dir.path()));
        Given::prepare(dir.path()).unwrap();
        assert!(Given::is_prepared(dir.path()));
        assert_eq!(Given::read(dir.path()), Ok(None));
        let given = Given::now("{\"session\":\"one two\"}".to_owned());
        given.write(dir.path()).unwrap();
        assert!(place.symlink_metadata().unwrap().is_file(), "it was written over what was there");
        assert_eq!(Given::read(dir.path()), Ok(Some(given)));
        // Any part of it is not it.
        let whole = std::fs::read(&place).unwrap();
        let written = whole.iter().position(|byte| *byte == 0).unwrap();
        for length in 0..written {
            let mut part = whole.clone();
            part[length..].fill(0);
            std::fs::write(&place, part).unwrap();
            assert_eq!(Given::read(dir.path()), Ok(None), "{length}");
        }
        std::fs::write(&place, whole).unwrap();
        // The next ones are not written over it, and one that is too long for the room finds another.
        for owner in ["second".to_owned(), "x".repeat(SLOT)] {
            Given::now(owner.clone()).write(dir.path()).unwrap();
            assert_eq!(Given::read(dir.path()).unwrap().unwrap().owner, owner);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("yesterday nobody", dir.path().join(files::GIVEN)).unwrap();
        assert_eq!(Given::read(dir.path()), Err(Errno::INVAL));
        assert!(Given::now("x".to_owned()).write(&dir.path().join("not-there")).is_err());
    }
}
