//! Layers that are only packs yet: `packs/<id>` each, in the driver's directory.
//!
//! A pack appears whole and on the disk, by being renamed. It is unfolded under its own lock, by whoever comes first, into a
//! draft that becomes the layer; it goes once that is on the disk as well. Whoever makes or unfolds a pack has a lease meanwhile, so that the layer whose files
//! it shares stays; and a layer is removed only after the packs that share its files are unfolded.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use protocol::SandboxId;
use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::durable::sync_directory;
use super::index::Index;
use super::layers::{Layers, Lease, Locked, NEW, unique};
use super::pack::{self, About, Contents, Pack};
use super::trail::open_own;
use super::unfold::unfold;
use crate::{Error, Layer, LayerId};

impl Layers {
    fn pack(&self, id: &LayerId) -> PathBuf {
        self.packs.join(id.as_str())
    }

    /// The layer, if it is a pack.
    pub(super) fn packed(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        let path = self.pack(id);
        Ok(Pack::open(&path).map_err(Error::io(&path))?.map(|pack| pack.about.layer))
    }

    /// Every layer that is a pack.
    pub(super) fn pending(&self) -> Result<BTreeSet<LayerId>, Error> {
        let mut ids = BTreeSet::new();
        for entry in std::fs::read_dir(&self.packs).map_err(Error::io(&self.packs))? {
            let entry = entry.map_err(Error::io(&self.packs))?;
            ids.extend(entry.file_name().to_str().and_then(|name| name.parse::<LayerId>().ok()));
        }
        Ok(ids)
    }

