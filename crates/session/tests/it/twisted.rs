//! A driver that does what a machine does only now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use protocol::SandboxId;
use sandbox::{Archive, Driver, End, Error, Info, Layer, LayerId, Owner, Sandbox, Save, Spec, Stack, Usage};

/// Another driver, twisted.
pub(crate) struct Twisted {
    inner: Arc<dyn Driver>,
    /// A process goes on while a sandbox is saved.
    pub(crate) blurs: AtomicBool,
    /// No sandbox can be made.
    pub(crate) refuses: AtomicBool,
    /// With each look at a sandbox it has come to its disk limit once more.
    pub(crate) overflows: AtomicBool,
    looks: Arc<AtomicU64>,
}

/// A sandbox that comes to its disk limit with each look.
struct Overflowing {
    inner: Arc<dyn Sandbox>,
    looks: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl Sandbox for Overflowing {
    fn id(&self) -> SandboxId {
        self.inner.id()
    }

    fn guest(&self) -> &guest::Client {
        self.inner.guest()
    }

    fn stack(&self) -> &Stack {
        self.inner.stack()
    }

    async fn ended(&self) -> Option<End> {
        self.inner.ended().await
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let disk_hits = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Usage { disk_hits, ..self.inner.usage().await? })
    }

    async fn sockets(&self) -> Result<Option<sandbox::egress::Sockets>, Error> {
        self.inner.sockets().await
    }
}

impl Twisted {
    pub(crate) fn new(inner: &Arc<dyn Driver>) -> Arc<Self> {
        let [blurs, refuses, overflows] = [(); 3].map(|()| AtomicBool::new(false));
        Arc::new(Self { inner: Arc::clone(inner), blurs, refuses, overflows, looks: Arc::default() })
    }

    fn twist(&self, inner: Arc<dyn Sandbox>) -> Arc<dyn Sandbox> {
        match self.overflows.load(Ordering::Relaxed) {
            true => Arc::new(Overflowing { inner, looks: Arc::clone(&self.looks) }),
            false => inner,
        }
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
        self.inner.create(spec).await.map(|sandbox| self.twist(sandbox))
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        self.inner.adopt(id).await.map(|sandbox| self.twist(sandbox))
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
