//! Where things are in the data directory. Directories are for their owner only, and so are the files.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use protocol::SessionId;

use crate::Error;

/// Paths under the data directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Makes the directories that are missing.
    pub(crate) fn prepare(dir: &Path) -> Result<Self, Error> {
        // SQLite would take a relative name that begins with "file:" as a URI.
        let root = std::path::absolute(dir).map_err(|e| Error::io(dir, &e))?;
        let layout = Self { root };
        make_dir(&layout.root)?;
        make_dir(&layout.sessions_dir())?;
        make_dir(&layout.journal())?;
        Ok(layout)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(crate) fn catalogue(&self) -> PathBuf {
        self.root.join("catalogue.db")
    }

    pub(crate) fn ends(&self) -> PathBuf {
        self.root.join("ends")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(crate) fn session_dir(&self, session: SessionId) -> PathBuf {
        self.sessions_dir().join(session.to_string())
    }

    pub(crate) fn log(&self, session: SessionId) -> PathBuf {
        self.session_dir(session).join("log.db")
    }

    /// What SQLite keeps beside a log that is open, or was not closed.
    pub(crate) fn write_ahead(&self, session: SessionId) -> PathBuf {
        beside(&self.log(session), "-wal")
    }

    /// Makes the directory of a session and makes its name durable.
    pub(crate) fn make_session_dir(&self, session: SessionId) -> Result<(), Error> {
        make_dir(&self.session_dir(session))?;
        sync_dir(&self.sessions_dir())
    }

    /// Refuses a session that has a directory.
    pub(crate) fn check_absent(&self, session: SessionId) -> Result<(), Error> {
        let place = self.session_dir(session);
        if place.exists() { Err(Error::other(&place, "this session is there already")) } else { Ok(()) }
    }

    /// Moves a whole directory into the place of a session's.
    pub(crate) fn adopt(&self, session: SessionId, dir: &Path) -> Result<(), Error> {
        sync_dir(dir)?;
        self.check_absent(session)?;
        let place = self.session_dir(session);
        // Into an empty directory that came between it would go too, and into no other.
        fs::rename(dir, &place).map_err(|e| Error::io(&place, &e))?;
        sync_dir(&self.sessions_dir())
    }

    /// Sessions that have a log, oldest first.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let mut found = self.session_dirs()?;
        found.retain(|session| self.log(*session).exists());
        found.sort();
        Ok(found)
    }

    /// Removes what a server left that died while it made a log. Nobody was told of such a session.
    pub(crate) fn sweep(&self) -> Result<(), Error> {
        for session in self.session_dirs()? {
            let log = self.log(session);
            if log.exists() {
                continue;
            }
            remove_unfinished(&log)?;
            let dir = self.session_dir(session);
            match fs::remove_dir(&dir) {
                Ok(()) => tracing::info!(%session, "removed a session that was never finished being made"),
                // Someone's files without a log are not ours to judge.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    tracing::warn!(dir = %dir.display(), "a session's directory has files but no log");
                }
                Err(error) => return Err(Error::io(&dir, &error)),
            }
        }
        Ok(())
    }

    fn session_dirs(&self) -> Result<Vec<SessionId>, Error> {
        let dir = self.sessions_dir();
        let entries = fs::read_dir(&dir).map_err(|e| Error::io(&dir, &e))?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| Error::io(&dir, &e))?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            match id {
                Some(session) => found.push(session),
                None => tracing::debug!(path = %entry.path().display(), "not a session"),
            }
        }
        Ok(found)
    }
}

/// The name under which a database is made before it is renamed to `path`.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// Removes an unfinished database with what SQLite keeps beside it.
pub(crate) fn remove_unfinished(path: &Path) -> Result<(), Error> {
    let new = unfinished(path);
    for file in [beside(&new, "-wal"), beside(&new, "-journal"), new] {
        match fs::remove_file(&file) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io(&file, &error)),
        }
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| Error::io(dir, &e))
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| Error::io(dir, &e))
}

/// A file's name with something after it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
