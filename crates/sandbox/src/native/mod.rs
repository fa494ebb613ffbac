//! The native Linux driver: no daemon, no container engine, as root or as an ordinary user.
//!
//! Under its directory: `sandboxes/<id>/` (socket, writable layer, state; see `launcher::spec::files`), `layers/` and
//! `packs/` (what they stand on) and `bases/` (what is below that). The launcher builds the walls; this side decides what
//! is in them and finds them again.

mod base;
mod capture;
mod cgroups;
mod control;
mod copy;
mod direct;
mod duplicate;
mod durable;
mod freeze;
mod index;
mod launch;
mod layers;
mod life;
mod mapped;
mod marks;
mod pack;
mod packs;
mod plan;
mod processes;
pub(crate) mod record;
mod sandbox;
mod save;
mod signals;
mod spread;
mod squash;
mod toolchains;
mod trail;
mod unfold;
mod unfolder;
mod used;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use launcher::spec::{FIRST_RANGE, Ids, Launch, RANGE, RANGES, State, files};
use protocol::SandboxId;

use crate::base::unpack;
use crate::{Archive, Driver, Error, Info, Layer, LayerId, Owner, Sandbox, Save, Spec};
use duplicate::{Metadata, Owners};
use freeze::Freezer;
use life::monitored;
use marks::Marks;
use record::{Record, read_json};
use sandbox::NativeSandbox;
use save::{Busy, Subject};

pub use base::HostBase;
pub use cgroups::Support as CgroupSupport;

/// The driver.
pub struct Native {
    dir: PathBuf,
    sandboxes: PathBuf,
    layers: layers::Layers,
    unfolder: unfolder::Unfolder,
    base: HostBase,
    cgroups: cgroups::Support,
    ids: Ids,
    launcher: launch::Launcher,
}

impl Native {
    /// Opens the driver in a directory of its own and prepares what sandboxes share.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let sandboxes = dir.join("sandboxes");
        make_private(dir)?;
        make_private(&sandboxes)?;
        spread::spread(&sandboxes);
        // A directory that cannot be read may well have something in it.
        let in_use = || std::fs::read_dir(&sandboxes).map_or(true, |mut entries| entries.next().is_some());
        let base = HostBase::prepare(&dir.join("bases"), dir, in_use)?;
        let ids = own_ids()?;
        let metadata = match ids {
            Ids::Range => Metadata { marks: Marks::Trusted, owners: Owners::Inside },
            Ids::Own => Metadata { marks: Marks::User, owners: Owners::Own },
        };
        let layers = layers::Layers::open(dir, &sandboxes, metadata)?;
        let unfolder = unfolder::Unfolder::default();
        // Whoever unfolded these did not live to see them on the disk.
        if let Some(id) = layers.unfolded_packs()?.pop() {
            unfolder.begin(&layers, id);
        }
        let launcher = launch::Launcher::load()?;
        Ok(Self {
            dir: dir.to_owned(),
            sandboxes,
            layers,
            unfolder,
            base,
            cgroups: cgroups::Support::of_this_host(),
            ids,
            launcher,
        })
    }

    /// What limits this host lets us set.
    pub fn cgroups(&self) -> &CgroupSupport {
        &self.cgroups
    }

    /// The base that sandboxes stand on.
    pub fn base(&self) -> &HostBase {
        &self.base
    }

    /// Whether this is the driver of an ordinary user.
    pub fn rootless(&self) -> bool {
        self.ids == Ids::Own
    }

    /// Where the tree of a layer is. Waits for it if the layer was just saved.
    pub fn layer_root(&self, id: &LayerId) -> PathBuf {
        match self.layers.lease().and_then(|lease| self.layers.ready(id, &lease)) {
            Ok(()) | Err(Error::NoLayer(_)) => {}
            Err(error) => tracing::warn!(layer = %id, %error, "a layer could not be unfolded"),
        }
        self.layers.root(id)
    }

    fn sandbox_dir(&self, id: SandboxId) -> PathBuf {
        self.sandboxes.join(id.to_string())
    }
}

/// Whose ids a sandbox gets. Root gives each a range of its own, unless it is root only of a small user namespace, as in
/// a rootless container; then it is as ordinary a user as any, provided that it is not the host's root after all.
fn own_ids() -> Result<Ids, Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Ids::Own);
    }
    let map = std::fs::read_to_string("/proc/self/uid_map").map_err(Error::io("/proc/self/uid_map"))?;
    let lines: Vec<Vec<u64>> = map
        .lines()
        .map(|line| line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
        .collect();
    let last = u64::from(FIRST_RANGE) + u64::from(RANGES) * u64::from(RANGE);
    let covers = |line: &Vec<u64>| matches!(line[..], [inside, _, count] if inside <= u64::from(FIRST_RANGE) && inside + count >= last);
    if lines.iter().any(covers) {
        return Ok(Ids::Range);
    }
    if lines.iter().any(|line| line.starts_with(&[0, 0])) {
        return Err(Error::Unsupported {
            message: "slipway runs as the host's root in a user namespace without ids for sandboxes"
                .to_owned(),
            hint: "run it as root outside of that namespace, or as an ordinary user".to_owned(),
        });
    }
    Ok(Ids::Own)
}

