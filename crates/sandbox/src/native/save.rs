//! What a sandbox changed becomes a layer: copied while it runs, or taken as it is when it stops.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use launcher::spec::{Disk, State, files};
use protocol::{SandboxId, Timestamp};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::capture::{Captured, capture};
use super::copy::{Copied, Like, Order, copy};
use super::freeze::Freezer;
use super::layers::{Draft, Layers, Lease, Locked};
use super::mapped::mapped;
use super::pack::About;
use super::record::{Record, read_json};
use super::trail::{c_name, chmod_unopened, itself, open_own};
use super::unfold::unfold;
use crate::{Error, Layer, LayerId};

/// A file that changed this shortly before a save is copied again by the next: the clock of a file system may stand
/// still for a while, and a second change in the same moment would not show.
const UNSETTLED_NS: i128 = 50_000_000;

/// With more than this to capture, most of it is copied before the sandbox is stopped.
const MUCH: Disk = Disk { bytes: 16 << 20, inodes: 3_000 };

/// With more than this to capture even after that, all of it is copied while the sandbox is stopped.
const TOO_MUCH: Disk = Disk { bytes: 64 << 20, inodes: 20_000 };

/// A sandbox whose changes are saved.
pub(super) struct Subject {
    pub(super) id: SandboxId,
    pub(super) dir: PathBuf,
    pub(super) layers: Layers,
}

/// Nobody else saves or removes the sandbox as long as it is held.
pub(super) struct Busy {
    _lock: Locked,
}

impl Busy {
    /// The same without waiting; None as well if somebody works on it.
    pub(super) fn now(dir: &Path) -> Result<Option<Self>, Error> {
        let directory = match open_own(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(Error::io(dir))?,
        };
        match Locked::take(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(Self { _lock: lock })),
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
        match Locked::take(directory, FlockOperation::LockExclusive) {
            Ok(lock) if dir.exists() => Ok(Some(Self { _lock: lock })),
            Ok(_) => Ok(None),
            Err(errno) => Err(Error::Io { path: dir.to_owned(), source: errno.into() }),
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
        // Held until the layer is there: it may share the files of another, which must not go before.
        let lease = self.layers.lease()?;
        let running =
            state.map(|state| Running { freezer: Freezer::of(&self.dir, &state), init: state.init });
        let mut saving =
            Saving { subject: self, record, running, likes: Vec::new(), longest: None, blurred: false };
        let layer = saving.run(layer, like, &lease)?;
        let frozen_us = saving.longest.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        tracing::debug!(sandbox = %self.id, layer = %layer.id, bytes = layer.bytes, ?frozen_us, "saved");
        Ok(layer)
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

    /// Makes what the sandbox wrote a layer, without copying it. Nothing may write any more.
    pub(super) fn stopped(&self, layer: &LayerId, without: &[String]) -> Result<Layer, Error> {
        let upper = self.upper();
        for path in without {
            leave_out(&upper, Path::new(path)).map_err(Error::io(upper.join(path)))?;
        }
        self.layers.draft()?.publish_tree(&self.layers, layer, &upper)
    }
}

/// What is known of a sandbox's processes.
struct Running {
    freezer: Freezer,
    init: u32,
}

/// A save of a sandbox that goes on.
struct Saving<'a> {
    subject: &'a Subject,
    record: Record,
    /// None if nothing of it runs.
    running: Option<Running>,
    /// Earlier copies.
    likes: Vec<Like>,
    /// How long the sandbox was stopped at most.
    longest: Option<Duration>,
    /// Whether something did not stop while it was looked at last.
    blurred: bool,
}

impl Saving<'_> {
    fn run(&mut self, id: &LayerId, like: Option<&LayerId>, lease: &Lease) -> Result<Layer, Error> {
        let (sandbox, layers) = (self.subject.id, &self.subject.layers);
        // Most of the time there is little to copy. Then it is only read while the sandbox stands still.
        let index = like.and_then(|like| layers.index_of(like, sandbox));
        self.likes.extend(index.map(|index| Like { root: None, index }));
        let captured = self.frozen(|saving| saving.capture(MUCH))?;
        if captured.copied.whole {
            let like = like.filter(|_| captured.shares).cloned();
            let about = About { layer: self.layer(id, captured.copied.size), like };
            let mut index = Vec::new();
            captured
                .copied
                .index
                .write_to(&mut index, sandbox)
                .map_err(|error| self.subject.explain(error))?;
            return layers.place_pack(about, &index, &captured.contents, lease);
        }
        drop(captured);
        let draft = layers.draft()?;
        let size = self.run_long(&draft, like, lease)?;
        launcher::tree::remove(&draft.aside()).map_err(Error::io(draft.aside()))?;
        draft.publish_as(layers, self.layer(id, size))
    }

