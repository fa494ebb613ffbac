//! Makes an archive. Of each session the log goes first, then its files, and the mirrors go last: what an entry refers to
//! was there before it and is never removed, so it is found in what comes later. A key that is answered meanwhile is in it
//! without its answer: what was done for it may be in it or not, and whoever asks again looks for that.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use protocol::{Code, Environment, Note, Problem, SessionId, Timestamp};
use store::KeysBefore;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::archive::{Pieces, put};
use super::{Entry, FORMAT, LOG, Manifest, Place, SavedMirror, SavedSession, broken, scratch};
use crate::{Options, Sessions, history, problem};

/// Pieces that may wait for a slow reader.
const WAITING: usize = 16;

impl Sessions {
    /// An archive of everything, made while it is read. An error is its last piece.
    pub async fn backup(&self) -> Result<mpsc::Receiver<Result<bytes::Bytes, Problem>>, Problem> {
        let options = Arc::clone(&self.registry.options);
        let keys_before = options.store.keys_before().await.map_err(problem::store)?;
        let environments = options.store.environments().await.map_err(problem::store)?;
        let sessions = options.store.sessions().await.map_err(problem::store)?;
        let lost = options.store.lost().await.map_err(problem::store)?;
        let registry = Arc::clone(&self.registry);
        let notes = tokio::task::spawn_blocking(move || registry.shelf.saved()).await.map_err(broken)??;
        let scratch = scratch(options.store.dir())?;
        let (sender, pieces) = mpsc::channel(WAITING);
        let runtime = Handle::current();
        drop(tokio::task::spawn_blocking(move || {
            let out = Pieces::new(sender.clone());
            let work = Work { options, runtime, scratch: scratch.path(), keys_before };
            if let Err(error) = work.write(out, &environments, &sessions, lost, &notes) {
                tracing::error!(%error, "a backup broke off");
                // Whoever went away does not need to hear of it.
                drop(sender.blocking_send(Err(told(work.options.store.dir(), error))));
            }
        }));
        Ok(pieces)
    }
}

struct Work<'a> {
    options: Arc<Options>,
    runtime: Handle,
    scratch: &'a Path,
    keys_before: KeysBefore,
}

