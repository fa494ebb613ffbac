//! What can go wrong, sorted by what a caller can do about it: free space, look at one file, stop the other server.
//! SQLite and OS errors are turned into these here and nowhere else.

use std::io;
use std::path::{Path, PathBuf};

use protocol::SessionId;
use rusqlite::{Connection, ErrorCode};

/// This process has too many files open. The numbers are the same on every Linux.
const EMFILE: i32 = 24;
/// The whole system has.
const ENFILE: i32 = 23;
/// The device did not do it.
const EIO: i32 = 5;

/// Why the store could not do it. `Full` and `Damaged` are the ones a caller acts on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The disk (or quota) of the data directory is full.
    #[error("the disk that holds {} is full: free some space and try again; nothing that was confirmed is lost", .0.display())]
    Full(PathBuf),
    /// The process has as many files open as it may.
    #[error("cannot open {}: too many open files: raise the limit (ulimit -n, or LimitNOFILE of the service) and try again; nothing that was confirmed is lost", .0.display())]
    OpenFiles(PathBuf),
    /// A file cannot be read as what it should be.
    #[error("{} is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Another process has the data directory.
    #[error("another slipway server{} is using {}: stop it, or choose another data directory", .0.process(), .0.dir.display())]
    Locked(Holder),
    /// There is no such session.
    #[error("no session {0}")]
    NoSession(SessionId),
    /// A newer owner has the session.
    #[error("this server no longer owns the session")]
    Fenced,
    /// Written by a newer program.
    #[error("{} was written by a newer version of slipway: upgrade this one", .0.display())]
    Newer(PathBuf),
    /// The disk did not read or write what it was told to.
    #[error("the disk that holds {} failed: {detail}", path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
    /// Anything else.
    #[error("cannot use {}: {detail}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What happened and, where it is known, what to do.
        detail: String,
    },
}

/// Who has the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The data directory.
    pub dir: PathBuf,
    /// The process, when its lock file says so.
    pub pid: Option<u32>,
}

impl Holder {
    fn process(&self) -> String {
        self.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    }
}

impl Error {
    pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), detail: detail.into() }
    }

    pub(crate) fn other(path: &Path, detail: impl Into<String>) -> Self {
        Self::Io { path: path.to_owned(), detail: detail.into() }
    }

    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            return Self::OpenFiles(path.to_owned());
        }
        if error.raw_os_error() == Some(EIO) {
            return Self::Disk { path: path.to_owned(), detail: error.to_string() };
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(path.to_owned()),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::other(path, format!("{error}; is it writable by this user?"))
            }
            _ => Self::other(path, error.to_string()),
        }
    }

    /// `connection` lets SQLite tell the OS error behind an IO error; there is none when opening failed.
    pub(crate) fn sql(path: &Path, connection: Option<&Connection>, error: &rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else {
            // Our statements are fixed, so a value of the wrong type or a missing row is the file's fault.
            return Self::damaged(path, error.to_string());
        };
        let extended = error.sqlite_error().map(|error| error.extended_code);
        match code {
            // The file is shorter than it says.
            ErrorCode::SystemIoFailure if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHORT_READ) => {
                Self::damaged(path, "its end is missing")
            }
            ErrorCode::DiskFull => Self::Full(path.to_owned()),
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::AuthorizationForStatementDenied => {
                Self::other(path, format!("{error}; is it writable by this user?"))
            }
            ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => match connection.and_then(os_error) {
                Some(os) => Self::io(path, &os),
                None if code == ErrorCode::SystemIoFailure => {
                    Self::Disk { path: path.to_owned(), detail: error.to_string() }
                }
                None => Self::other(path, error.to_string()),
            },
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                Self::other(path, format!("{error}; does another program have it open?"))
            }
            ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted
            | ErrorCode::ApiMisuse
            | ErrorCode::NoLargeFileSupport
            | ErrorCode::TooBig
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::InternalMalfunction => Self::other(path, error.to_string()),
            // What is left (corrupt, not a database, schema, constraint, type mismatch, failing SQL) cannot come
            // from our fixed statements on a sound file.
            _ => Self::damaged(path, error.to_string()),
        }
    }
}

fn os_error(connection: &Connection) -> Option<io::Error> {
    // SAFETY: the handle is that of a live connection which only this thread uses; the call reads one integer.
    let code = unsafe { rusqlite::ffi::sqlite3_system_errno(connection.handle()) };
    (code != 0).then(|| io::Error::from_raw_os_error(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_fails_is_told_as_such() {
        let path = Path::new("/data/journal/1");
        let error = Error::io(path, &io::Error::from_raw_os_error(EIO));
        assert!(matches!(&error, Error::Disk { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("the disk that holds /data/journal/1 failed: "), "{text}");
        let failure = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
        let error = Error::sql(path, None, &rusqlite::Error::SqliteFailure(failure, None));
        assert!(matches!(&error, Error::Disk { .. }), "{error:?}");
    }
}