    /// Copies most of it while the sandbox goes on, and what changed meanwhile once it stands still.
    fn run_long(&mut self, draft: &Draft, like: Option<&LayerId>, lease: &Lease) -> Result<Disk, Error> {
        let (sandbox, layers) = (self.subject.id, &self.subject.layers);
        if let (Some(like), Some(earlier)) = (like, self.likes.first_mut()) {
            let root = layers.root(like);
            match layers.ready(like, lease).and_then(|()| open_own(&root).map_err(Error::io(&root))) {
                Ok(root) => earlier.root = Some(root),
                Err(error) => {
                    tracing::warn!(layer = %like, %error, "nothing is shared with an earlier layer");
                    self.likes.clear();
                }
            }
        }
        let ahead = draft.make_aside("ahead")?;
        match self.copy(&ahead) {
            Ok(copied) => {
                let root = open_own(&ahead).map_err(Error::io(&ahead))?;
                self.likes.insert(0, Like { root: Some(root), index: copied.index });
            }
            // Somebody writes faster than we read, or it cannot be copied at all: what follows will tell.
            Err(error) => tracing::debug!(%sandbox, %error, "it must be copied while it is frozen"),
        }
        let captured = self.frozen(|saving| saving.capture(TOO_MUCH))?;
        let root = draft.make_root()?;
        let copied = if captured.copied.whole {
            let likes = self.likes.iter().map(|like| match &like.root {
                Some(root) => root.try_clone(),
                None => Err(std::io::ErrorKind::NotFound.into()),
            });
            let likes = likes.collect::<std::io::Result<_>>().map_err(Error::io(&root))?;
            let never = AtomicBool::new(false);
            unfold(&captured.contents, likes, &root, layers.metadata, &never).map_err(Error::io(&root))?;
            captured.copied
        } else {
            drop(captured);
            self.frozen(|saving| saving.copy(&root))?
        };
        copied.index.write(&draft.index(), sandbox).map_err(Error::io(draft.index()))?;
        Ok(copied.size)
    }

    fn layer(&self, id: &LayerId, size: Disk) -> Layer {
        let (bytes, inodes) = (size.bytes, size.inodes);
        Layer { id: id.clone(), bytes, inodes, made_at: Timestamp::now(), blurred: self.blurred }
    }

    /// Does something while the sandbox stands still.
    fn frozen<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let Some(freezer) = self.running.as_ref().map(|running| running.freezer.clone()) else {
            return work(self);
        };
        let dir = &self.subject.dir;
        let begun = Instant::now();
        let frozen = freezer.freeze().map_err(Error::io(dir))?;
        self.blurred = !frozen.whole;
        if self.blurred {
            // Whatever it waits for; what it has is still worth more than nothing.
            tracing::warn!(sandbox = %self.subject.id, "saved while a process went on that could not be stopped");
        }
        let done = work(self)?;
        frozen.thaw().map_err(Error::io(dir))?;
        self.longest = self.longest.max(Some(begun.elapsed()));
        Ok(done)
    }

    fn capture(&mut self, patience: Disk) -> Result<Captured, Error> {
        self.ordered(|upper, order| capture(upper, order, patience))
    }

    fn copy(&mut self, to: &Path) -> Result<Copied, Error> {
        self.ordered(|upper, order| copy(upper, to, order))
    }

    /// Looks at the sandbox as it is now.
    fn ordered<T>(&mut self, work: impl FnOnce(&Path, &Order<'_>) -> std::io::Result<T>) -> Result<T, Error> {
        // Before anything is looked at: what changes later than this is looked at again by the next save.
        let settled = now() - UNSETTLED_NS;
        let mapped = self.mapped();
        for like in &mut self.likes {
            for inode in mapped.iter().flatten() {
                like.index.forget(*inode);
            }
        }
        let disk = self.record.disk;
        let order = Order {
            metadata: self.subject.layers.metadata,
            // What is over the limit by a little must not be lost for it.
            limit: Disk {
                bytes: disk.bytes.saturating_add(disk.bytes / 8),
                inodes: disk.inodes.saturating_add(disk.inodes / 8),
            },
            patience: None,
            likes: &self.likes,
            settled: if mapped.is_some() { settled } else { i128::MIN },
            mapped: &mapped.unwrap_or_default(),
        };
        work(&self.subject.upper(), &order).map_err(|error| self.subject.explain(error))
    }

    /// The files that can change without a sign of it; None if nobody can tell.
    fn mapped(&self) -> Option<HashSet<u64>> {
        let Some(running) = &self.running else { return Some(HashSet::new()) };
        let found = running.freezer.processes().and_then(|mut processes| {
            // The guest maps no file of the sandbox, and hides from an ordinary user what it maps.
            processes.retain(|process| *process != running.init);
            mapped(&processes, &open_own(&self.subject.upper())?)
        });
        if let Err(error) = &found {
            tracing::debug!(sandbox = %self.subject.id, %error, "the next save copies everything");
        }
        found.ok()
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