impl Work<'_> {
    fn write(
        &self,
        out: impl Write,
        environments: &[(String, Environment)],
        sessions: &[SessionId],
        lost: Vec<SessionId>,
        notes: &[Note],
    ) -> io::Result<()> {
        let mut tar = tar::Builder::new(out);
        let mut manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            made_at: Timestamp::now(),
            sessions: Vec::new(),
            lost,
            mirrors: Vec::new(),
            entries: Vec::new(),
        };
        let recipes = serde_json::to_vec_pretty(environments)?;
        manifest.entries.push(put(&mut tar, &Place::Environments, recipes.len() as u64, recipes.as_slice())?);
        for session in sessions {
            manifest.sessions.push(self.session(&mut tar, *session, &mut manifest.entries)?);
        }
        // After the sessions: what was done for a key that is in it must not be done again.
        let keys = self
            .runtime
            .block_on(self.options.store.saved_keys(&self.keys_before))
            .map_err(io::Error::other)?;
        let keys = serde_json::to_vec(&keys)?;
        manifest.entries.push(put(&mut tar, &Place::Keys, keys.len() as u64, keys.as_slice())?);
        match std::fs::read(self.options.store.placeholder_key()) {
            Ok(key) => {
                manifest.entries.push(put(&mut tar, &Place::Placeholders, key.len() as u64, key.as_slice())?)
            }
            // No secret was ever given a placeholder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let secrets = self.options.store.secrets().all_sealed().map_err(io::Error::other)?;
        if !secrets.is_empty() {
            let secrets = serde_json::to_vec(&secrets)?;
            let entry = put(&mut tar, &Place::Secrets, secrets.len() as u64, secrets.as_slice())?;
            manifest.entries.push(entry);
        }
        if !notes.is_empty() {
            let notes = serde_json::to_vec(notes)?;
            manifest.entries.push(put(&mut tar, &Place::Notes, notes.len() as u64, notes.as_slice())?);
        }
        for name in self.options.mirrors.names().map_err(io::Error::other)? {
            manifest.mirrors.push(self.mirror(&mut tar, name, &mut manifest.entries)?);
        }
        manifest.made_at = Timestamp::now();
        let manifest = serde_json::to_vec_pretty(&manifest)?;
        put(&mut tar, &Place::Manifest, manifest.len() as u64, manifest.as_slice())?;
        tar.into_inner()?.flush()
    }

    fn session(
        &self,
        tar: &mut tar::Builder<impl Write>,
        id: SessionId,
        entries: &mut Vec<Entry>,
    ) -> io::Result<SavedSession> {
        let copy = self.scratch.join("log.db");
        let copied = self.options.store.copy_log(id, &copy).map_err(io::Error::other)?;
        entries.push(put_file(tar, &Place::File(id, LOG.to_owned()), &copy)?);
        std::fs::remove_file(&copy)?;
        let dir = self.options.store.session_dir(id);
        let mut names: Vec<String> = std::fs::read_dir(&dir)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| super::is_plain(name) && !name.starts_with(LOG))
            // Follows from the log.
            .filter(|name| ![history::FILE, history::UNFINISHED].contains(&name.as_str()))
            .collect();
        names.sort();
        for name in names {
            let path = dir.join(&name);
            match std::fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() => entries.push(put_file(tar, &Place::File(id, name), &path)?),
                Ok(_) => {}
                // Replaced or removed meanwhile: no event in the copy needs it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(SavedSession { id, seq: copied.seq, damage: copied.damage.map(|damage| damage.to_string()) })
    }

    fn mirror(
        &self,
        tar: &mut tar::Builder<impl Write>,
        name: String,
        entries: &mut Vec<Entry>,
    ) -> io::Result<SavedMirror> {
        let bundle = self.scratch.join("mirror.bundle");
        let packed =
            self.runtime.block_on(self.options.mirrors.pack(&name, &bundle)).map_err(io::Error::other)?;
        entries.push(put_file(tar, &Place::Mirror(name.clone()), &bundle)?);
        std::fs::remove_file(&bundle)?;
        Ok(SavedMirror { name, url: packed.url, head: packed.head })
    }
}

/// What is said of an error that ends a backup.
fn told(dir: &Path, error: io::Error) -> Problem {
    let problem = match error.downcast::<store::Error>() {
        Ok(error) => problem::store(error),
        Err(error) => match error.downcast::<forge::Error>() {
            // Git's own words are all that there is to know it by.
            Ok(forge::Error::Io(text)) if text.contains("No space left on device") => {
                Problem::new(Code::StorageFull, text)
            }
            Ok(error) => problem::forge(&error),
            Err(error) => match error.downcast::<store::SecretError>() {
                Ok(error) => crate::secrets::told(error),
                Err(error) => problem::file(dir, &error),
            },
        },
    };
    if problem.code == Code::StorageFull {
        return problem.hint(format!(
            "free some space where {} is and try again: a backup needs room there for a copy of one log, or of one mirror, \
             at a time",
            dir.display()
        ));
    }
    problem
}

/// A file as it is now: what is written to it meanwhile is left out.
fn put_file(tar: &mut tar::Builder<impl Write>, place: &Place, path: &Path) -> io::Result<Entry> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    put(tar, place, bytes, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_of_with_what_to_do_whoever_met_it() {
        let dir = Path::new("/data");
        let met = [
            io::Error::from(io::ErrorKind::StorageFull),
            io::Error::other(store::Error::Full("/data/backup-1/log.db".into())),
            io::Error::other(forge::Error::Io("git bundle: write: No space left on device".to_owned())),
        ];
        for error in met {
            let problem = told(dir, error);
            assert_eq!((problem.code, problem.status), (Code::StorageFull, 507), "{problem:?}");
            assert!(problem.hint.as_ref().unwrap().contains("free some space where /data is"), "{problem:?}");
        }
        let other = told(dir, io::Error::other(forge::Error::NoGit));
        assert_eq!(other.code, Code::RepositoryUnavailable);
    }
}
