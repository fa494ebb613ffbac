//! The layers on disk: `layers/<id>/root` is the tree, `layer.json` tells about it, `index` what it is a copy of.
//!
//! A layer is made aside, in `layers/.new-…`, and appears by being renamed. One that was saved of a running sandbox is
//! only a pack at first, `packs/<id>`; see the module `packs`. One lock, `layers.lock`, is held shared by
//! whoever begins to use a layer and exclusively by whoever removes one, so there is no moment in between.
//!
//! A layer outlasts a power cut once it is there: its tree is on the disk before it gets its name, or its pack stays until
//! that is so. `boot` tells during which start of the machine a tree was made; one that was not finished then is not trusted
//! later.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::{SandboxId, Timestamp};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::duplicate::{Metadata, blocks};
use super::durable::{boot, sync_directory, sync_file_system};
use super::marks::Marks;
use super::record::{Record, read_json, write_json};
use super::spread::spread;
use super::trail::{Trail, is_whiteout, names, open_own, stat_at};
use crate::{Error, Layer, LayerId};

const ROOT: &str = "root";
const ABOUT: &str = "layer.json";
const INDEX: &str = "index";
const BOOT: &str = "boot";
pub(super) const NEW: &str = ".new-";
const GONE: &str = ".gone-";

/// How long a lock is waited for that only a process which was just begun can have.
const LOCK_TRIES: u32 = 5_000;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// The store of layers.
#[derive(Clone)]
pub(super) struct Layers {
    dir: PathBuf,
    pub(super) packs: PathBuf,
    sandboxes: PathBuf,
    lock: PathBuf,
    /// What its files keep.
    pub(super) metadata: Metadata,
}

/// As long as it is held no layer is removed.
pub(super) struct Lease {
    _lock: Locked,
}

impl Layers {
    /// Opens the store. What was begun by processes that are gone is finished or removed.
    pub(super) fn open(dir: &Path, sandboxes: &Path, metadata: Metadata) -> Result<Self, Error> {
        let layers = Self {
            dir: dir.join("layers"),
            packs: dir.join("packs"),
            sandboxes: sandboxes.to_owned(),
            lock: dir.join("layers.lock"),
            metadata,
        };
        super::make_private(&layers.dir)?;
        spread(&layers.dir);
        super::make_private(&layers.packs)?;
        layers.sweep()?;
        Ok(layers)
    }

    /// Where a layer's tree is.
    pub(super) fn root(&self, id: &LayerId) -> PathBuf {
        self.dir.join(id.as_str()).join(ROOT)
    }

    /// Where the index of a layer is, if it has one.
    pub(super) fn index(&self, id: &LayerId) -> PathBuf {
        self.dir.join(id.as_str()).join(INDEX)
    }

    /// One layer.
    pub(super) fn get(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        if let Some(layer) = self.unfolded(id)? {
            return Ok(Some(layer));
        }
        match self.packed(id)? {
            Some(layer) => Ok(Some(layer)),
            // It may have been unfolded just now.
            None => self.unfolded(id),
        }
    }

