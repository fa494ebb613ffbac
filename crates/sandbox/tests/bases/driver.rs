//! A driver that only keeps layers, in a temporary directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use protocol::SandboxId;
use sandbox::base::unpack::{Bounds, Marks, unpack};
use sandbox::base::{Bases, Resolved, Source};
use sandbox::{Archive, Driver, Error, Info, Layer, LayerId, Owner, Sandbox, Save, Spec};

/// Which marks this process can set.
pub(crate) fn marks() -> Marks {
    if rustix::process::geteuid().is_root() { Marks::Trusted } else { Marks::User }
}

/// The driver.
pub(crate) struct Layers {
    dir: PathBuf,
    /// Every import that unpacked something, and every squash.
    pub(crate) work: Mutex<Vec<String>>,
}

/// A driver, what is brought in with it, and what was told.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) layers: Arc<Layers>,
    pub(crate) bases: Bases,
    pub(crate) told: Mutex<Vec<String>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let layers = Arc::new(Layers { dir: dir.path().join("layers"), work: Mutex::new(Vec::new()) });
        std::fs::create_dir(&layers.dir).unwrap();
        let bases = Bases::new(layers.clone(), dir.path().join("cache"))
            .with_programs(dir.path().join("programs"))
            .with_logins(dir.path().join("logins.json"));
        Self { dir, layers, bases, told: Mutex::new(Vec::new()) }
    }

    pub(crate) async fn resolve(&self, base: &str, checkout: Option<&Path>) -> Result<Resolved, Error> {
        let tell = |line: String| self.told.lock().unwrap().push(line);
        self.bases.resolve(&base.parse::<Source>()?, checkout, &tell).await
    }

    pub(crate) fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }

    pub(crate) fn path(&self, layer: &LayerId) -> PathBuf {
        self.layers.dir.join(layer.as_str())
    }

    pub(crate) fn read(&self, layer: &LayerId, name: &str) -> String {
        std::fs::read_to_string(self.path(layer).join(name)).unwrap()
    }

    /// Blobs and other things on their way that were left behind.
    pub(crate) fn left_over(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in ["blobs/sha256", "scratch", "locks"] {
            if let Ok(entries) = std::fs::read_dir(self.dir.path().join("cache").join(folder)) {
                found.extend(entries.map(|entry| entry.unwrap().path()));
            }
        }
        found
    }
}

fn never<T>() -> Result<T, Error> {
    Err(Error::Start("this driver only keeps layers".to_owned()))
}

#[async_trait::async_trait]
impl Driver for Layers {
    fn name(&self) -> &'static str {
        "layers"
    }

    async fn create(&self, _: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        never()
    }

    async fn adopt(&self, _: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        never()
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        never()
    }

    async fn remove(&self, _: SandboxId) -> Result<(), Error> {
        never()
    }

    async fn give(&self, _: SandboxId, _: &Owner) -> Result<(), Error> {
        never()
    }

    async fn save(&self, _: SandboxId, _: &LayerId, _: Save<'_>) -> Result<Layer, Error> {
        never()
    }

    async fn layers(&self) -> Result<Vec<Layer>, Error> {
        let mut layers = Vec::new();
        for entry in std::fs::read_dir(&self.dir).unwrap() {
            let id: LayerId = entry.unwrap().file_name().to_str().unwrap().parse()?;
            layers.push(Layer {
                id,
                bytes: 0,
                inodes: 0,
                made_at: protocol::Timestamp::UNIX_EPOCH,
                blurred: false,
            });
        }
        Ok(layers)
    }

    async fn layer(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        Ok(self.layers().await?.into_iter().find(|layer| layer.id == *id))
    }

    async fn import(&self, layer: &LayerId, archive: &Archive) -> Result<Layer, Error> {
        if self.layer(layer).await?.is_none() {
            let into = self.dir.join(layer.as_str());
            let below: Vec<PathBuf> =
                archive.below.iter().map(|layer| self.dir.join(layer.as_str())).collect();
            if let Err(error) = unpack(archive, &into, &below, marks(), Bounds::default()) {
                launcher::tree::remove(&into).unwrap();
                return Err(error);
            }
            self.work.lock().unwrap().push(layer.to_string());
        }
        Ok(self.layer(layer).await?.unwrap())
    }

    async fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<Layer, Error> {
        std::fs::create_dir(self.dir.join(into.as_str())).unwrap();
        self.work.lock().unwrap().push(format!("{into} of {}", layers.len()));
        Ok(self.layer(into).await?.unwrap())
    }

    async fn remove_layer(&self, id: &LayerId) -> Result<(), Error> {
        launcher::tree::remove(&self.dir.join(id.as_str()))
            .map_err(|source| Error::Io { path: self.dir.clone(), source })
    }
}
