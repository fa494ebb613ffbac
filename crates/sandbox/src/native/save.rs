//! What a sandbox changed becomes a layer: copied while it runs, or taken as it is when it stops.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use launcher::spec::{Disk, State, files};
use protocol::SandboxId;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::copy::{Copied, Like, Order, copy};
use super::freeze::{Freezer, companions};
use super::index::Index;
use super::layers::{Draft, Layers};
use super::mapped::mapped;
use super::record::{Record, read_json};
use super::trail::{c_name, chmod_unopened, itself, open_own};
use crate::{Error, Layer, LayerId};

/// A file that changed this shortly before a save is copied again by the next: the clock of a file system may stand
/// still for a while, and a second change in the same moment would not show.
const UNSETTLED_NS: i128 = 50_000_000;

/// With more than this to copy, most of it is copied before the sandbox is stopped.
const MUCH: Disk = Disk { bytes: 8 << 20, inodes: 500 };

/// A sandbox whose changes are saved.
pub(super) struct Subject {
    pub(super) id: SandboxId,
    pub(super) dir: PathBuf,
    pub(super) layers: Layers,
}

/// Nobody else saves or removes the sandbox as long as it is held.
pub(super) struct Busy {
    _lock: OwnedFd,
}

impl Busy {
    /// The same without waiting; None as well if somebody works on it.
    pub(super) fn now(dir: &Path) -> Result<Option<Self>, Error> {
        let directory = match open_own(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(dir))?,
        };
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _lock: directory })),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(Error::Io { path: dir.to_owned(), source: errno.into() }),
        }
    }

    /// Waits for whoever works on the sandbox; None if the sandbox is not there.
    pub(super) fn wait(dir: &Path) -> Result<Option<Self>, Error> {
        let directory = match open_own(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(dir))?,
        };
        loop {
            match rustix::fs::flock(&directory, FlockOperation::LockExclusive) {
                Ok(()) if dir.exists() => return Ok(Some(Self { _lock: directory })),
                Ok(()) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::Io { path: dir.to_owned(), source: errno.into() }),
            }
        }
    }
}

impl Subject {
    fn upper(&self) -> PathBuf {
        self.dir.join(files::UPPER)
    }

    /// Copies what the sandbox changed, while it stands still.
    pub(super) fn live(&self, layer: &LayerId, like: Option<&LayerId>) -> Result<Layer, Error> {
        let Some(_busy) = Busy::wait(&self.dir)? else { return Err(Error::NotFound(self.id)) };
        if let Some(there) = self.layers.get(layer)? {
            return Ok(there);
        }
        let record = Record::read(&self.dir)?.ok_or(Error::NotFound(self.id))?;
        if !self.upper().is_dir() {
            return Err(Error::NotFound(self.id));
        }
        let state: Option<State> = read_json(&self.dir.join(files::STATE));
        let running = super::monitored(&self.dir)?;
        let state = state.filter(|_| running);
        let lease = self.layers.lease()?;
        let draft = self.layers.draft()?;
        let (copied, frozen_for) = self.copy_still(&draft, &record, state.as_ref(), like)?;
        drop(lease);
        copied.index.write(&draft.index(), self.id).map_err(Error::io(draft.index()))?;
        launcher::tree::remove(&draft.aside()).map_err(Error::io(draft.aside()))?;
        let layer = draft.publish_sized(&self.layers, layer, copied.size)?;
        let frozen_us = frozen_for.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        tracing::debug!(sandbox = %self.id, layer = %layer.id, bytes = layer.bytes, ?frozen_us, "saved");
        Ok(layer)
    }

    /// Copies into the draft with the sandbox stopped as shortly as possible. Gives how long that was.
    fn copy_still(
        &self,
        draft: &Draft,
        record: &Record,
        state: Option<&State>,
        like: Option<&LayerId>,
    ) -> Result<(Copied, Option<Duration>), Error> {
        let freezer = state.and_then(|state| Freezer::find(&state.cgroups));
        let freezer = freezer.as_ref();
        let mut likes: Vec<Like> = like.and_then(|like| self.like(like)).into_iter().collect();
        let Some(stop) = freezer else {
            if state.is_some() {
                tracing::warn!(sandbox = %self.id, "saved without being frozen: this host gives no way to stop it");
            }
            let copied = self.copy_to(&draft.make_root()?, record, &mut likes, state, freezer, None)?;
            return Ok((copied, None));
        };
        // Most of the time there is little to copy, and one look at the tree is all it takes.
        let first = draft.make_aside("first")?;
        let (copied, time) = self.copy_frozen(&first, record, &mut likes, state, stop, Some(MUCH))?;
        if copied.whole {
            let root = draft.root();
            std::fs::rename(&first, &root).map_err(Error::io(&root))?;
            return Ok((copied, time));
        }
        // Otherwise most of it is copied while the sandbox goes on, and what changed meanwhile once it stands still.
        likes.insert(0, Like { root: open_own(&first).map_err(Error::io(&first))?, index: copied.index });
        let second = draft.make_aside("second")?;
        match self.copy_to(&second, record, &mut likes, state, freezer, None) {
            Ok(copied) => {
                let root = open_own(&second).map_err(Error::io(&second))?;
                likes.insert(0, Like { root, index: copied.index });
            }
            // Somebody writes faster than we read, or it cannot be copied at all: what follows will tell.
            Err(error) => tracing::debug!(sandbox = %self.id, %error, "it must be copied while it is frozen"),
        }
        let (copied, again) = self.copy_frozen(&draft.make_root()?, record, &mut likes, state, stop, None)?;
        Ok((copied, time.max(again)))
    }

