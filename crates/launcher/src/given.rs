//! Whom a sandbox was given to after it was made, and when: the driver writes it, the monitor goes by it.
//!
//! It is the text of a symbolic link that leads nowhere. A link is there with all of its text or not at all, in one step
//! and without any data of a file that would have to be allocated: whoever claims a warm sandbox waits for this.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, readlinkat, renameat, symlinkat, unlinkat};
use rustix::io::Errno;
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

    /// Writes it into a sandbox's directory, over what was said before.
    pub fn write(&self, dir: &Path) -> Result<(), Errno> {
        let text = format!("{} {}", self.at.as_nanos(), self.owner);
        let place = dir.join(files::GIVEN);
        match symlinkat(&text, CWD, &place) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
        let aside = dir.join(ASIDE);
        match unlinkat(CWD, &aside, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            other => return other,
        }
        symlinkat(&text, CWD, &aside)?;
        renameat(CWD, &aside, CWD, &place)
    }

    /// What a sandbox's directory says; None if it was never given away.
    pub fn read(dir: &Path) -> Result<Option<Self>, Errno> {
        let text = match readlinkat(CWD, dir.join(files::GIVEN), Vec::new()) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?.into_string().map_err(|_| Errno::INVAL)?,
        };
        let (at, owner) = text.split_once(' ').ok_or(Errno::INVAL)?;
        let at = Duration::from_nanos(at.parse().map_err(|_| Errno::INVAL)?);
        Ok(Some(Self { at, owner: owner.to_owned() }))
    }
}

/// A second one is made under this name first.
const ASIDE: &str = "given.new";

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
    fn what_makes_no_sense_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("yesterday nobody", dir.path().join(files::GIVEN)).unwrap();
        assert_eq!(Given::read(dir.path()), Err(Errno::INVAL));
        assert!(Given::now("x".to_owned()).write(&dir.path().join("not-there")).is_err());
    }
}
