//! The lock of the data directory: one server at a time. It is an flock, so it goes with the process however it ends;
//! the file itself stays, and tells who holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::layout::Layout;
use crate::{Error, Holder};

/// Held for the life of the value.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(layout: &Layout) -> Result<Self, Error> {
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
