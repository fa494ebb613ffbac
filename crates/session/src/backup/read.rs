//! Reads an archive: first all of it, to see that it is whole and every checksum fits, and only then again, to put what is
//! not there yet in its place. What is there is left alone.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::{Actor, Code, Environment, EventBody, LineageId, Note, Problem, RestoreReport, SessionId};

use super::archive::Hashing;
use super::{Entry, FORMAT, LOG, Manifest, Place, broken, scratch};
use crate::registry::Registry;
use crate::{Duty, Sessions, environments, kept_fold, problem};

/// Longest manifest and longest list of environments: thousands of sessions fit in far less.
const TEXT_LIMIT: u64 = 256 << 20;

impl Sessions {
    /// Where whoever receives an archive may put it, so that it is on the right disk; gone when this is dropped.
    pub fn restore_space(&self) -> Result<tempfile::TempDir, Problem> {
        scratch(self.registry.options.store.dir())
    }

    /// Adds what is in an archive and not here: sessions, environments, mirrors. Nothing that is here is changed; only of a
    /// session that was here before, answers to commands that the archive does not know of are forgotten. An archive that is
    /// not whole is refused before anything is written.
    pub async fn restore(&self, archive: &Path) -> Result<RestoreReport, Problem> {
        let registry = Arc::clone(&self.registry);
        let path = archive.to_owned();
        let staged = tokio::task::spawn_blocking(move || Staged::read(&registry, &path)).await;
        staged.map_err(broken)??.publish(&self.registry).await
    }
}

/// Reads a whole archive and compares it with its manifest. This blocks.
pub fn check(archive: &Path) -> Result<Manifest, Problem> {
    let mut file = File::open(archive).map_err(|error| problem::file(archive, &error))?;
    let mut seen: Vec<Entry> = Vec::new();
    let mut names = HashSet::new();
    let mut manifest: Option<Manifest> = None;
    each(&mut file, |place, content| {
        if manifest.is_some() {
            return Err(refused("something comes after its manifest"));
        }
        if place == Place::Manifest {
            manifest = Some(parse(content, "its manifest")?);
            return Ok(());
        }
        let mut content = Hashing::new(content);
        io::copy(&mut content, &mut io::sink()).map_err(|error| torn(&error))?;
        let entry = content.finish(&place);
        if !names.insert(entry.name.clone()) {
            return Err(refused(&format!("{} is in it twice", entry.name)));
        }
        seen.push(entry);
        Ok(())
    })?;
    let manifest = manifest.ok_or_else(|| refused("its end is missing"))?;
    if manifest.format != FORMAT {
        return Err(refused(&format!("it is of form {}, and this program knows {FORMAT}", manifest.format)));
    }
    if let Some(wrong) = seen.iter().zip(&manifest.entries).find(|(seen, listed)| seen != listed) {
        return Err(refused(&format!("{} is not as it was written", wrong.0.name)));
    }
    if seen.len() != manifest.entries.len() {
        return Err(refused("it has other entries than its manifest"));
    }
    for session in &manifest.sessions {
        if !names.contains(&Place::File(session.id, LOG.to_owned()).path()) {
            return Err(refused(&format!("the log of {} is missing", session.id)));
        }
    }
    Ok(manifest)
}

/// What is to be put in its place.
struct Staged {
    space: tempfile::TempDir,
    manifest: Manifest,
    /// Sessions that are not here.
    new: HashSet<SessionId>,
    environments: Vec<(String, Environment)>,
    keys: Vec<store::SavedKey>,
    placeholders: Option<Vec<u8>>,
    secrets: Vec<store::Sealed>,
    notes: Vec<Note>,
}