    /// Makes a layer of what was captured. If there is one of that name, it stays as it is, and is what this gives.
    pub(super) fn place_pack(
        &self,
        about: About,
        index: &[u8],
        contents: &Contents,
        _lease: &Lease,
    ) -> Result<Layer, Error> {
        let (new, place) = (self.packs.join(unique(NEW)), self.pack(&about.layer.id));
        let made = std::fs::File::create_new(&new)
            .and_then(|mut file| {
                pack::write(&mut file, &about, index, contents)?;
                file.sync_data()
            })
            .and_then(|()| match rustix::fs::renameat_with(CWD, &new, CWD, &place, RenameFlags::NOREPLACE) {
                Ok(()) => Ok(()),
                // File systems that cannot be told not to replace can still refuse to link.
                Err(Errno::INVAL) => {
                    std::fs::hard_link(&new, &place).and_then(|()| std::fs::remove_file(&new))
                }
                Err(errno) => Err(errno.into()),
            });
        let Err(error) = made else {
            sync_directory(&self.packs).map_err(Error::io(&self.packs))?;
            return Ok(about.layer);
        };
        std::fs::remove_file(&new).map_err(Error::io(&new))?;
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                self.get(&about.layer.id)?.ok_or(Error::NoLayer(about.layer.id))
            }
            _ => Err(Error::Io { path: place, source: error }),
        }
    }

    /// The index of a layer that was saved of this sandbox, wherever it is.
    pub(super) fn index_of(&self, id: &LayerId, sandbox: SandboxId) -> Option<Index> {
        let unfolded = || Index::read(&self.index(id), sandbox);
        if let Some(index) = unfolded() {
            return Some(index);
        }
        match Pack::open(&self.pack(id)).ok()? {
            Some(mut pack) => Index::read_from(&pack.index().ok()?[..], sandbox),
            // It may have been unfolded just now.
            None => unfolded(),
        }
    }

    /// Makes sure that the tree of a layer is there. The lease keeps it there.
    pub(super) fn ready(&self, id: &LayerId, lease: &Lease) -> Result<(), Error> {
        self.ready_unless(id, lease, &AtomicBool::new(false))
    }

    /// The same, unless it is told to stop; then it ends with an error.
    pub(super) fn ready_unless(&self, id: &LayerId, _lease: &Lease, stop: &AtomicBool) -> Result<(), Error> {
        // A pack that shares the files of another comes after it.
        let mut chain = Vec::new();
        let mut next = Some(id.clone());
        while let Some(id) = next.filter(|id| !chain.contains(id)) {
            if self.root(&id).is_dir() {
                break;
            }
            let path = self.pack(&id);
            next = Pack::open(&path).map_err(Error::io(&path))?.and_then(|pack| pack.about.like);
            chain.push(id);
        }
        for id in chain.iter().rev() {
            self.unfold(id, stop)?;
        }
        Ok(())
    }

    fn unfold(&self, id: &LayerId, stop: &AtomicBool) -> Result<(), Error> {
        let path = self.pack(id);
        let there = || if self.root(id).is_dir() { Ok(()) } else { Err(Error::NoLayer(id.clone())) };
        let Some(mut pack) = Pack::open(&path).map_err(Error::io(&path))? else { return there() };
        let file = pack.file().try_clone().map(OwnedFd::from).map_err(Error::io(&path))?;
        let _alone = Locked::take(file, FlockOperation::LockExclusive)
            .map_err(|errno| Error::Io { path: path.clone(), source: errno.into() })?;
        if self.root(id).is_dir() {
            // Somebody else did it.
            return Ok(());
        }
        let mut likes = Vec::new();
        if let Some(like) = &pack.about.like {
            let root = self.root(like);
            likes.push(open_own(&root).map_err(Error::io(&root))?);
        }
        let draft = self.draft()?;
        let index = pack.index().map_err(Error::io(&path))?;
        std::fs::write(draft.index(), index).map_err(Error::io(draft.index()))?;
        let contents = pack.contents().map_err(Error::io(&path))?;
        unfold(&contents, likes, &draft.make_root()?, self.metadata, stop).map_err(Error::io(&path))?;
        draft.publish_unfolded(self, pack.about.layer).map(drop)
    }

    /// The packs whose trees are there.
    pub(super) fn unfolded_packs(&self) -> Result<Vec<LayerId>, Error> {
        Ok(self.pending()?.into_iter().filter(|id| self.root(id).is_dir()).collect())
    }

    /// What those take up, which go by themselves.
    pub(super) fn bytes_of_unfolded_packs(&self) -> Result<u64, Error> {
        use std::os::unix::fs::MetadataExt;
        let unfolded = self.unfolded_packs()?;
        let sizes = unfolded.iter().filter_map(|id| self.pack(id).symlink_metadata().ok());
        Ok(sizes.map(|data| data.blocks().saturating_mul(512)).sum())
    }

    /// Removes the packs whose trees are there, once those are on the disk.
    pub(super) fn settle_packs(&self, _lease: &Lease) -> Result<(), Error> {
        let unfolded = self.unfolded_packs()?;
        if unfolded.is_empty() {
            return Ok(());
        }
        self.sync()?;
        unfolded.iter().try_for_each(|id| self.forget_pack(id))
    }

    /// Removes a pack, if there is one.
    pub(super) fn forget_pack(&self, id: &LayerId) -> Result<(), Error> {
        let path = self.pack(id);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::Io { path, source: error })
            }
            _ => Ok(()),
        }
    }

    /// The packs that share files of a layer. One that is damaged needs nothing any more.
    pub(super) fn those_like(&self, id: &LayerId) -> Result<Vec<LayerId>, Error> {
        let mut found = Vec::new();
        for pending in self.pending()? {
            let path = self.pack(&pending);
            match Pack::open(&path) {
                Ok(Some(pack)) if pack.about.like.as_ref() == Some(id) => {
                    found.push(pending);
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    tracing::warn!(layer = %pending, %error, "a layer is damaged");
                }
                Err(error) => return Err(Error::Io { path, source: error }),
            }
        }
        Ok(found)
    }

    /// Unfolds the packs that share files of a layer, so that they go.
    pub(super) fn unfold_those_like(&self, id: &LayerId) -> Result<(), Error> {
        let lease = self.lease()?;
        let pending = self.those_like(id)?;
        if pending.is_empty() {
            return Ok(());
        }
        pending.iter().try_for_each(|pending| self.ready(pending, &lease))?;
        self.settle_packs(&lease)
    }

    /// Removes what processes that are gone left among the packs, and trees that did not reach the disk before the machine
    /// stopped; their packs did. Nobody else may be at work.
    pub(super) fn sweep_packs(&self, rubbish: &mut Vec<(PathBuf, Locked)>) -> Result<(), Error> {
        for entry in std::fs::read_dir(&self.packs).map_err(Error::io(&self.packs))? {
            let path = entry.map_err(Error::io(&self.packs))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(NEW) {
                std::fs::remove_file(&path).map_err(Error::io(&path))?;
                continue;
            }
            let Ok(id) = name.parse::<LayerId>() else { continue };
            if self.root(&id).is_dir() {
                self.distrust(&id, rubbish)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::os::unix::fs::MetadataExt;

    use launcher::spec::Disk;
    use protocol::Timestamp;

    use super::super::capture::capture;
    use super::super::copy::{Like, Order};
    use super::super::duplicate::{Metadata, Owners};
    use super::super::marks::Marks;
    use super::*;

    const ALL: Disk = Disk { bytes: 1 << 20, inodes: 1 << 20 };

    struct World {
        dir: tempfile::TempDir,
        sandbox: SandboxId,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in ["sandboxes", "upper"] {
                std::fs::create_dir(dir.path().join(name)).unwrap();
            }
            Self { dir, sandbox: SandboxId::from_u128(1) }
        }

        /// As another process would.
        fn open(&self) -> Layers {
            let metadata = Metadata { marks: Marks::User, owners: Owners::Own };
            Layers::open(self.dir.path(), &self.dir.path().join("sandboxes"), metadata).unwrap()
        }

        fn upper(&self, name: &str) -> PathBuf {
            self.dir.path().join("upper").join(name)
        }

        /// Saves, and dies before anything is unfolded.
        fn save(&self, name: &str, like: Option<&str>) -> Layer {
            let layers = self.open();
            let lease = layers.lease().unwrap();
            let like = like.map(id);
            let index = like.as_ref().map(|like| layers.index_of(like, self.sandbox).unwrap());
            let likes: Vec<Like> = index.into_iter().map(|index| Like { root: None, index }).collect();
            let order = Order {
                metadata: layers.metadata,
                limit: ALL,
                patience: None,
                likes: &likes,
                settled: i128::MAX,
                mapped: &HashSet::new(),
            };
            let captured = capture(&self.dir.path().join("upper"), &order, ALL).unwrap();
            assert!(captured.copied.whole);
            let size = captured.copied.size;
            let (bytes, inodes, made_at) = (size.bytes, size.inodes, Timestamp::now());
            let layer = Layer { id: id(name), bytes, inodes, made_at, blurred: false };
            let mut index = Vec::new();
            captured.copied.index.write_to(&mut index, self.sandbox).unwrap();
            let about = About { layer, like: like.filter(|_| captured.shares) };
            layers.place_pack(about, &index, &captured.contents, &lease).unwrap()
        }

        /// Everything in a directory of the store.
        fn names(&self, directory: &str) -> Vec<String> {
            let entries = std::fs::read_dir(self.dir.path().join(directory)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    fn id(name: &str) -> LayerId {
        name.parse().unwrap()
    }

    fn ready(layers: &Layers, name: &str) -> Result<(), Error> {
        layers.ready(&id(name), &layers.lease().unwrap())
    }

    fn settle(layers: &Layers) {
        layers.settle_packs(&layers.lease().unwrap()).unwrap();
    }

    fn text(layers: &Layers, name: &str, file: &str) -> String {
        std::fs::read_to_string(layers.root(&id(name)).join(file)).unwrap()
    }

    #[test]
    fn a_pack_whose_maker_died_is_a_layer_and_any_other_process_unfolds_it() {
        let world = World::new();
        std::fs::write(world.upper("x"), "1").unwrap();
        let saved = world.save("one", None);
        std::fs::write(world.dir.path().join("packs/.new-1-0"), "half").unwrap();
        let layers = world.open();
        assert_eq!(world.names("packs"), ["one"]);
        assert_eq!(layers.get(&id("one")).unwrap(), Some(saved.clone()));
        assert_eq!(layers.all().unwrap(), vec![saved.clone()]);
        assert!(!layers.root(&id("one")).exists());
        ready(&layers, "one").unwrap();
        assert_eq!(text(&layers, "one", "x"), "1");
        assert_eq!(world.names("packs"), ["one"], "it stays until its tree is on the disk");
        settle(&layers);
        assert_eq!((world.names("packs"), world.names("layers")), (vec![], vec!["one".to_owned()]));
        assert_eq!(layers.all().unwrap(), [saved]);
        assert!(matches!(ready(&layers, "other"), Err(Error::NoLayer(_))));
    }

    #[test]
    fn a_tree_that_a_power_cut_may_have_torn_is_made_again_of_its_pack() {
        let world = World::new();
        std::fs::write(world.upper("x"), "1").unwrap();
        world.save("one", None);
        let layers = world.open();
        ready(&layers, "one").unwrap();
        let inode = |layers: &Layers| layers.root(&id("one")).metadata().unwrap().ino();
        let made = inode(&layers);
        // The server died, the machine did not: the tree is as good as it was.
        assert_eq!(inode(&world.open()), made);
        for lost in ["another start", ""] {
            std::fs::write(layers.root(&id("one")).join("x"), "").unwrap();
            std::fs::write(world.dir.path().join("layers/one/boot"), lost).unwrap();
            let again = world.open();
            assert!(!again.root(&id("one")).exists() && world.names("layers").is_empty());
            ready(&again, "one").unwrap();
            assert_eq!(text(&again, "one", "x"), "1");
        }
        settle(&layers);
        std::fs::write(world.dir.path().join("layers/one/boot"), "another start").unwrap();
        assert_eq!(text(&world.open(), "one", "x"), "1");
    }

    #[test]
    fn a_draft_that_a_power_cut_may_have_torn_goes() {
        let world = World::new();
        let layers = world.open();
        let draft = |name: &str| {
            let draft = layers.draft().unwrap();
            std::fs::write(draft.make_root().unwrap().join("x"), name).unwrap();
            draft.publish(&layers, &id(name)).unwrap();
            let place = |name: &str| world.dir.path().join("layers").join(name);
            std::fs::rename(place(name), place(&format!(".new-1-{name}"))).unwrap();
            place(&format!(".new-1-{name}/boot"))
        };
        draft("whole");
        std::fs::write(draft("torn"), "another start").unwrap();
        let again = world.open();
        assert_eq!(world.names("layers"), ["whole"]);
        assert_eq!(text(&again, "whole", "x"), "whole");
    }

    #[test]
    fn whoever_comes_at_once_gets_the_same_tree() {
        let world = World::new();
        for number in 0..200 {
            std::fs::create_dir(world.upper(&number.to_string())).unwrap();
            std::fs::write(world.upper(&format!("{number}/x")), number.to_string()).unwrap();
        }
        world.save("one", None);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let layers = world.open();
                    ready(&layers, "one").unwrap();
                    assert_eq!(text(&layers, "one", "199/x"), "199");
                    settle(&layers);
                });
            }
        });
        assert_eq!((world.names("packs"), world.names("layers")), (vec![], vec!["one".to_owned()]));
    }

    #[test]
    fn a_chain_of_packs_is_unfolded_from_its_beginning_and_shares() {
        let world = World::new();
        std::fs::create_dir(world.upper("d")).unwrap();
        std::fs::write(world.upper("d/same"), "same").unwrap();
        for (number, name, like) in [(1, "a", None), (2, "b", Some("a")), (3, "c", Some("b"))] {
            std::fs::write(world.upper("d/changed"), "x".repeat(number)).unwrap();
            world.save(name, like);
        }
        let layers = world.open();
        ready(&layers, "c").unwrap();
        settle(&layers);
        assert!(world.names("packs").is_empty());
        let inode = |name: &str, file: &str| layers.root(&id(name)).join(file).metadata().unwrap().ino();
        for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
            assert_eq!(text(&layers, name, "d/changed"), "x".repeat(number));
            assert_eq!(inode(name, "d/same"), inode("a", "d/same"));
        }
        assert_ne!(inode("a", "d/same"), world.upper("d/same").metadata().unwrap().ino());
        // What an unfolded layer is like can be told as before.
        world.save("d", Some("c"));
        ready(&layers, "d").unwrap();
        assert_eq!(inode("d", "d/same"), inode("a", "d/same"));
    }

    #[test]
    fn a_packed_layer_can_be_removed_and_what_shares_its_files_stays_whole() {
        let world = World::new();
        std::fs::write(world.upper("same"), "same").unwrap();
        world.save("a", None);
        world.save("b", Some("a"));
        world.save("c", Some("b"));
        let layers = world.open();
        layers.remove(&id("a")).unwrap();
        assert_eq!((world.names("packs"), world.names("layers")), (vec!["c".into()], vec!["b".to_owned()]));
        assert_eq!(text(&layers, "b", "same"), "same");
        layers.remove(&id("c")).unwrap();
        layers.remove(&id("b")).unwrap();
        assert_eq!((world.names("packs"), world.names("layers")), (vec![], vec![]));
        assert!(layers.all().unwrap().is_empty());
    }

    #[test]
    fn what_is_told_to_stop_leaves_only_the_pack() {
        let world = World::new();
        std::fs::write(world.upper("x"), "1").unwrap();
        world.save("one", None);
        let layers = world.open();
        let stopped = layers.ready_unless(&id("one"), &layers.lease().unwrap(), &AtomicBool::new(true));
        assert!(stopped.is_err());
        assert_eq!((world.names("packs"), world.names("layers")), (vec!["one".into()], vec![]));
        ready(&layers, "one").unwrap();
        assert_eq!(text(&layers, "one", "x"), "1");
    }

    #[test]
    fn a_damaged_pack_is_said_to_be_and_can_be_removed() {
        let world = World::new();
        std::fs::write(world.upper("x"), "1".repeat(100)).unwrap();
        world.save("one", None);
        let pack = world.dir.path().join("packs/one");
        let whole = std::fs::read(&pack).unwrap();
        let layers = world.open();
        for length in [0, 20, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&pack, &whole[..length]).unwrap();
            let error = layers.get(&id("one")).unwrap_err();
            assert!(matches!(&error, Error::Io { source, .. } if source.to_string().contains("damaged")));
            assert!(layers.all().unwrap().is_empty());
            assert!(ready(&layers, "one").is_err());
        }
        // As long as it was, but not all of it reached the disk.
        for at in [3, 30, whole.len() / 2, whole.len() - 1] {
            let mut torn = whole.clone();
            torn[at] ^= 0x40;
            std::fs::write(&pack, torn).unwrap();
            let error = ready(&layers, "one").unwrap_err();
            assert!(matches!(&error, Error::Io { source, .. } if source.to_string().contains("damaged")));
            assert!(world.names("layers").is_empty());
        }
        layers.remove(&id("other")).unwrap();
        layers.remove(&id("one")).unwrap();
        assert_eq!((world.names("packs"), world.names("layers")), (vec![], vec![]));
    }
}