fn make_private(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::io(dir))
}

/// Does what may take a while where nothing waits for it. It is finished even if nobody waits for the result any more.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Start(format!("a task of the driver was lost: {error}"))),
    }
}

impl Native {
    /// Makes a sandbox's directory; what it names is in use from then on.
    async fn prepare(&self, spec: &Spec, launch: &Launch) -> Result<(), Error> {
        let lease = match self.layers.try_lease()? {
            Some(lease) => lease,
            None => {
                let layers = self.layers.clone();
                blocking(move || layers.lease()).await?
            }
        };
        let missing = |layer: &&LayerId| !self.layers.root(layer).is_dir();
        let missing: Vec<LayerId> = spec.stack.layers.iter().filter(missing).cloned().collect();
        let _lease = match missing.is_empty() {
            true => lease,
            false => {
                let layers = self.layers.clone();
                let unfolded = blocking(move || {
                    missing.iter().try_for_each(|layer| layers.ready(layer, &lease))?;
                    Ok(lease)
                });
                unfolded.await?
            }
        };
        std::fs::create_dir(&launch.dir).map_err(Error::io(&launch.dir))?;
        let record = Record {
            stack: spec.stack.clone(),
            owner: spec.owner.clone(),
            life: launch.life,
            network: spec.network,
            disk: launch.disk,
            cgroups: launch.cgroups.iter().map(|group| group.path.clone()).collect(),
        };
        record.write(&launch.dir).or_else(|error| {
            launcher::tree::remove(&launch.dir).map_err(Error::io(&launch.dir))?;
            Err(error)
        })
    }

    fn subject(&self, id: SandboxId) -> Subject {
        Subject { id, dir: self.sandbox_dir(id), layers: self.layers.clone() }
    }

    /// Ends a sandbox and makes what it wrote a layer.
    async fn stop(&self, id: SandboxId, layer: &LayerId, without: &[&str]) -> Result<Layer, Error> {
        let dir = self.sandbox_dir(id);
        let busy = blocking({
            let dir = dir.clone();
            move || Busy::wait(&dir)
        });
        let (Some(busy), Some(record)) = (busy.await?, Record::read(&dir)?) else {
            return Err(Error::NotFound(id));
        };
        if record.life == launcher::spec::Life::Tied {
            return Err(Error::Unsupported {
                message: format!("what sandbox {id} wrote goes with its owner"),
                hint: "save it while it runs, or make it with a life of its own".to_owned(),
            });
        }
        life::end(&dir).await?;
        let subject = self.subject(id);
        let layer = layer.clone();
        let without: Vec<String> = without.iter().map(|path| (*path).to_owned()).collect();
        blocking(move || {
            // Held to the end even if nobody waits for it: a removal must not come in between.
            let _busy = busy;
            let saved = match subject.dir.join(files::UPPER).is_dir() {
                true => subject.stopped(&layer, &without)?,
                // A save that was interrupted after its last step.
                false => subject.layers.get(&layer)?.ok_or(Error::NotFound(id))?,
            };
            launcher::tree::remove(&subject.dir).map_err(Error::io(&subject.dir))?;
            Ok(saved)
        })
        .await
    }
}

#[async_trait::async_trait]
impl Driver for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn host_key(&self) -> String {
        // The layer's name has a key of the toolchains and of what is copied from /etc, which packages change.
        self.base
            .layer
            .file_name()
            .map_or_else(|| "host".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        let launch = self.launch(spec);
        self.prepare(spec, &launch).await?;
        let dir = launch.dir.clone();
        match self.launcher.launch(&launch).await {
            Ok(owner) => Ok(Arc::new(NativeSandbox {
                id: spec.id,
                guest: guest::Client::unix(dir.join(files::SOCKET)),
                dir,
                stack: spec.stack.clone(),
                network: spec.network,
                _owner: owner,
            })),
            Err(error) => {
                // The launcher cleans up behind itself, unless it was killed.
                life::remove_groups(launch.cgroups.iter().map(|group| group.path.as_path())).await?;
                launcher::tree::remove(&dir).map_err(Error::io(&dir))?;
                Err(error)
            }
        }
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        let dir = self.sandbox_dir(id);
        let guest = guest::Client::unix(dir.join(files::SOCKET));
        let Some(record) = Record::read(&dir)? else { return Err(Error::NotFound(id)) };
        if !monitored(&dir)? {
            return Err(Error::NotFound(id));
        }
        // Whoever froze it may have died over it; if not, it is about to go on by itself.
        if let Some(state) = read_json::<State>(&dir.join(files::STATE))
            && let freezer = Freezer::of(&dir, &state)
            && let Some(_busy) = Busy::now(&dir)?
            && freezer.is_frozen()
        {
            freezer.thaw().map_err(Error::io(&dir))?;
        }
        if guest.ping().await.is_err() {
            return Err(Error::NotFound(id));
        }
        let (stack, network) = (record.stack, record.network);
        Ok(Arc::new(NativeSandbox { id, guest, dir, stack, network, _owner: None }))
    }