    /// Copies while the sandbox stands still; gives for how long.
    fn copy_frozen(
        &self,
        to: &Path,
        record: &Record,
        likes: &mut [Like],
        state: Option<&State>,
        freezer: &Freezer,
        patience: Option<Disk>,
    ) -> Result<(Copied, Option<Duration>), Error> {
        let begun = Instant::now();
        let frozen = match freezer.freeze() {
            Ok(frozen) => Some(frozen),
            // It cannot be stopped, whatever it waits for; what it has is still worth more than nothing.
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                tracing::warn!(sandbox = %self.id, "saved without being frozen: it did not stop in time");
                None
            }
            Err(source) => return Err(Error::Io { path: self.dir.clone(), source }),
        };
        let copied = self.copy_to(to, record, likes, state, Some(freezer), patience)?;
        let Some(frozen) = frozen else { return Ok((copied, None)) };
        frozen.thaw().map_err(Error::io(&self.dir))?;
        Ok((copied, Some(begun.elapsed())))
    }

    /// The files that can change without a sign of it; None if nobody can tell.
    fn mapped(&self, state: Option<&State>, freezer: Option<&Freezer>) -> Option<HashSet<u64>> {
        let Some(state) = state else { return Some(HashSet::new()) };
        let processes = match freezer {
            Some(freezer) => freezer.processes(),
            None => companions(state.init),
        };
        let found = processes.and_then(|processes| mapped(&processes, &open_own(&self.upper())?));
        if let Err(error) = &found {
            tracing::debug!(sandbox = %self.id, %error, "the next save copies everything");
        }
        found.ok()
    }

    fn copy_to(
        &self,
        to: &Path,
        record: &Record,
        likes: &mut [Like],
        state: Option<&State>,
        freezer: Option<&Freezer>,
        patience: Option<Disk>,
    ) -> Result<Copied, Error> {
        // Before anything is looked at: what changes later than this is looked at again by the next save.
        let settled = now() - UNSETTLED_NS;
        let mapped = self.mapped(state, freezer);
        for like in likes.iter_mut() {
            for inode in mapped.iter().flatten() {
                like.index.forget(*inode);
            }
        }
        let order = Order {
            metadata: self.layers.metadata,
            // What is over the limit by a little must not be lost for it.
            limit: Disk {
                bytes: record.disk.bytes.saturating_add(record.disk.bytes / 8),
                inodes: record.disk.inodes.saturating_add(record.disk.inodes / 8),
            },
            patience,
            likes,
            settled: if mapped.is_some() { settled } else { i128::MIN },
            mapped: &mapped.unwrap_or_default(),
        };
        copy(&self.upper(), to, &order).map_err(|error| self.explain(error))
    }

    fn explain(&self, error: std::io::Error) -> Error {
        match error.kind() {
            std::io::ErrorKind::FileTooLarge => Error::Build {
                message: format!("the changes of sandbox {} cannot be saved: {error}", self.id),
                hint: "remove files that are not needed, or raise the limits of the environment".to_owned(),
            },
            _ => Error::Io { path: self.upper(), source: error },
        }
    }

    /// An earlier layer of this sandbox, if it is still there.
    fn like(&self, layer: &LayerId) -> Option<Like> {
        let index = Index::read(&self.layers.index(layer), self.id)?;
        Some(Like { root: open_own(&self.layers.root(layer)).ok()?, index })
    }

    /// Makes what the sandbox wrote a layer, without copying it. Nothing may write any more.
    pub(super) fn stopped(&self, layer: &LayerId, without: &[String]) -> Result<Layer, Error> {
        let upper = self.upper();
        for path in without {
            leave_out(&upper, Path::new(path)).map_err(Error::io(upper.join(path)))?;
        }
        self.layers.draft()?.publish_tree(&self.layers, layer, &upper)
    }
}

/// Nanoseconds since 1970.
fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or_default()
}

/// Removes a path from a tree, without following any link in it.
fn leave_out(tree: &Path, path: &Path) -> std::io::Result<()> {
    let mut at = open_own(tree)?;
    let mut parts = path.components().filter(|part| *part != Component::RootDir).peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else { return Err(std::io::ErrorKind::InvalidInput.into()) };
        if parts.peek().is_none() {
            return launcher::tree::remove(&Path::new(&itself(&at)).join(name));
        }
        let name = c_name(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&at, &name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {
                use std::os::fd::AsFd;
                chmod_unopened(at.as_fd(), &name, Mode::RWXU)?;
                rustix::fs::openat(&at, &name, flags, Mode::empty())
            }
            other => other,
        };
        at = match opened {
            // Not changed, or something else than a directory: then there is nothing below it.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            other => other?,
        };
    }
    Ok(())
}
