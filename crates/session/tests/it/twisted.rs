//! A driver that does what a machine does only now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use protocol::SandboxId;
use sandbox::{Archive, Driver, End, Error, Info, Layer, LayerId, Owner, Sandbox, Save, Spec};

/// Another driver, twisted.
pub(crate) struct Twisted {
    inner: Arc<dyn Driver>,
    /// A process goes on while a sandbox is saved.
    pub(crate) blurs: AtomicBool,
    /// No sandbox can be made.
    pub(crate) refuses: AtomicBool,
}

impl Twisted {
    pub(crate) fn new(inner: &Arc<dyn Driver>) -> Arc<Self> {
        let (blurs, refuses) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { inner: Arc::clone(inner), blurs, refuses })
    }
}

#[async_trait::async_trait]
impl Driver for Twisted {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn host_key(&self) -> String {
        self.inner.host_key()
    }

    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Error::Start("this machine has had enough".to_owned()));
        }
        self.inner.create(spec).await
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        self.inner.adopt(id).await
    }

    async fn ended(&self, id: SandboxId) -> Option<End> {
        self.inner.ended(id).await
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        self.inner.list().await
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Error> {
        self.inner.remove(id).await
    }

    async fn give(&self, id: SandboxId, owner: &Owner) -> Result<(), Error> {
        self.inner.give(id, owner).await
    }

    async fn save(&self, id: SandboxId, layer: &LayerId, how: Save<'_>) -> Result<Layer, Error> {
        let blurred = self.blurs.load(Ordering::Relaxed);
        self.inner.save(id, layer, how).await.map(|layer| Layer { blurred, ..layer })
    }

    async fn layers(&self) -> Result<Vec<Layer>, Error> {
        self.inner.layers().await
    }

    async fn layer(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        self.inner.layer(id).await
    }

    async fn import(&self, layer: &LayerId, archive: &Archive) -> Result<Layer, Error> {
        self.inner.import(layer, archive).await
    }

    async fn squash(&self, layers: &[LayerId], into: &LayerId) -> Result<Layer, Error> {
        self.inner.squash(layers, into).await
    }

    async fn remove_layer(&self, id: &LayerId) -> Result<(), Error> {
        self.inner.remove_layer(id).await
    }

    async fn disk_used(&self) -> Result<u64, Error> {
        self.inner.disk_used().await
    }
}