    async fn ended(&self, id: SandboxId) -> Option<crate::End> {
        let dir = self.sandbox_dir(id);
        // Without a record nothing ever ran.
        Record::read(&dir).ok().flatten().and_then(|_| sandbox::ended(&dir))
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        let mut list = Vec::new();
        for entry in std::fs::read_dir(&self.sandboxes).map_err(Error::io(&self.sandboxes))? {
            let entry = entry.map_err(Error::io(&self.sandboxes))?;
            // Anything else in there is not ours.
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            list.push(life::info(id, &entry.path())?);
        }
        list.sort_by_key(|info| info.id);
        Ok(list)
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Error> {
        let dir = self.sandbox_dir(id);
        let busy = blocking({
            let dir = dir.clone();
            move || Busy::wait(&dir)
        });
        let Some(busy) = busy.await? else { return Ok(()) };
        life::end(&dir).await?;
        blocking(move || {
            let _busy = busy;
            launcher::tree::remove(&dir).map_err(Error::io(&dir))
        })
        .await
    }

    async fn give(&self, id: SandboxId, owner: &Owner) -> Result<(), Error> {
        let dir = self.sandbox_dir(id);
        match monitored(&dir)? {
            true => Record::give(&dir, owner),
            false => Err(Error::NotFound(id)),
        }
    }

    async fn save(&self, id: SandboxId, layer: &LayerId, how: Save<'_>) -> Result<Layer, Error> {
        match how {
            Save::Live { like } => {
                let (subject, layer, like) = (self.subject(id), layer.clone(), like.cloned());
                let saved = blocking(move || subject.live(&layer, like.as_ref())).await?;
                self.unfolder.begin(&self.layers, saved.id.clone());
                Ok(saved)
            }
            Save::Stop { without } => self.stop(id, layer, without).await,
        }
    }

    async fn layers(&self) -> Result<Vec<Layer>, Error> {
        let layers = self.layers.clone();
        blocking(move || layers.all()).await
    }

    async fn layer(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        self.layers.get(id)
    }

    async fn import(&self, layer: &LayerId, archive: &Archive) -> Result<Layer, Error> {
        if let Some(there) = self.layers.get(layer)? {
            return Ok(there);
        }
        let (layers, id, archive) = (self.layers.clone(), layer.clone(), archive.clone());
        blocking(move || {
            let mut below = Vec::new();
            // Held until the archive is unpacked.
            let lease = if archive.below.is_empty() { None } else { Some(layers.lease()?) };
            for (layer, lease) in archive.below.iter().zip(lease.iter().cycle()) {
                layers.ready(layer, lease)?;
                below.push(layers.root(layer));
            }
            let draft = layers.draft()?;
            let marks = match layers.metadata.marks {
                Marks::Trusted => unpack::Marks::Trusted,
                Marks::User => unpack::Marks::User,
            };
            let bounds = unpack::Bounds::default();
            for note in unpack::unpack(&archive, &draft.root(), &below, marks, bounds)?.notes {
                tracing::info!(layer = %id, "{note}");
            }
            draft.publish(&layers, &id)
        })
        .await
    }

    async fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<Layer, Error> {
        if let Some(there) = self.layers.get(into)? {
            return Ok(there);
        }
        let (store, from, into) = (self.layers.clone(), layers.to_vec(), into.clone());
        blocking(move || {
            let lease = store.lease()?;
            let mut roots = Vec::new();
            for layer in &from {
                store.ready(layer, &lease)?;
                roots.push(store.root(layer));
            }
            let draft = store.draft()?;
            let root = draft.make_root()?;
            squash::squash(&roots, &root, store.metadata).map_err(Error::io(&root))?;
            draft.publish(&store, &into)
        })
        .await
    }

    async fn remove_layer(&self, id: &LayerId) -> Result<(), Error> {
        let (layers, id) = (self.layers.clone(), id.clone());
        blocking(move || layers.remove(&id)).await
    }

    async fn disk_used(&self) -> Result<u64, Error> {
        let (dir, layers) = (self.dir.clone(), self.layers.clone());
        blocking(move || {
            // What goes meanwhile is taken off all the same: it is only about right.
            let leaving = layers.bytes_of_unfolded_packs()?;
            let parts = [dir.join("layers"), dir.join("packs"), dir.join("sandboxes")];
            Ok(used::measure(&[&parts[0], &parts[1], &parts[2]])?.saturating_sub(leaving))
        })
        .await
    }
}