impl Staged {
    fn read(registry: &Registry, archive: &Path) -> Result<Self, Problem> {
        let manifest = check(archive)?;
        let store = &registry.options.store;
        let listed = manifest.sessions.iter().map(|session| session.id);
        let new: HashSet<_> = listed.filter(|id| !store.has_session(*id)).collect();
        let space = scratch(store.dir())?;
        let (environments, keys, secrets, notes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut staged =
            Self { space, manifest, new, environments, keys, placeholders: None, secrets, notes };
        let mut file = File::open(archive).map_err(|error| problem::file(archive, &error))?;
        each(&mut file, |place, content| staged.take(&place, content))?;
        for session in staged.manifest.sessions.iter().filter(|session| staged.new.contains(&session.id)) {
            let log = staged.session_dir(session.id).join(LOG);
            let seq = store::check_copy(&log, session.id).map_err(problem::store)?;
            if seq != session.seq {
                return Err(refused(&format!("the log of {} ends with event {seq}", session.id)));
            }
            // Before it is in its place: nobody may ever take what follows here for what followed where it is from.
            let body = EventBody::SessionRestored { lineage: LineageId::new() };
            let restored = store::Draft { actor: Actor::system(), body };
            store::append_to_copy(&log, session.id, restored).map_err(problem::store)?;
        }
        Ok(staged)
    }

    fn take(&mut self, place: &Place, content: &mut dyn Read) -> Result<(), Problem> {
        let path = match place {
            Place::Manifest => return Ok(()),
            Place::Environments => {
                self.environments = parse(content, "its list of environments")?;
                return Ok(());
            }
            Place::Keys => {
                self.keys = parse(content, "its list of idempotency keys")?;
                return Ok(());
            }
            Place::Secrets => {
                self.secrets = parse(content, "its list of secrets")?;
                return Ok(());
            }
            Place::Notes => {
                self.notes = parse(content, "its list of notes")?;
                return Ok(());
            }
            Place::Placeholders => {
                let mut key = Vec::new();
                content.take(TEXT_LIMIT).read_to_end(&mut key).map_err(|error| torn(&error))?;
                self.placeholders = Some(key);
                return Ok(());
            }
            Place::File(id, _) if !self.new.contains(id) => return Ok(()),
            Place::File(id, name) => self.session_dir(*id).join(name),
            Place::Mirror(name) => self.bundle(name),
        };
        let mut write = || -> io::Result<()> {
            if let Some(dir) = path.parent() {
                std::os::unix::fs::DirBuilderExt::mode(fs::DirBuilder::new().recursive(true), 0o700)
                    .create(dir)?;
            }
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
            io::copy(content, &mut file)?;
            file.sync_all()
        };
        write().map_err(|error| problem::file(&path, &error))
    }

    fn session_dir(&self, id: SessionId) -> PathBuf {
        self.space.path().join("sessions").join(id.to_string())
    }

    fn bundle(&self, name: &str) -> PathBuf {
        self.space.path().join("mirrors").join(format!("{name}.bundle"))
    }

    /// Mirrors first, because sessions need them, and sessions last. Each is there as a whole or not at all; whoever is
    /// interrupted restores again, and gets the rest.
    async fn publish(mut self, registry: &Arc<Registry>) -> Result<RestoreReport, Problem> {
        let open = registry.refuse_when_closing().await?;
        let options = &registry.options;
        let mut report = RestoreReport::default();
        let mut unfinished = Vec::new();
        self.new.iter().try_for_each(|id| registry.let_go(*id))?;
        for mirror in &self.manifest.mirrors {
            let packed = forge::Packed { url: mirror.url.clone(), head: mirror.head.clone() };
            let new = options.mirrors.unpack(&mirror.name, &packed, &self.bundle(&mirror.name)).await;
            let list = match new.map_err(|error| problem::forge(&error))? {
                true => &mut report.mirrors,
                false => &mut report.mirrors_left,
            };
            list.push(mirror.url.clone());
        }
        let here = environments::list(options).await?;
        let here: HashMap<&str, _> = here.iter().map(|known| (known.name.as_str(), ())).collect();
        for (name, recipe) in &self.environments {
            if here.contains_key(name.as_str()) {
                report.environments_left.push(name.clone());
                continue;
            }
            options.store.put_environment(name, recipe).await.map_err(problem::store)?;
            report.environments.push(name.clone());
        }
        report.placeholders_left = match &self.placeholders {
            Some(key) => !adopt_key(&options.store.placeholder_key(), key)?,
            None => false,
        };
        adopt_secrets(options.store.secrets(), &self.secrets, &mut report)?;
        let (notes, shelf) = (std::mem::take(&mut self.notes), Arc::clone(registry));
        let adopted = tokio::task::spawn_blocking(move || shelf.shelf.adopt(notes)).await;
        report.notes = adopted.map_err(broken)?? as u64;
        // Before the sessions: whoever sends a command again must find that it was done.
        let keys = std::mem::take(&mut self.keys);
        let mut keys_of: HashMap<SessionId, Vec<store::SavedKey>> = HashMap::new();
        for (id, key) in keys.iter().filter_map(|key| Some((key.session()?, key))) {
            if self.new.contains(&id) {
                keys_of.entry(id).or_default().push(key.clone());
            }
        }
        report.keys = options.store.adopt_keys(keys).await.map_err(problem::store)? as u64;
        for session in &self.manifest.sessions {
            if !self.new.contains(&session.id) {
                report.sessions_left.push(session.id);
                continue;
            }
            let store = &options.store;
            let dir = self.session_dir(session.id);
            let keys = keys_of.remove(&session.id).unwrap_or_default();
            let added = store.adopt_session(session.id, &dir, keys).await.map_err(problem::store)?;
            report.keys += added as u64;
            report.sessions.push(session.id);
            if session.damage.is_some() {
                report.damaged.push(session.id);
            }
            let state = kept_fold::fold_stored(store, session.id).await.map_err(problem::store)?;
            if let Some(row) = state.to_row() {
                store.index(&row.session, &row.words).await.map_err(problem::store)?;
                let row = row.session;
                unfinished.extend((row.turn.is_some() || !row.queued.is_empty()).then_some(row.id));
            }
        }
        drop(open);
        for id in unfinished.into_iter().filter(|_| options.duty == Duty::Work) {
            if let Err(error) = registry.open(id).await {
                tracing::error!(session = %id, %error, "a session that was restored cannot be taken up");
            }
        }
        Ok(report)
    }
}

/// Puts sealed secrets in their places, unless there are others, and finds out which of them the key here opens.
fn adopt_secrets(
    secrets: &store::Secrets,
    sealed: &[store::Sealed],
    report: &mut RestoreReport,
) -> Result<(), Problem> {
    for one in sealed {
        if !secrets.adopt(one).map_err(crate::secrets::told)? {
            report.secrets_left.push(one.name.clone());
            continue;
        }
        report.secrets.push(one.name.clone());
        if secrets.get(&one.name).is_err() {
            report.secrets_closed.push(one.name.clone());
        }
    }
    Ok(())
}

/// Puts the key of the placeholders in its place, unless there is one; whether it is the same then.
fn adopt_key(path: &Path, key: &[u8]) -> Result<bool, Problem> {
    let write = || -> io::Result<bool> {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(key)?;
        file.as_file().sync_all()?;
        match file.persist_noclobber(path) {
            Ok(_) => Ok(true),
            Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => Ok(fs::read(path)? == key),
            Err(other) => Err(other.error),
        }
    };
    write().map_err(|error| problem::file(path, &error))
}

/// Goes through the entries of an archive from its start.
fn each(
    file: &mut File,
    mut work: impl FnMut(Place, &mut dyn Read) -> Result<(), Problem>,
) -> Result<(), Problem> {
    file.rewind().map_err(|error| torn(&error))?;
    let mut tar = tar::Archive::new(io::BufReader::with_capacity(64 * 1024, file));
    for entry in tar.entries().map_err(|error| torn(&error))? {
        let mut entry = entry.map_err(|error| torn(&error))?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Err(refused("it has an entry that is not a file"));
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let place = Place::parse(&path)
            .ok_or_else(|| refused(&format!("it has an entry {path:?} that does not belong there")))?;
        work(place, &mut entry)?;
    }
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(content: &mut dyn Read, what: &str) -> Result<T, Problem> {
    let mut text = Vec::new();
    content.take(TEXT_LIMIT).read_to_end(&mut text).map_err(|error| torn(&error))?;
    serde_json::from_slice(&text).map_err(|error| refused(&format!("{what} cannot be read: {error}")))
}

fn torn(error: &io::Error) -> Problem {
    refused(&error.to_string())
}

fn refused(detail: &str) -> Problem {
    Problem::new(Code::BadRequest, format!("this is not a whole backup: {detail}"))
        .hint("nothing was restored; use an archive that `slipway backup` finished")
}