    /// One layer, if its tree is there.
    fn unfolded(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        let path = self.dir.join(id.as_str()).join(ABOUT);
        match std::fs::read(&path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(layer) => Ok(Some(layer)),
                Err(source) => Err(Error::Io { path, source: source.into() }),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Every layer, by id.
    pub(super) fn all(&self) -> Result<Vec<Layer>, Error> {
        // In this order: what is no longer among the packs has its tree already.
        let mut ids = self.pending()?;
        for entry in std::fs::read_dir(&self.dir).map_err(Error::io(&self.dir))? {
            let entry = entry.map_err(Error::io(&self.dir))?;
            ids.extend(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
        let mut all = Vec::new();
        for id in ids {
            match self.get(&id) {
                Ok(layer) => all.extend(layer),
                Err(error) => {
                    tracing::warn!(layer = %id, %error, "a layer cannot be read and is left out");
                }
            }
        }
        Ok(all)
    }

    /// Keeps every layer where it is, without waiting; None while somebody removes one.
    pub(super) fn try_lease(&self) -> Result<Option<Lease>, Error> {
        self.locked(FlockOperation::NonBlockingLockShared)
    }

    /// Keeps every layer where it is. Waits while somebody removes one.
    pub(super) fn lease(&self) -> Result<Lease, Error> {
        self.locked(FlockOperation::LockShared)?.ok_or_else(|| self.lock_error(Errno::AGAIN))
    }

    fn locked(&self, operation: FlockOperation) -> Result<Option<Lease>, Error> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.lock, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| self.lock_error(errno))?;
        match Locked::take(file, operation) {
            Ok(lock) => Ok(Some(Lease { _lock: lock })),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(self.lock_error(errno)),
        }
    }

    fn lock_error(&self, errno: Errno) -> Error {
        Error::Io { path: self.lock.clone(), source: errno.into() }
    }

    /// Begins a layer.
    pub(super) fn draft(&self) -> Result<Draft, Error> {
        // So that nobody takes it for one that was left behind, before it is locked.
        let _lease = self.lease()?;
        let dir = self.dir.join(unique(NEW));
        super::make_private(&dir)?;
        let lock = lock_directory(&dir).map_err(Error::io(&dir))?;
        let draft = Draft { dir, _lock: lock };
        let mark = draft.dir.join(BOOT);
        boot().and_then(|boot| std::fs::write(&mark, boot)).map_err(Error::io(&mark))?;
        Ok(draft)
    }

    /// Removes a layer, unless a sandbox stands on it.
    pub(super) fn remove(&self, id: &LayerId) -> Result<(), Error> {
        let gone = self.dir.join(unique(GONE));
        let _lock = {
            let _nobody_begins = self.alone_without(id)?;
            if let Some(by) = self.user_of(id)? {
                return Err(Error::InUse { what: format!("layer {id}"), by });
            }
            // First the pack: if this ends in between, the layer is still whole.
            self.forget_pack(id)?;
            let place = self.dir.join(id.as_str());
            match std::fs::rename(&place, &gone) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                other => other.map_err(Error::io(&place))?,
            }
            lock_directory(&gone).map_err(Error::io(&gone))?
        };
        launcher::tree::remove(&gone).map_err(Error::io(&gone))
    }

    /// Waits until nobody uses layers, and no pack needs this one. As long as it is held nobody begins.
    fn alone_without(&self, id: &LayerId) -> Result<Lease, Error> {
        loop {
            self.unfold_those_like(id)?;
            let alone =
                self.locked(FlockOperation::LockExclusive)?.ok_or_else(|| self.lock_error(Errno::AGAIN))?;
            // Another may have come in between.
            if self.those_like(id)?.is_empty() {
                return Ok(alone);
            }
        }
    }

    /// The sandbox that stands on a layer.
    fn user_of(&self, id: &LayerId) -> Result<Option<String>, Error> {
        for entry in std::fs::read_dir(&self.sandboxes).map_err(Error::io(&self.sandboxes))? {
            let entry = entry.map_err(Error::io(&self.sandboxes))?;
            let Some(sandbox) = entry.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok())
            else {
                continue;
            };
            match Record::read(&entry.path()) {
                Ok(Some(record)) if record.stack.layers.contains(id) => {
                    return Ok(Some(format!("sandbox {sandbox}")));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%sandbox, %error, "a sandbox's record cannot be read");
                    return Ok(Some(format!("sandbox {sandbox}, as far as can be told")));
                }
            }
        }
        Ok(None)
    }

    /// Finishes or removes what processes that are gone left behind. If somebody uses layers now, a later one does it.
    fn sweep(&self) -> Result<(), Error> {
        let mut rubbish = Vec::new();
        {
            let Some(_alone) = self.locked(FlockOperation::NonBlockingLockExclusive)? else { return Ok(()) };
            self.sweep_packs(&mut rubbish)?;
            for entry in std::fs::read_dir(&self.dir).map_err(Error::io(&self.dir))? {
                let entry = entry.map_err(Error::io(&self.dir))?;
                let path = entry.path();
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if !name.starts_with(NEW) && !name.starts_with(GONE) {
                    continue;
                }
                // Whoever works on it holds its lock.
                let directory = open_own(&path).map_err(Error::io(&path))?;
                let Ok(lock) = Locked::take(directory, FlockOperation::NonBlockingLockExclusive) else {
                    continue;
                };
                let about = read_json::<Layer>(&path.join(ABOUT));
                match about {
                    // Whole, and only its last renaming was missing. After a power cut nobody knows whether it is whole.
                    Some(layer)
                        if name.starts_with(NEW) && path.join(ROOT).is_dir() && is_of_this_boot(&path)? =>
                    {
                        sync_file_system(&path).map_err(Error::io(&path))?;
                        if self.place(&path, &layer.id)? == Placed::TakenAlready {
                            rubbish.push((path, lock));
                        }
                    }
                    _ => rubbish.push((path, lock)),
                }
            }
        }
        for (path, _lock) in rubbish {
            launcher::tree::remove(&path).map_err(Error::io(&path))?;
        }
        Ok(())
    }

    /// Takes a layer's tree away, whose pack is there, if nobody knows whether it reached the disk.
    pub(super) fn distrust(&self, id: &LayerId, rubbish: &mut Vec<(PathBuf, Locked)>) -> Result<(), Error> {
        let place = self.dir.join(id.as_str());
        if is_of_this_boot(&place)? {
            return Ok(());
        }
        let gone = self.dir.join(unique(GONE));
        std::fs::rename(&place, &gone).map_err(Error::io(&place))?;
        let lock = lock_directory(&gone).map_err(Error::io(&gone))?;
        rubbish.push((gone, lock));
        Ok(())
    }

    /// All trees that there are now are on the disk when this returns.
    pub(super) fn sync(&self) -> Result<(), Error> {
        sync_file_system(&self.dir).map_err(Error::io(&self.dir))
    }

    /// Gives a finished draft its name.
    fn place(&self, draft: &Path, id: &LayerId) -> Result<Placed, Error> {
        let place = self.dir.join(id.as_str());
        match rustix::fs::renameat_with(CWD, draft, CWD, &place, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Placed::Here),
            Err(Errno::EXIST) => Ok(Placed::TakenAlready),
            // File systems that cannot be told not to replace refuse to replace what is not empty anyway.
            Err(Errno::INVAL) => match std::fs::rename(draft, &place) {
                Ok(()) => Ok(Placed::Here),
                Err(_) if place.join(ABOUT).exists() => Ok(Placed::TakenAlready),
                Err(source) => Err(Error::Io { path: place, source }),
            },
            Err(errno) => Err(Error::Io { path: place, source: errno.into() }),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Placed {
    Here,
    /// There is one already, which stays as it is.
    TakenAlready,
}

/// A layer that is being made. Unless it is published, it goes with this value.
pub(super) struct Draft {
    dir: PathBuf,
    _lock: Locked,
}

impl Draft {
    /// Where its tree goes. Not there until it is made.
    pub(super) fn root(&self) -> PathBuf {
        self.dir.join(ROOT)
    }

    /// Where its index goes.
    pub(super) fn index(&self) -> PathBuf {
        self.dir.join(INDEX)
    }

    /// What is beside the tree, for the time of making.
    pub(super) fn aside(&self) -> PathBuf {
        self.dir.join("aside")
    }

    /// Makes the directory of the tree.
    pub(super) fn make_root(&self) -> Result<PathBuf, Error> {
        let root = self.root();
        std::fs::create_dir(&root).map_err(Error::io(&root))?;
        Ok(root)
    }

    /// Makes a directory beside the tree, for the time of making.
    pub(super) fn make_aside(&self, name: &str) -> Result<PathBuf, Error> {
        let aside = self.aside();
        super::make_private(&aside)?;
        let directory = aside.join(name);
        std::fs::create_dir(&directory).map_err(Error::io(&directory))?;
        Ok(directory)
    }

    /// The same for a tree of which everything is known and whose removals are marked.
    pub(super) fn publish_as(self, layers: &Layers, layer: Layer) -> Result<Layer, Error> {
        self.announce(&layer)?;
        self.settle(layers, layer)
    }

    /// The same for a tree that need not outlast a power cut, because its pack does.
    pub(super) fn publish_unfolded(self, layers: &Layers, layer: Layer) -> Result<Layer, Error> {
        self.announce(&layer)?;
        self.place(layers, layer)
    }

    /// The tree is whole: it becomes the layer. If there is one of that name, it stays as it is, and is what this gives.
    pub(super) fn publish(self, layers: &Layers, id: &LayerId) -> Result<Layer, Error> {
        let root = self.root();
        let (bytes, inodes) =
            survey(&root, Sockets::Keep, layers.metadata.marks).map_err(Error::io(&root))?;
        let layer = Layer { id: id.clone(), bytes, inodes, made_at: Timestamp::now(), blurred: false };
        self.announce(&layer)?;
        self.settle(layers, layer)
    }

    /// Takes a whole tree in, which is moved and not copied.
    pub(super) fn publish_tree(self, layers: &Layers, id: &LayerId, tree: &Path) -> Result<Layer, Error> {
        let (bytes, inodes) =
            survey(tree, Sockets::Remove, layers.metadata.marks).map_err(Error::io(tree))?;
        let layer = Layer { id: id.clone(), bytes, inodes, made_at: Timestamp::now(), blurred: false };
        // In this order a draft that has both is whole, whenever this process dies.
        self.announce(&layer)?;
        std::fs::rename(tree, self.root()).map_err(Error::io(tree))?;
        self.settle(layers, layer)
    }

    fn announce(&self, layer: &Layer) -> Result<(), Error> {
        write_json(&self.dir.join(ABOUT), layer)
    }

    /// Gives it its name once it is on the disk.
    fn settle(self, layers: &Layers, layer: Layer) -> Result<Layer, Error> {
        let begun = std::time::Instant::now();
        sync_file_system(&self.dir).map_err(Error::io(&self.dir))?;
        let layer = self.place(layers, layer)?;
        sync_directory(&layers.dir).map_err(Error::io(&layers.dir))?;
        tracing::debug!(layer = %layer.id, took = ?begun.elapsed(), "a layer is on the disk");
        Ok(layer)
    }

    fn place(self, layers: &Layers, layer: Layer) -> Result<Layer, Error> {
        match layers.place(&self.dir, &layer.id)? {
            Placed::Here => Ok(layer),
            Placed::TakenAlready => match layers.get(&layer.id)? {
                Some(there) => Ok(there),
                None => Err(Error::NoLayer(layer.id)),
            },
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(error) = launcher::tree::remove(&self.dir) {
            tracing::warn!(path = %self.dir.display(), %error, "an unfinished layer stays until the next start");
        }
    }
}

/// Whether a tree was made since the machine started.
fn is_of_this_boot(dir: &Path) -> Result<bool, Error> {
    let path = dir.join(BOOT);
    let made = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.map_err(Error::io(&path))?,
    };
    Ok(made == boot().map_err(Error::io(&path))?)
}

/// A name that no other process and no other call uses.
pub(super) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Locks a directory of ours. A process that was just begun has every open file for a moment, and with them locks; so
/// this waits a little.
fn lock_directory(path: &Path) -> std::io::Result<Locked> {
    let mut directory = open_own(path)?;
    for _ in 0..LOCK_TRIES {
        match Locked::try_take(directory) {
            Ok(lock) => return Ok(lock),
            Err((free, Errno::AGAIN)) => directory = free,
            Err((_, errno)) => return Err(errno.into()),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(Errno::AGAIN.into())
}

/// A lock that is given back with this value, also if a process that was just begun has the open file too.
pub(super) struct Locked(OwnedFd);

impl Locked {
    /// Takes a lock on an open file.
    pub(super) fn take(file: OwnedFd, operation: FlockOperation) -> rustix::io::Result<Self> {
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Self(file)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The same for nobody else, without waiting; gives the file back if that is not possible.
    fn try_take(file: OwnedFd) -> Result<Self, (OwnedFd, Errno)> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(errno) => Err((file, errno)),
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(%error, "a lock is given back late");
        }
    }
}

/// What becomes of sockets and devices, which mean nothing in a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sockets {
    Keep,
    Remove,
}

/// Bytes and files of a tree; what has several names counts once. Directories with removals are marked on the way.
fn survey(root: &Path, sockets: Sockets, marks: Marks) -> std::io::Result<(u64, u64)> {
    let root = open_own(root)?;
    let own = rustix::fs::fstat(&root)?;
    let mut trail = Trail::begin(root)?;
    let (mut bytes, mut inodes) = (blocks(&own), 1);
    let mut seen = HashSet::new();
    let mut left = vec![Vec::new()];
    let mut read = |trail: &Trail| -> std::io::Result<Vec<std::ffi::CString>> {
        let mut directories = Vec::new();
        let mut whiteouts = false;
        names(trail.here(), |name, kind| {
            let Some(stat) = stat_at(trail.here(), name)? else { return Ok(()) };
            let device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
            if sockets == Sockets::Remove && (kind == FileType::Socket || device && !is_whiteout(&stat)) {
                return Ok(rustix::fs::unlinkat(trail.here(), name, AtFlags::empty())?);
            }
            whiteouts |= is_whiteout(&stat);
            if kind == FileType::Directory {
                directories.push(name.to_owned());
            } else if stat.st_nlink > 1 && !seen.insert(stat.st_ino) {
                return Ok(());
            }
            bytes += blocks(&stat);
            inodes += 1;
            Ok(())
        })?;
        if whiteouts {
            marks.has_whiteouts(trail.here())?;
        }
        Ok(directories)
    };
    left[0] = read(&trail)?;
    while let Some(directories) = left.last_mut() {
        match directories.pop() {
            Some(name) => {
                trail.enter(&name)?;
                left.push(read(&trail)?);
            }
            None => {
                left.pop();
                if !left.is_empty() {
                    trail.leave()?;
                }
            }
        }
    }
    Ok((bytes, inodes))
}
