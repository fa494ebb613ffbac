//! A driver in memory: its sandboxes answer when they are asked whether they live, and do nothing else.

// Not every test uses all of it.
#![allow(dead_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol::{SandboxId, Timestamp};
use sandbox::{
    Archive, Driver, Error, Info, Layer, LayerId, Owner, Sandbox, Save, Spec, Stack, State, Usage, egress,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

pub(crate) struct Fake {
    dir: tempfile::TempDir,
    state: Mutex<Inside>,
    /// Starting a sandbox takes one of these.
    pub(crate) starts: Semaphore,
}

#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) sandboxes: BTreeMap<SandboxId, Info>,
    alive: BTreeMap<SandboxId, AbortOnDropHandle<()>>,
    ends: BTreeMap<SandboxId, Arc<AtomicBool>>,
    pub(crate) layers: BTreeMap<LayerId, Layer>,
    /// Why sandboxes cannot be started, one after the other; none for those after these.
    pub(crate) failures: VecDeque<String>,
    /// How often one was to be started.
    pub(crate) attempts: usize,
    /// Most that were there at the same time.
    pub(crate) most: usize,
    /// Layers that cannot be removed.
    pub(crate) stubborn: Vec<LayerId>,
    /// How long ago layers are said to be made.
    pub(crate) layer_age: Duration,
    /// Bytes of the next layers.
    pub(crate) layer_bytes: u64,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let state = Inside { layer_bytes: 100, layer_age: Duration::from_secs(3600), ..Inside::default() };
        Arc::new(Self {
            dir: tempfile::tempdir().unwrap(),
            state: Mutex::new(state),
            starts: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.state.lock().unwrap()
    }

    /// The sandboxes that are there, by the name of their image (or of whoever has them).
    pub(crate) fn owners(&self) -> Vec<String> {
        let inside = self.inside();
        let owners = inside.sandboxes.values().map(|info| match &info.owner {
            Some(Owner::Pool { image, .. }) => image.clone(),
            other => other.as_ref().unwrap().to_string(),
        });
        owners.collect()
    }

    /// It ends without anybody being told.
    pub(crate) fn kill(&self, id: SandboxId) {
        let mut inside = self.inside();
        inside.alive.remove(&id);
        inside.ends[&id].store(true, Ordering::SeqCst);
        inside.sandboxes.get_mut(&id).unwrap().state = State::Ended;
    }

    pub(crate) fn add_layer(&self, id: &str, bytes: u64, age: Duration) -> LayerId {
        let id: LayerId = id.parse().unwrap();
        let made_at = Timestamp::now() - age;
        self.inside()
            .layers
            .insert(id.clone(), Layer { id: id.clone(), bytes, inodes: 1, made_at, blurred: false });
        id
    }

    pub(crate) fn layer_names(&self) -> Vec<String> {
        self.inside().layers.keys().map(ToString::to_string).collect()
    }
}

async fn answer(listener: UnixListener) {
    const HEALTHY: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n{\"version\":1}";
    const REFUSED: &[u8] =
        b"HTTP/1.1 422 No\r\ncontent-length: 33\r\n\r\n{\"code\":\"refused\",\"message\":\"no\"}";
    while let Ok((mut peer, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                if peer.read_buf(&mut request).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            let answer = if request.starts_with(b"GET /health") { HEALTHY } else { REFUSED };
            peer.write_all(answer).await.ok();
        });
    }
}

#[async_trait::async_trait]
impl Driver for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn create(&self, spec: &Spec) -> Result<Arc<dyn Sandbox>, Error> {
        self.inside().attempts += 1;
        self.starts.acquire().await.unwrap().forget();
        if let Some(why) = self.inside().failures.pop_front() {
            return Err(Error::Start(why));
        }
        let socket = self.dir.path().join(spec.id.to_string());
        let task = tokio::spawn(answer(UnixListener::bind(&socket).unwrap()));
        let (owner, stack) = (Some(spec.owner.clone()), Some(spec.stack.clone()));
        let info = Info { id: spec.id, state: State::Running, pid: None, owner, stack };
        let ended = Arc::new(AtomicBool::new(false));
        let mut inside = self.inside();
        inside.sandboxes.insert(spec.id, info);
        inside.ends.insert(spec.id, Arc::clone(&ended));
        inside.alive.insert(spec.id, AbortOnDropHandle::new(task));
        inside.most = inside.most.max(inside.sandboxes.len());
        Ok(Arc::new(FakeSandbox {
            id: spec.id,
            guest: guest::Client::unix(socket),
            stack: spec.stack.clone(),
            ended,
        }))
    }

    async fn adopt(&self, id: SandboxId) -> Result<Arc<dyn Sandbox>, Error> {
        Err(Error::NotFound(id))
    }

    async fn list(&self) -> Result<Vec<Info>, Error> {
        Ok(self.inside().sandboxes.values().cloned().collect())
    }

    async fn remove(&self, id: SandboxId) -> Result<(), Error> {
        let mut inside = self.inside();
        inside.sandboxes.remove(&id);
        inside.alive.remove(&id);
        Ok(())
    }

    async fn give(&self, id: SandboxId, owner: &Owner) -> Result<(), Error> {
        // Somebody else may come first, as with a real one.
        tokio::task::yield_now().await;
        match self.inside().sandboxes.get_mut(&id) {
            Some(info) if info.state == State::Running => {
                info.owner = Some(owner.clone());
                Ok(())
            }
            _ => Err(Error::NotFound(id)),
        }
    }

    async fn save(&self, _: SandboxId, layer: &LayerId, _: Save<'_>) -> Result<Layer, Error> {
        let bytes = self.inside().layer_bytes;
        let age = self.inside().layer_age;
        self.add_layer(layer.as_str(), bytes, age);
        Ok(self.inside().layers[layer].clone())
    }

    async fn layers(&self) -> Result<Vec<Layer>, Error> {
        Ok(self.inside().layers.values().cloned().collect())
    }

    async fn layer(&self, id: &LayerId) -> Result<Option<Layer>, Error> {
        Ok(self.inside().layers.get(id).cloned())
    }

    async fn import(&self, layer: &LayerId, _: &Archive) -> Result<Layer, Error> {
        Err(Error::NoLayer(layer.clone()))
    }

    async fn squash(&self, _: &[LayerId], into: &LayerId) -> Result<Layer, Error> {
        Err(Error::NoLayer(into.clone()))
    }

    async fn remove_layer(&self, id: &LayerId) -> Result<(), Error> {
        let mut inside = self.inside();
        let stands = |info: &&Info| info.stack.as_ref().is_some_and(|stack| stack.layers.contains(id));
        let user = inside.sandboxes.values().find(stands).map(|info| format!("sandbox {}", info.id));
        let stubborn = inside.stubborn.contains(id).then(|| "somebody".to_owned());
        if let Some(by) = user.or(stubborn) {
            return Err(Error::InUse { what: id.to_string(), by });
        }
        inside.layers.remove(id);
        Ok(())
    }
}

struct FakeSandbox {
    id: SandboxId,
    guest: guest::Client,
    stack: Stack,
    ended: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl Sandbox for FakeSandbox {
    fn id(&self) -> SandboxId {
        self.id
    }

    fn guest(&self) -> &guest::Client {
        &self.guest
    }

    fn stack(&self) -> &Stack {
        &self.stack
    }

    async fn ended(&self) -> Option<sandbox::End> {
        self.ended.load(Ordering::SeqCst).then_some(sandbox::End::Killed)
    }

    async fn usage(&self) -> Result<Usage, Error> {
        Ok(Usage::default())
    }

    async fn sockets(&self) -> Result<Option<egress::Sockets>, Error> {
        Ok(None)
    }
}
