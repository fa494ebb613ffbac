//! The lock of the data directory: one server at a time. It is an flock, so it goes with the process however it ends;
//! the file itself stays, and tells who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::layout::Layout;
use crate::{Error, Holder};

/// Held for the life of the value.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// How long a lock may outlive its process. A program that the process was just starting when it was killed has a copy of
/// the lock for a moment.
const AFTERLIFE: Duration = Duration::from_secs(5);

impl Lock {
    pub(crate) fn take(layout: &Layout) -> Result<Self, Error> {
        let deadline = Instant::now() + AFTERLIFE;
        loop {
            match Self::try_take(layout) {
                Err(Error::Locked(holder)) if !is_alive(&holder) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    fn try_take(layout: &Layout) -> Result<Self, Error> {
        let path = layout.lock();
        let io = |error: std::io::Error| Error::io(&path, &error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(io)?;
                let pid = text.trim().parse().ok();
                return Err(Error::Locked(Holder { dir: layout.root().to_owned(), pid }));
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // The number is only for the message of a second server; a full disk must not keep the first from starting.
        if let Err(error) = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())) {
            tracing::warn!(path = %path.display(), %error, "cannot note the process id in the lock file");
        }
        Ok(Self { _file: file })
    }
}

/// Whether the process that noted itself in the lock file is there.
fn is_alive(holder: &Holder) -> bool {
    holder.pid.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_outlives_its_process_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::prepare(dir.path()).unwrap();
        let copy = Lock::take(&layout).unwrap();
        // No process has this number.
        std::fs::write(layout.lock(), i32::MAX.to_string()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let next = std::thread::spawn(move || {
            tell.send(()).unwrap();
            Lock::take(&layout).map(drop)
        });
        told.recv().unwrap();
        drop(copy);
        next.join().unwrap().unwrap();
    }
}
